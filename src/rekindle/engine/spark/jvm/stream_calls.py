"""Streaming queries: starting, looking at all of them, stopping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from rekindle.engine.spark.jvm.access import frame_java, frame_of, ours, session_of
from rekindle.engine.spark.jvm.plan_calls import execution


class ResultPlace(NamedTuple):
    """Where a result lies, its region, the generation of its checkpoint, and what Spark is told of the brokers where
    its rows are records of a topic."""

    path: str
    region: str
    generation: str
    client: dict[str, str]


def watch(spark: SparkSession, key: str, query: StreamingQuery) -> None:
    """From now on `look` tells of it."""
    ours(spark).StreamQueries.watch(key, query._jsq)


def forget(spark: SparkSession, key: str) -> None:
    ours(spark).StreamQueries.forget(key)


def look(spark: SparkSession) -> str:
    """All queries that are watched, as JSON."""
    return str(ours(spark).StreamQueries.look())


def hold(spark: SparkSession, target: str, *, is_held: bool) -> None:
    """Let what is written into a target next wait, or go on."""
    ours(spark).StreamHolds.hold(target, is_held)


def streams_of(frame: DataFrame) -> list[str]:
    """The streams that its plan reads, in the order in which a checkpoint numbers them: `FileSource[PATH]`,
    `kafka[topics, brokers]`, as Spark names others."""
    return [str(one) for one in ours(frame.sparkSession).StreamQueries.streams(execution(frame))]


def writer_told(writer: DataStreamWriter) -> dict[str, str]:
    """What a writer was told so far: `format`, `trigger`, `path` and `checkpointLocation`, those that it was."""
    told = ours(writer._spark).StreamQueries.writer(writer._jwrite)
    return {str(name): str(told[name]) for name in told}


def has_source(spark: SparkSession, name: str) -> bool:
    """Whether Spark knows a source or a sink of this name."""
    return bool(ours(spark).StreamKafka.isThere(session_of(spark), name))


def stateful(frame: DataFrame, read: Sequence[DataFrame]) -> list[str]:
    """The operators of its plan that keep state between batches, and watermarks, without those of the frames that it
    reads."""
    below = [execution(one) for one in read]
    return str(ours(frame.sparkSession).StreamQueries.stateful(execution(frame), below)).splitlines()


def may_reach_below(frame: DataFrame, read: Sequence[DataFrame]) -> bool:
    """Whether its plan, without those of the frames that it reads, has more than projections: a condition may be moved
    below state by Spark's optimizer."""
    below = [execution(one) for one in read]
    return bool(ours(frame.sparkSession).StreamQueries.mayReachBelow(execution(frame), below))


def leaves(frame: DataFrame) -> str:
    """The streams that it reads, in the order of a checkpoint, as JSON."""
    return str(ours(frame.sparkSession).StreamReplay.leaves(execution(frame)))


def start_offsets(spark: SparkSession, frame: DataFrame, number: int, starting: Mapping[str, str], folder: str) -> str:
    """Where a stream of its plan, by its number, begins with these options, as JSON. The source is asked, and notes it
    in a new folder."""
    return str(ours(spark).StreamStarts.asked(session_of(spark), execution(frame), number, dict(starting), folder))


def begun(session: SparkSession, frame: DataFrame, offsets: Sequence[str]) -> DataFrame:
    """The frame whose streams begin at these offsets, in their order; an empty text leaves one alone."""
    made = ours(session).StreamStarts.begun(session_of(session), execution(frame), list(offsets))
    return frame_of(session, made)


def assigned(session: SparkSession, frame: DataFrame, partitions: Sequence[str]) -> DataFrame:
    """The frame whose streams read these partitions of topics, in their order; an empty text leaves one alone."""
    made = ours(session).StreamStarts.assigned(session_of(session), execution(frame), list(partitions))
    return frame_of(session, made)


def filtered(session: SparkSession, frame: DataFrame, conditions: Sequence[str]) -> DataFrame:
    """The frame with a condition in front of each of its streams, in their order; an empty one leaves it alone."""
    made = ours(session).StreamReplay.filtered(session_of(session), execution(frame), list(conditions))
    return frame_of(session, made)


