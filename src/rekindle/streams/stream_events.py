"""What was decided about a stream. The rules of `master/facts/events.py` hold: past tense, complete, for ever.

There is an event for each decision and none for a batch: what a query does by itself stands in Spark's own logs.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from rekindle.failover.backoff import BackoffState
from rekindle.failover.restart import Strategy
from rekindle.model.failures import Cause
from rekindle.streams.shard_splits import ShardSplit
from rekindle.streams.source_records import QuarantinedRecord
from rekindle.streams.source_starts import SourcePosition
from rekindle.streams.stream_spec import SourceStart, StreamLimits, StreamSpec


class QueryEnd(Enum):
    """How a query ended. One that is stuck would not stop: it is fenced, and its region waits for another driver."""

    FAILED = "failed"
    FINISHED = "finished"
    STOPPED = "stopped"
    STUCK = "stuck"


class StreamPhase(Enum):
    """Where a stream is. One that stopped, finished or failed goes on when it is started again; one that is closed
    never does."""

    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FINISHED = "finished"
    FAILED = "failed"
    CLOSED = "closed"

    @property
    def is_over(self) -> bool:
        return self in (StreamPhase.STOPPED, StreamPhase.FINISHED, StreamPhase.FAILED, StreamPhase.CLOSED)


class _StreamEvent(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag=True, omit_defaults=True):
    """Base: the tag on the wire is the class name."""


class StreamStarted(_StreamEvent, frozen=True, tag=True, kw_only=True):
    """The first event. `run_time_ms` and `seed` are the same in every query and driver."""

    pipeline: str
    run: str
    limits: StreamLimits
    run_time_ms: int
    seed: int
    at_ms: int


class StreamOpened(_StreamEvent, frozen=True, tag=True, kw_only=True):
    """A driver took the stream, with these regions: every query of an older one is over. `again` are regions
    with which it begins anew, also if they had given up; `taken` are steps whose newer batch inputs the user
    takes from now on; `strategy` and `limits` are those from now on, where they are others."""

    application: str
    owner: str
    spec: StreamSpec
    at_ms: int
    again: tuple[str, ...] = ()
    taken: tuple[str, ...] = ()
    strategy: Strategy | None = None
    limits: StreamLimits | None = None


class CheckpointReplaced(_StreamEvent, frozen=True, tag=True, kw_only=True):
    """The user gave a region a new checkpoint, the `generation`th after its first. It reads its sources from `start`
    on, which are these `positions`, and adds to what is in its target."""

    region: str
    generation: int
    start: SourceStart
    at_ms: int
    positions: tuple[SourcePosition, ...] = ()


class ShardBegun(_StreamEvent, frozen=True, tag=True, kw_only=True):
    """There are more shards from now on: this one has a checkpoint of its own, the `generation`th after its first, that
    begins where its parent stood."""

    region: str
    generation: int
    split: ShardSplit
    at_ms: int


class QueryStarted(_StreamEvent, frozen=True, tag=True):
    """The query of a region, by its number: no other one of that region, in whatever driver, has the same."""

    region: str
    number: int
    at_ms: int


class QueryEnded(_StreamEvent, frozen=True, tag=True, kw_only=True):
    """`batch` is the last one that it is known to have committed, -1 for none."""

    region: str
    number: int
    end: QueryEnd
    at_ms: int
    batch: int = -1


class RegionsRestart(_StreamEvent, frozen=True, tag=True, kw_only=True):
    """A region failed, and these start again at `due_ms`: the region itself, or all where the strategy says so. It is
    the `alike`th failure of this `signature` without a batch in between."""

    region: str
    cause: Cause
    regions: tuple[str, ...]
    due_ms: int
    backoff: BackoffState
    at_ms: int
    signature: str = ""
    alike: int = 1


class RegionGivenUp(_StreamEvent, frozen=True, tag=True, kw_only=True):
    """`who` is the rule that gave up, `why` what it saw, `cause` the failure."""

    region: str
    who: str
    why: str
    cause: Cause
    at_ms: int


class PoisonSuspected(_StreamEvent, frozen=True, tag=True, kw_only=True):
    """A batch failed again and again in the same way, and the region may go on without some records: those that fail
    are sought. Nothing of the region runs meanwhile."""

    region: str
    batch: int
    cause: Cause
    at_ms: int


class RecordsQuarantined(_StreamEvent, frozen=True, tag=True, kw_only=True):
    """The region goes on without these records, from this batch on. They are kept beside the stream. `jobs` is how many
    Spark jobs found them."""

    region: str
    batch: int
    records: tuple[QuarantinedRecord, ...]
    at_ms: int
    jobs: int = 0


class BatchesLost(_StreamEvent, frozen=True, tag=True, kw_only=True):
    """These batches of the result of a region cannot be read any more, and are made again. `reader` found that;
    `readers` wait for it: itself, and those that may not go on where the region is not proved to give the same rows
    again. Batches that are made again already are not named a second time: then `needed` are all that `reader` needs.
    Without `readers` it is no query of `reader` that needs them, but the replay of its own batches, which is tried
    again after them."""

    region: str
    batches: tuple[int, ...]
    reader: str
    at_ms: int
    readers: tuple[str, ...] = ()
    needed: tuple[int, ...] = ()


class BatchesReplayed(_StreamEvent, frozen=True, tag=True, kw_only=True):
    """These batches of a result can be read again; `changed` are those with other rows than before, which no reader had
    read. `why` says why those that are `unmade` could not be made again: who needs them gives up."""

    region: str
    batches: tuple[int, ...]
    at_ms: int
    changed: tuple[int, ...] = ()
    why: str = ""
    unmade: tuple[int, ...] = ()


class StopRequested(_StreamEvent, frozen=True, tag=True):
    """Every query is to end after its batch."""

    why: str
    at_ms: int


class StreamEnded(_StreamEvent, frozen=True, tag=True):
    """No query runs and none will, until a driver opens the stream again."""

    phase: StreamPhase
    at_ms: int


class StreamClosed(_StreamEvent, frozen=True, tag=True):
    """The user gave the stream up: no driver opens it again, and what it has at its location goes. The last record of
    its journal."""

    owner: str
    at_ms: int


StreamEvent = (
    StreamStarted
    | StreamOpened
    | CheckpointReplaced
    | ShardBegun
    | QueryStarted
    | QueryEnded
    | RegionsRestart
    | RegionGivenUp
    | PoisonSuspected
    | RecordsQuarantined
    | BatchesLost
    | BatchesReplayed
    | StopRequested
    | StreamEnded
    | StreamClosed
)
