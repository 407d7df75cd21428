"""What gc may do with a run, and which of its files nobody can need.

Rules
- A run that a living master owns is left alone. So is one whose journal cannot be read: nothing is known of it.
- A run that did not finish keeps what a resume needs until the grace time and its retention are over; then it is
  closed. A pin keeps it for ever, and so does a result in it that a step keeps for ever, until the user asks.
- A run that succeeded is not closed unless the user asks for it: its key goes on to say that it is done. Its results
  go when the time is over for which they were to be kept.
- A closing that began is finished, whatever is said meanwhile: its results are released already.
- Waste is waste for good. An attempt that was closed never commits again, so that a file which counts for nothing then
  never counts; an attempt that no record knows is never started, if the journal is read after the file was seen. So
  nobody has to own a run to remove its waste, and a resume that comes meanwhile loses nothing.
- Nothing younger than the grace time is removed as waste. Ages are given by the caller, by the store's clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import assert_never

from rekindle.failover.release import RunPhase, phase_of
from rekindle.model.ids import AttemptId


class RunCondition(Enum):
    """How a run was found."""

    UNREADABLE = "its journal cannot be read"
    NEVER_BEGAN = "it never started"
    LIVING = "its driver is alive"
    UNFINISHED = "it did not finish"
    SUCCEEDED = "it succeeded"
    CLOSING = "gc is closing it"
    CLOSED = "it is closed"


class GcAction(Enum):
    """What may be done with a run."""

    LEAVE = "leave"
    SWEEP = "sweep"
    RELEASE = "release"
    CLOSE = "close"


@dataclass(frozen=True, slots=True)
class Retention:
    """How long things are kept: waste, runs that did not finish, and versions that were replaced."""

    grace_ms: int
    retention_ms: int
    versions_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What gc knows of a run. `silent_ms` is the time since its last record or heartbeat; `is_asked` if the user wants
    it closed now; `is_kept_forever` if a step of it says so of a result that is there; `is_kept_too_long` if it
    succeeded, and the time is over for which its results were to be kept."""

    found: RunCondition
    silent_ms: int = 0
    is_pinned: bool = False
    is_asked: bool = False
    is_kept_forever: bool = False
    is_kept_too_long: bool = False


@dataclass(frozen=True, slots=True)
class GcDecision:
    """What may be done with a run, and why. `left_ms` is how long it is still kept, where that ends by itself."""

    act: GcAction
    because: str
    left_ms: int | None = None


def judge_run(facts: RunFacts, terms: Retention) -> GcDecision:
    """What gc may do with a run."""
    match facts.found:
        case RunCondition.UNREADABLE | RunCondition.NEVER_BEGAN | RunCondition.LIVING:
            return GcDecision(GcAction.LEAVE, facts.found.value)
        case RunCondition.CLOSING:
            return GcDecision(GcAction.CLOSE, facts.found.value)
        case RunCondition.CLOSED:
            return GcDecision(GcAction.SWEEP, facts.found.value)
        case RunCondition.SUCCEEDED | RunCondition.UNFINISHED:
            return _ended(facts, terms)
        case _:  # pragma: no cover
            assert_never(facts.found)


def _ended(facts: RunFacts, terms: Retention) -> GcDecision:
    if facts.is_pinned:
        return GcDecision(GcAction.SWEEP, "it is pinned")
    if facts.is_asked:
        return GcDecision(GcAction.CLOSE, "you released it")
    if facts.found is RunCondition.SUCCEEDED:
        if facts.is_kept_too_long:
            return GcDecision(GcAction.RELEASE, "its results were kept for as long as it was told to")
        return GcDecision(GcAction.SWEEP, facts.found.value)
    if facts.is_kept_forever:
        return GcDecision(GcAction.SWEEP, "a step of it is kept forever")
    if phase_of(False, True, facts.silent_ms, terms.grace_ms, terms.retention_ms) is RunPhase.GIVEN_UP:
        return GcDecision(GcAction.CLOSE, "it was not resumed in time")
    return GcDecision(GcAction.SWEEP, "it can be resumed", terms.grace_ms + terms.retention_ms - facts.silent_ms)


@dataclass(frozen=True, slots=True)
class AttemptFacts:
    """What a journal says of the attempts of its run. `read` are those whose files an open attempt was given."""

    open: frozenset[AttemptId] = frozenset()
    read: frozenset[AttemptId] = frozenset()
    counted: frozenset[AttemptId] = frozenset()
    closed: frozenset[AttemptId] = frozenset()
    is_run_closed: bool = False


class FileUse(Enum):
    """Why the directory of an attempt is there, or is waste."""

    OPEN = "it may still be written to, or adopted"
    READ = "a running attempt reads it"
    COUNTED = "it holds committed partitions"
    UNCOUNTED = "it holds no valid partition"
    UNKNOWN = "no journal refers to it"
    STRAY = "it belongs to no attempt"
    AFTER_CLOSE = "its run is closed"

    @property
    def is_waste(self) -> bool:
        return self not in (FileUse.OPEN, FileUse.READ, FileUse.COUNTED)


def use_of(attempt: AttemptId | None, known: AttemptFacts) -> FileUse:
    """What the files of an attempt are for. In one that counts there may be files that do not."""
    if known.is_run_closed:
        return FileUse.AFTER_CLOSE
    if attempt is None:
        return FileUse.STRAY
    if attempt in known.open:
        return FileUse.OPEN
    if attempt in known.read:
        return FileUse.READ
    if attempt in known.counted:
        return FileUse.COUNTED
    return FileUse.UNCOUNTED if attempt in known.closed else FileUse.UNKNOWN


def is_ripe(age_ms: float, terms: Retention) -> bool:
    """Whether waste of this age may go."""
    return age_ms >= terms.grace_ms
