"""The identity of a user's code: a function with its helpers, closures, defaults and the constants it names, in parts
that have names, so that a change can be named.

Parts of a function
- `code`: what it does. `helper:NAME`: the same of each function and class of the user's own that it can reach, through
  names, closures, defaults, containers, `partial`, methods, decorators and Spark's udf objects.
- `constant:NAME`, `closure:NAME`, `default:NAME`: values it can see. Numbers stand as they are, all else as a hash.
  `attribute:NAME`: what hangs on a function, or on a class under a name with underscores around it.
  What only a package's function holds beside a function of the user's is told here too: `attribute:helper NAME`.
- `environment:NAME`: a variable of the environment that it asks for by a name that stands in it. Always a hash: it may
  be a secret, even if it is a number.
- `package:NAME`: the version of each installed package it names. Their code is not looked into.
- `compiled:NAME`: the bytes of the file of a module of the user's own that was compiled, or that is not loaded.
- `unjudged:NAME`: a value that cannot be compared with one of another process. It counts as changed in every new
  process, because unknown is not equal: make such a thing inside the function, where it is code.

Comments, documentation, annotations, decorators, blank lines and where a function stands do not count. What counts is
the code that runs: if its file says something else by now, the compiled form is taken. Names are relative to the module
of the function, so that a file is the same whether it was run or imported, and paths to the folder of its file (see
surroundings.py). Of a module that a function looks into by names that are known only when it runs (`getattr`, `vars`),
or hands on, all that it defines counts: see lookups.py.
"""

from __future__ import annotations

import enum
import hashlib
import importlib
import importlib.util
import os
import re
import secrets
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator
from functools import partial
from types import FunctionType, MethodType, ModuleType
from typing import Any

from rekindle.pipeline.identity.compiled import compiled_module, file_of_module, hash_of
from rekindle.pipeline.identity.lookups import asked_by_name, modules_used_whole
from rekindle.pipeline.identity.packages import RUNS_STEPS, is_users_function, is_users_module, top_of, version_of
from rekindle.pipeline.identity.recorded_names import recorded_name
from rekindle.pipeline.identity.source import Import, Loads, loads_of, text_of
from rekindle.pipeline.identity.surroundings import ASKS_ENVIRONMENT, Folders, environment, is_environment
from rekindle.pipeline.identity.values import CODE, Code, IncomparableValue, Text, class_of, is_a, probed

ROOT = "code"
# Names whose value is another one in a pruned retry or in another Spark task: never retried by pruning.
TASK_BOUND = frozenset({"TaskContext", "BarrierTaskContext"})
MODULE_NAMES = frozenset(
    "__name__ __file__ __doc__ __spec__ __package__ __loader__ __builtins__ __path__ __cached__".split()
)
# What Python itself, and the packages that make classes, put into a class: made from what is judged by itself.
CLASS_NAMES = frozenset(
    "__module__ __qualname__ __doc__ __dict__ __weakref__ __annotations__ __annotate__ __annotate_func__ __hash__ "
    "__annotations_cache__ __firstlineno__ __static_attributes__ __slots__ __slotnames__ __abstractmethods__ "
    "__parameters__ __orig_bases__ __type_params__ __match_args__ __dataclass_fields__ __dataclass_params__ "
    "__classcell__ __protocol_attrs__ __non_callable_proto_members__ __class_vars__ __signature__ _abc_impl".split()
)
PYDANTIC = "__pydantic_"
PYDANTIC_JUDGED = frozenset({"__pydantic_fields__", "__pydantic_decorators__"})
LOOKS_UP_HERE = frozenset({"eval", "exec", "globals"})
IMPORTS = frozenset({"import_module", "__import__"})
MODULE_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*\.?")
# Kinds of parts that a look at what earlier releases did not look at may find, see `_Walk._kept_as`.
FOUND_LATER = frozenset({"helper", "constant", "closure", "default"})
# Their functions hold, beside the user's, what belongs to this process: caches, who is inside.
HOLD_OF_THIS_PROCESS = frozenset({"functools", "dataclasses", "reprlib"})
DEPTH_AT_FIRST_SIGHT = 2
NUMBER = re.compile(r"-?[\d.e+-]+|True|False|None")
NUMBER_CHARACTERS_MAX = 40
THIS_PROCESS = secrets.token_hex(4)


