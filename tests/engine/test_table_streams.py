"""A table of the session catalog that follows a stream: its readers know nothing of us."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import rekindle as rk
from engine.number_streams import NumbersFolder, RunningStream, numbers
from rekindle.engine.spark.stream import background_compactor
from rekindle.errors import GraphRefused, Refused, RunFailed

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def place(tmp_path: Path) -> NumbersFolder:
    return NumbersFolder(tmp_path)


@pytest.fixture
def table(spark: SparkSession, place: NumbersFolder) -> Iterator[rk.Table]:
    """Its rows lie in the folder of the test."""
    yield rk.table("live_orders", location=f"{place.folder}/table")
    spark.sql("DROP TABLE IF EXISTS live_orders")


def pipeline_of(place: NumbersFolder, target: rk.Table, *, more: str = "") -> rk.Pipeline:
    pipeline = rk.Pipeline("live")
    pipeline.add_source(place.read, name="orders")

    def kept(orders: DataFrame) -> DataFrame:
        return orders.selectExpr("id", *([more] if more else []))

    pipeline.add_sink(kept, target, name="kept")
    return pipeline


def read(spark: SparkSession) -> Counter[int]:
    spark.catalog.refreshTable("live_orders")
    return Counter(row.id for row in spark.table("live_orders").select("id").collect())


def run(spark: SparkSession, place: NumbersFolder, made: rk.Pipeline, *files: int, **given: int) -> RunningStream:
    for number in files:
        place.feed(number)
    with RunningStream(spark, made, place, available_now=True, **given) as stream:
        stream.ended()
    return stream


def test_a_table_has_each_row_once_while_columns_come_and_it_is_dropped_and_compacted(
    spark: SparkSession, place: NumbersFolder, table: rk.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background_compactor, "TICK_SECONDS", 0.05)
    run(spark, place, pipeline_of(place, table), 0, 1)
    assert read(spark) == numbers(0, 1)
    spark.sql("DROP TABLE live_orders")
    run(spark, place, pipeline_of(place, table, more="id * 2 as twice"), 2, compact_batches=0)
    assert read(spark) == numbers(0, 1, 2), "it was external, and is made again"
    twice = spark.table("live_orders").where("twice is not null").select("id", "twice")
    assert {row.id: row.twice for row in twice.collect()} == {one: one * 2 for one in numbers(2)}
    with pytest.raises(Refused, match=r"table live_orders cannot take the result: twice was bigint, is string"):
        run(spark, place, pipeline_of(place, table, more="cast(null as string) as twice"))
    place.feed(3)
    made = pipeline_of(place, table, more="id * 2 as twice")
    with RunningStream(spark, made, place, compact_batches=4) as stream:
        stream.wait(lambda: any("4 files before, 1 now" in line for line in stream.lines))
        stream.stopped()
    assert read(spark) == numbers(0, 1, 2, 3)
    assert len(list((place.folder / "table" / "current").resolve().glob("*.parquet"))) == 1


def test_tables_that_cannot_follow_a_stream_are_refused(
    spark: SparkSession, place: NumbersFolder, table: rk.Table
) -> None:
    spark.sql("CREATE TABLE live_orders (id BIGINT) USING parquet")
    with pytest.raises(Refused, match="table live_orders exists and was not published by Rekindle"):
        run(spark, place, pipeline_of(place, table))
    spark.sql("DROP TABLE live_orders")
    far = rk.table("live_orders", location="s3a://bucket/table")
    with pytest.raises(GraphRefused, match="keeps its files in s3a://bucket/table, and only on a disk a table can fol"):
        run(spark, place, pipeline_of(place, far))
    with pytest.raises(GraphRefused, match="whose table has Parquet files without directories of values"):
        run(spark, place, pipeline_of(place, rk.table("live_orders", hive_partition_by="id")))
    batch = rk.Pipeline("daily")
    batch.add_source(lambda spark: spark.range(3), name="orders")
    batch.add_sink(lambda orders: orders, table, name="kept")
    run(spark, place, pipeline_of(place, table), 0)
    with pytest.raises(Refused, match="is the target of kept, which is a stream: a batch cannot publish there"):
        batch.run(spark, str(place.folder / "nights"), options=rk.RunOptions(quiet=True))
    assert read(spark) == numbers(0)


def test_a_folder_in_the_place_of_current_is_refused(
    spark: SparkSession, place: NumbersFolder, table: rk.Table
) -> None:
    (place.folder / "table" / "current").mkdir(parents=True)
    with pytest.raises(RunFailed, match=r"/table/current is a folder that somebody else made"):
        run(spark, place, pipeline_of(place, table), 0)
