"""Queries of a script that is there already, started and supervised as regions are.

- The writer stays the script's: its sink, its output mode, its trigger. Rekindle adds its name, its fence, and a
  checkpoint where it has none. One that it has is adopted as it is: the query goes on from its position.
- A writer belongs to the session that made its frame. What a region needs is set there for the moment of a start, one
  start after the other; Spark copies it then.
- How often a row arrives is what Spark's sink promises, and nothing is added to it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from rekindle.engine.adapter import GivenWriter, PreparedStream, Stores, StreamRequest
from rekindle.engine.spark.jvm import plan_calls, stream_calls
from rekindle.engine.spark.plan.packed import compiled_told, functions_told, told
from rekindle.engine.spark.publish.stream_target import CompactionReport
from rekindle.engine.spark.session import attach
from rekindle.engine.spark.stream.batch_replay import leaves_of
from rekindle.engine.spark.stream.poison_finder import Limited, PoisonFound
from rekindle.engine.spark.stream.region_frames import names_of, settings_of
from rekindle.engine.spark.stream.source_begins import begins_told
from rekindle.engine.spark.stream.state_fence import refuse_unfenced_state
from rekindle.engine.spark.stream.stream_engine import OF_STATE, QueryStart, SparkStreamEngine
from rekindle.engine.spark.stream.stream_notes import fifo_notes, input_notes
from rekindle.errors import GraphRefused, Refused
from rekindle.publish.stream_entries import owner_of, take
from rekindle.publish.target import PointerStore, same_place
from rekindle.remedies import StartRemedy
from rekindle.results.checkpoint_log import SOURCES, checkpoint_folder, last_commit
from rekindle.streams.stream_commands import FindPoison
from rekindle.streams.stream_spec import AVAILABLE_NOW, Delivery, RegionSpec, StreamSpec

CHECKPOINT = "checkpointLocation"
AS_GIVEN = "as the script says"
WHY = (
    "its sink is the script's own: Spark computes a batch again that was not committed, and a driver that wakes up may"
)
STATE_NOTE = "its checkpoint was there before: state in it is fenced only in RocksDB with checkpoint format 2"
DEFAULT_LOCATION = "spark.sql.streaming.checkpointLocation"
# Below a checkpoint: whose it is. Spark looks only at the names that it knows.
OWNED = "_rekindle"
# Triggers of queries that end when they have read what there is, as Spark's classes are called.
ENDS = ("AvailableNow", "OneTime")
INITIALIZING = "Initializing"
START_SECONDS_MAX = 60.0
_START = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenQuery:
    """One query. `checkpoint` is where it has its positions, `is_adopted` if that was the script's before; then it is
    that of one stream, which `run` names, unless the user gives it to this one. `ends_itself` by its trigger."""

    given: GivenWriter
    format: str
    path: str
    checkpoint: str
    is_adopted: bool
    ends_itself: bool
    run: str
    takes: bool
    available_now: bool

    @property
    def frame(self) -> DataFrame:
        return _frame(self.given.writer)

    @property
    def _target(self) -> str:
        return f"table {self.given.table}" if self.given.table else " ".join(filter(None, (self.format, self.path)))

    @property
    def trigger(self) -> str:
        return AVAILABLE_NOW if self.available_now or self.ends_itself else AS_GIVEN

    @property
    def checkpoints_before(self) -> int:
        """Its sink is the script's."""
        return 0

    def last(self, stores: Stores) -> int:
        return last_commit(stores(self.checkpoint))

    def has_noted(self, stores: Stores, stream: str) -> bool:
        """Whether a stream, by its number or name, has noted in the checkpoint where it began."""
        return stores(self.checkpoint).get(f"{SOURCES}{stream}/0") is not None

    def check(self, stores: Stores) -> None:
        """A checkpoint is that of one stream: two that wrote into it would be fenced from each other by nobody."""
        held = owner_of(self._owned(stores)) if self.is_adopted else None
        if held is not None and not self.takes and held[1:] != (self.given.name, self.run):
            raise Refused(
                f"the checkpoint {self.checkpoint} is that of {held.region} in stream {held.generation}: two drivers "
                "on it could do a batch twice",
                StartRemedy(to="if no driver of that one lives, take it", take_target=(self.given.name,)),
            )

    def compact(self, spark: SparkSession, stores: Stores, every: int) -> CompactionReport | None:
        """The sink is the script's own."""
        return None

    def _owned(self, stores: Stores) -> PointerStore:
        return stores(f"{self.checkpoint}/{OWNED}")

    def ready(self, start: QueryStart) -> Callable[[], StreamingQuery]:
        """No record of it is ever left out: that is asked for at a sink of a pipeline."""

        def started() -> StreamingQuery:
            writer: DataStreamWriter = self.given.writer.queryName(self.given.name).option(CHECKPOINT, self.checkpoint)
            if self.available_now:
                writer = writer.trigger(availableNow=True)
            with _alone(self.given.name), _set(self.frame.sparkSession, kept):
                query = writer.toTable(self.given.table) if self.given.table else writer.start()
                _wait_for_sources(query)
                return query

        stores = start.wanted.stores
        self.check(stores)
        if self.is_adopted:
            take(self._owned(stores), self.given.name, self.run, is_taken_over=self.takes)
        # What an adopted checkpoint began with stays: a state store is not exchanged under it.
        kept = {name: value for name, value in start.settings.items() if not (self.is_adopted and name in OF_STATE)}
        return started

    def search(self, spark: SparkSession, request: StreamRequest, command: FindPoison, limited: Limited) -> PoisonFound:
        raise AssertionError("only a sink of a pipeline has a quarantine")

    def spec(self, spark: SparkSession) -> RegionSpec:
        frame, plan, name = self.frame, told(self.frame), self.given.name
        operators = tuple(stream_calls.stateful(frame, ()))
        streams = tuple(stream_calls.streams_of(frame))
        return RegionSpec(
            name=name,
            steps=(name,),
            sources=streams,
            target=self._target,
            delivery=Delivery.AT_LEAST_ONCE,
            why=WHY,
            trigger=self.trigger,
            output_mode=AS_GIVEN,
            stateful=(name,) if operators else (),
            operators=operators,
            leaves=streams,
            names=names_of(frame),
            columns={field.name: field.dataType.simpleString() for field in frame.schema.fields},
            fingerprints={
                name: {"plan": f"#{plan.shape}", **functions_told(plan.commands), **compiled_told(plan)},
                "": settings_of(spark),
            },
        )