def parts(function: Any) -> dict[str, str]:
    """The parts of a callable, or of what was read of one: equal for code that does the same, each different when what
    it names changed."""
    return dict(sorted(_Walk(function).parts.items()))


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
        self._later: deque[tuple[str, Any, str]] = deque()
        self._is_later = False
        self._folders = Folders()
        self._file = ""
        self._beside: list[Any] = []
        self._text = Text(self._label, lambda text: self._folders.placed(text, self._file), self._met, self._is_told)
        self._home = _module_of(_innermost(root))
        if isinstance(root, FunctionType):
            self._open(root, ROOT)
        else:
            self._file = _file_of(_innermost(root))
            self._note(ROOT, "", root)
        self._work()
        named = self._packages - RUNS_STEPS - sys.stdlib_module_names
        self._is_later = True
        while self._later:
            name, value, self._file = self._later.popleft()
            self._note(f"attribute:{name}", name, value)
            self._work()
        for package in self._packages - RUNS_STEPS - sys.stdlib_module_names:
            self.parts[f"package:{package}" if package in named else f"attribute:package {package}"] = version_of(
                package
            )

    def _work(self) -> None:
        while self._todo:
            found, label = self._todo.popleft()
            try:
                self._file = _file_of(found)
                if isinstance(found, type):
                    self._class(found, label)
                else:
                    self._function(found, label)
            except Exception as error:  # Code of the user's may run where it is looked at, and may raise anything.
                self._cannot(label.partition(":")[2], _kind_of(error, found))

    def _kept_as(self, part: str) -> str:
        """What fingerprints of earlier releases did not have is a part of another kind, so that a run of theirs counts
        as unchanged: see `ADDED` in master/rules/opening.py."""
        kind, _, name = part.partition(":")
        return f"attribute:{kind} {name}" if self._is_later and kind in FOUND_LATER else part

    def _cannot(self, name: str, what: str) -> None:
        self.parts[f"unjudged:{name or ROOT}"] = f"{what} {THIS_PROCESS}"

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
            self._module(found, frozenset(name for name in vars(found) if not _is_dunder(name)), [])
            return self._labels[id(found)][1]
        module = _module_of(found)
        self._met(module)
        if is_users_function(found) if isinstance(found, FunctionType) else is_users_module(module):
            return self._open(found, self._free_name(module, _name_of(found)))
        self._packages.add(top_of(module))
        name = recorded_name(module, found.__qualname__)
        self._labels[id(found)] = found, name
        if isinstance(found, FunctionType):
            self._labels[id(found)] = found, f"{name}{self._wrapped(found)}"
        return self._labels[id(found)][1]

    def _free_name(self, module: str, qualname: str) -> str:
        name = f"helper:{self._relative(module, qualname)}"
        self._taken[name] += 1
        return name if self._taken[name] == 1 else f"{name}#{self._taken[name]}"

    def _met(self, module: str) -> None:
        if module and (found := compiled_module(module)):
            self.parts[f"compiled:{module}"] = found

    def _wrapped(self, function: FunctionType) -> str:
        """What a function of a package, such as Spark's udf objects and most decorators, holds of the user's. If it
        holds anything, all else that it holds is looked at later."""
        own = vars(function)
        held: list[tuple[str, Any]] = [(name, own.get(name)) for name in ("func", "__wrapped__")]
        held += _closure(function)
        held = [(name, probed(one, "func") if class_of(one).startswith("pyspark.") else one) for name, one in held]
        inner = sorted({self._label(one) for _, one in held if is_a(one, FunctionType)})
        if _module_of(function) in HOLD_OF_THIS_PROCESS:
            held = [("registry", dict(own.get("registry") or ()))]  # Of singledispatch.
        if any(_is_users(one) for _, one in held):
            for name, one in {id(one): (name, one) for name, one in reversed(held)}.values():
                if one is not None and not is_a(one, FunctionType):
                    self._look_later(f"{function.__qualname__}.{name}", one)
        kind = [str(own[name]) for name in ("evalType", "returnType") if name in own]
        return f"({', '.join(inner + kind)})" if inner else ""

    def _look_later(self, name: str, value: Any) -> None:
        self._taken[name] += 1
        self._later.append((name if self._taken[name] == 1 else f"{name}#{self._taken[name]}", value, self._file))

    def _function(self, function: FunctionType, label: str) -> None:
        loads = loads_of(function.__code__)
        self.loads.append(loads)
        inside = "" if label == ROOT else f"{label.partition(':')[2]}."
        bound: list[str] = []
        seen = {name: function.__globals__[name] for name in loads.names - MODULE_NAMES if name in function.__globals__}
        for name, value in sorted(seen.items()):
            self._value(f"constant:{self._relative(_module_of(function), name)}", name, value, loads, bound)
        for one in loads.imports:
            self._import(one, function, loads, bound)
        for name, value in _closure(function):
            self._value(f"closure:{inside}{name}", name, value, loads, bound)
        for name, value in _defaults(function):
            self._value(f"default:{inside}{name}", name, value, loads, bound)
        for name, value in sorted(vars(function).items()):
            if not name.startswith("__"):
                self._note(f"attribute:{inside}{name}", f"{inside}{name}", value)
        values = [*seen.values(), *(value for _, value in _closure(function))]
        words = loads.strings | {str(value) for value in values if issubclass(type(value), str)}
        local = dict([*_defaults(function), *_closure(function)])
        package = str(function.__globals__.get("__package__") or "")
        for module in modules_used_whole(function.__code__, function.__globals__ | local, package):
            if is_users_module(module.__name__):
                self._all_of(vars(module), module.__name__, bound)
        self._looked_up(function, loads, words, inside, bound)
        if not ASKS_ENVIRONMENT.isdisjoint(_all_names(loads)) or any(
            is_environment(value) or value is os.getenv for value in values
        ):
            for name, held in environment(words, asked_by_name(function.__code__)).items():
                self.parts[f"environment:{name}"] = hashed(held)
        self.parts[self._kept_as(label)] = hashed("\0".join((text_of(function), *bound)))

    def _looked_up(
        self, function: FunctionType, loads: Loads, words: frozenset[str], inside: str, bound: list[str]
    ) -> None:
        """What a function finds by a name that is known only when it runs: modules that it imports so, and its own."""
        asked = _all_names(loads)
        if not LOOKS_UP_HERE.isdisjoint(loads.names) or ("__name__" in loads.names and "modules" in asked):
            self._all_of(function.__globals__, _module_of(function), bound)
        if IMPORTS.isdisjoint(asked):
            return
        found = sorted({name for word in words for name in _modules_named(word)})
        for name in found:
            self._named_module(name, loads, bound)
        if not found:
            self.parts[f"unjudged:{inside}import_module"] = f"module {THIS_PROCESS}"

    def _named_module(self, name: str, loads: Loads, bound: list[str]) -> None:
        """A module whose name stands in a text. It is never imported here, because the text may mean something else:
        if it is not loaded, its file counts."""
        if not is_users_module(name):
            self._packages.add(top_of(name))
        elif name in sys.modules:
            self._module(sys.modules[name], loads.attributes, bound)
            self._all_of(vars(sys.modules[name]), name, bound)
        elif file := file_of_module(name):
            self.parts[f"compiled:{name}"] = hash_of(file)
        else:
            self.parts[f"unjudged:{name}"] = f"module {THIS_PROCESS}"

    def _class(self, found: type, label: str) -> None:
        bound = [f"base={self._label(base)}" for base in found.__bases__]
        if is_users_module(_module_of(type(found))):
            bound.append(f"metaclass={self._label(type(found))}")
        inside = label.partition(":")[2]
        for name, value in sorted(vars(found).items()):
            is_around = name.startswith("_") and name.endswith("_")
            if is_a(value, (FunctionType, classmethod, staticmethod, property)) or not (
                is_around or name == "_abc_impl"
            ):
                self._value(f"constant:{inside}.{name}", name, value, None, bound)
            elif _is_judged(found, name):
                self._note(f"attribute:{inside}.{name}", f"{inside}.{name}", value)
        self.parts[self._kept_as(label)] = hashed("\0".join(bound))

    def _value(self, part: str, name: str, value: Any, loads: Loads | None, bound: list[str]) -> None:
        """A value that a function or class can see: code belongs to whoever names it, all else is a part by itself."""
        try:
            if is_a(value, ModuleType) and loads is not None:
                self._module(value, loads.attributes, bound)
            elif is_a(value, CODE):
                bound.append(f"{name}={self._label(value)}")
            else:
                self._note(part, part.partition(":")[2], value)
        except Exception as error:  # Code of the user's may run where a value is looked at, and may raise anything.
            self._cannot(part.partition(":")[2], _kind_of(error, value))

    def _note(self, part: str, name: str, value: Any) -> None:
        outside, self._beside = self._beside, []
        try:
            self.parts[self._kept_as(part)] = shown(self._text.of(value))
        except IncomparableValue as what:
            self._cannot(name, str(what))
        if self._beside:
            self._look_later(part.replace(":", " ", 1), self._beside)
        self._beside = outside

    def _is_told(self, value: Any) -> bool:
        """Values of PySpark's, which earlier releases told by their class alone, are looked at later."""
        if not self._is_later:
            self._beside.append(value)
        return self._is_later

    def _module(self, module: ModuleType, wanted: frozenset[str], bound: list[str], seen: tuple[str, ...] = ()) -> None:
        """Of a module of the user's, what is asked of it by name; all that it defines if nothing can be told."""
        name = module.__name__
        if not is_users_module(name):
            self._packages.add(top_of(name))
            return
        self._met(name)
        asked = sorted(wanted & vars(module).keys() - MODULE_NAMES) or _own_names(module)
        for one in asked:
            value = vars(module)[one]
            if is_a(value, ModuleType):
                if value.__name__ not in (name, *seen):
                    self._module(value, wanted, bound, (*seen, name))
            else:
                shown_name = self._relative(name, one)
                self._value(f"constant:{shown_name}", shown_name, value, None, bound)

    def _relative(self, module: str, name: str) -> str:
        return name if module == self._home else f"{module}.{name}"

    def _all_of(self, names: dict[str, Any], module: str, bound: list[str]) -> None:
        """Everything that a module of the user's defines: its functions and classes, and its values."""
        for name, value in sorted(names.items()):
            if _is_dunder(name) or is_a(value, ModuleType):
                continue
            if not is_a(value, CODE) or _module_of(value) == module:
                shown_name = self._relative(module, name)
                self._value(f"constant:{shown_name}", shown_name, value, None, bound)

    def _import(self, one: Import, function: FunctionType, loads: Loads, bound: list[str]) -> None:
        package = function.__globals__.get("__package__") or ""
        name = importlib.util.resolve_name("." * one.level + one.module, package) if one.level else one.module
        if not is_users_module(name):
            self._packages.add(top_of(name))
            return
        try:
            module = importlib.import_module(name)
        except (Exception, SystemExit) as error:
            bound.append(f"{name} cannot be imported: {type(error).__name__}")
            return
        self._module(module, loads.attributes | set(one.names), bound)


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _kind_of(error: Exception, value: Any) -> str:
    return str(error) if isinstance(error, IncomparableValue) else class_of(value)


