"""Kept results: what readers observe of them, and how they are read, written, summed up and let go."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from rekindle.engine.spark.jvm.access import JavaObject, context_of, frame_of, ours, session_of
from rekindle.engine.spark.jvm.plan_calls import execution

# A damaged file is an error wherever it is read, never fewer rows.
STRICT = {
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    "parquet.page.verify-checksum.enabled": "true",
}


def outline_of(frame: DataFrame) -> JavaObject:
    """What a reader can observe of a step's frame, as java/KeptFrame."""
    return ours(frame.sparkSession).KeptFrame.of(execution(frame))


def is_single(outline: JavaObject) -> bool:
    """Whether the step's frame was in one partition."""
    return bool(outline.isSingle())


def storable(frame: DataFrame, *, is_published: bool, leaves_order: bool) -> DataFrame:
    """The frame as it is computed for storing: without operators that restore what nothing observes, and with column
    names that differ. `leaves_order`: without a sort that its readers get again."""
    session = frame.sparkSession
    made = ours(session).KeptFrame.stored(session_of(session), execution(frame), is_published, leaves_order)
    return frame if made is None else frame_of(session, made)


def restored(frame: DataFrame, outline: JavaObject) -> DataFrame:
    """A scan of stored rows as readers of the step see it."""
    session = frame.sparkSession
    made = outline.over(session_of(session), execution(frame))
    return frame if made is None else frame_of(session, made)


def observed(frame: DataFrame, *, is_published: bool) -> list[list[str]]:
    """For each kept result that a plan reads, where it is and what is observed of it, in words."""
    told = ours(frame.sparkSession).Observed.of(execution(frame), is_published)
    return [line.split("\t") for line in str(told).splitlines()]


def doubled_names(frame: DataFrame) -> list[str]:
    """Column names that a file cannot hold beside each other."""
    session = frame.sparkSession
    return list(ours(session).KeptFrame.doubledNames(session_of(session), execution(frame)))


def scan(
    session: SparkSession,
    root: str,
    files: str,
    *,
    its_schema: JavaObject,
    keys: Iterable[str],
    partitions: int,
    cut_by: SparkSession,
    is_blocks: bool = False,
    is_source: bool = False,
) -> DataFrame:
    """Kept files or blocks as a frame, in buckets where there are keys. `files`: a line for each, its path below the
    root, a tab and its length. The settings of `cut_by` decide how files are cut into Spark partitions. `is_source`:
    what is made of it counts them as files like any others."""
    java = ours(session)
    index = (java.KeptBlocks.index if is_blocks else java.KeptFiles if is_source else java.CommittedFiles)(root, files)
    buckets = java.SparkObjects.Buckets(list(keys), partitions)
    made = java.SparkObjects.scan(
        session_of(session), session_of(cut_by), index, is_blocks, its_schema, buckets, STRICT
    )
    return frame_of(session, made)


def version(
    spark: SparkSession,
    folders: Iterable[str],
    files: Iterable[tuple[int, str, int]],
    *,
    its_schema: str,
    hive_columns: Iterable[str],
    files_format: str,
    options: Mapping[str, str],
) -> DataFrame:
    """A published version by the files that its pointer names: the number of the folder, the path below it, the length
    of each. Nothing is listed (java/VersionFiles)."""
    lines = "\n".join(f"{number}\t{name}\t{length}" for number, name, length in files)
    java = ours(spark).VersionFiles
    how = java.Reading(files_format, dict(options))
    made = java.read(session_of(spark), "\n".join(folders), lines, its_schema, "\n".join(hive_columns), how)
    return frame_of(spark, made)


def columns(spark: SparkSession, folders: Iterable[str], files: Iterable[tuple[int, str, int]]) -> StructType:
    """The columns of all these Parquet files. Fails where two of them have one of other types."""
    lines = "\n".join(f"{number}\t{name}\t{length}" for number, name, length in files)
    made = ours(spark).VersionFiles.columns(session_of(spark), "\n".join(folders), lines)
    return StructType.fromJson(json.loads(made))


def stand_in(
    session: SparkSession,
    place: str,
    *,
    its_schema: JavaObject,
    keys: Iterable[str],
    partitions: int,
    cut_by: SparkSession,
) -> DataFrame:
    """A kept result that is not there yet, as `scan` would give it, without files (java/StandIn)."""
    java = ours(session)
    buckets = java.SparkObjects.Buckets(list(keys), partitions)
    home = session_of(cut_by)
    made = java.SparkObjects.scan(session_of(session), home, java.StandIn(place), False, its_schema, buckets, STRICT)
    return frame_of(session, made)


def over_files(frame: DataFrame, session: SparkSession, scans: Mapping[str, DataFrame]) -> DataFrame | None:
    """The plan of a frame with these scans in place of its stand-ins, by their places; None where that is not proved to
    be the same (java/StandIn)."""
    read = {place: execution(rows) for place, rows in scans.items()}
    made = ours(session).StandIn.replaced(session_of(session), execution(frame), read)
    return None if made is None else frame_of(session, made)


def traces(spark: SparkSession) -> str:
    """Differs after a function was called over stand-ins that must be called over real files too: it asked one for its
    files or its size, or left a view for the whole application."""
    return str(ours(spark).StandIn.traces(session_of(spark)))