def prepare_writers(spark: SparkSession, request: StreamRequest, writers: Sequence[GivenWriter]) -> PreparedStream:
    """Everything that can be refused is refused here."""
    attach(spark)
    queries = {one.name: _query(one, request) for one in writers}
    _refuse_shared_checkpoints(queries)
    for one in queries.values():
        one.check(request.wanted.stores)
    regions = tuple(one.spec(spark) for one in queries.values())
    refuse_unfenced_state(spark, regions)
    batches = {name: one.last(request.wanted.stores) for name, one in queries.items()}
    adopted = [f"{one.name}: {STATE_NOTE}" for one in regions if one.stateful and queries[one.name].is_adopted]
    loose = [note for one in queries.values() for note in input_notes(one.given.name, one.frame)]
    return PreparedStream(
        engine=SparkStreamEngine(spark, request, queries),
        spec=StreamSpec(regions=regions),
        batches=batches,
        noted={
            one.name: frozenset(filter(partial(queries[one.name].has_noted, request.wanted.stores), one.names))
            for one in regions
        },
        begins={
            name: begins_told(leaves_of(one.frame), (), partial(one.has_noted, request.wanted.stores))
            for name, one in queries.items()
            if batches[name] < 0
        },
        notes=(*adopted, *loose, *fifo_notes(spark, len(regions))),
    )


def _query(one: GivenWriter, request: StreamRequest) -> GivenQuery:
    if not isinstance(one.writer, DataStreamWriter) or not plan_calls.is_classic(_frame(one.writer)):
        raise GraphRefused(
            f"{one.place}: {one.name} is a {type(one.writer).__name__}, and only the writer of a streaming DataFrame "
            "of a classic Spark session can be supervised",
            'give the writer before it is started: run.stream(df.writeStream.format("delta"), "orders")',
        )
    there = stream_calls.writer_told(one.writer)
    held = there.get(CHECKPOINT, "") or _by_setting(one, there)
    if held and one.checkpoint and held != one.checkpoint:
        raise GraphRefused(
            f"{one.place}: {one.name} has two checkpoints: {held} in its writer, and checkpoint={one.checkpoint!r}",
            "leave out one of them",
        )
    adopted = one.checkpoint or held
    replaced = request.replaced.get(one.name, 0)
    if replaced:
        raise GraphRefused(
            f"{one.place}: {one.name} is a query of a script: its checkpoint is the script's to replace",
            "give it another checkpoint=",
        )
    return GivenQuery(
        given=one,
        format=there.get("format", ""),
        path=there.get("path", ""),
        checkpoint=adopted or f"{request.wanted.root}/{checkpoint_folder(one.name)}",
        is_adopted=bool(adopted),
        ends_itself=there.get("trigger", "").startswith(ENDS),
        run=request.generation,
        takes=one.name in request.wanted.takes,
        available_now=request.available_now,
    )


def _by_setting(one: GivenWriter, there: Mapping[str, str]) -> str:
    """Where Spark has the checkpoint of a query that names none itself."""
    location = _frame(one.writer).sparkSession.conf.get(DEFAULT_LOCATION, None)
    if not location or one.checkpoint:
        return ""
    if not there.get("queryName"):
        raise GraphRefused(
            f"{one.place}: {DEFAULT_LOCATION} is set, and {one.name} has no queryName, so that nobody knows which "
            "checkpoint below it is its own",
            'say it: run.stream(writer, "…", checkpoint="…")',
        )
    return f"{location.rstrip('/')}/{there['queryName']}"


def _refuse_shared_checkpoints(queries: Mapping[str, GivenQuery]) -> None:
    seen: dict[str, str] = {}
    for name, one in queries.items():
        other = seen.setdefault(same_place(one.checkpoint), name)
        if other != name:
            raise GraphRefused(
                f"{one.given.place}: {name} has the checkpoint of {other}: {one.checkpoint}",
                "a query needs a checkpoint of its own",
            )


def _frame(writer: DataStreamWriter) -> DataFrame:
    return writer._df


@contextmanager
def _alone(name: str) -> Iterator[None]:
    if not _START.acquire(timeout=START_SECONDS_MAX):
        raise TimeoutError(f"{name} was not started: another query of this script has been starting for too long")
    try:
        yield
    finally:
        _START.release()


def _wait_for_sources(query: StreamingQuery) -> None:
    """Spark makes the sources of a query after its start has returned, with the settings of that moment."""
    until = time.monotonic() + START_SECONDS_MAX
    while query.isActive and query.status["message"].startswith(INITIALIZING) and time.monotonic() < until:
        time.sleep(0.05)


@contextmanager
def _set(session: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """For the moment of a start: what the script set is there again afterwards."""
    before = {name: session.conf.get(name, None) for name in settings}
    try:
        for name, value in settings.items():
            session.conf.set(name, value)
        yield
    finally:
        for name, was in before.items():
            if was is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, was)
