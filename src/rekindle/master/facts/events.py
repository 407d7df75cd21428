"""What was decided: the facts of a run, in the order they became true.

Rules
- An event is past tense, frozen, and complete: folding it needs nothing but the state before it, and no policy.
- The events of one decision belong together: they are appended as one record, or none of them is. The
  invariants hold between records.
- Field names and meanings are for ever. A new field gets a default that reads an old record as it was meant.
- Times are milliseconds given by whoever called; no event is made from a clock here.
"""

from __future__ import annotations

from enum import Enum
from functools import cache
from typing import Any

import msgspec

from rekindle.failover.backoff import BackoffState
from rekindle.failover.poison import FailureCounts
from rekindle.failover.restart import Strategy
from rekindle.master.facts.config import MasterConfig
from rekindle.master.facts.graph_spec import GraphSpec
from rekindle.master.facts.run_spec import DeclaredStep, Fingerprint, RunSpec
from rekindle.model.failures import Failure
from rekindle.model.ids import AttemptId, ExchangeId
from rekindle.model.kinds import FailureDomain, Proof
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.model.reasons import AnyReason

Reasons = tuple[tuple[AnyReason, Partitions], ...]


class Outcome(Enum):
    """How an attempt ended. Its partitions that were not committed are simply not there."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SEALED = "sealed"


class Fence(msgspec.Struct, frozen=True, forbid_unknown_fields=True, order=True):
    """What a publication carries into its target: later runs and later epochs win, for ever."""

    order: int
    epoch: int
    number: int


class _Event(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag=True, omit_defaults=True):
    """Base: the tag on the wire is the class name."""


class RunStarted(_Event, frozen=True, tag=True, kw_only=True):
    """The first event. `order` grows from run to run of one pipeline; `run_time_ms` and `seed` are the run's
    constants, the same in every attempt and driver; so are `settings`, which an engine pinned when the run started.
    `sinks` are published when all is committed; `targets` says in words where each goes; `doubts` what makes a step
    not determinate; `columns` what sources and kept steps looked like then. `declared` are all steps, pipelined ones
    too, and `regions` those that are computed together; older records have neither."""

    run: str
    pipeline: str
    order: int
    graph: GraphSpec
    sinks: tuple[str, ...]
    fingerprints: dict[str, Fingerprint]
    config: MasterConfig
    run_time_ms: int
    seed: int
    at_ms: int
    settings: dict[str, str] = {}
    targets: dict[str, str] = {}
    doubts: dict[str, tuple[str, ...]] = {}
    columns: dict[str, dict[str, str]] = {}
    declared: tuple[DeclaredStep, ...] = ()
    regions: dict[str, tuple[str, ...]] = {}

    @property
    def spec(self) -> RunSpec:
        """What `started_fields` was given, without what each epoch says anew."""
        return RunSpec(**{name: getattr(self, name) for name in _shared_fields()})


def started_fields(spec: RunSpec) -> dict[str, Any]:
    """The fields of `RunStarted` that a spec has, by name: a new one is written without a word elsewhere."""
    return {name: getattr(spec, name) for name in _shared_fields()}


@cache
def _shared_fields() -> tuple[str, ...]:
    return tuple(name for name in RunSpec.__struct_fields__ if name in RunStarted.__struct_fields__)


class EpochOpened(_Event, frozen=True, tag=True, kw_only=True):
    """A master took the run. Attempts of older epochs are closed one by one; exchanges of another application
    are gone. `graph` stands where the new code was analysed differently, in the same shape. `may_republish` is the
    user's word: sinks whose inputs come back as something else are published again. `targets` stands where a sink that
    nobody can have read yet goes elsewhere; `once` are sinks whose targets are written once. `strategy` stands where
    the user chose another one, `declared` and `regions` where what is pipelined into the kept steps is not what it
    was; `settings` where sources read tables at other versions than before."""

    epoch: int
    application: str
    owner: str
    at_ms: int
    graph: GraphSpec | None = None
    may_republish: bool = False
    targets: dict[str, str] | None = None
    once: tuple[str, ...] = ()
    strategy: Strategy | None = None
    declared: tuple[DeclaredStep, ...] | None = None
    regions: dict[str, tuple[str, ...]] | None = None
    settings: dict[str, str] | None = None


class ChangeAccepted(_Event, frozen=True, tag=True):
    """The user's word: what is committed of this step counts although these parts of it changed."""

    step: str
    parts: tuple[str, ...]
    fingerprint: Fingerprint


class CodeReplaced(_Event, frozen=True, tag=True):
    """These parts of the step changed. New generations follow in the same record."""

    step: str
    parts: tuple[str, ...]
    fingerprint: Fingerprint


class GenerationOpened(_Event, frozen=True, tag=True, kw_only=True):
    """A step's result starts a new version. `dropped` counts no more; `carried` still does, by `proof`."""

    step: str
    generation: int
    dropped: Partitions
    because: Reasons
    carried: Partitions = EMPTY
    proof: Proof | None = None
    exchange_version: int = 0


class AttemptOpened(_Event, frozen=True, tag=True):
    """An attempt exists from here on and will be dispatched once. `reads` are the attempts whose files it reads."""

    attempt: AttemptId
    partitions: Partitions
    because: Reasons
    at_ms: int
    reads: tuple[AttemptId, ...] = ()


