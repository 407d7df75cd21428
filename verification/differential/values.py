"""A random program as plain values: what it reads, its steps, where it is cut, and what happens to it between drivers.

A program is data, so that it can be stored, changed and made smaller. What its operations mean is in `kinds`, the text
of a user's module is made from it in `render`.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any

import msgspec

Args = dict[str, Any]


class Mode(Enum):
    """What happens to a program while it runs."""

    PLAIN = "plain"
    RETRY = "retry"  # A function fails twice and then works, in one driver.
    FAULT = "fault"  # The run fails; the cause is mended; the same session runs it again.
    SETTINGS = "settings"  # As FAULT, and the session that runs it again has other settings.
    NEW_DRIVER = "new_driver"  # As FAULT, and another process with other cores runs it again.
    CHANGED = "changed"  # As FAULT, and the code is another one the second time.

    @property
    def has_fault(self) -> bool:
        return self is not Mode.PLAIN

    @property
    def is_run_twice(self) -> bool:
        return self not in (Mode.PLAIN, Mode.RETRY)


class Op(msgspec.Struct, frozen=True):
    """One operation on the frame of a step."""

    kind: str
    args: Args = {}


class Source(msgspec.Struct, frozen=True):
    """A table, and how it is read: `parquet`, `csv`, `json`, `range`, `rows`, `table`. `columns` are names of
    `data.COLUMNS`; `files` is how many files it has."""

    name: str
    how: str
    columns: tuple[str, ...]
    rows: int
    files: int = 1
    salt: int = 0


class Step(msgspec.Struct, frozen=True):
    """A function of frames. The first input is the one that is worked on; the others are joined or united with it."""

    name: str
    inputs: tuple[str, ...]
    ops: tuple[Op, ...]
    result: str = "auto"
    partition_by: tuple[str, ...] = ()
    partitions: int | None = None


class Change(msgspec.Struct, frozen=True):
    """What is another thing in the second driver's program: these arguments of one operation."""

    step: str
    at: int
    args: Args


class Program(msgspec.Struct, frozen=True):
    """All of it. The last step goes to a sink, or is what a script keeps last."""

    seed: int
    mode: Mode
    is_onramp: bool
    sources: tuple[Source, ...]
    steps: tuple[Step, ...]
    settings: dict[str, str] = {}
    later_settings: dict[str, str] = {}
    change: Change | None = None
    sink_by: tuple[str, ...] = ()
    sink_partitions: int | None = None

    def ops(self) -> Iterator[tuple[Step, int, Op]]:
        for step in self.steps:
            for at, op in enumerate(step.ops):
                yield step, at, op

    @property
    def size(self) -> tuple[int, int, int]:
        """What is made smaller when a failing program is: operations, steps and sources, rows."""
        ops = sum(len(step.ops) for step in self.steps)
        return ops, len(self.steps) + len(self.sources), sum(source.rows for source in self.sources)


def replaced_op(program: Program, step: str, at: int, op: Op | None) -> Program:
    """The same program with another operation at this place, or without one."""

    def changed(one: Step) -> Step:
        if one.name != step:
            return one
        ops = list(one.ops)
        ops[at : at + 1] = [] if op is None else [op]
        return msgspec.structs.replace(one, ops=tuple(ops))

    return msgspec.structs.replace(program, steps=tuple(changed(one) for one in program.steps))


def after_change(program: Program) -> Program:
    """The program that the second driver is given."""
    change = program.change
    if change is None:
        return program
    step = next(one for one in program.steps if one.name == change.step)
    op = step.ops[change.at]
    return replaced_op(program, change.step, change.at, Op(op.kind, op.args | change.args))