def reads_stand_in(spark: SparkSession, plan: JavaObject) -> bool:
    """Whether a physical plan reads the stand-in of a kept step: it would find no rows."""
    return bool(ours(spark).StandIn.isRead(plan))


def splits(spark: SparkSession, rdd: JavaObject) -> list[str]:
    """How the one file scan below an RDD is cut, a line for each Spark partition."""
    return str(ours(spark).Bridge.splits(rdd)).splitlines()


def below_coalesce(spark: SparkSession, plan: JavaObject) -> JavaObject:
    """The rows below the one coalesce of a physical plan."""
    return ours(spark).Coalescing.below(session_of(spark), plan)


def coalesced(spark: SparkSession, plan: JavaObject, groups: bytes) -> JavaObject:
    """The rows of a physical plan with one coalesce. `groups` tells for each partition how many of those below it has,
    and then which."""
    return ours(spark).Coalescing.rows(session_of(spark), plan, groups)


def packed(numbers: Iterable[int]) -> bytes:
    """As our classes take many numbers in one call."""
    listed = list(numbers)
    return struct.pack(f"<{len(listed)}i", *listed)


def pruned(spark: SparkSession, rdd: JavaObject, chosen: bytes) -> JavaObject:
    return ours(spark).Bridge.prune(rdd, chosen)


def reached(spark: SparkSession, plan: JavaObject) -> JavaObject:
    """The rows of a plan that adaptive execution had reached when a map stage failed."""
    return ours(spark).Bridge.reached(session_of(spark), plan.executedPlan())


def laws(
    spark: SparkSession,
    step: str,
    its_schema: JavaObject,
    *,
    keys: Iterable[str],
    partitions: int,
    tasks: int,
    chosen: bytes,
    held: Iterable[str],
    may_be_fewer: bool,
) -> JavaObject:
    """What must hold of the rows that the tasks of one Spark job write (java/Laws)."""
    return ours(spark).Laws.of(step, its_schema, list(keys), partitions, tasks, may_be_fewer, chosen, list(held))


def write_files(
    spark: SparkSession,
    its_execution: JavaObject,
    its_laws: JavaObject,
    *,
    name: str,
    directory: str,
    columns: Iterable[str],
    options: Mapping[str, str],
    is_digested: bool,
) -> int:
    """Spark's plain file write of a held plan; how many rows Spark says it wrote."""
    bridge = ours(spark).Bridge
    to = bridge.Files(directory, list(columns), dict(options), is_digested)
    return int(bridge.write(session_of(spark), its_execution, its_laws, name, to))


def write_blocks(
    spark: SparkSession,
    its_execution: JavaObject,
    its_laws: JavaObject,
    *,
    name: str,
    directory: str,
    its_schema: JavaObject,
    chosen: bytes,
    uses_disk: bool,
    replicas: int,
    is_digested: bool,
) -> int:
    """Each partition stored where it is computed; how many rows were stored."""
    blocks = ours(spark).KeptBlocks
    how = blocks.storing(uses_disk, replicas, is_digested)
    return int(blocks.write(session_of(spark), its_execution, its_schema, how, its_laws, name, directory, chosen))


def commits_taker(spark: SparkSession) -> Callable[[str], str]:
    """Gives what tasks told since it was last asked, below one directory of an attempt. It is asked at every poll: the
    class is looked up once."""
    drain = ours(spark).AttemptCommitProtocol.drain
    return lambda directory: str(drain(directory))


def forget_commits(spark: SparkSession, directory: str) -> None:
    ours(spark).AttemptCommitProtocol.forget(directory)


def digest_of_nothing(spark: SparkSession, its_schema: JavaObject) -> str:
    """What a partition without rows has; empty if nothing of this schema can have a digest."""
    return str(ours(spark).RowDigest.ofNothing(its_schema))


def digests_readable(spark: SparkSession, rdd: JavaObject, its_schema: JavaObject) -> list[str]:
    return str(ours(spark).RowDigest.ofReadable(rdd, its_schema)).split("\n")


def digests(spark: SparkSession, rdd: JavaObject, its_schema: JavaObject) -> list[str]:
    """The digest of each Spark partition, in order: one Spark job, which fails where a row cannot be made."""
    return str(ours(spark).RowDigest.ofPartitions(rdd, its_schema)).split("\n")


def removed_executors(spark: SparkSession) -> int:
    return int(ours(spark).KeptBlocks.removed())


def blocks_gone(spark: SparkSession, paths: Iterable[str]) -> list[str]:
    return str(ours(spark).KeptBlocks.gone("\n".join(paths))).splitlines()


def blocks_without_room(spark: SparkSession, directory: str) -> list[int]:
    return [int(line) for line in str(ours(spark).KeptBlocks.takeNoRoom(directory)).splitlines()]


def release_blocks(spark: SparkSession, directory: str) -> None:
    ours(spark).KeptBlocks.release(session_of(spark), directory)


def map_outputs(spark: SparkSession, shuffle_id: int, reducers: int) -> bytes:
    return bytes(ours(spark).Bridge.exchange(shuffle_id, reducers))


def is_stuck(spark: SparkSession, plan: JavaObject) -> bool:
    return bool(ours(spark).Exchanges.isStuck(plan))


def release_exchanges(spark: SparkSession, plan: JavaObject, known: bytes) -> None:
    ours(spark).Exchanges.release(context_of(spark.sparkContext), plan, known)
