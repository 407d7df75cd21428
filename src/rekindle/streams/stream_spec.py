"""A streaming pipeline as its code is now, and what a run of it may do.

A region is one streaming query: a sink with all that is computed for it, or a step with a caching result, which other
regions read. Spark has one sink per query, so regions are named by their last steps. A vertex of the graph is a shard
of a region; there is one each.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from rekindle.failover.backoff import Exponential
from rekindle.failover.restart import Strategy
from rekindle.master.facts.config import BackoffSpec
from rekindle.master.facts.run_spec import DeclaredStep, Fingerprint
from rekindle.model.graph import Graph, Step
from rekindle.streams.pinned_inputs import PinnedInput

MINUTE_MS = 60_000
# The trigger of a region that ends when all input that there is was read.
AVAILABLE_NOW = "available now"
# A stream is restarted again and again for months: what counts is how often lately.
BACKOFF = Exponential(initial_ms=1_000, delay_ms_max=5 * MINUTE_MS, reset_after_ms=10 * MINUTE_MS, attempts_max=10)


class Delivery(Enum):
    """How often a row of a region stands in its target after failures."""

    EXACTLY_ONCE = "exactly once"
    AT_LEAST_ONCE = "at least once"


class SourceStart(Enum):
    """Where a new checkpoint begins to read, in the user's word."""

    EARLIEST = "earliest"
    LATEST = "latest"
    TIMESTAMP = "timestamp"
    OFFSETS = "offsets"


# What is told as the target of a region whose result other regions read, by the kind of that result.
IN_MEMORY = "memory"
TOLD_RESULTS = {kind: f"its {kind} result" for kind in ("caching", IN_MEMORY)}


class RegionSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One region. `steps` are computed in its query, producers first, its sink last; `sources` are those of them that
    are streams. `stateful` are the steps at or below which the query keeps state. `trigger` and `output_mode` are the
    sink's, in Spark's words. `operators` are those that keep state, in the order of the plan. `shared` are the steps
    that another region computes too. `leaves` are the streams in the order in which the query reads them, hashed: a
    checkpoint has positions by that order. Where all of them have names, `names` are these, with the same hashes: then
    positions are by name. `columns` are those of what it writes, with their types. `why` says, where a
    delivery is not exactly once, or only on somebody's word, why. `quarantine` is how many records it may go on
    without, 0 for none. `reads` are the regions whose results it reads; they are among its `sources`. Where it is one
    of `shards`, `shard_of` is the name that all of them have in the code. `result` is the kind of its result where
    other regions read it, and `topic` is where its rows are if they are records: `doubts` then are why it is not proved
    to give the same rows again, and `unreplayable` is why nobody can make one of its batches again alone."""

    name: str
    steps: tuple[str, ...]
    sources: tuple[str, ...]
    target: str
    delivery: Delivery
    trigger: str
    output_mode: str
    stateful: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()
    names: dict[str, str] = {}
    columns: dict[str, str] = {}
    why: str = ""
    quarantine: int = 0
    reads: tuple[str, ...] = ()
    shard_of: str = ""
    shards: int = 0
    result: str = ""
    topic: str = ""
    doubts: tuple[str, ...] = ()
    unreplayable: str = ""
    fingerprints: dict[str, Fingerprint] = {}

    @property
    def declared_name(self) -> str:
        """The name that its last step has in the code."""
        return self.shard_of or self.name

    @property
    def place(self) -> str:
        """Where its batches count: those of a result do, of whatever kind it is."""
        return "" if self.target in TOLD_RESULTS.values() else self.target

    @property
    def is_fed(self) -> bool:
        """It reads what other regions have made by then, and ends: it starts after them."""
        return bool(self.reads) and self.trigger == AVAILABLE_NOW


class StreamSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The regions, producers first, all declared steps, and the batch inputs of those steps that read one."""

    regions: tuple[RegionSpec, ...]
    declared: tuple[DeclaredStep, ...] = ()
    inputs: dict[str, PinnedInput] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(one.name for one in self.regions)

    @property
    def is_available_now(self) -> bool:
        """Whether the stream was to end by itself."""
        return bool(self.regions) and all(one.trigger == AVAILABLE_NOW for one in self.regions)

    def region(self, name: str) -> RegionSpec:
        return next(one for one in self.regions if one.name == name)

    def readers(self, name: str) -> tuple[str, ...]:
        """The regions that read the result of this one."""
        return tuple(one.name for one in self.regions if name in one.reads)

    def graph(self) -> Graph:
        """The regions as the failover policies see them. A caching result has one version for ever, and its readers
        have positions of their own: no failure of a region touches another one."""
        return Graph.of([Step(name=name, partitions=1) for name in self.names], [])


class StreamLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is recorded when a stream starts. `is_ended_by_one`: the whole stream ends when one region gave up.
    `stall_ms` is how long a batch may take before its region counts as stalled; 0 is for ever. A batch that failed
    `poison_tries_max` times in the same way is not tried again."""

    strategy: Strategy = Strategy.REGION
    backoff: BackoffSpec = BackoffSpec.of(BACKOFF)
    is_ended_by_one: bool = False
    stall_ms: int = 5 * MINUTE_MS
    poison_tries_max: int = 3
