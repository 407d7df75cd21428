"""What a target must be able to do with a stream: one class for each kind that takes one, listed in
`stream_targets.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter

from rekindle.engine.adapter import Stores
from rekindle.pipeline.declared import Declared
from rekindle.publish.stream_entries import StreamOwner, owner_of, run_of, take
from rekindle.publish.target import PointerStore
from rekindle.streams.stream_spec import Delivery

# A number that no target gives: there is nobody to take it from.
NO_OWNER = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionTarget:
    """The region that writes into a target: `generation` is that of its checkpoint, `older` are those of the
    checkpoints that it had before, `takes` if the user gives it the target of another stream. `stamp` was drawn for its
    stream: users may give one name to two streams. `columns` are those of its rows, once its query is built."""

    sink: Declared
    checkpoint: str
    generation: str
    output_mode: str
    takes: bool
    stamp: str
    older: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)

    @property
    def owner(self) -> tuple[str, str]:
        """By which its target knows it: all shards of a sink are one, whatever checkpoints they have."""
        shard_of = self.sink.shard_of
        return (shard_of, run_of(self.generation)) if shard_of else (self.sink.name, self.generation)

    @property
    def everywhere(self) -> str:
        """What tells its checkpoint from all others of all locations."""
        return f"{self.generation}-{self.stamp}"

    @property
    def options(self) -> dict[str, str]:
        """What tells its batches from all others."""
        return {"checkpoint": self.checkpoint, "region": self.sink.name, "generation": self.generation}


@dataclass(frozen=True, slots=True)
class RegionDelivery:
    """How often a row stands in the target after failures; `why` where that is not exactly once by itself."""

    delivery: Delivery
    why: str = ""


class CompactionReport(NamedTuple):
    """Batches up to `through` are compacted; `told` is a sentence about what was done, empty if nothing."""

    through: int
    told: str = ""


class StreamTarget(Protocol):
    """Takes the batches of one region."""

    @property
    def base(self) -> str:
        """Where its files lie; empty if it has none."""
        ...

    @property
    def code(self) -> Callable[..., Any] | None:
        """The function of the user's that it calls."""
        ...

    def check(self, spark: SparkSession, region: RegionTarget, stores: Stores, last: int) -> None:
        """Refuse what it cannot take, before anything starts. `last` is the last batch that the checkpoint has."""
        ...

    def check_columns(self, region: RegionTarget, columns: Mapping[str, str]) -> None:
        """Refuse rows that it cannot take, by the types of their columns."""
        ...

    def delivery(self, doubts: tuple[str, ...]) -> RegionDelivery:
        """`doubts` are why it is not proved that a batch that is computed again has the same rows."""
        ...

    def may_have(self, region: RegionTarget, stores: Stores, batch: int) -> bool:
        """Whether it may have rows of a batch that its checkpoint has not committed."""
        ...

    def begin(self, region: RegionTarget, stores: Stores, offsets: Sequence[bytes]) -> None:
        """Take the first batches of a checkpoint that goes on where another one stood: they have no rows."""
        ...

    def take(self, region: RegionTarget, stores: Stores) -> int:
        """The number of this stream among its owners. Raises `Refused` if another one has it."""
        ...

    def written_by(
        self, writer: DataStreamWriter, region: RegionTarget, owner: int, look: Callable[[], None]
    ) -> DataStreamWriter:
        """The writer with this target. `look` raises if another driver has the region."""
        ...

    def compact(self, spark: SparkSession, region: RegionTarget, stores: Stores, every: int) -> CompactionReport | None:
        """Make few files of those of many batches, where as many as `every` are not compacted. None where it has no
        files."""
        ...


def refuse_other_owner(region: RegionTarget, store: PointerStore) -> None:
    """Refuse a target that another stream has."""
    held = owner_of(store)
    if held is not None and not _may_take(region, held) and held[1:] != region.owner:
        take_target(region, store)


def take_target(region: RegionTarget, store: PointerStore) -> int:
    """The number of this stream among the owners of a target. Raises `Refused` if another one has it."""
    return take(store, *region.owner, is_taken_over=region.takes, older=region.older).number


def _may_take(region: RegionTarget, held: StreamOwner) -> bool:
    """On the user's word, or if an older checkpoint of this region has it: that this one replaces it is journaled."""
    return region.takes or (held.region == region.owner[0] and held.generation in region.older)


class NoFiles:
    """What is true of all that take batches and have no files of a target: no other stream owns them, nothing is
    compacted, and nobody knows what they have."""

    __slots__ = ()

    @property
    def base(self) -> str:
        return ""

    @property
    def code(self) -> Callable[..., Any] | None:
        return None

    def may_have(self, region: RegionTarget, stores: Stores, batch: int) -> bool:
        return True

    def begin(self, region: RegionTarget, stores: Stores, offsets: Sequence[bytes]) -> None:
        """It has no entries of batches."""

    def take(self, region: RegionTarget, stores: Stores) -> int:
        return NO_OWNER

    def compact(self, spark: SparkSession, region: RegionTarget, stores: Stores, every: int) -> CompactionReport | None:
        return None
