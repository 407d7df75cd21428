"""The fingerprint of a user's code: a function with its helpers, closures and the constants it names.

Comments, blank lines and where a function stands do not count; what it does counts, and so does every function of
the user's own that it can reach by name. Code of installed packages counts by its module name only.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import sys
import sysconfig
import textwrap
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

INSTALLED = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib"))
CONSTANTS = (int, float, complex, str, bytes, bool, type(None))
# Names whose value is another one in a pruned retry or in another Spark task: never retried by pruning.
TASK_BOUND = frozenset({"TaskContext", "BarrierTaskContext"})


def fingerprint(function: Callable[..., Any]) -> str:
    """Equal for code that does the same; different when it, a helper or a closure changed."""
    digest = hashlib.sha256()
    for name, text in sorted(set(_parts(function))):
        digest.update(f"{name}\0{text}\0".encode())
    return digest.hexdigest()[:16]


def is_task_bound(function: Callable[..., Any]) -> bool:
    """Does it, or a helper it can reach, ask Spark which task it runs in?"""
    return any(not TASK_BOUND.isdisjoint(_names(found.__code__)) for found in _reachable(function))


def _parts(function: Callable[..., Any]) -> Iterator[tuple[str, str]]:
    for found in _reachable(function):
        yield found.__qualname__, _source(found)
        for name, value in _referenced(found):
            if not callable(value):
                yield f"{found.__qualname__}.{name}", _constant(value)


def _reachable(function: Callable[..., Any]) -> list[FunctionType]:
    found: dict[int, FunctionType] = {}
    todo = list(_functions_in(function))
    while todo:
        current = todo.pop()
        if id(current) in found or not _is_users(current):
            continue
        found[id(current)] = current
        for _, value in _referenced(current):
            todo += _functions_in(value)
    return list(found.values())


def _functions_in(value: Any) -> list[FunctionType]:
    """A function itself, or what a decorator such as Spark's `udf` or `functools.wraps` holds."""
    if isinstance(value, FunctionType):
        wrapped = [getattr(value, name, None) for name in ("func", "__wrapped__")]
        return [value, *(inner for inner in wrapped if isinstance(inner, FunctionType))]
    if isinstance(value, type):
        return [member for member in vars(value).values() if isinstance(member, FunctionType)]
    inner = getattr(value, "func", None)
    return [inner] if isinstance(inner, FunctionType) else []


def _referenced(function: FunctionType) -> Iterator[tuple[str, Any]]:
    for name in sorted(_names(function.__code__)):
        if name in function.__globals__:
            yield name, function.__globals__[name]
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield name, cell.cell_contents
    for number, default in enumerate(function.__defaults__ or ()):
        yield f"default {number}", default


def _names(code: CodeType) -> set[str]:
    inner = (const for const in code.co_consts if isinstance(const, CodeType))
    return set(code.co_names).union(*(_names(const) for const in inner))


def _is_users(function: FunctionType) -> bool:
    path = function.__code__.co_filename
    return not path.startswith((*INSTALLED, "<frozen"))


def _source(function: FunctionType) -> str:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return _bytecode(function.__code__)
    return ast.dump(tree)


def _bytecode(code: CodeType) -> str:
    consts = [_bytecode(const) if isinstance(const, CodeType) else repr(const) for const in code.co_consts]
    return f"{sys.version_info[:2]} {code.co_code.hex()} {code.co_names} {consts}"


def _constant(value: Any) -> str:
    if isinstance(value, CONSTANTS):
        return repr(value)
    if isinstance(value, ModuleType):
        return f"module {value.__name__}"
    if isinstance(value, list | tuple | set | frozenset):
        return _sequence(type(value).__name__, value if isinstance(value, list | tuple) else sorted(value, key=repr))
    if isinstance(value, dict):
        return _sequence("dict", sorted(value.items(), key=repr))
    return f"a {type(value).__module__}.{type(value).__qualname__}"


def _sequence(kind: str, values: Iterable[Any]) -> str:
    return f"{kind}({', '.join(_constant(value) for value in values)})"
