"""What can go wrong, what it takes with it, and whether trying again can help."""

from __future__ import annotations

from enum import Enum

import msgspec

from rekindle.model.kinds import FailureDomain
from rekindle.model.partitions import Partitions


class FailureKind(Enum):
    """A cause as the engine or the store reports it."""

    EXCEPTION = "exception"
    POISON = "poison row"
    WORKER_KILLED = "Python worker killed"
    OUT_OF_MEMORY = "out of memory"
    NO_SPACE = "no space left"
    EXECUTOR_LOST = "executor lost"
    EVICTED = "block evicted"
    APPLICATION_DIED = "Spark application died"
    READ_ERROR = "read error"
    RESULT_MISSING = "result missing"
    RESULT_CORRUPT = "result corrupt"
    INPUT_MISSING = "input missing"
    INPUT_CORRUPT = "input corrupt"
    INPUT_CHANGED = "a source changed while the run was on"
    TIMED_OUT = "timed out"
    CANCELLED = "cancelled"
    USER_ERROR = "error in the step's definition"
    DENIED = "access denied"
    INVARIANT = "invariant violated"

    @property
    def domain(self) -> FailureDomain:
        return _DOMAIN.get(self, FailureDomain.TASK)

    @property
    def is_recoverable(self) -> bool:
        """False: the same thing will happen again however often it is tried."""
        return self not in (
            FailureKind.USER_ERROR,
            FailureKind.DENIED,
            FailureKind.INVARIANT,
            FailureKind.INPUT_CHANGED,
        )

    @property
    def blames_partition(self) -> bool:
        """The partition's own data or code is the likely cause, so that equal signatures mean poison."""
        return self in (
            FailureKind.EXCEPTION,
            FailureKind.POISON,
            FailureKind.WORKER_KILLED,
            FailureKind.OUT_OF_MEMORY,
            FailureKind.INPUT_MISSING,
            FailureKind.INPUT_CORRUPT,
        )


_DOMAIN: dict[FailureKind, FailureDomain] = {
    FailureKind.EXECUTOR_LOST: FailureDomain.EXECUTOR,
    FailureKind.EVICTED: FailureDomain.EVICTION,
    FailureKind.APPLICATION_DIED: FailureDomain.APPLICATION,
    FailureKind.READ_ERROR: FailureDomain.STORAGE,
    FailureKind.RESULT_MISSING: FailureDomain.STORAGE,
    FailureKind.RESULT_CORRUPT: FailureDomain.STORAGE,
}


class Cause(msgspec.Struct, frozen=True, omit_defaults=True):
    """One link of the chain from what was seen to what began it. `text` is one line for a person, and has everything in
    it; `at` is the line of the user's own code that raised it (`daily.py:12 in cents`), `files` are the first files
    that the Spark task was reading, as Spark names them."""

    kind: FailureKind
    text: str = ""
    behind: Cause | None = None
    at: str = ""
    files: tuple[str, ...] = ()

    @property
    def is_recoverable(self) -> bool:
        """An unrecoverable cause anywhere in the chain makes the whole failure unrecoverable."""
        link: Cause | None = self
        while link is not None:
            if not link.kind.is_recoverable:
                return False
            link = link.behind
        return True

    @property
    def root(self) -> Cause:
        link = self
        while link.behind is not None:
            link = link.behind
        return link


class Failure(msgspec.Struct, frozen=True):
    """Vertices of one step that failed together. `signature` is equal for equal-looking failures."""

    step: str
    partitions: Partitions
    cause: Cause
    signature: str = ""
