"""Which names of the package does production reach? A read of the syntax trees; nothing is imported.

- Production starts at what a user can call: the names of `rekindle.__all__`, the `rekindle` command, and the modules
  that a string in reached code names (commands and adapters are loaded that way).
- A function, class or constant of a module is reached when reached code names it. A method is reached when its class
  is, and reached code has an attribute of that name; whose method it is, is not worked out, so that a method may count
  as reached that is not. Never the other way round.
- What Python, a notebook or a library calls by itself is reached with its class: methods like `__len__` and
  `_repr_html_`, and every method of a class whose base is not ours.
- Functions with a decorator that registers them (click) are reached with their module.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

# Decorators that hand a function to nobody.
PASSIVE = frozenset(
    "cache cached_property classmethod contextmanager dataclass final lru_cache override overload property setter "
    "singledispatch staticmethod total_ordering runtime_checkable wraps".split()
)
# Bases of others that call no method of ours by name.
QUIET_BASES = frozenset(
    "ABC Enum Exception Generic IntEnum IntFlag NamedTuple Protocol StrEnum Struct TypedDict Warning object".split()
)


@dataclass(slots=True)
class Unit:
    """One name of a module, or its remaining code (`name` is empty), with what it refers to."""

    module: str
    name: str
    line: int
    owner: str = ""  # the class of a method
    names: set[str] = field(default_factory=set)
    attributes: set[str] = field(default_factory=set)
    qualified: set[tuple[str, str]] = field(default_factory=set)
    texts: set[str] = field(default_factory=set)
    is_called_by_others: bool = False

    @property
    def key(self) -> tuple[str, str]:
        return self.module, f"{self.owner}.{self.name}" if self.owner else self.name

    @property
    def shown(self) -> str:
        return f"{self.module}:{self.key[1]}"


@dataclass(slots=True)
class Module:
    """What one file defines, and what its imports bind: a name to a module, or to a name of a module."""

    name: str
    units: list[Unit] = field(default_factory=list)
    bound: dict[str, tuple[str, str]] = field(default_factory=dict)
    imported: set[str] = field(default_factory=set)


def module_name(path: Path, root: Path) -> str:
    """`root` is the folder of the package."""
    parts = [root.name, *path.relative_to(root).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def read(path: Path, root: Path) -> Module:
    tree = ast.parse(path.read_text())
    module = Module(module_name(path, root))
    rest = Unit(module.name, "", 1)
    module.units.append(rest)
    _bind(module, tree, root.name)
    for node in _statements(tree.body):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            unit = _unit(module, node.name, node)
            unit.is_called_by_others = any(_registers(one) for one in node.decorator_list)
        elif isinstance(node, ast.ClassDef):
            _class(module, node)
        elif targets := _assigned(node):
            for target in targets:
                _unit(module, target, node)
        else:
            _refer(rest, node, module)
    return module


def unreached(modules: Sequence[Module], roots: Iterable[tuple[str, str]]) -> list[Unit]:
    """The units that nothing reaches from `roots`: (module, name), or (module, "*") for all of a module."""
    walk = _Walk({one.name: one for one in modules})
    for module, name in roots:
        walk.start(module, name)
    walk.go()
    return [unit for one in modules for unit in one.units if unit.name and not walk.has(unit)]


class _Walk:
    def __init__(self, modules: Mapping[str, Module]) -> None:
        self.modules = modules
        self.units = {unit.key: unit for one in modules.values() for unit in one.units}
        self.methods: dict[str, list[Unit]] = {}
        for unit in self.units.values():
            if unit.owner:
                self.methods.setdefault(unit.name, []).append(unit)
        self.reached: set[tuple[str, str]] = set()
        self.attributes: set[str] = set()
        self.by_text: set[str] = set()
        self.waiting: list[Unit] = []

    def has(self, unit: Unit) -> bool:
        return unit.key in self.reached

    def start(self, module: str, name: str) -> None:
        self._load(module)
        if name == "*":
            for unit in self.modules[module].units:
                self._reach(unit.key)
        else:
            self._reach((module, name))

    def go(self) -> None:
        while self.waiting:
            unit = self.waiting.pop()
            module = self.modules[unit.module]
            for name in unit.names:
                self._name(module, name)
            for home, name in unit.qualified:
                self._elsewhere(home, name)
            for text in unit.texts & self.modules.keys():
                self._load(text)
                self.by_text.add(text)
                for name in self.attributes:
                    self._reach((text, name))
            for attribute in unit.attributes - self.attributes:
                self.attributes.add(attribute)
                for method in self.methods.get(attribute, ()):
                    if (method.module, method.owner) in self.reached:
                        self._reach(method.key)
                for home in self.by_text:
                    self._reach((home, attribute))

    def _name(self, module: Module, name: str) -> None:
        if (module.name, name) in self.units:
            self._reach((module.name, name))
        elif name in module.bound:
            self._elsewhere(*module.bound[name])

    def _elsewhere(self, home: str, name: str) -> None:
        """A name that another module defines, or only hands on."""
        self._load(home)
        if f"{home}.{name}" in self.modules:
            self._load(f"{home}.{name}")
        elif home in self.modules and name:
            self._name(self.modules[home], name)

    def _load(self, name: str) -> None:
        """A module runs when it is imported, and so do those that it imports."""
        module = self.modules.get(name)
        if module is None or (name, "") in self.reached:
            return
        self._reach((name, ""))
        for one in module.imported:
            self._load(one)
        for unit in module.units:
            if unit.is_called_by_others and not unit.owner:
                self._reach(unit.key)

    def _reach(self, key: tuple[str, str]) -> None:
        unit = self.units.get(key)
        if unit is None or key in self.reached:
            return
        self.reached.add(key)
        self.waiting.append(unit)
        if unit.owner:
            self._reach((unit.module, unit.owner))
        for method in self.modules[unit.module].units:
            if method.owner == unit.name and (method.is_called_by_others or method.name in self.attributes):
                self._reach(method.key)


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Those of the module level, also below `if` and `try`."""
    for node in body:
        if isinstance(node, ast.If):
            yield ast.Expr(node.test)
            yield from _statements([*node.body, *node.orelse])
        elif isinstance(node, ast.Try):
            yield from _statements([*node.body, *node.orelse, *node.finalbody])
            for handler in node.handlers:
                yield from _statements(handler.body)
        else:
            yield node


