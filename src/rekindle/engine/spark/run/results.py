"""Kept results, written from a held plan: as Parquet, or as blocks on executors. `plan/kept_frames.py` reads them."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from rekindle.engine.spark.jvm import plan_calls, result_calls
from rekindle.engine.spark.plan import file_partitions, plans
from rekindle.engine.spark.plan.kept_frames import files_of
from rekindle.engine.spark.plan.layout import PlannedQuery
from rekindle.engine.spark.run.blocks import Storing
from rekindle.model.partitions import Partitions

# What every write is looked after for (java/Laws). Only a test takes one away, to see what it is good for.
LAWS = ("tasks", "rows", "places")


@dataclass(frozen=True, slots=True)
class _Job:
    """Where a Spark job writes, its name in Spark's UI, whether each partition gets a digest on its way, how blocks are
    stored if it writes those, and of which step it is."""

    directory: str
    name: str
    is_digested: bool
    storing: Storing | None
    step: str


def write(
    held: PlannedQuery,
    directory: str,
    wanted: Partitions,
    name: str,
    *,
    is_first: bool,
    is_digested: bool = False,
    storing: Storing | None = None,
    step: str = "",
) -> int:
    """One Spark job that computes and commits `wanted`, and how many rows Spark says it wrote. All of them: the held
    plan itself, as a plain write costs. Fewer, or after a failed map stage: the same RDD, pruned; finished map tasks
    are skipped. A wanted partition for which Spark has no task is empty; no task, no job. Where Spark has other tasks
    than the layout has partitions all of them run: that is right only if there is no row in any."""
    job = _Job(directory, name, is_digested, storing, step)
    is_all = len(wanted) == held.partitions and (is_first or held.is_planned_to_the_end())
    if is_all and not (held.layout.is_by_file or held.layout.is_coalesced):
        return _run(held, job, held.execution, b"")
    rdd, session = held.rdd(is_first=is_first), held.session
    if len(wanted) < held.partitions and held.is_read_apart and plans.own_exchanges(rdd):
        # It was planned to read what lies where its rows come to lie, and was given no more than that.
        raise RuntimeError("Spark put an exchange into a plan that was drawn without one")
    count = int(rdd.getNumPartitions())
    if count and not _has_its_tasks(held, count):
        rows = plan_calls.frame_of_rdd(session, rdd, held.schema)
        return _run(held, job, plan_calls.execution(rows), b"")
    tasks = tasks_of(held, rdd, wanted)
    if not tasks:
        return 0
    chosen = result_calls.packed(number for _, number in tasks)
    if is_all and len(tasks) == count and not held.layout.is_coalesced:
        return _run(held, job, held.execution, chosen)
    rows = plan_calls.frame_of_rdd(session, pruned(session, rdd, (index for index, _ in tasks)), held.schema)
    return _run(held, job, plan_calls.execution(rows), chosen)


def _has_its_tasks(held: PlannedQuery, count: int) -> bool:
    """Has Spark one task for each partition? Over files one that has no file has none, and a total order may have been
    cut into fewer than were asked for."""
    layout = held.layout
    return count == layout.partitions or layout.numbers_files or (layout.is_bound and count < layout.partitions)


def pruned(session: SparkSession, rdd: Any, chosen: Iterable[int]) -> Any:
    """The same RDD with these of its partitions only, in ascending order."""
    return result_calls.pruned(session, rdd, result_calls.packed(chosen))


def tasks_of(held: PlannedQuery, rdd: Any, wanted: Partitions) -> list[tuple[int, int]]:
    """(Spark's partition, our number) of what is wanted and has a task, in Spark's order. None has, if Spark's tasks
    are others than the layout's partitions: there is no row."""
    count = int(rdd.getNumPartitions())
    if held.layout.numbers_files:
        numbers = file_partitions.numbers(dict(held.layout.offsets), files_of(held.session, rdd))
        if len(numbers) != count:
            raise RuntimeError(
                f"Spark reads {len(numbers)} files of kept results in {count} tasks: not one file in each"
            )
        return [(index, number) for index, number in enumerate(numbers) if number in wanted]
    return [(number, number) for number in wanted if number < count] if _has_its_tasks(held, count) else []


def _run(held: PlannedQuery, job: _Job, execution: Any, chosen: bytes) -> int:
    """`chosen` are the numbers of the partitions that its tasks make, if they are others than Spark's."""
    laws = _laws(held, job.step, chosen)
    if job.storing is None:
        return _write_files(held, job, execution, chosen, laws)
    return result_calls.write_blocks(
        held.session,
        execution,
        laws,
        name=job.name,
        directory=job.directory,
        its_schema=held.schema,
        chosen=chosen,
        uses_disk=job.storing.uses_disk,
        replicas=job.storing.replicas,
        is_digested=job.is_digested,
    )


def _laws(held: PlannedQuery, step: str, chosen: bytes) -> Any:
    layout = held.layout
    return result_calls.laws(
        held.session,
        step,
        held.schema,
        keys=layout.keys,
        partitions=layout.partitions,
        tasks=len(chosen) // 4 or layout.partitions,
        chosen=chosen,
        held=LAWS,
        may_be_fewer=layout.is_bound and not chosen,
    )


def _write_files(held: PlannedQuery, job: _Job, execution: Any, chosen: bytes, laws: Any) -> int:
    """Spark's plain file write: every task has the rows of one partition, so the bucket needs no look at a row."""
    options = {"rekindle.watched": "true"}
    if chosen:
        options["rekindle.partitions"] = base64.b64encode(chosen).decode()
    return result_calls.write_files(
        held.session,
        execution,
        laws,
        name=job.name,
        directory=job.directory,
        columns=held.frame.columns,
        options=options,
        is_digested=job.is_digested,
    )
