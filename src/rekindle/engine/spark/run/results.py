"""Kept results, written from a held plan: as Parquet, or as blocks on executors. `plan/kept_frames.py` reads them."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from rekindle.engine.spark.plan.kept_frames import files_of
from rekindle.engine.spark.plan.layout import PlannedQuery
from rekindle.engine.spark.run.blocks import Storing
from rekindle.engine.spark.session import jvm, scala_map, scala_option, scala_seq
from rekindle.model.partitions import Partitions
from rekindle.results import manifest

# What every write is looked after for (java/Laws). Only a test takes one away, to see what it is good for.
LAWS = ("tasks", "rows", "places")


@dataclass(frozen=True, slots=True)
class _Job:
    """Where a Spark job writes, its name in Spark's UI, whether each partition gets a digest on its way, and how blocks
    are stored if it writes those."""

    directory: str
    name: str
    is_digested: bool
    storing: Storing | None


def write(
    held: PlannedQuery,
    directory: str,
    wanted: Partitions,
    name: str,
    *,
    is_first: bool,
    is_digested: bool = False,
    storing: Storing | None = None,
) -> int:
    """One Spark job that computes and commits `wanted`, and how many rows Spark says it wrote. All of them: the held
    plan itself, as a plain write costs. Fewer, or after a failed map stage: the same RDD, pruned; finished map tasks
    are skipped. A wanted partition for which Spark has no task is empty; no task, no job. Where Spark has other tasks
    than the layout has partitions all of them run: that is right only if there is no row in any."""
    job = _Job(directory, name, is_digested, storing)
    is_all = len(wanted) == held.partitions and (is_first or held.is_planned_to_the_end())
    if is_all and not held.layout.is_by_file:
        return _run(held, job, held.execution, b"")
    rdd, session = held.rdd(is_first=is_first), held.session
    count = int(rdd.getNumPartitions())
    if count and not _has_its_tasks(held, count):
        rows = session._jsparkSession.internalCreateDataFrame(rdd, held.schema, False)
        return _run(held, job, rows.queryExecution(), b"")
    tasks = tasks_of(held, rdd, wanted)
    if not tasks:
        return 0
    chosen = packed(number for _, number in tasks)
    if is_all and len(tasks) == count:
        return _run(held, job, held.execution, chosen)
    rows = session._jsparkSession.internalCreateDataFrame(
        pruned(session, rdd, (index for index, _ in tasks)), held.schema, False
    )
    return _run(held, job, rows.queryExecution(), chosen)


def _has_its_tasks(held: PlannedQuery, count: int) -> bool:
    """Has Spark one task for each partition? Over files one that has no file has none, and a total order may have been
    cut into fewer than were asked for."""
    layout = held.layout
    return count == layout.partitions or layout.is_by_file or (layout.is_bound and count < layout.partitions)


def pruned(session: SparkSession, rdd: Any, chosen: Iterable[int]) -> Any:
    """The same RDD with these of its partitions only, in ascending order."""
    return jvm(session).rekindle.spark.Bridge.prune(rdd, packed(chosen))


def tasks_of(held: PlannedQuery, rdd: Any, wanted: Partitions) -> list[tuple[int, int]]:
    """(Spark's partition, our number) of what is wanted and has a task, in Spark's order. None has, if Spark's tasks
    are others than the layout's partitions: there is no row."""
    if held.layout.is_by_file:
        numbers = [manifest.number_of(line) for line in files_of(held.session, rdd)]
        return [(index, number) for index, number in enumerate(numbers) if number in wanted]
    count = int(rdd.getNumPartitions())
    return [(number, number) for number in wanted if number < count] if _has_its_tasks(held, count) else []


def packed(numbers: Iterable[int]) -> bytes:
    """As our classes take many numbers in one call."""
    listed = list(numbers)
    return struct.pack(f"<{len(listed)}i", *listed)


def _run(held: PlannedQuery, job: _Job, execution: Any, chosen: bytes) -> int:
    """`chosen` are the numbers of the partitions that its tasks make, if they are others than Spark's."""
    laws = _laws(held, chosen)
    if job.storing is None:
        return _write_files(held, job, execution, chosen, laws)
    session = held.session
    blocks = jvm(session).rekindle.spark.KeptBlocks
    how = blocks.storing(job.storing.uses_disk, job.storing.replicas, job.is_digested)
    return int(blocks.write(session._jsparkSession, execution, held.schema, how, laws, job.name, job.directory, chosen))


def _laws(held: PlannedQuery, chosen: bytes) -> Any:
    session, layout = held.session, held.layout
    tasks = len(chosen) // 4 or layout.partitions
    may_be_fewer = layout.is_bound and not chosen
    keys, held_to = scala_seq(session, layout.keys), scala_seq(session, LAWS)
    of = jvm(session).rekindle.spark.Laws.of
    return of(held.schema, keys, layout.partitions, tasks, may_be_fewer, chosen, held_to)


def _write_files(held: PlannedQuery, job: _Job, execution: Any, chosen: bytes, laws: Any) -> int:
    """Spark's plain file write: every task has the rows of one partition, so the bucket needs no look at a row."""
    spark = held.session
    java = jvm(spark)
    options = {"rekindle.watched": "true"}
    if chosen:
        options["rekindle.partitions"] = base64.b64encode(chosen).decode()
    nothing = scala_seq(spark, [])
    command = java.org.apache.spark.sql.execution.datasources.InsertIntoHadoopFsRelationCommand(
        java.org.apache.hadoop.fs.Path(job.directory),
        scala_map(spark, {}),
        False,
        nothing,
        scala_option(spark, None),
        java.rekindle.spark.KeptParquet(job.is_digested),
        scala_map(spark, options),
        execution.optimizedPlan(),
        java.org.apache.spark.sql.SaveMode.Append,
        scala_option(spark, None),
        scala_option(spark, None),
        scala_seq(spark, held.frame.columns),
    )
    write = java.rekindle.spark.Bridge.write
    return int(write(command, spark._jsparkSession, execution, execution.executedPlan(), laws, job.name))
