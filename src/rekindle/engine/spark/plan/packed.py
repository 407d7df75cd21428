"""What a plan holds beside its shape, asked for in one call: seeds, names, metadata, functions of the JVM, and Python
functions as PySpark packed them for the workers. The Python functions are read and never run
(`pipeline/identity/pickle_reader.py`)."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from rekindle.engine.spark.jvm import plan_calls
from rekindle.pipeline.identity.fingerprint import THIS_PROCESS, hashed, parts
from rekindle.pipeline.identity.pickle_reader import Unreadable, first_function, read

UNJUDGED = "unjudged:"


@dataclass(frozen=True, slots=True)
class PythonFunction:
    """A Python function of a plan: what the plan calls it, and its bytes."""

    name: str
    packed: bytes
    broadcasts: Mapping[int, str]

    def function(self) -> Any:
        """What was packed: with the function comes the type of what it returns, where Spark must know it, and the plan
        tells that too. Raises `Unreadable`."""
        try:
            made = read(self.packed, {number: Path(path).read_bytes() for number, path in self.broadcasts.items()})
        except OSError as error:
            raise Unreadable(f"a broadcast variable is gone: {error}") from error
        return made[0] if isinstance(made, tuple) else made


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCode:
    """One plan. `seeds` were written by somebody; of `unsure` nobody can tell whether they were drawn."""

    shape: str
    seeds: tuple[str, ...]
    unsure: tuple[str, ...]
    names: tuple[str, ...]
    metadata: tuple[str, ...]
    compiled: tuple[tuple[str, str], ...]
    commands: tuple[PythonFunction, ...]


@dataclass(eq=False)
class PackedFunction:
    """A function of a plan, for those who tell code by its parts: names are relative to the module of the first
    function of the user's in it, as they are for a step."""

    function: Any

    def __post_init__(self) -> None:
        self.__module__, self.__file__ = home_of(self.function)

    def __getstate__(self) -> tuple[Any, ...]:
        return (self.function,)


def home_of(found: Any) -> tuple[str, str]:
    """The module and the file of the first function of the user's in what was read; empty if there is none."""
    first = first_function(found)
    names = {} if first is None else first.__globals__
    return str(names.get("__name__", "")), str(names.get("__file__") or "")


def told(frame: DataFrame) -> PlanCode:
    """What the analysed plan of a frame holds, in one call to the JVM."""
    lists = list(_lists(plan_calls.plan_code(frame)))
    (shape,), *others, commands = lists
    seeds, unsure, names, metadata, compiled = (tuple(one.decode() for one in many) for many in others)
    triples = zip(commands[::3], commands[1::3], commands[2::3], strict=True)
    return PlanCode(
        shape=shape.decode(),
        seeds=seeds,
        unsure=unsure,
        names=names,
        metadata=metadata,
        compiled=tuple(zip(compiled[::2], compiled[1::2], strict=True)),
        commands=tuple(
            PythonFunction(name.decode(), packed, _broadcasts(lines.decode())) for name, packed, lines in triples
        ),
    )


def compiled_told(plan: PlanCode) -> dict[str, str]:
    """A part for each name that the plan has for functions of Java and Scala."""
    compiled: dict[str, str] = {}
    for called, code in plan.compiled:
        compiled[called] = compiled.get(called, "") + code
    return {f"jvm:{called}": hashed(code) for called, code in compiled.items()}


def functions_told(commands: tuple[PythonFunction, ...]) -> dict[str, str]:
    """A part for each name that the plan has for Python functions: all of that name in the order of the plan. What
    cannot be judged is a part by itself, which is another one in every process."""
    known: dict[tuple[str, bytes], tuple[str, dict[str, str]]] = {}
    found: dict[str, list[str]] = {}
    unjudged: dict[str, str] = {}
    for one in commands:
        key = one.name, one.packed
        if key not in known:
            known[key] = _judged(one)
        value, cannot = known[key]
        found.setdefault(f"udf:{one.name}", []).append(value)
        unjudged |= cannot
    return {name: hashed("\0".join(values)) for name, values in found.items()} | unjudged


def _judged(command: PythonFunction) -> tuple[str, dict[str, str]]:
    try:
        all_parts = parts(PackedFunction(command.function()))
    except Unreadable as error:
        return "", {f"{UNJUDGED}{command.name}": f"function {error} {THIS_PROCESS}"}
    cannot = {name: value for name, value in all_parts.items() if name.startswith(UNJUDGED)}
    rest = [f"{name}\0{value}" for name, value in all_parts.items() if name not in cannot]
    return hashed("\0".join(rest)), cannot


def _lists(answer: bytes) -> Iterator[list[bytes]]:
    at = 0

    def number() -> int:
        nonlocal at
        (found,) = struct.unpack_from(">i", answer, at)
        at += 4
        return int(found)

    while at < len(answer):
        many = []
        for _ in range(number()):
            length = number()
            many.append(answer[at : at + length])
            at += length
        yield many


def _broadcasts(lines: str) -> dict[int, str]:
    rows = (line.split("\t", 1) for line in lines.splitlines())
    return {int(number): path for number, path in rows}
