"""A slowly changing dimension: each night is made from the one before. Bare Python is the judge."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.errors import Refused
from rekindle.publish.pointers import newest
from rekindle.storage.stores import open_store

SCHEMA = "customer bigint, nights bigint"
NIGHTS = ("2026-11-01", "2026-11-02", "2026-11-03")


class Dimension:
    """Counts for each customer in how many nights it was seen."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.seen: dict[str, int] = {}

    @property
    def path(self) -> str:
        return f"{self.folder}/dimension"

    def run(self, day: str, customers: int, *, new: bool = False) -> rk.RunSummary:
        pipeline, path = rk.Pipeline("dimension"), self.path

        @pipeline.source
        def today(spark: SparkSession, day: str) -> DataFrame:
            return spark.range(customers).select(F.col("id").alias("customer"), F.lit(1).cast("bigint").alias("nights"))

        @pipeline.source
        def yesterday(spark: SparkSession, day: str) -> DataFrame:
            return rk.previous(spark, path, SCHEMA)

        @pipeline.sink(rk.files(path), partition_by="customer", partitions=2)
        def dimension(today: DataFrame, yesterday: DataFrame) -> DataFrame:
            both = today.unionByName(yesterday).groupBy("customer")
            return both.agg(F.sum("nights").alias("nights"))

        return pipeline.run(self.spark, f"{self.folder}/runs", day=day, options=rk.RunOptions(new=new, quiet=True))

    def rows(self, **wanted: object) -> list[int]:
        """In how many nights customers 0, 1, 2 and so on were seen."""
        found = rk.read_newest(self.spark, self.path, **wanted)  # type: ignore[arg-type]
        return [row["nights"] for row in found.orderBy("customer").collect()]


def test_a_night_that_is_run_again_does_not_read_the_nights_after_it(spark: SparkSession, tmp_path: Path) -> None:
    one = Dimension(spark, tmp_path)
    one.run(NIGHTS[0], 4)
    one.run(NIGHTS[1], 3)
    one.run(NIGHTS[2], 2)
    assert one.rows() == [3, 3, 2, 1]
    corrected = one.run(NIGHTS[0], 2, new=True)
    assert one.rows() == [1, 1], "the first night alone, and nothing of those after it"
    assert list(corrected.stale.values()) == [(2, 3)]
    assert "run 2, 3" in str(corrected)

    with pytest.raises(Refused, match="run 2 published what it made from a version that was replaced"):
        one.run("2026-11-04", 1)
    assert list(one.run(NIGHTS[1], 3, new=True).stale.values()) == [(3,)]
    assert one.rows() == [2, 2, 1]
    assert one.run(NIGHTS[2], 2, new=True).stale == {}
    assert one.rows() == [3, 3, 1]
    assert one.run("2026-11-04", 1).stale == {}
    assert one.rows() == [4, 3, 1]


def test_a_night_in_the_middle_is_made_from_the_night_before_it(spark: SparkSession, tmp_path: Path) -> None:
    one = Dimension(spark, tmp_path)
    for day in NIGHTS:
        one.run(day, 2)
    assert list(one.run(NIGHTS[1], 3, new=True).stale.values()) == [(3,)]
    assert one.rows() == [2, 2, 1]
    assert one.run(NIGHTS[1], 3).was_done


def test_versions_by_number_name_and_time(spark: SparkSession, tmp_path: Path) -> None:
    one = Dimension(spark, tmp_path)
    one.run(NIGHTS[0], 1)
    between = datetime.now(UTC)
    one.run(NIGHTS[1], 1)
    name = newest(open_store(one.path)).pointer
    assert name is not None
    assert one.rows(version=1) == [1]
    assert one.rows(version=name.version) == [2] == one.rows(version=2)
    assert one.rows(as_of=between) == [1] == one.rows(as_of=between.isoformat())
    assert one.rows(as_of=datetime.now(UTC) + timedelta(hours=1)) == [2]
    with pytest.raises(Refused, match="has no version 7"):
        one.rows(version=7)
    with pytest.raises(Refused, match="has no version of"):
        one.rows(as_of=between - timedelta(days=1))
    with pytest.raises(Refused, match="no time zone"):
        one.rows(as_of="2026-11-01")
    with pytest.raises(Refused, match="is not a time"):
        one.rows(as_of="yesterday")


def test_previous_outside_of_a_run_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="outside of a run"):
        rk.previous(spark, f"{tmp_path}/dimension", SCHEMA)


def test_columns_may_be_added_and_none_is_lost(spark: SparkSession, tmp_path: Path) -> None:
    path = f"{tmp_path}/out"

    def run(day: str, schema: str) -> list[tuple[object, ...]]:
        pipeline = rk.Pipeline("columns")

        @pipeline.source
        def before(spark: SparkSession, day: str) -> DataFrame:
            return rk.previous(spark, path, schema)

        @pipeline.sink(rk.files(path))
        def out(before: DataFrame, spark: SparkSession, day: str) -> DataFrame:
            now = spark.range(1).select(*(F.lit(day[-1]).cast(one.dataType).alias(one.name) for one in before.schema))
            return before.unionByName(now)

        pipeline.run(spark, f"{tmp_path}/runs", day=day, options=rk.RunOptions(quiet=True))
        return sorted(map(tuple, rk.read_newest(spark, path).collect()), key=str)

    assert run("d1", "a int") == [(1,)]
    assert run("d2", "a int, b string") == [(1, None), (2, "2")]
    for schema, told in (
        ("a int", "b is string, and not in the schema"),
        ("a bigint, b string", "a is int, and bigint"),
    ):
        with pytest.raises(Refused, match=told):
            run("d3", schema)
