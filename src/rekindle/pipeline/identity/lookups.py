"""What a function does with the names it loads: which attributes it asks them for, and which it uses as they are.

A module that is only asked for attributes counts by these. One that is used as it is (given to `getattr`, to `vars` or
to another function, kept under another name, asked for its `__dict__`) may be looked into by any name.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterator, Mapping
from importlib.util import resolve_name
from itertools import pairwise
from types import CodeType, ModuleType
from typing import Any

LOADS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FAST", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT")
ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
SAYS_NOTHING = frozenset({"CACHE", "NOP", "PUSH_NULL", "EXTENDED_ARG"})
ASKS_BY_NAME = frozenset({"environ", "getenv", "get"})


def modules_used_whole(code: CodeType, values: Mapping[str, Any], package: str) -> list[ModuleType]:
    """The modules that a function, or one that is defined in it, uses as they are. `values` are those it can see."""
    found: dict[str, ModuleType] = {}
    for inner in codes(code):
        steps = _steps(inner)
        seen = {**values, **dict(_imported(steps, package))}
        for name, *attributes in _chains(steps):
            module = _end_of(seen.get(name), attributes)
            if module is not None:
                found[module.__name__] = module
    return [found[name] for name in sorted(found)]


def asked_by_name(code: CodeType) -> set[str]:
    """The texts that stand right behind a name by which the environment is asked."""
    found: set[str] = set()
    for inner in codes(code):
        steps = _steps(inner)
        for before, step in pairwise(steps):
            is_text = step.opcode in dis.hasconst and isinstance(step.argval, str)
            if is_text and before.opcode in dis.hasname and before.argval in ASKS_BY_NAME:
                found.add(step.argval)
    return found


def codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from codes(const)


def _steps(code: CodeType) -> list[dis.Instruction]:
    return [step for step in dis.get_instructions(code) if step.opname not in SAYS_NOTHING]


def _chains(steps: list[dis.Instruction]) -> Iterator[tuple[str, ...]]:
    """Each name that is loaded, with the attributes that are asked of it one after the other."""
    for number, step in enumerate(steps):
        if not step.opname.startswith(LOADS):
            continue
        *others, last = step.argval if isinstance(step.argval, tuple) else (step.argval,)
        yield from ((name,) for name in others)
        chain = [str(last)]
        for after in steps[number + 1 :]:
            if after.opname not in ATTRIBUTES:
                break
            chain.append(after.argval)
        yield tuple(chain)


def _end_of(value: Any, attributes: list[str]) -> ModuleType | None:
    """The module that a chain ends at, if it does, or whose `__dict__` is taken."""
    for name in attributes:
        if not issubclass(type(value), ModuleType):
            return None
        if name == "__dict__":
            break
        value = vars(value).get(name)
    return value if issubclass(type(value), ModuleType) else None


def _imported(steps: list[dis.Instruction], package: str) -> Iterator[tuple[str, ModuleType]]:
    """The names under which a function keeps modules that it imports, as far as they are loaded."""
    for number, step in enumerate(steps):
        if step.opname != "IMPORT_NAME":
            continue
        level, wanted = int(steps[number - 2].argval or 0), steps[number - 1].argval
        module = resolve_name("." * level + step.argval, package) if level and package else step.argval
        for name, called in _kept_names(steps[number + 1 :], module, bool(wanted)):
            if called in sys.modules:
                yield name, sys.modules[called]


def _kept_names(after: list[dis.Instruction], module: str, is_from: bool) -> Iterator[tuple[str, str]]:
    """Name and module, for each name that an import is kept under."""
    if not is_from:
        kept = next((number for number, step in enumerate(after) if step.opname.startswith("STORE_")), None)
        if kept is not None:
            yield after[kept].argval, module if kept else module.partition(".")[0]
        return
    for one, two in zip(after[::2], after[1::2], strict=False):
        if one.opname != "IMPORT_FROM" or not two.opname.startswith("STORE_"):
            return
        yield two.argval, f"{module}.{one.argval}"
