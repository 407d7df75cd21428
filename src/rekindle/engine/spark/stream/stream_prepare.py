"""From checked steps to the regions of a stream, before anything starts."""

from __future__ import annotations

from collections import Counter

from pyspark.sql import SparkSession

from rekindle.engine.adapter import PreparedStream, StreamRequest
from rekindle.engine.spark.session import attach, clone
from rekindle.engine.spark.stream.region_frames import RegionFrames, build, members, settings_of
from rekindle.engine.spark.stream.region_sinks import RegionSink
from rekindle.engine.spark.stream.stream_engine import SETTINGS, SparkStreamEngine
from rekindle.errors import GraphRefused
from rekindle.pipeline.declared import Declared, Role
from rekindle.publish.overlap import OwnedPath, refuse_overlaps
from rekindle.streams.stream_spec import RegionSpec, StreamSpec

MODE, FAIR = "spark.scheduler.mode", "FAIR"
FIFO_NOTE = (
    "spark.scheduler.mode is FIFO: a region with much work holds up the others; start Spark with "
    "--conf spark.scheduler.mode=FAIR"
)


def prepare_stream(spark: SparkSession, request: StreamRequest) -> PreparedStream:
    """Everything that can be refused is refused here."""
    attach(spark)
    wanted = request.wanted
    declared = [one for one in wanted.steps if one.role is Role.SINK]
    sinks = {
        one.name: RegionSink(one, wanted.root, request.generation, request.available_now, one.name in wanted.takes)
        for one in declared
    }
    location = OwnedPath(wanted.root.rsplit("/", 3)[0], "the location of the runs")
    bases = {name: one.target.base for name, one in sinks.items()}
    targets = [OwnedPath(base, f"the target of {name}", True) for name, base in bases.items() if base]
    refuse_overlaps(location, targets, {})
    batches = {name: sink.check(spark, wanted.stores) for name, sink in sinks.items()}
    counted = Counter(step.name for one in declared for step in members(wanted.steps, one))
    regions = []
    for sink in sinks.values():
        frames = build(clone(spark, SETTINGS), wanted, sink.sink)
        shared = tuple(one for one in frames.steps if counted[one.name] > 1 and one.role is not Role.SOURCE)
        _refuse_shared(frames, shared)
        regions.append(_region(spark, request, sink, frames, tuple(one.name for one in shared)))
    is_fair = spark.sparkContext.getConf().get(MODE, "FIFO") == FAIR
    return PreparedStream(
        engine=SparkStreamEngine(spark, request, sinks),
        spec=StreamSpec(regions=tuple(regions), declared=wanted.declared),
        batches=batches,
        notes=() if is_fair or len(regions) == 1 else (FIFO_NOTE,),
    )


def _region(
    spark: SparkSession, request: StreamRequest, sink: RegionSink, frames: RegionFrames, shared: tuple[str, ...]
) -> RegionSpec:
    given = sink.delivery(frames)
    return RegionSpec(
        name=sink.name,
        steps=tuple(one.name for one in frames.steps),
        sources=frames.streams,
        target=sink.sink.shown_target,
        delivery=given.delivery,
        why=given.why,
        trigger=sink.trigger,
        output_mode=sink.output_mode,
        stateful=frames.stateful(),
        shared=shared,
        leaves=frames.leaves(),
        columns=frames.columns(),
        fingerprints={**frames.fingerprints(request.wanted, sink.target.code), "": settings_of(spark)},
    )


def _refuse_shared(frames: RegionFrames, shared: tuple[Declared, ...]) -> None:
    """Two queries compute a step that two sinks read."""
    for one in shared:
        doubts = frames.doubts(one.name)
        if doubts:
            raise GraphRefused(
                f"{one.place}: {one.name} is read by several sinks, so that each computes it, and it is not proved to "
                f"give both the same rows: {'; '.join(doubts)}",
                f"say deterministic=True at {one.name} if its rows are always the same, or give each sink its own step",
            )
