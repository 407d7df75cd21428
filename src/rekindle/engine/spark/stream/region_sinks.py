"""Where a region's rows go: the writer of its query, and what is refused before anything starts.

What a kind of target does with a stream is its own (`publish/stream_targets.py`). The batches of a region are those of
one checkpoint, told by a generation of their own: a new checkpoint counts its batches from 0 again.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from rekindle.engine.adapter import Stores, StreamRequest
from rekindle.engine.spark.publish.stream_result import ResultReader, ResultStream, result_path, topic_of
from rekindle.engine.spark.publish.stream_target import CompactionReport, RegionDelivery, RegionTarget, StreamTarget
from rekindle.engine.spark.publish.stream_targets import stream_target_of
from rekindle.engine.spark.session import clone
from rekindle.engine.spark.stream.checkpoint_split import begin_checkpoint, commit_checkpoint, is_begun
from rekindle.engine.spark.stream.poison_finder import Limited, PoisonFound
from rekindle.engine.spark.stream.quarantine import left_out, searched
from rekindle.engine.spark.stream.region_frames import RegionFrames, build, members
from rekindle.engine.spark.stream.stream_engine import QueryStart
from rekindle.errors import GraphRefused
from rekindle.pipeline.check import MEMORY
from rekindle.pipeline.declared import Binding, Declared, Role
from rekindle.publish.stream_entries import generation_of
from rekindle.remedies import StartRemedy, TextRemedy, new_run
from rekindle.results.checkpoint_log import OFFSETS, SOURCES, checkpoint_folder, last_commit, last_planned
from rekindle.streams.region_changes import ChangeVerdict, restart_change
from rekindle.streams.shard_splits import ShardSplit
from rekindle.streams.source_starts import SourcePosition
from rekindle.streams.stream_commands import FindPoison
from rekindle.streams.stream_spec import AVAILABLE_NOW, TOLD_RESULTS, RegionSpec

# The line of an entry of Spark's offset log that has settings, counted from 1.
CONF_LINE = 2
APPEND = "append"
REAL_TIME = "real time "
# Told of a trigger that nobody chose.
AT_ONCE = "as soon as there is input"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionSink:
    """The last step of a region, with all steps as the region sees them: `root` is where the run has its files, `run`
    its name, `stamp` what was drawn for it, and `replaced` how many checkpoints the region had before this one; `takes`
    if the user gives it the target of another stream; `positions` is where its checkpoint begins to read, if the user
    said so, and `split` if it goes on from another region as one of more shards.
    `judged` is what it was found to be when the stream was prepared; None before that.
    `result` is the kind of its result where other regions read it, which has at most `memory_bytes` in memory."""

    sink: Declared
    steps: tuple[Declared, ...]
    root: str
    run: str
    stamp: str
    replaced: int = 0
    available_now: bool = False
    takes: bool = False
    positions: tuple[SourcePosition, ...] = ()
    result: str = ""
    memory_bytes: int = 0
    split: ShardSplit | None = None
    judged: RegionSpec | None = None

    @property
    def name(self) -> str:
        return self.sink.name

    @property
    def target(self) -> StreamTarget:
        if self._is_published:
            return stream_target_of(self.sink)
        capacity = self.memory_bytes if self.result == MEMORY else 0
        return ResultStream(result_path(self.root, self.name), capacity, topic_of(self.sink))

    @property
    def _is_published(self) -> bool:
        return self.sink.role is Role.SINK

    @property
    def told_target(self) -> str:
        """Where its rows go, in words."""
        return self.sink.shown_target if self._is_published else TOLD_RESULTS[self.result]

    @property
    def generation(self) -> str:
        """By which the entries of this checkpoint are told from those of every other one."""
        return generation_of(self.run, self.replaced)

    @property
    def checkpoint(self) -> str:
        return f"{self.root}/{self._below}"

    @property
    def _below(self) -> str:
        return checkpoint_folder(self.name, self.replaced)

    @property
    def reads(self) -> tuple[str, ...]:
        """The regions whose results it reads."""
        own = members(self.steps, self.sink)
        return tuple(one.name for one in own if isinstance(one.function, ResultReader))

    @property
    def output_mode(self) -> str:
        return self.sink.output_mode or APPEND

    @property
    def trigger(self) -> str:
        """In words."""
        return AVAILABLE_NOW if self.available_now else self.sink.trigger or AT_ONCE

    @property
    def checkpoints_before(self) -> int:
        """Of its own checkpoints, and of that which it went on from."""
        return max(self.replaced, 0 if self.split is None else self.split.generation + 1)

    @property
    def region(self) -> RegionTarget:
        return RegionTarget(
            sink=self.sink,
            checkpoint=self.checkpoint,
            generation=self.generation,
            output_mode=self.output_mode,
            takes=self.takes,
            stamp=self.stamp,
            older=tuple(generation_of(self.run, number) for number in range(self.checkpoints_before)),
        )

    def check(self, spark: SparkSession, stores: Stores) -> int:
        """Refuse what the target cannot take. The answer is the last batch that the checkpoint has committed, -1 for
        none."""
        if self.split is not None:
            self._refuse_own_parts()
        last = self.last(stores)
        self.target.check(spark, self.region, stores, last)
        return last

    def last(self, stores: Stores) -> int:
        return last_commit(stores(self.root), self._below)

    def planned(self, stores: Stores) -> int:
        """The last batch of which the checkpoint says what it reads, -1 for none."""
        return last_planned(stores(self.root), self._below)

    def delivery(self, frames: RegionFrames) -> RegionDelivery:
        """How often its rows stand in the target. Refuses rows that it cannot take."""
        self.target.check_columns(self.region, frames.columns())
        return self.target.delivery(frames.doubts(self.name))

    def compact(self, spark: SparkSession, stores: Stores, every: int) -> CompactionReport | None:
        """Make few files of those of many batches; None where its target has none."""
        return self.target.compact(spark, self.region, stores, every)

    def take(self, stores: Stores) -> int:
        """The number of this stream among the owners of the target. Raises `Refused` if another one has it."""
        return self.target.take(self.region, stores)

    def pinned(self, stores: Stores, last: int) -> dict[str, str]:
        """The settings that the checkpoint has with its last batch: Spark uses them, whatever the session says."""
        lines = (stores(self.root).get(f"{self._below}/{OFFSETS}{last}") or b"").decode().splitlines()
        return {} if len(lines) < CONF_LINE else dict(json.loads(lines[CONF_LINE - 1]).get("conf", {}))

    def has_noted(self, stores: Stores, stream: str) -> bool:
        """Whether a stream, by its number or name, has noted in the checkpoint where it began."""
        return stores(self.root).get(f"{self._below}/{SOURCES}{stream}/0") is not None

    def may_have(self, stores: Stores, batch: int) -> bool:
        """Whether the rows of a batch may be in the target, although its checkpoint has not committed it."""
        return self.target.may_have(self.region, stores, batch)

    def ready(self, start: QueryStart) -> Callable[[], StreamingQuery]:
        """Its functions are called in a session of the query's own, after the target is this stream's."""
        session = clone(start.spark, start.settings)
        owner = self.take(start.wanted.stores)
        self._begin(start.wanted.stores)
        read = partial(start.inputs.read, self.name)
        frames = build(session, replace(start.wanted, steps=self.steps), self.sink, read)
        self._refuse_other(frames, start)
        frames = left_out(session, frames, start.without, self.positions)
        writer = self._writer(frames, owner, start.look)
        return lambda: writer.start()

    def _refuse_other(self, frames: RegionFrames, start: QueryStart) -> None:
        """Functions that were called again may make something else of what they find by now."""
        if self.judged is None:
            return
        change = restart_change(self.judged, frames.spec_now(self.judged, start.wanted, self.target.code))
        told = (
            f"{self.name}: its functions make something else now than when the stream began: {'; '.join(change.told)}"
        )
        if change.is_refused:
            raise GraphRefused(
                f"{told}; this {change.verdict.value}",
                (
                    TextRemedy("let them make the same whenever they are called"),
                    StartRemedy(to="or have it judged anew"),
                ),
            )
        if change.verdict is not ChangeVerdict.SAME:
            start.note(f"{told}; it counts from the next batch on")

    def _begin(self, stores: Stores) -> None:
        """Begin the checkpoint of a shard where its parent stood."""
        split, shard, store = self.split, self.sink.shard, stores(self.root)
        if split is None or split.batch < 0 or shard is None or is_begun(store, self._below):
            return
        parent = checkpoint_folder(split.parent, split.generation)
        offsets = begin_checkpoint(store, parent, self._below, split.batch, shard.number, shard.of)
        self.target.begin(self.region, stores, offsets)
        commit_checkpoint(store, parent, self._below, split.batch)

    def _refuse_own_parts(self) -> None:
        """A source that reads its part itself: nobody knows that the new parts are parts of the old ones."""
        for one in members(self.steps, self.sink):
            if any(argument.binding is Binding.SHARD for argument in one.arguments):
                raise GraphRefused(
                    f"{one.place}: {one.shard_of} reads its part itself, and nobody knows whether that of each shard "
                    "is a part of what one of the old ones read",
                    (TextRemedy("restore the number of shards"), new_run("or start a new stream, with other targets")),
                )

    def search(self, spark: SparkSession, request: StreamRequest, command: FindPoison, limited: Limited) -> PoisonFound:
        own = replace(request, wanted=replace(request.wanted, steps=self.steps))
        return searched(spark, own, self.sink, command, limited)

    def _writer(self, frames: RegionFrames, owner: int, look: Callable[[], None]) -> DataStreamWriter:
        """`owner` is its number among those of the target."""
        writer = frames.frame.writeStream.queryName(self.name).outputMode(self.output_mode)
        match self.trigger:
            case word if word == AVAILABLE_NOW:
                writer = writer.trigger(availableNow=True)
            case word if word.startswith(REAL_TIME):
                writer = writer.trigger(realTime=word.removeprefix(REAL_TIME))
            case word if word != AT_ONCE:
                writer = writer.trigger(processingTime=word)
        writer = writer.option("checkpointLocation", self.checkpoint)
        return self.target.written_by(writer, replace(self.region, columns=frames.columns()), owner, look)
