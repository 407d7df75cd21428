"""What a stream's master is told."""

from __future__ import annotations

import msgspec

from rekindle.failover.restart import Strategy
from rekindle.model.failures import Cause
from rekindle.streams.shard_splits import ShardSplit
from rekindle.streams.source_records import QuarantinedRecord
from rekindle.streams.source_starts import SourcePosition
from rekindle.streams.stream_events import QueryEnd
from rekindle.streams.stream_spec import SourceStart, StreamLimits, StreamSpec


class OpenStream(msgspec.Struct, frozen=True, kw_only=True):
    """The first one of each driver: what the code is now. Time and seed count for a new stream only.
    `new_checkpoints` are regions whose checkpoint the user replaces, `positions` is where those begin; `taken` are
    steps whose newer batch inputs are read from now on; `splits` are shards that go on where others stood."""

    pipeline: str
    run: str
    spec: StreamSpec
    limits: StreamLimits
    run_time_ms: int
    seed: int
    application: str
    owner: str
    strategy: Strategy | None = None
    new_checkpoints: dict[str, SourceStart] = {}
    taken: tuple[str, ...] = ()
    positions: dict[str, tuple[SourcePosition, ...]] = {}
    splits: dict[str, ShardSplit] = {}


class QueryReport(msgspec.Struct, frozen=True, kw_only=True):
    """A query is over. `cause` is there where it failed or is stuck, with a `signature` that is equal for failures that
    look alike; `batch` is the last one that it committed. `lost` are batches of results that it was to read next and
    that nobody can read any more, by the region that made them."""

    region: str
    number: int
    end: QueryEnd
    cause: Cause | None = None
    batch: int = -1
    signature: str = ""
    lost: dict[str, tuple[int, ...]] = {}


class PoisonReport(msgspec.Struct, frozen=True, kw_only=True):
    """The search for the records that fail, after this query of a region had failed, is over. They were kept already.
    `why` says why none could be named."""

    region: str
    number: int
    records: tuple[QuarantinedRecord, ...] = ()
    why: str = ""
    jobs: int = 0


class ReplayReport(msgspec.Struct, frozen=True, kw_only=True):
    """A replay of batches, by its number in its region, is over: these `batches` can be read again, those of them that
    are `changed` with other rows. `why` says why others could not be made again: those that are `unmade`, all of them
    where none is named; what is left was not tried. Where batches of other results are `lost` that some of its batches
    read, by these, nothing was made yet."""

    region: str
    number: int
    batches: tuple[int, ...] = ()
    changed: tuple[int, ...] = ()
    why: str = ""
    unmade: tuple[int, ...] = ()
    lost: dict[int, dict[str, tuple[int, ...]]] = {}


class StopStream(msgspec.Struct, frozen=True):
    """Somebody wants the stream to end after the batches that run."""

    why: str


class CloseStream(msgspec.Struct, frozen=True):
    """The user gives the stream up. Whoever closes it has no queries."""

    owner: str


class StreamTick(msgspec.Struct, frozen=True):
    """Time passed."""


StreamStimulus = OpenStream | QueryReport | PoisonReport | ReplayReport | StopStream | CloseStream | StreamTick
