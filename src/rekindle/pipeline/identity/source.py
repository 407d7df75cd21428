"""One function's own code as text, and the names it loads.

The text is the syntax tree of its source, so that layout does not count, if compiling the file gives the very code
that runs. A lambda, a function without a file and one whose file was edited since are taken from their compiled form.
"""

from __future__ import annotations

import ast
import dis
import linecache
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from types import CodeType, FunctionType

GLOBALS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
SHAPE_FLAGS = 0x2AC  # *args, **kwargs, generator, coroutine, asynchronous generator
Definition = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Import:
    """`from module import names` inside a function; dots in front are `level`."""

    module: str
    level: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Loads:
    """What a function loads by name, with all that is defined inside it."""

    names: frozenset[str]
    attributes: frozenset[str]
    imports: tuple[Import, ...]
    strings: frozenset[str] = frozenset()


def text_of(function: FunctionType) -> str:
    code = function.__code__
    linecache.checkcache(code.co_filename)
    source = "".join(linecache.getlines(code.co_filename, function.__globals__))
    compiled = _compiled_form(code)
    found = _definitions(code.co_filename, source).get((code.co_name, code.co_firstlineno)) if source else None
    return found[1] if found is not None and found[0] == compiled else compiled


def loads_of(code: CodeType) -> Loads:
    names: set[str] = set()
    attributes: set[str] = set()
    imports: list[Import] = []
    strings: set[str] = set()
    for inner in _codes(code):
        strings |= _strings(inner.co_consts)
        steps = list(dis.get_instructions(inner))
        for number, step in enumerate(steps):
            if step.opname in GLOBALS:
                names.add(step.argval)
            elif step.opname == "IMPORT_NAME":
                level, wanted = steps[number - 2].argval, steps[number - 1].argval
                imports.append(Import(step.argval, int(level or 0), tuple(wanted or ())))
            elif step.opcode in dis.hasname:
                attributes.add(step.argval)
    return Loads(frozenset(names), frozenset(attributes), tuple(imports), frozenset(strings))


def _strings(values: Iterable[object]) -> set[str]:
    found: set[str] = set()
    for value in values:
        if isinstance(value, str):
            found.add(value)
        elif isinstance(value, tuple | frozenset):
            found |= _strings(value)
    return found


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _codes(const)


def _compiled_form(code: CodeType) -> str:
    """Each instruction with what it works on; jumps by position. Nothing in it knows lines, files or documentation."""
    steps = [step for step in dis.get_instructions(code) if step.opname != "NOP"]
    offsets = [step.offset for step in steps]
    lines = []
    for step in steps:
        if step.opcode in dis.hasconst:
            value = _const(step.argval)
        elif step.opcode in (*dis.hasjrel, *dis.hasjabs):
            value = str(bisect_left(offsets, step.argval))
        else:
            value = str(step.arg if step.argval is None else step.argval)
        lines.append(f"{step.opname} {value}")
    parameters = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags & SHAPE_FLAGS
    return f"{parameters} {code.co_varnames} {'; '.join(lines)} {code.co_exceptiontable.hex()}"


def _const(value: object) -> str:
    if isinstance(value, CodeType):
        return _compiled_form(value)
    if isinstance(value, frozenset):
        return f"frozenset({', '.join(sorted(map(_const, value)))})"
    if isinstance(value, tuple):
        return f"({', '.join(map(_const, value))})"
    return repr(value)


@cache
def _definitions(path: str, source: str) -> dict[tuple[str, int], tuple[str, str]]:
    """For each named function of a file, by name and first line: its compiled form and its syntax as text."""
    try:
        tree = ast.parse(source)
        module = compile(source, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return {}
    compiled = {(code.co_name, code.co_firstlineno): _compiled_form(code) for code in _codes(module)}
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, Definition):
            key = node.name, min([node.lineno, *(one.lineno for one in node.decorator_list)])
            if key in compiled:
                found[key] = compiled[key], _syntax(node)
    return found


def _syntax(definition: Definition) -> str:
    """The tree without documentation and annotations, and without decorators and defaults of its own: what they made
    is judged by itself."""
    for node in ast.walk(definition):
        if isinstance(node, Definition | ast.ClassDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        if isinstance(node, Definition):
            node.returns = None
        if isinstance(node, ast.arg):
            node.annotation = None
    given = definition.args
    names = [*given.posonlyargs, "/", *given.args, given.vararg, "*", *given.kwonlyargs, given.kwarg]
    shown = [one.arg if isinstance(one, ast.arg) else str(one) for one in names]
    return f"{type(definition).__name__} {shown} {[ast.dump(line) for line in definition.body]}"
