"""The identity of a user's code: a function with its helpers, closures, defaults and the constants it names, in parts
that have names, so that a change can be named.

Parts of a function
- `code`: what it does. `helper:NAME`: the same of each function and class of the user's own that it can reach, through
  names, closures, defaults, containers, `partial`, methods, decorators and Spark's udf objects.
- `constant:NAME`, `closure:NAME`, `default:NAME`: values it can see. Numbers stand as they are, all else as a hash.
- `package:NAME`: the version of each installed package it names. Their code is not looked into.
- `unjudged:NAME`: a value that cannot be compared with one of another process. It counts as changed in every new
  process, because unknown is not equal: make such a thing inside the function, where it is code.

Comments, documentation, annotations, decorators, blank lines and where a function stands do not count. What counts is
the code that runs: if its file says something else by now, the compiled form is taken. Names are relative to the module
of the function, so that a file is the same whether it was run or imported.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import re
import secrets
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator
from functools import partial
from types import FunctionType, ModuleType
from typing import Any

from rekindle.engine.installed import RUNS_STEPS, is_users_function, is_users_module, top_of, version_of
from rekindle.engine.source import Import, Loads, loads_of, text_of
from rekindle.engine.values import CODE, Code, Text, Unjudged

ROOT = "code"
# Names whose value is another one in a pruned retry or in another Spark task: never retried by pruning.
TASK_BOUND = frozenset({"TaskContext", "BarrierTaskContext"})
MODULE_NAMES = frozenset("__name__ __file__ __doc__ __spec__ __package__ __loader__ __builtins__ __path__".split())
NUMBER = re.compile(r"-?[\d.e+-]+|True|False|None")
NUMBER_CHARACTERS_MAX = 40
THIS_PROCESS = secrets.token_hex(4)


def parts(function: Callable[..., Any]) -> dict[str, str]:
    """The parts of a callable: equal for code that does the same, each different when what it names changed."""
    return dict(sorted(_Walk(function).parts.items()))


def fingerprint(function: Callable[..., Any]) -> str:
    """All parts in one."""
    return hashed("\0".join(f"{name}\0{value}" for name, value in parts(function).items()))


def is_task_bound(function: Callable[..., Any]) -> bool:
    """Does it, or a helper it can reach, ask Spark which task it runs in?"""
    return any(not TASK_BOUND.isdisjoint(_all_names(loads)) for loads in _Walk(function).loads)


def hashed(text: str) -> str:
    return f"#{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()[:16]}"


def shown(text: str) -> str:
    """A number as it is, anything else as a hash: it may be long, a secret, or a path of this machine."""
    return text if len(text) <= NUMBER_CHARACTERS_MAX and NUMBER.fullmatch(text) else hashed(text)


def _all_names(loads: Loads) -> set[str]:
    imported = {name for one in loads.imports for name in one.names}
    return {*loads.names, *loads.attributes, *imported}


class _Walk:
    """Every function and class of the user's own that can be reached from one callable, breadth first and by sorted
    names, so that two that are called alike are numbered alike in every process."""

    def __init__(self, root: Any) -> None:
        self.parts: dict[str, str] = {}
        self.loads: list[Loads] = []
        self._labels: dict[int, tuple[Code, str]] = {}
        self._taken: Counter[str] = Counter()
        self._todo: deque[tuple[FunctionType | type, str]] = deque()
        self._packages: set[str] = set()
        self._text = Text(self._label)
        self._home = _module_of(_innermost(root))
        if isinstance(root, FunctionType):
            self._open(root, ROOT)
        else:
            self._note(ROOT, "", root)
        while self._todo:
            found, label = self._todo.popleft()
            if isinstance(found, type):
                self._class(found, label)
            else:
                self._function(found, label)
        for package in self._packages - RUNS_STEPS - sys.stdlib_module_names:
            self.parts[f"package:{package}"] = version_of(package)

    def _open(self, found: FunctionType | type, label: str) -> str:
        self._labels[id(found)] = found, label
        self._todo.append((found, label))
        return label

    def _label(self, found: Code) -> str:
        """The name of a function, class or module in the text of others; opens it if it is the user's."""
        if id(found) in self._labels:
            return self._labels[id(found)][1]
        if isinstance(found, ModuleType):
            self._labels[id(found)] = found, f"module {found.__name__}"
            self._module(found, frozenset(vars(found)), [])
            return self._labels[id(found)][1]
        module = _module_of(found)
        if is_users_function(found) if isinstance(found, FunctionType) else is_users_module(module):
            return self._open(found, self._free_name(module, _name_of(found)))
        self._packages.add(top_of(module))
        self._labels[id(found)] = found, f"{module}.{found.__qualname__}"
        if isinstance(found, FunctionType):
            self._labels[id(found)] = found, f"{module}.{found.__qualname__}{self._wrapped(found)}"
        return self._labels[id(found)][1]

    def _free_name(self, module: str, qualname: str) -> str:
        name = f"helper:{qualname if module == self._home else f'{module}.{qualname}'}"
        self._taken[name] += 1
        return name if self._taken[name] == 1 else f"{name}#{self._taken[name]}"

    def _wrapped(self, function: FunctionType) -> str:
        """What a function of a package, such as Spark's udf objects and most decorators, holds of the user's."""
        held = [vars(function).get(name) for name in ("func", "__wrapped__")]
        held += [value for _, value in _closure(function)]
        inner = sorted({self._label(one) for one in held if isinstance(one, FunctionType)})
        kind = [str(vars(function)[name]) for name in ("evalType", "returnType") if name in vars(function)]
        return f"({', '.join(inner + kind)})" if inner else ""

    def _function(self, function: FunctionType, label: str) -> None:
        loads = loads_of(function.__code__)
        self.loads.append(loads)
        is_home = _module_of(function) == self._home
        inside = "" if label == ROOT else f"{label.partition(':')[2]}."
        bound: list[str] = []
        for name in sorted(loads.names - MODULE_NAMES):
            if name in function.__globals__:
                shown_name = name if is_home else f"{_module_of(function)}.{name}"
                self._value(f"constant:{shown_name}", name, function.__globals__[name], loads, bound)
        for one in loads.imports:
            self._import(one, function, loads, bound)
        for name, value in _closure(function):
            self._value(f"closure:{inside}{name}", name, value, loads, bound)
        for name, value in _defaults(function):
            self._value(f"default:{inside}{name}", name, value, loads, bound)
        self.parts[label] = hashed("\0".join((text_of(function), *bound)))

    def _class(self, found: type, label: str) -> None:
        bound = [f"base={self._label(base)}" for base in found.__bases__]
        inside = label.partition(":")[2]
        for name, value in sorted(vars(found).items()):
            is_pythons = name.startswith("_") and name.endswith("_")
            if isinstance(value, FunctionType | classmethod | staticmethod | property) or not (
                is_pythons or name == "_abc_impl"
            ):
                self._value(f"constant:{inside}.{name}", name, value, None, bound)
        self.parts[label] = hashed("\0".join(bound))

    def _value(self, part: str, name: str, value: Any, loads: Loads | None, bound: list[str]) -> None:
        """A value that a function or class can see: code belongs to whoever names it, all else is a part by itself."""
        if isinstance(value, ModuleType) and loads is not None:
            self._module(value, loads.attributes, bound)
        elif isinstance(value, CODE):
            bound.append(f"{name}={self._label(value)}")
        else:
            self._note(part, part.partition(":")[2], value)

    def _note(self, part: str, name: str, value: Any) -> None:
        try:
            self.parts[part] = shown(self._text.of(value))
        except Unjudged as what:
            self.parts[f"unjudged:{name or ROOT}"] = f"{what} {THIS_PROCESS}"

    def _module(self, module: ModuleType, wanted: frozenset[str], bound: list[str], seen: tuple[str, ...] = ()) -> None:
        """Of a module of the user's, what is asked of it by name; all that it defines if nothing can be told."""
        name = module.__name__
        if not is_users_module(name):
            self._packages.add(top_of(name))
            return
        asked = sorted(wanted & vars(module).keys() - MODULE_NAMES) or _own_names(module)
        for one in asked:
            value = vars(module)[one]
            if isinstance(value, ModuleType):
                if value.__name__ not in (name, *seen):
                    self._module(value, wanted, bound, (*seen, name))
            else:
                self._value(f"constant:{name}.{one}", f"{name}.{one}", value, None, bound)

    def _import(self, one: Import, function: FunctionType, loads: Loads, bound: list[str]) -> None:
        package = function.__globals__.get("__package__") or ""
        name = importlib.util.resolve_name("." * one.level + one.module, package) if one.level else one.module
        if not is_users_module(name):
            self._packages.add(top_of(name))
            return
        try:
            module = importlib.import_module(name)
        except Exception as error:
            bound.append(f"{name} cannot be imported: {type(error).__name__}")
            return
        self._module(module, loads.attributes | set(one.names), bound)


def _innermost(root: Any) -> Any:
    while isinstance(root, partial):
        root = root.func
    return root


def _name_of(found: FunctionType | type) -> str:
    """A decorator's wrapper calls itself like the function it wraps: its code knows better."""
    if isinstance(found, FunctionType) and "__wrapped__" in vars(found):
        return found.__code__.co_qualname
    return found.__qualname__


def _module_of(found: Any) -> str:
    if isinstance(found, FunctionType):
        return str(found.__globals__.get("__name__", ""))
    return str(getattr(found, "__module__", None) or "")


def _own_names(module: ModuleType) -> list[str]:
    """The functions and classes that a module defines itself."""
    mine = (FunctionType, type)
    return sorted(
        name for name, value in vars(module).items() if isinstance(value, mine) and _module_of(value) == module.__name__
    )


def _closure(function: FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # Not bound yet: the name of a function that is still being defined.
            continue


def _defaults(function: FunctionType) -> Iterator[tuple[str, Any]]:
    code, values = function.__code__, function.__defaults__ or ()
    yield from zip(code.co_varnames[code.co_argcount - len(values) : code.co_argcount], values, strict=True)
    yield from sorted((function.__kwdefaults__ or {}).items())
