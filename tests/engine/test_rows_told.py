"""How many rows a run made and published, from what its Spark tasks counted; in the page, in `show` and in `runs`."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import rekindle as rk
from rekindle.cli.catalog import Named
from rekindle.cli.run_list import RunList
from rekindle.storage.stores import open_store


def test_rows_bytes_and_the_version_that_was_published(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = rk.Pipeline("numbers")

    @pipeline.source
    def numbers(spark: SparkSession) -> DataFrame:
        return spark.range(40).selectExpr("id", "id % 7 as k")

    @pipeline.step(partition_by="k", partitions=8)
    def keyed(numbers: DataFrame) -> DataFrame:
        return numbers.where("id < 30")

    @pipeline.sink(rk.files(str(tmp_path / "out")))
    def daily(keyed: DataFrame) -> None: ...

    location = str(tmp_path / "runs")
    done = pipeline.run(spark, location)
    view = pipeline.show(location)
    (step,), (sink,) = view.steps, view.sinks
    assert step.committed == 0, "released: 8 partitions, some of them without rows"
    assert (step.rows, sink.rows) == (30, 30)
    size = sum(path.stat().st_size for path in (tmp_path / "out").rglob("versions/**/*.parquet"))
    assert step.bytes == sink.bytes == size
    assert rk.read_newest(spark, str(tmp_path / "out"), version=sink.version).count() == 30
    assert str(sink).startswith(f"published, version {sink.version}, 30 rows, ")
    line = RunList(open_store(location), 30.0).of(Named("numbers", done.run, 1), {})
    assert (line.rows, line.bytes) == (30, size)
