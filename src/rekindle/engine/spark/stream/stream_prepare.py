"""From checked steps to the regions of a stream, before anything starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from pyspark.sql import SparkSession

from rekindle.engine.adapter import PreparedStream, PrepareRequest, Stores, StreamRequest
from rekindle.engine.spark.plan.describe import describe, or_refused
from rekindle.engine.spark.publish.stream_result import result_path, topic_of
from rekindle.engine.spark.session import attach, clone
from rekindle.engine.spark.stream.batch_replay import leaves_of
from rekindle.engine.spark.stream.input_looks import InputLooks
from rekindle.engine.spark.stream.region_cuts import CutStream, find_cuts, of_region, unreplayable
from rekindle.engine.spark.stream.region_frames import HINT, RegionFrames, build, members, settings_of
from rekindle.engine.spark.stream.region_sinks import RegionSink
from rekindle.engine.spark.stream.result_replays import ResultReplays
from rekindle.engine.spark.stream.source_begins import begins_told, positions_of
from rekindle.engine.spark.stream.state_fence import refuse_unfenced_state
from rekindle.engine.spark.stream.stream_engine import SETTINGS, SparkStreamEngine
from rekindle.engine.spark.stream.stream_notes import fifo_notes
from rekindle.errors import RekindleError
from rekindle.pipeline.check import MEMORY
from rekindle.pipeline.declared import Role
from rekindle.publish.overlap import OwnedPath, refuse_overlaps
from rekindle.publish.stream_entries import batches_after, entries_of
from rekindle.streams.stream_spec import RegionSpec, StreamSpec

SHUFFLE = "spark.sql.shuffle.partitions"
TASKS_PER_CORE_MAX = 10
# So many batches of a result tell how large the next ones are.
LATELY = 10


def prepare_stream(spark: SparkSession, request: StreamRequest) -> PreparedStream:
    """Everything that can be refused is refused here."""
    attach(spark)
    wanted = request.wanted
    cuts = find_cuts(spark, request)
    sinks = {
        one.name: RegionSink(
            sink=one,
            steps=cuts.steps_for(one),
            root=wanted.root,
            run=request.generation,
            stamp=f"{wanted.constants.seed:x}",
            replaced=request.replaced.get(one.name, 0),
            available_now=request.available_now,
            takes=one.name in wanted.takes or one.shard_of in wanted.takes,
            result=cuts.sources[one.name].result if one.name in cuts.sources else "",
            memory_bytes=request.memory_bytes,
            split=request.splits.get(one.name),
        )
        for one in cuts.ends
    }
    location = OwnedPath(wanted.root.rsplit("/", 3)[0], "the location of the runs")
    bases = {name: one.target.base for name, one in sinks.items()}
    # All shards of a sink have one target.
    owned = {sink.sink.shard_of or name: bases[name] for name, sink in sinks.items() if bases[name]}
    targets = [OwnedPath(base, f"the target of {name}", True) for name, base in owned.items()]
    refuse_overlaps(location, targets, {})
    batches = {name: sink.check(spark, wanted.stores) for name, sink in sinks.items()}
    inputs = InputLooks(
        pins=request.pins,
        taken=request.taken,
        store=wanted.stores(wanted.root),
        committed=batches,
        planned={name: sink.planned(wanted.stores) for name, sink in sinks.items()},
        readers=cuts.readers,
    )
    regions: list[RegionSpec] = []
    notes: list[str] = [*cuts.notes]
    positions = dict(request.positions)
    begins: dict[str, tuple[str, ...]] = {}
    noted: dict[str, frozenset[str]] = {}
    for sink in sinks.values():
        session = clone(spark, SETTINGS)
        frames = build(session, of_region(wanted, cuts, sink.sink), sink.sink, inputs.read)
        if sink.name in request.starts:
            positions[sink.name] = positions_of(spark, frames, request.starts[sink.name])
        has_noted = partial(sink.has_noted, wanted.stores)
        noted[sink.name] = frozenset(filter(has_noted, frames.names()))
        if batches[sink.name] < 0:
            begins[sink.name] = begins_told(leaves_of(frames.frame), positions.get(sink.name, ()), has_noted)
        regions.append(_region(spark, request, sink, frames, cuts))
        if regions[-1].stateful:
            notes += _state_notes(session, sink.name, sink.pinned(wanted.stores, batches[sink.name]))
            notes += inputs.notes(regions[-1])
    refuse_unfenced_state(spark, regions)
    judged = {one.name: one for one in regions}
    sinks = {name: replace(one, positions=positions.get(name, ()), judged=judged[name]) for name, one in sinks.items()}
    pins = {name: one.pin for name, one in inputs.looks.items()}
    asked = replace(request, pins=pins, positions=positions)
    replays = partial(ResultReplays, spark, asked, sinks) if cuts.sources else None
    in_memory = tuple(name for name, one in sinks.items() if one.result == MEMORY)
    return PreparedStream(
        engine=SparkStreamEngine(spark, asked, sinks, replays, in_memory),
        spec=StreamSpec(regions=tuple(regions), declared=wanted.declared, inputs=pins),
        batches=batches,
        positions={name: positions[name] for name in sinks if name in request.starts},
        begins=begins,
        result_bytes=dict(_result_bytes(wanted.stores, [one for one in sinks.values() if one.result])),
        noted=noted,
        bases=tuple(filter(None, bases.values())),
        notes=(*notes, *fifo_notes(spark, len(regions))),
        inputs=tuple(inputs.looks.values()),
        keep=inputs.keep,
    )


def streaming_sinks(spark: SparkSession, wanted: PrepareRequest) -> frozenset[str]:
    """The sinks, by their names in the code, that read a source which is a stream. A source that cannot be built is an
    error where a sink reads no stream: what it publishes may be what that source reads."""
    attach(spark)
    session = clone(spark, SETTINGS)
    is_stream: dict[str, bool] = {}
    failed: dict[str, RekindleError] = {}
    for one in wanted.steps:
        if one.role is Role.SOURCE:
            try:
                with or_refused(one.name, one.function, HINT):
                    made = describe(one, session, {}, wanted.parameters, wanted.constants, is_stream=True)
                    is_stream[one.name] = made.isStreaming
            except RekindleError as error:
                failed[one.name] = error
    found = set()
    for sink in wanted.steps:
        if sink.role is Role.SINK:
            sources = [one.name for one in members(wanted.steps, sink) if one.role is Role.SOURCE]
            if any(is_stream.get(name) for name in sources):
                found.add(sink.shard_of or sink.name)
            elif faults := [failed[name] for name in sources if name in failed]:
                raise faults[0]
    return frozenset(found)


def _result_bytes(stores: Stores, results: Sequence[RegionSink]) -> Iterator[tuple[str, int]]:
    """The bytes of a batch of each result that has some: the mean of the newest ones with rows."""
    for one in results:
        path = result_path(one.root, one.name)
        newest = batches_after(stores(path), one.name, one.generation, -1)[-LATELY:]
        found = [entry for entry in entries_of(stores(path), one.name, one.generation, newest) if entry is not None]
        if sizes := [entry.bytes for entry in found if entry.bytes]:
            yield one.name, sum(sizes) // len(sizes)


def _state_notes(session: SparkSession, name: str, pinned: Mapping[str, str]) -> Iterator[str]:
    """Settings that the checkpoint has otherwise, and a number of Spark tasks that is much for these cores."""
    for setting, value in pinned.items():
        now = session.conf.get(setting, None)
        if now is not None and now != value:
            yield f"{name}: {setting} is {now} here, and its checkpoint has {value}, which Spark goes on to use"
    tasks, cores = int(pinned.get(SHUFFLE) or session.conf.get(SHUFFLE)), session.sparkContext.defaultParallelism
    if tasks > TASKS_PER_CORE_MAX * cores:
        why = (
            "its checkpoint has that number" if SHUFFLE in pinned else f"start Spark with --conf {SHUFFLE}={2 * cores}"
        )
        yield f"{name}: each batch has {tasks} tasks for its state, on {cores} cores ({SHUFFLE}); {why}"


def _region(
    spark: SparkSession, request: StreamRequest, sink: RegionSink, frames: RegionFrames, cuts: CutStream
) -> RegionSpec:
    given = sink.delivery(frames)
    topic = topic_of(sink.sink) if sink.result else None
    return RegionSpec(
        name=sink.name,
        steps=tuple(one.name for one in frames.steps),
        sources=frames.streams,
        reads=cuts.reads(sink.sink),
        target=sink.told_target,
        delivery=given.delivery,
        why=given.why,
        trigger=sink.trigger,
        output_mode=sink.output_mode,
        stateful=frames.stateful(),
        operators=frames.operators(),
        shared=tuple(one.name for one in cuts.shared(sink.sink)),
        leaves=frames.leaves(),
        names=frames.names(),
        columns=frames.columns(),
        result=sink.result,
        topic="" if topic is None else topic.topic,
        doubts=frames.doubts(sink.name) if sink.result else (),
        unreplayable=unreplayable(frames) if sink.result else "",
        quarantine=sink.sink.quarantine,
        shard_of=sink.sink.shard_of,
        shards=sink.sink.shard.of if sink.sink.shard is not None else 0,
        fingerprints={**frames.fingerprints(request.wanted, sink.target.code), "": settings_of(spark)},
    )