def _assigned(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.Assign):
        found = [name for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)]
        return [one.id for one in found if isinstance(one.ctx, ast.Store) and not one.id.startswith("__")]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    return []


def _class(module: Module, node: ast.ClassDef) -> None:
    unit = Unit(module.name, node.name, node.lineno)
    module.units.append(unit)
    for one in (*node.decorator_list, *node.bases, *(word.value for word in node.keywords)):
        _refer(unit, one, module)
    bases = [base.value if isinstance(base, ast.Subscript) else base for base in node.bases]
    words = [base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "") for base in bases]
    is_anothers = any(
        isinstance(base, ast.Attribute)
        or (word not in QUIET_BASES and word in module.bound and module.bound[word][0].split(".")[0] != _top(module))
        for base, word in zip(bases, words, strict=True)
        if word not in QUIET_BASES
    )
    for inner in node.body:
        if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef) and not _is_magic(inner.name):
            method = _unit(module, inner.name, inner)
            method.owner = node.name
            method.is_called_by_others = is_anothers or _is_hook(inner)
        else:
            _refer(unit, inner, module)


def _unit(module: Module, name: str, node: ast.AST) -> Unit:
    unit = Unit(module.name, name, getattr(node, "lineno", 1))
    _refer(unit, node, module)
    module.units.append(unit)
    return unit


def _refer(unit: Unit, node: ast.AST, module: Module) -> None:
    for one in ast.walk(node):
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load):
            unit.names.add(one.id)
        elif isinstance(one, ast.Attribute):
            home = _module_of(one.value, module)
            if home:
                unit.qualified.add((home, one.attr))
            else:
                unit.attributes.add(one.attr)
        elif isinstance(one, ast.MatchClass):
            unit.attributes.update(one.kwd_attrs)
        elif isinstance(one, ast.Constant) and isinstance(one.value, str):
            unit.texts.add(one.value)
        elif isinstance(one, ast.ImportFrom):
            unit.qualified.update((one.module or "", alias.name) for alias in one.names)
        elif isinstance(one, ast.Import):
            unit.qualified.update((alias.name, "") for alias in one.names)


def _module_of(node: ast.expr, module: Module) -> str:
    """The module of ours that an expression stands for: `keys` after `from rekindle.journal import keys`."""
    if isinstance(node, ast.Name) and node.id in module.bound:
        home, name = module.bound[node.id]
        whole = f"{home}.{name}" if name else home
        return whole if whole in module.imported else ""
    return ""


def _bind(module: Module, tree: ast.Module, top: str) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                module.bound[alias.asname or alias.name] = (node.module, alias.name)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                module.bound[alias.asname or alias.name.split(".")[0]] = (alias.name, "")
    for home, name in module.bound.values():
        if home.split(".")[0] == top:
            module.imported.update((home, f"{home}.{name}"))


def _registers(decorator: ast.expr) -> bool:
    inner = decorator.func if isinstance(decorator, ast.Call) else decorator
    word = inner.attr if isinstance(inner, ast.Attribute) else getattr(inner, "id", "")
    return word not in PASSIVE


def _is_hook(method: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    is_named_so = method.name.startswith("_") and method.name.endswith("_")
    return is_named_so or any(_registers(one) for one in method.decorator_list)


def _is_magic(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _top(module: Module) -> str:
    return module.name.split(".")[0]