def _innermost(root: Any) -> Any:
    while isinstance(root, partial):
        root = root.func
    return root


def _is_users(value: Any, depth: int = 0) -> bool:
    """Is it, or does it hold at first sight, code of the user's?"""
    if depth > DEPTH_AT_FIRST_SIGHT:
        return False
    if is_a(value, FunctionType):
        return is_users_function(value)
    if is_a(value, partial):
        return _is_users(value.func)
    if is_a(value, MethodType):
        return _is_users(value.__func__)
    if is_a(wrapped := probed(value, "__wrapped__"), FunctionType):
        return _is_users(wrapped)
    if type(value) in (list, tuple):
        return any(_is_users(one, depth + 1) for one in value)
    if type(value) is dict:
        return any(_is_users(one, depth + 1) for one in value.values())
    home = class_of(value).rpartition(".")[0] if not is_a(value, type) else _module_of(value)
    return home != "builtins" and is_users_module(home)


def _is_judged(found: type, name: str) -> bool:
    """Does a name with underscores around it say something about what a class does?"""
    if name.startswith(PYDANTIC):
        return name in PYDANTIC_JUDGED
    return name not in CLASS_NAMES and not (issubclass(found, enum.Enum) and not name.startswith("__"))


def _modules_named(word: str) -> list[str]:
    """The modules that a text may stand for: itself, or what is loaded below it if it ends in a dot."""
    if not MODULE_NAME.fullmatch(word):
        return []
    if word.endswith("."):
        return [name for name in list(sys.modules) if name.startswith(word)]
    try:
        is_found = word in sys.modules or importlib.util.find_spec(top_of(word)) is not None
    except (ImportError, ValueError):
        return []
    return [word] if is_found else []


def _file_of(found: Any) -> str:
    if isinstance(found, FunctionType):
        named = str(found.__globals__.get("__file__") or "")
        return named or found.__code__.co_filename
    return str(probed(found, "__file__") or probed(sys.modules.get(_module_of(found)), "__file__") or "")


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
        name for name, value in vars(module).items() if is_a(value, mine) and _module_of(value) == module.__name__
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
