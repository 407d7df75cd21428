"""Tables with buckets. Spark is the judge: its plans of joins have no exchange, and its own tables the same files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import rekindle as rk
from rekindle.publish.targets import Table

DAYS = ("2026-11-01", "2026-11-02")
BUCKETS = 4
NAME = re.compile(r"_(\d{5})\.c\d+\.")


def orders_of(spark: SparkSession, day: str, rows: int) -> DataFrame:
    return spark.range(rows).selectExpr("id % 97 customer", f"{rows} - id amount", f"'{day}' day")


def publish(spark: SparkSession, folder: Path, target: Table, day: str, rows: int, *, new: bool = False) -> None:
    pipeline = rk.Pipeline("nightly")

    @pipeline.source
    def orders(spark: SparkSession, day: str) -> DataFrame:
        return orders_of(spark, day, rows)

    @pipeline.sink(target, partition_by="amount", partitions=3)
    def fact(orders: DataFrame) -> DataFrame:
        return orders

    pipeline.run(spark, f"{folder}/runs", day=day, options=rk.RunOptions(new=new, quiet=True))


def rows_of(frame: DataFrame) -> list[tuple[str, ...]]:
    return sorted(tuple(map(str, row)) for row in frame.select("customer", "amount", "day").collect())


def joined(spark: SparkSession, name: str) -> str:
    """The plan of a join of the table with itself by its customers."""
    one, other = spark.table(name), spark.table(name).withColumnRenamed("amount", "other")
    both = one.join(other.hint("shuffle_merge"), "customer")
    return str(both._jdf.queryExecution().executedPlan().toString())


def numbers_of(frame: DataFrame) -> dict[int, list[str]]:
    """The files of each bucket."""
    found: dict[int, list[str]] = {}
    for path in frame.inputFiles():
        numbers = NAME.search(path)
        assert numbers is not None, path
        found.setdefault(int(numbers[1]), []).append(path)
    return found


@pytest.fixture
def table(spark: SparkSession) -> Iterator[str]:
    yield "fact"
    for name in ("fact", "bare"):
        spark.sql(f"drop table if exists {name}")


def test_readers_join_without_a_shuffle(spark: SparkSession, tmp_path: Path, table: str) -> None:
    target = rk.table(table, location=f"{tmp_path}/fact", bucket_by="customer", buckets=BUCKETS, sort_by="amount")
    publish(spark, tmp_path, target, DAYS[0], 500)
    assert rows_of(spark.table(table)) == rows_of(orders_of(spark, DAYS[0], 500))
    assert "Exchange" not in joined(spark, table), "the same join of other files has two"
    bare = orders_of(spark, DAYS[0], 500).write.bucketBy(BUCKETS, "customer").sortBy("amount")
    bare.saveAsTable("bare", format="parquet")
    buckets = numbers_of(spark.table(table))
    assert set(buckets) == set(numbers_of(spark.table("bare"))) == set(range(BUCKETS))
    for number, paths in buckets.items():
        assert len(paths) == 1, "one task wrote the bucket"
        found = spark.read.parquet(*paths)
        theirs = spark.read.parquet(*numbers_of(spark.table("bare"))[number])
        assert rows_of(found) == rows_of(theirs)
        amounts = [row["amount"] for row in found.collect()]
        assert amounts == sorted(amounts)


def test_one_night_after_the_other(spark: SparkSession, tmp_path: Path, table: str) -> None:
    """Appended, and the first one again; the table has several files in a bucket."""
    target = rk.table(table, "append", f"{tmp_path}/fact", bucket_by="customer", buckets=BUCKETS)
    for day, rows in zip(DAYS, (300, 200), strict=True):
        publish(spark, tmp_path, target, day, rows)
    publish(spark, tmp_path, target, DAYS[0], 100, new=True)
    both = orders_of(spark, DAYS[0], 100).union(orders_of(spark, DAYS[1], 200))
    assert rows_of(spark.table(table)) == rows_of(both)
    assert {number: len(paths) for number, paths in numbers_of(spark.table(table)).items()} == dict.fromkeys(
        range(BUCKETS), 2
    )
    assert "Exchange" not in joined(spark, table)


def test_within_partitions_and_with_a_table_that_was_adopted(spark: SparkSession, tmp_path: Path, table: str) -> None:
    bare = orders_of(spark, DAYS[0], 50).write.partitionBy("day").bucketBy(BUCKETS, "customer")
    bare.saveAsTable(table, format="parquet", path=f"{tmp_path}/old")
    target = rk.table(table, partition={"day": "{day}"}, bucket_by="customer", buckets=BUCKETS, adopt=True)
    publish(spark, tmp_path, target, DAYS[1], 70)
    both = orders_of(spark, DAYS[0], 50).union(orders_of(spark, DAYS[1], 70))
    assert rows_of(spark.table(table)) == rows_of(both)
    assert "Exchange" not in joined(spark, table)


def test_a_night_without_rows(spark: SparkSession, tmp_path: Path, table: str) -> None:
    target = rk.table(table, location=f"{tmp_path}/fact", bucket_by="customer", buckets=BUCKETS)
    publish(spark, tmp_path, target, DAYS[0], 0)
    assert spark.table(table).count() == 0 and "Exchange" not in joined(spark, table)
    assert spark.table(table).groupBy("customer").count().count() == 0
    publish(spark, tmp_path, target, DAYS[1], 20)
    assert rows_of(spark.table(table)) == rows_of(orders_of(spark, DAYS[1], 20))


def test_what_cannot_lie_in_these_buckets_is_refused(spark: SparkSession, tmp_path: Path, table: str) -> None:
    with pytest.raises(rk.Refused, match="bucket_by and buckets go together"):
        rk.table(table, bucket_by="customer")
    with pytest.raises(rk.Refused, match="day is in bucket_by and in hive_partition_by"):
        rk.table(table, partition={"day": "{day}"}, bucket_by="day", buckets=2)
    with pytest.raises(rk.Refused, match="bucket_by names shop, which the result does not have"):
        publish(spark, tmp_path, rk.table(table, bucket_by="shop", buckets=2), DAYS[0], 5)
    publish(spark, tmp_path, rk.table(table, location=f"{tmp_path}/fact"), DAYS[0], 5)
    other = rk.table(table, location=f"{tmp_path}/fact", bucket_by="customer", buckets=2)
    with pytest.raises(rk.Refused, match="has no buckets, and the result is published with buckets: 2 by customer"):
        publish(spark, tmp_path, other, DAYS[1], 5)