class PartitionsCommitted(_Event, frozen=True, tag=True, kw_only=True):
    """These partitions count from here on, with the files the manifest names. `changed` are those that had
    counted before and came back different, or not known to be equal. Manifest, digests, size and rows are those of
    `of`: the engine's report, of which parts may have come too late to count. What is adopted is all that the attempt
    has."""

    attempt: AttemptId
    partitions: Partitions
    of: Partitions
    manifest: bytes
    at_ms: int
    digests: bytes | None = None
    changed: Partitions = EMPTY
    exchange_version: int = 0
    exchange_checksum: str | None = None
    is_adopted: bool = False
    size_bytes: int = 0
    rows: int | None = None


class ExchangeCarried(_Event, frozen=True, tag=True):
    """An exchange under the step was made again; what was committed over the old one stays, by `proof`."""

    step: str
    exchange_version: int
    proof: Proof


class AttemptClosed(_Event, frozen=True, tag=True):
    """The attempt is over; whatever it reports from here on is late and counts for nothing."""

    attempt: AttemptId
    outcome: Outcome
    at_ms: int


class FailureHandled(_Event, frozen=True, tag=True):
    """Failures that were seen together and count once. Their steps wait until `due_ms`. `memory` and `suspects`
    are what the policies want to know next time."""

    failures: tuple[Failure, ...]
    due_ms: int
    memory: BackoffState
    at_ms: int
    suspects: dict[str, FailureCounts] = {}


class PartitionsLost(_Event, frozen=True, tag=True):
    """Committed partitions that can no longer be read."""

    step: str
    partitions: Partitions
    domain: FailureDomain


class ExchangesLost(_Event, frozen=True, tag=True):
    """Map parts that the engine no longer has."""

    lost: tuple[tuple[ExchangeId, Partitions], ...]


class PartitionsReleased(_Event, frozen=True, tag=True):
    """Nobody can need these any more. Final: this generation never holds them again. `is_for_budget`: they would have
    been kept longer, but the run kept more than it may."""

    step: str
    partitions: Partitions
    is_for_budget: bool = False


class ExchangesReleased(_Event, frozen=True, tag=True):
    """The step is complete and nothing of it runs: the engine lets go what it held to make it. Whatever of the step is
    made again is made over new exchanges."""

    step: str


class PinNoticed(_Event, frozen=True, tag=True):
    """Somebody pinned the run, or took the pin back. While it is pinned nothing of it is released."""

    is_pinned: bool


class AttemptDeleted(_Event, frozen=True, tag=True):
    """The files of an attempt in which nothing counted are gone."""

    attempt: AttemptId


class HoleAccepted(_Event, frozen=True, tag=True):
    """The user's word: these partitions, which failed, are left out. Each counts as one without rows for whoever reads
    it, until its step opens a new generation without it. `changed` are those that had counted before, with rows."""

    step: str
    partitions: Partitions
    who: str
    at_ms: int
    changed: Partitions = EMPTY


class PublicationOpened(_Event, frozen=True, tag=True):
    """Every sink is committed: from here on they are published, with this fence."""

    fence: Fence
    at_ms: int


class SinkPublished(_Event, frozen=True, tag=True):
    """The target of this sink holds this run's result."""

    sink: str
    fence: Fence


class SinkUntouched(_Event, frozen=True, tag=True):
    """Nothing of the publication with this fence reached the target of this sink, nor ever will."""

    sink: str
    fence: Fence


class Differs(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """Partitions that published sinks were made from, or are, and that came back as something else, or not known to be
    equal. `was` and `now` are the digests of the lowest of them; None where there is none. Of the
    sinks in `maybe` it is not known that their targets took them."""

    step: str
    partitions: Partitions
    sinks: tuple[str, ...]
    was: bytes | None = None
    now: bytes | None = None
    maybe: tuple[str, ...] = ()


class RepublishAccepted(_Event, frozen=True, tag=True):
    """The user's word: these sinks are published, or may be, and count as not published from here on, so that they are
    published again with all that changed."""

    sinks: tuple[str, ...]
    who: str
    at_ms: int


class RunFailing(_Event, frozen=True, tag=True):
    """The master gave up. Running attempts are cancelled; what they still commit is kept. `differs` is why, where what
    is published would no longer be what it was made from."""

    gave_up: str
    failures: tuple[Failure, ...]
    is_resumable: bool
    at_ms: int
    differs: Differs | None = None


class RunStopped(_Event, frozen=True, tag="RunFailed"):
    """Nothing of this run is going on any more. A resumable one keeps all that is committed."""

    at_ms: int


class RunSucceeded(_Event, frozen=True, tag=True):
    """Every sink is published."""

    at_ms: int


class RunClosing(_Event, frozen=True, tag=True):
    """gc took the run: nothing of it is wanted any more, everything is released and then deleted."""

    at_ms: int


class TombstoneWritten(_Event, frozen=True, tag="RunClosed"):
    """The tombstone: the last event there can be, after everything was deleted."""

    at_ms: int


Event = (
    RunStarted
    | EpochOpened
    | ChangeAccepted
    | CodeReplaced
    | GenerationOpened
    | AttemptOpened
    | PartitionsCommitted
    | ExchangeCarried
    | AttemptClosed
    | FailureHandled
    | PartitionsLost
    | ExchangesLost
    | PartitionsReleased
    | ExchangesReleased
    | PinNoticed
    | AttemptDeleted
    | HoleAccepted
    | PublicationOpened
    | SinkPublished
    | SinkUntouched
    | RepublishAccepted
    | RunFailing
    | RunStopped
    | RunSucceeded
    | RunClosing
    | TombstoneWritten
)
