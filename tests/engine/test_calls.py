"""What Python asks of the JVM during a run does not follow the number of partitions."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from scale_partitions import Calls, pipeline


def calls(spark: SparkSession, folder: Path, partitions: int) -> int:
    """How many calls a run of one kept step makes, without the polls, which follow the time it takes."""
    with Calls(spark) as made:
        pipeline().run(spark, str(folder / str(partitions)), partitions=partitions)
    assert made.found["poll"], "the control: the polls were seen"
    assert made.found["cancel"] <= 1, "at most one for each attempt"
    assert made.found["exchanges"] <= 40, "for one step, however many partitions it has"
    return made.found["call"]


def test_no_call_per_partition(spark: SparkSession, tmp_path: Path) -> None:
    first = calls(spark, tmp_path, 2)
    assert calls(spark, tmp_path, 3) <= first
    assert calls(spark, tmp_path, 203) <= first
