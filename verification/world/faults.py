"""The fault matrix: kinds, phases, and which of their combinations with a result kind can happen at all.

A fault waits for its moment: the first time the world is in that phase with a vertex whose result is of that kind.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from rekindle.model.kinds import ResultKind


class FaultKind(Enum):
    """What goes wrong."""

    EXCEPTION = "transient exception"
    POISON = "poison row"
    WORKER_KILLED = "Python worker killed"
    EXECUTOR_KILLED = "executor killed"
    DRIVER_KILLED = "driver killed"
    DRIVER_STOPPED = "driver stopped, then resumed"
    OUT_OF_MEMORY = "out of memory"
    NO_SPACE = "no space"
    READ_ERROR = "read error"
    TRUNCATED = "truncated file"
    FLIPPED = "flipped bit"
    MISSING_FILE = "missing file"
    MISSING_RECORD = "missing record"
    DUPLICATE_COMMIT = "duplicate commit"
    FAILING_RENAME = "failing rename"
    SLOW_STORAGE = "slow storage"
    CLOCK_JUMP = "clock jump"
    RECOMPUTE = "non-deterministic recompute"


class FaultPhase(Enum):
    """When it goes wrong."""

    BEFORE_LAUNCH = "before launch"
    MID_COMPUTE = "mid-compute"
    COMPUTED = "computed not written"
    MID_WRITE = "mid-write"
    WRITTEN = "written not committed"
    COMMITTED = "committed not acknowledged"
    CONSUMER_READS = "while a consumer reads"
    RECOVERY = "during another recovery"
    RELEASE = "during release"


class Fault(msgspec.Struct, frozen=True):
    """One cell of the matrix, and a number that settles whatever the kind leaves open."""

    kind: FaultKind
    phase: FaultPhase
    result: ResultKind
    draw: int

    def __str__(self) -> str:
        return f"{self.kind.value} | {self.phase.value} | {self.result.value} | {self.draw}"

    @classmethod
    def parse(cls, text: str) -> Fault:
        kind, phase, result, draw = (part.strip() for part in text.split("|"))
        return cls(FaultKind(kind), FaultPhase(phase), ResultKind(result), int(draw))


Cell = tuple[FaultKind, FaultPhase, ResultKind]

_OF_PROCESSES = {
    FaultKind.EXECUTOR_KILLED,
    FaultKind.DRIVER_KILLED,
    FaultKind.DRIVER_STOPPED,
    FaultKind.MISSING_RECORD,
    FaultKind.SLOW_STORAGE,
    FaultKind.CLOCK_JUMP,
}
_OF_TASKS = {
    FaultKind.EXCEPTION,
    FaultKind.POISON,
    FaultKind.WORKER_KILLED,
    FaultKind.OUT_OF_MEMORY,
    FaultKind.READ_ERROR,
    FaultKind.RECOMPUTE,
}
_OF_WRITES = {FaultKind.NO_SPACE, FaultKind.FAILING_RENAME, FaultKind.DUPLICATE_COMMIT}
_OF_FILES = {FaultKind.TRUNCATED, FaultKind.FLIPPED}
_WHILE_NOTHING_IS_STORED = {FaultPhase.BEFORE_LAUNCH, FaultPhase.MID_COMPUTE, FaultPhase.RECOVERY}
_OUTSIDE_TASKS = {FaultPhase.BEFORE_LAUNCH, FaultPhase.RELEASE}
_AFTER_THE_TASK = {FaultPhase.COMMITTED, FaultPhase.RELEASE, FaultPhase.CONSUMER_READS, FaultPhase.RECOVERY}


def can_happen(kind: FaultKind, phase: FaultPhase, result: ResultKind) -> bool:
    """A pipelined result is never written or read back; a task's own fault needs a task; a file's fault a file."""
    if result is ResultKind.PIPELINED and phase not in _WHILE_NOTHING_IS_STORED:
        return False
    if kind in _OF_PROCESSES:
        return True
    if kind in _OF_TASKS:
        return phase not in _OUTSIDE_TASKS and (phase is not FaultPhase.COMMITTED or kind is FaultKind.RECOMPUTE)
    if result is ResultKind.PIPELINED:
        return False
    if kind in _OF_WRITES:
        return phase in {FaultPhase.COMPUTED, FaultPhase.MID_WRITE, FaultPhase.WRITTEN, FaultPhase.RECOVERY}
    if kind in _OF_FILES and result is not ResultKind.BLOCKING:
        return False
    return phase in _AFTER_THE_TASK


CELLS: tuple[Cell, ...] = tuple(
    (kind, phase, result)
    for kind in FaultKind
    for phase in FaultPhase
    for result in ResultKind
    if can_happen(kind, phase, result)
)
