"""Two nights in a row, and the first one again: each day has a target of its own. Bare Spark and pyarrow judge."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from pyspark.sql import DataFrame, SparkSession

import rekindle as rk
from rekindle.publish.targets import Target

DAYS = ("2026-11-01", "2026-11-02", "2026-11-03")


def write_day(spark: SparkSession, lake: Path, day: str, rows: int) -> None:
    orders = spark.range(rows).selectExpr("id", "id % 7 customer", "id * 3 amount")
    orders.write.mode("overwrite").parquet(f"file:{lake}/orders/day={day}")


def totals_of(orders: DataFrame) -> DataFrame:
    return orders.groupBy("customer").sum("amount").withColumnRenamed("sum(amount)", "total")


def nightly(lake: Path, target: Any) -> rk.Pipeline:
    pipeline = rk.Pipeline("nightly")

    @pipeline.source
    def orders(spark: SparkSession, day: str) -> DataFrame:
        return spark.read.parquet(f"file:{lake}/orders/day={day}")

    @pipeline.step(partition_by="customer", partitions=3)
    def totals(orders: DataFrame) -> DataFrame:
        return totals_of(orders)

    @pipeline.sink(target)
    def gold(totals: DataFrame) -> None: ...

    return pipeline


def bare(spark: SparkSession, lake: Path, *days: str) -> list[tuple[Any, ...]]:
    """What bare Spark makes of these days."""
    found = []
    for day in days:
        rows = totals_of(spark.read.parquet(f"file:{lake}/orders/day={day}")).collect()
        found += [(row["customer"], row["total"], day) for row in rows]
    return sorted(found)


def names(folder: Path) -> dict[str, int]:
    """Every file with the time of its last change."""
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("as_function", [False, True])
def test_each_night_has_its_own_files(spark: SparkSession, tmp_path: Path, *, as_function: bool) -> None:
    lake = tmp_path / "lake"
    template: Target = rk.files(f"{lake}/gold/day={{day}}")
    pipeline = nightly(lake, (lambda day: rk.files(f"{lake}/gold/day={day}")) if as_function else template)
    for day in DAYS:
        write_day(spark, lake, day, 100)
        pipeline.run(spark, f"{tmp_path}/runs", day=day)
    gold = lake / "gold"
    assert {path.name for path in gold.iterdir()} == {f"day={day}" for day in DAYS}
    before = {day: names(gold / f"day={day}") for day in DAYS}

    write_day(spark, lake, DAYS[0], 250)
    pipeline.run(spark, f"{tmp_path}/runs", day=DAYS[0], options=rk.RunOptions(new=True))
    for day in DAYS:
        rows = rk.read_newest(spark, f"{gold}/day={day}").collect()
        assert sorted((row["customer"], row["total"], day) for row in rows) == bare(spark, lake, day)
    assert [day for day in DAYS if names(gold / f"day={day}") != before[day]] == [DAYS[0]]


def test_directories_by_day_are_read_by_anybody(spark: SparkSession, tmp_path: Path) -> None:
    """Hive's layout: the name of the directory is a column for Spark, pyarrow and the like."""
    lake = tmp_path / "lake"
    pipeline = nightly(lake, rk.directory(f"{lake}/gold/day={{day}}"))
    for day in DAYS:
        write_day(spark, lake, day, 100)
        pipeline.run(spark, f"{tmp_path}/runs", day=day)
    found = spark.read.parquet(f"file:{lake}/gold").selectExpr("customer", "total", "cast(day as string)").collect()
    assert sorted(map(tuple, found)) == bare(spark, lake, *DAYS)
    table = ds.dataset(f"{lake}/gold", partitioning="hive", exclude_invalid_files=True).to_table().to_pylist()
    assert sorted((row["customer"], row["total"], row["day"]) for row in table) == bare(spark, lake, *DAYS)


def test_a_script_publishes_by_day(spark: SparkSession, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    for day in DAYS[:2]:
        write_day(spark, lake, day, 100)
        with rk.run("nightly", spark, f"{tmp_path}/runs", day=day, tell=lambda line: None) as run:
            totals = totals_of(spark.read.parquet(f"file:{lake}/orders/day={day}"))
            run.publish(totals, rk.files(f"{lake}/gold/day={{day}}"), name="gold")
    for day in DAYS[:2]:
        rows = rk.read_newest(spark, f"{lake}/gold/day={day}").collect()
        assert sorted((row["customer"], row["total"], day) for row in rows) == bare(spark, lake, day)
    with rk.run("nightly", spark, f"{tmp_path}/runs", day=DAYS[0], tell=lambda line: None) as run:
        with pytest.raises(rk.GraphRefused, match=r"names dya, which is not a parameter(.|\n)*did you mean day"):
            run.publish(spark.range(3), rk.files(f"{lake}/other/{{dya}}"), name="other")
        with pytest.raises(rk.GraphRefused, match=r"has a brace without its counterpart"):
            run.publish(spark.range(3), rk.files(f"{lake}/other/{{"), name="another")


def test_the_journal_and_the_plan_name_the_target_of_the_day(spark: SparkSession, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    write_day(spark, lake, DAYS[0], 10)
    pipeline = nightly(lake, rk.files(f"{lake}/gold/day={{day}}"))
    shown = f"{lake}/gold/day={DAYS[0]}"
    assert shown in str(pipeline.plan(spark, f"{tmp_path}/runs", day=DAYS[0]))
    assert shown in str(pipeline.run(spark, f"{tmp_path}/runs", day=DAYS[0]))
    assert shown in str(pipeline.show(f"{tmp_path}/runs", day=DAYS[0]))
