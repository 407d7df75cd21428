"""The commit protocol on real Spark tasks: what counts, and what only looks as if it did."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

from rekindle.engine.spark.jvm.access import ours
from rekindle.engine.spark.plan import layout
from rekindle.engine.spark.run import results
from rekindle.engine.spark.session import GROUP_SETTINGS, clone
from rekindle.model.partitions import Partitions
from rekindle.results import manifest
from support.signals import when

N = 4


@F.udf(LongType())  # type: ignore[untyped-decorator]
def fails_late(value: int) -> int:
    if value == 399_977:
        raise ValueError("late")
    return value


def attempt(spark: SparkSession, folder: Path, protocol: str) -> list[manifest.Commit]:
    """One attempt in which one partition fails after it has written rows; what its listing proves."""
    session = clone(spark, {**GROUP_SETTINGS, "spark.sql.sources.commitProtocolClass": protocol})
    session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
    frame = session.range(400_000).selectExpr("id", "id % 50 k").repartition(N, "k").withColumn("v", fails_late("id"))
    held = layout.hold(frame, session, layout.Layout(("k",), N))
    with pytest.raises(Exception, match="late"):
        results.write(held, f"file:{folder}", Partitions.first(N), "test", is_first=True)
    when(lambda: not spark.sparkContext.statusTracker().getActiveStageIds(), 30)  # Killed tasks need a moment to end.
    return manifest.from_listing(ours(spark).Bridge.list(session._jsparkSession, f"file:{folder}"))


def test_a_complete_file_of_a_failed_task_does_not_count(spark: SparkSession, tmp_path: Path) -> None:
    """The executor died after Spark closed the failed task's file: a valid footer over some of the rows."""
    commits = attempt(spark, tmp_path / "a", "rekindle.test.DyingCommitProtocol")
    committed = {commit.name for commit in commits}
    readable = {path.name for path in (tmp_path / "a").glob("part-*") if rows_by_footer(path) > 0}
    assert readable - committed, "the control: by its footer alone, half of a partition would have been adopted"
    assert all(rows_by_footer(tmp_path / "a" / name) > 0 for name in committed)


def rows_by_footer(path: Path) -> int:
    """A task that was killed, rather than failed, leaves a file without a footer."""
    try:
        return int(pq.read_metadata(path).num_rows)
    except pa.ArrowInvalid:
        return 0


def test_a_failed_task_removes_what_it_did_not_commit(spark: SparkSession, tmp_path: Path) -> None:
    attempt(spark, tmp_path / "a", "rekindle.spark.AttemptCommitProtocol")
    # A killed task may need a moment to see that it was killed.
    when(lambda: {path.name for path in (tmp_path / "a").glob("part-*")} == marked(tmp_path / "a"), 30)


def marked(folder: Path) -> set[str]:
    """The files that markers speak of."""
    markers = (path.name.split("-") for path in (folder / "_committed").iterdir() if not path.name.startswith("."))
    return {f"part-{task}_{partition}.c000.snappy.parquet" for partition, task, *_ in markers}