def batch_inputs(frame: DataFrame) -> str:
    """The leaves of its plan that are no streams and are not pinned yet, as JSON."""
    return str(ours(frame.sparkSession).BatchInputs.of(execution(frame)))


def pinned(session: SparkSession, frame: DataFrame, step: str, leaves: str, earlier: tuple[str, int]) -> DataFrame:
    """The frame over these files in place of its batch inputs, in their order. Batches up to a number read those of
    `earlier`, if it is not empty."""
    room = ours(session).BatchInputs
    made = room.pinned(session_of(session), execution(frame), step, leaves, room.Earlier(*earlier))
    return frame_of(session, made)


def changed_inputs(frame: DataFrame, step: str) -> list[str]:
    """The pinned files of a step that are not what they were, a line each: path and what is different, by a tab."""
    return str(ours(frame.sparkSession).BatchInputs.changed(execution(frame), step)).splitlines()


def over(session: SparkSession, frame: DataFrame, rows: Sequence[DataFrame]) -> list[DataFrame]:
    """The frame over these rows in place of its streams; where it keeps state, its parts below that."""
    given = [one._jdf for one in rows]
    made = ours(session).StreamReplay.over(session_of(session), execution(frame), given)
    return [frame_of(session, one) for one in made]


def written(session: SparkSession, frame: DataFrame, directory: str) -> list[tuple[str, int]]:
    """The rows of a frame as Parquet files in a directory: name and length of each (java/StreamFiles)."""
    return _written(session, frame, directory, is_digested=False)[1]


def written_again(session: SparkSession, frame: DataFrame, directory: str) -> tuple[str, list[tuple[str, int]]]:
    """The same with the digest of the rows before it, empty where there is none."""
    return _written(session, frame, directory, is_digested=True)


def _written(
    session: SparkSession, frame: DataFrame, directory: str, *, is_digested: bool
) -> tuple[str, list[tuple[str, int]]]:
    told = ours(session).StreamFiles.written(session_of(session), execution(frame), directory, is_digested)
    digest, *lines = str(told).split("\n")
    files = (line.partition("\t") for line in lines)
    return digest, [(name, int(length)) for name, _, length in files]


def lost_batches(session: SparkSession, result: ResultPlace, after: int, last: int) -> tuple[int, ...]:
    """Of the batches of a result after one up to another, those that cannot be read any more. Raises if the entry of
    one is gone."""
    told = ours(session).StreamSegments.lost(session_of(session), *result, after, last)
    return tuple(map(int, str(told).split()))


def result_rows(
    session: SparkSession, result: ResultPlace, schema: str, after: int, last: int, condition: str = ""
) -> DataFrame:
    """The rows of these batches of a result for which a condition holds, as a batch. It may speak of the batch of a row
    (java/ResultLog)."""
    made = ours(session).StreamSegments.rows(session_of(session), *result, schema, after, last, condition)
    return frame_of(session, made)


def as_read(session: SparkSession, frame: DataFrame) -> DataFrame:
    """Rows that are sent to a topic as its readers get them (java/TopicBatches)."""
    return frame_of(session, ours(session).TopicBatches.asRead(frame_java(frame)))


def release_blocks(spark: SparkSession, path: str, through: int) -> None:
    """Batches of a memory result up to this one are of no use any more."""
    ours(spark).StreamBlocks.passed(session_of(spark), path, through)


def begin_view(spark: SparkSession, base: str, region: str, generation: str) -> bool:
    """Let `current` of a target be there before its first batch. Whether it is a link."""
    return bool(ours(spark).StreamView.begin(base, region, generation))


def show_view(spark: SparkSession, base: str, last: Mapping[tuple[str, str], int], name: str) -> bool:
    """Let `current` of a target lead to a view that has all batches up to the `last` of each region and generation.
    Whether it does now (java/StreamView)."""
    lines = (f"{region}\t{generation}\t{batch}" for (region, generation), batch in last.items())
    return bool(ours(spark).StreamView.show(base, "\n".join(lines), name))
