"""Closed sets of words and what follows from each. Behaviour hangs on the word, not on flags beside it."""

from __future__ import annotations

from enum import Enum


class FailureDomain(Enum):
    """How much of the world a failure takes with it."""

    TASK = "task"
    EVICTION = "eviction"
    EXECUTOR = "executor"
    APPLICATION = "application"
    STORAGE = "storage"


class ResultKind(Enum):
    """Where the result of a step lives, and so what it outlives."""

    PIPELINED = "pipelined"
    BLOCKING = "blocking"
    CACHING = "caching"
    MEMORY = "memory"

    @property
    def joins_region(self) -> bool:
        """Nothing is stored: producer and consumer are one Spark plan and fail as one."""
        return self is ResultKind.PIPELINED

    @property
    def is_kept(self) -> bool:
        return self is not ResultKind.PIPELINED

    def survives(self, domain: FailureDomain) -> bool:
        return domain in _SURVIVES[self]


_SURVIVES: dict[ResultKind, frozenset[FailureDomain]] = {
    ResultKind.PIPELINED: frozenset(),
    ResultKind.BLOCKING: frozenset(FailureDomain) - {FailureDomain.STORAGE},
    ResultKind.CACHING: frozenset({FailureDomain.TASK, FailureDomain.EVICTION, FailureDomain.STORAGE}),
    ResultKind.MEMORY: frozenset({FailureDomain.TASK, FailureDomain.STORAGE}),
}


class Determinism(Enum):
    """What is known about running the same thing again on the same inputs."""

    DETERMINATE = "determinate"
    DECLARED = "declared"
    UNKNOWN = "unknown"
    INDETERMINATE = "indeterminate"

    @property
    def is_repeatable(self) -> bool:
        """A second run on equal inputs gives an equal result. Unknown counts as no."""
        return self in (Determinism.DETERMINATE, Determinism.DECLARED)


class DigestPolicy(Enum):
    """Which results get a digest per partition while they are written."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"

    def is_on(self, level: Determinism) -> bool:
        """By itself: wherever it is not proved that the same comes back."""
        if self is DigestPolicy.AUTO:
            return level is not Determinism.DETERMINATE
        return self is DigestPolicy.ALWAYS


class KeepUntil(Enum):
    """When a result that nobody reads any more may go."""

    CONSUMED = "consumed"
    RUN_END = "run end"
    FOREVER = "forever"


class Proof(Enum):
    """Why a partition of an older generation may stand in the new one (rule 4, a to d).

    UNTOUCHED is the argument of (a) for a partition below which no exchange and no input was recomputed.
    """

    UNTOUCHED = "untouched"

    NARROW = "narrow"
    DETERMINATE = "determinate"
    CHECKSUMS = "checksums"
    DECLARED = "declared"
