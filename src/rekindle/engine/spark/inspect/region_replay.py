"""One batch of a streaming region again, in this process: it is tried whole, and if it fails, the record is named.

Nothing is written, journaled or kept. The batch is what the checkpoint recorded, without the records in quarantine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from rekindle.engine.adapter import StreamRequest
from rekindle.engine.reproduced import BatchRequest, ReproducedVertex, ReproductionResult
from rekindle.engine.spark.inspect.reproduce import attempted, table_of
from rekindle.engine.spark.session import attach
from rekindle.engine.spark.stream.batch_replay import RecordedInput, replayed, rows_of
from rekindle.engine.spark.stream.poison_finder import PoisonFinder
from rekindle.engine.spark.stream.quarantine import opened
from rekindle.engine.spark.stream.record_conditions import is_none_of
from rekindle.engine.spark.stream.region_cuts import find_cuts, of_region


def replay_region(spark: SparkSession, request: StreamRequest, asked: BatchRequest) -> ReproducedVertex:
    """The batch, opened. Starts no Spark job."""
    attach(spark)
    sink = next(one for one in request.wanted.steps if one.name == asked.region)
    own = replace(request, wanted=of_region(request.wanted, find_cuts(spark, request), sink))
    frames, inputs = opened(spark, own, sink, asked.batch)
    session = frames.frame.sparkSession
    rows = [
        rows_of(
            session, one, is_none_of(one.leaf, [kept for kept in asked.without if kept.is_of(source, one.leaf.named)])
        )
        for source, one in enumerate(inputs)
    ]
    parts = replayed(session, frames.frame, rows)
    said = [_told(one) for one in inputs]
    if frames.stateful():
        said.append("it keeps state: what is below that is tried, and nothing above")
    return ReproducedVertex(
        vertex=f"batch {asked.batch} of {asked.region}",
        rows=parts[0],
        inputs={},
        said=tuple(said),
        attempt=partial(_tried, parts, PoisonFinder(frames.frame, inputs, asked.without)),
        show=table_of,
    )


def _told(given: RecordedInput) -> str:
    read = f"files: {len(given.files)}" if given.leaf.is_files else f"partitions: {len(given.ranges)}"
    return f"reads {given.leaf.name}, {read}"


def _tried(parts: Sequence[DataFrame], finder: PoisonFinder, rows_max: int) -> ReproductionResult:
    for part in parts:
        tried = attempted(part, rows_max)
        if tried.failure:
            return _named(tried, finder)
    return tried


def _named(whole: ReproductionResult, finder: PoisonFinder) -> ReproductionResult:
    found = finder.find(0)
    if not found.records:
        return ReproductionResult(failure=f"{whole.failure}; {found.why}", frames=whole.frames, trace=whole.trace)
    (one,), (content,) = found.records, found.contents
    told = f"{one.record}: {one.cause.text}"
    lines = (f"its record: {content}", f"named with {found.tried + 1} Spark jobs", *whole.frames)
    return ReproductionResult(failure=told, frames=lines, trace=whole.trace)
