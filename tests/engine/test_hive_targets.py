"""What a night replaces in Hive's directories. Bare Spark writes the same rows with `partitionBy`, and is the judge."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import rekindle as rk
from cli.calling import call
from rekindle.publish.targets import Files

DAYS = ("2026-11-01", "2026-11-02", "2026-11-03")
COLUMNS = ("customer", "amount", "country", "day")


def orders_of(spark: SparkSession, day: str, rows: int, countries: int = 3) -> DataFrame:
    """Countries have letters that Hive escapes, one looks as if it were escaped already, and one is null."""
    country = f"case id % {countries} when 0 then 'D:E%20F' when 1 then null else concat('C', id % {countries}) end"
    return spark.range(rows).selectExpr("id % 7 customer", "id amount", f"{country} country", f"'{day}' day")


class Lake:
    """A pipeline with one sink, and beside it a directory that bare Spark writes."""

    def __init__(self, spark: SparkSession, folder: Path, target: Files, *, has_day: bool = True) -> None:
        self.spark, self.folder, self.target, self.has_day = spark, folder, target, has_day
        self.rows: dict[str, tuple[int, int]] = {}

    @property
    def gold(self) -> Path:
        return Path(self.target.path)

    def run(self, day: str, rows: int, countries: int = 3, *, new: bool = False) -> rk.RunSummary:
        pipeline, has_day = rk.Pipeline("nightly"), self.has_day

        @pipeline.source
        def orders(spark: SparkSession, day: str) -> DataFrame:
            found = orders_of(spark, day, rows, countries)
            return found if has_day else found.drop("day")

        @pipeline.sink(self.target, partition_by="customer", partitions=3)
        def fact(orders: DataFrame) -> DataFrame:
            return orders.withColumnRenamed("id", "amount")

        options = rk.RunOptions(new=new)
        return pipeline.run(self.spark, f"{self.folder}/runs", day=day, options=options)

    def read(self) -> dict[str, list[tuple[Any, ...]]]:
        """As each reader sees it."""
        current = f"{self.gold}/current"
        frames = {
            "newest": rk.read_newest(self.spark, str(self.gold)),
            "spark": self.spark.read.parquet(f"file:{current}"),
        }
        found = {name: _rows(row.asDict() for row in frame.collect()) for name, frame in frames.items()}
        table = ds.dataset(current, partitioning="hive").to_table().to_pylist()
        return found | {"arrow": _rows(table)}

    def holds(self, *days: tuple[str, int, int]) -> bool:
        """Every reader sees what bare Spark makes of these days: day, rows, countries."""
        bare = [row.asDict() for day, rows, count in days for row in orders_of(self.spark, day, rows, count).collect()]
        return all(seen == _rows(bare) for seen in self.read().values())

    def files(self, day: str) -> dict[str, int]:
        found = (self.gold / "current" / f"day={day}").rglob("*.parquet")
        return {path.name: path.stat().st_ino for path in found}


def _rows(rows: Iterable[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted(tuple(str(row[name]) for name in COLUMNS) for row in rows)


def test_gc_leaves_what_readers_see_and_removes_what_was_replaced(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = Lake(spark, tmp_path, rk.files(f"{tmp_path}/gold", mode="partition", hive_partition_by="day"))
    for day in DAYS:
        lake.run(day, 10)
    lake.run(DAYS[0], 20, new=True)
    soon = ("--set", "gc.versions_hours=0", "--set", "gc.grace_hours=0", "--location", f"{tmp_path}/runs")
    before = set(lake.gold.rglob("*.parquet"))
    assert "would delete" in call(capsys, "gc", "--dry-run", *soon).out
    assert set(lake.gold.rglob("*.parquet")) == before
    said = call(capsys, "gc", *soon)
    assert (said.code, said.err) == (0, "") and f"file:{lake.gold}" in said.out
    left = {path.relative_to(lake.gold).parts[:2] for path in lake.gold.rglob("*") if path.is_file()}
    assert sorted(folder for folder, _ in left) == ["pointers", *["versions"] * 3, "views"]
    assert lake.holds((DAYS[0], 20, 3), (DAYS[1], 10, 3), (DAYS[2], 10, 3))
    lake.run("2026-11-04", 5)
    assert lake.holds((DAYS[0], 20, 3), (DAYS[1], 10, 3), (DAYS[2], 10, 3), ("2026-11-04", 5, 3))


@pytest.mark.parametrize("has_day", [True, False], ids=["the day is a column", "only the target names the day"])
def test_one_day_is_replaced_and_the_others_are_not_touched(
    spark: SparkSession, tmp_path: Path, *, has_day: bool
) -> None:
    target = rk.files(
        f"{tmp_path}/gold",
        mode="partition",
        hive_partition_by=["day", "country"],
        partition={"day": "{day}"},
        compression="zstd",
    )
    lake = Lake(spark, tmp_path, target, has_day=has_day)
    for day in DAYS:
        lake.run(day, 60)
    assert lake.holds(*((day, 60, 3) for day in DAYS))
    before = {day: lake.files(day) for day in DAYS}

    lake.run(DAYS[0], 90, 2, new=True)  # One country fewer: what it had is gone.
    assert lake.holds((DAYS[0], 90, 2), (DAYS[1], 60, 3), (DAYS[2], 60, 3))
    assert [day for day in DAYS if lake.files(day) != before[day]] == [DAYS[0]]

    lake.run(DAYS[1], 0, new=True)  # A day without rows has no rows.
    assert lake.holds((DAYS[0], 90, 2), (DAYS[2], 60, 3))
    assert lake.run(DAYS[1], 0).was_done


def test_the_limit_of_current_for_a_reader_that_lists_directories_while_it_changes(
    spark: SparkSession, tmp_path: Path
) -> None:
    """As docs/concepts.md tells: it lists a day before the change, and the countries of the day after it. Whoever
    follows the link first reads one version."""
    columns = ["day", "country"]
    target = rk.files(f"{tmp_path}/gold", "partition", hive_partition_by=columns, partition={"day": "{day}"})
    lake = Lake(spark, tmp_path, target)
    lake.run(DAYS[0], 10, 1)
    link = lake.gold / "current"
    resolved, below = link.resolve(), f"day={DAYS[0]}"
    countries = [path.name for path in (link / below).iterdir()]
    lake.run(DAYS[0], 90, 2, new=True)

    def rows(folder: Path) -> int:
        files = (path for country in countries for path in (folder / below / country).glob("*.parquet"))
        return sum(pq.read_metadata(path).num_rows for path in files)

    assert (rows(link), rows(resolved)) == (45, 10), "half of the new rows, and all of the old ones"


def test_directories_with_rows_are_replaced_where_none_is_named(spark: SparkSession, tmp_path: Path) -> None:
    """As bare Spark's dynamic overwrite: a country without rows stays."""
    lake = Lake(spark, tmp_path, rk.files(f"{tmp_path}/gold", "partition", hive_partition_by=["day", "country"]))
    lake.run(DAYS[0], 60, 3)
    lake.run(DAYS[1], 60, 3)
    lake.run(DAYS[0], 90, 2, new=True)
    conf = {"spark.sql.sources.partitionOverwriteMode": "dynamic"}
    bare = f"file:{tmp_path}/bare"
    for day, rows, countries in ((DAYS[0], 60, 3), (DAYS[1], 60, 3), (DAYS[0], 90, 2)):
        writer = (
            orders_of(spark, day, rows, countries)
            .write.mode("overwrite")
            .options(partitionOverwriteMode=conf["spark.sql.sources.partitionOverwriteMode"])
        )
        writer.partitionBy("day", "country").parquet(bare)
    expected = _rows(row.asDict() for row in spark.read.parquet(bare).collect())
    assert all(seen == expected for seen in lake.read().values()) and len(expected) == 170


@pytest.mark.parametrize("mode", ["overwrite", "append"])
def test_other_modes_have_the_layout_too(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    lake = Lake(spark, tmp_path, rk.files(f"{tmp_path}/gold", mode, hive_partition_by=["day", "country"]))
    lake.run(DAYS[0], 60)
    lake.run(DAYS[1], 30)
    lake.run(DAYS[0], 90, new=True)
    assert lake.holds((DAYS[0], 90, 3)) if mode == "overwrite" else lake.holds((DAYS[0], 90, 3), (DAYS[1], 30, 3))


def test_rows_outside_of_what_is_replaced_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    target = rk.files(f"{tmp_path}/gold", "partition", hive_partition_by=["day"], partition={"day": "2026-10-31"})
    lake = Lake(spark, tmp_path, target)
    with pytest.raises(rk.RunFailed, match="the result has rows for day=2026-11-01, which this run does not replace"):
        lake.run(DAYS[0], 60)
    assert not (lake.gold / "current").exists()


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ({"hive_partition_by": ["dya"]}, "hive_partition_by names dya, and the result has the columns"),
        ({"hive_partition_by": ["customer", "amount", "country", "day"]}, "names every column"),
        ({"hive_partition_by": ["day"], "sort_by": "nothing"}, "sort_by names nothing, which the result does not"),
    ],
)
def test_what_spark_would_refuse_is_refused_before_anything_runs(
    spark: SparkSession, tmp_path: Path, target: dict[str, Any], text: str
) -> None:
    lake = Lake(spark, tmp_path, rk.files(f"{tmp_path}/gold", **target))
    with pytest.raises(rk.Refused, match=text):
        lake.run(DAYS[0], 60)


def test_two_layouts_in_one_version_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    Lake(spark, tmp_path, rk.files(f"{tmp_path}/gold")).run(DAYS[0], 10)
    lake = Lake(spark, tmp_path, rk.files(f"{tmp_path}/gold", "partition", hive_partition_by="day"))
    with pytest.raises(rk.RekindleError, match="was published without hive_partition_by before"):
        lake.run(DAYS[1], 10)
    assert lake.holds((DAYS[0], 10, 3))


def test_files_are_sorted_and_cut_as_asked(spark: SparkSession, tmp_path: Path) -> None:
    target = rk.files(f"{tmp_path}/gold", hive_partition_by="day", sort_by="amount", max_records_per_file=20)
    lake = Lake(spark, tmp_path, target)
    lake.run(DAYS[0], 100)
    parts = [ds.dataset(path).to_table() for path in (lake.gold / "current").rglob("*.parquet")]
    assert sum(part.num_rows for part in parts) == 100 and all(part.num_rows <= 20 for part in parts)
    assert all(part["amount"].to_pylist() == sorted(part["amount"].to_pylist()) for part in parts)


def test_somebody_elses_current_stays(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "gold" / "current").mkdir(parents=True)
    with pytest.raises(rk.Refused, match="current was not made by Rekindle"):
        Lake(spark, tmp_path, rk.files(f"{tmp_path}/gold")).run(DAYS[0], 10)


@pytest.mark.parametrize("target", [{"mode": "partition", "hive_partition_by": "day"}, {"mode": "append"}])
def test_a_column_may_be_added_and_others_stay_as_they_are(
    spark: SparkSession, tmp_path: Path, target: dict[str, Any]
) -> None:
    """Rows of the days before have no value in it. What does not fit is refused before anything runs."""

    def run(day: str, *columns: str) -> None:
        pipeline = rk.Pipeline("nightly")
        pipeline.add_source(lambda spark, day: spark.range(5).selectExpr("id", f"'{day}' day", *columns), name="orders")
        pipeline.add_sink(lambda orders: orders, rk.files(f"{tmp_path}/gold", **target), name="fact")
        pipeline.run(spark, f"{tmp_path}/runs", day=day)

    run(DAYS[0], "id * 2 amount")
    run(DAYS[1], "'web' channel", "id * 2 amount")
    for refused, text in (((), "amount was bigint, is gone"), (("'web' channel", "'1' amount"), "bigint, is string")):
        with pytest.raises(rk.Refused, match=text):
            run(DAYS[2], *refused)
    expected = [(str(id), DAYS[0], None) for id in range(5)] + [(str(id), DAYS[1], "web") for id in range(5)]
    merged = spark.read.option("mergeSchema", True).parquet(f"file:{tmp_path}/gold/current")
    for frame in (rk.read_newest(spark, f"{tmp_path}/gold"), merged):
        assert sorted(
            map(tuple, frame.selectExpr("string(id)", "string(day)", "channel").collect()), key=str
        ) == sorted(expected, key=str)


def test_a_night_without_rows_replaces_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """Every night has the same key where a pipeline has no parameters. Without partition= only directories with rows
    are replaced."""
    target = rk.files(f"{tmp_path}/gold", "partition", hive_partition_by="day")
    for day, rows in ((DAYS[0], 20), (DAYS[1], 30), (DAYS[2], 0)):
        pipeline = rk.Pipeline("nightly")

        @pipeline.source
        def orders(spark: SparkSession, night: str = day, rows: int = rows) -> DataFrame:
            return orders_of(spark, night, rows)

        @pipeline.sink(target)
        def fact(orders: DataFrame) -> DataFrame:
            return orders

        pipeline.run(spark, f"{tmp_path}/runs", options=rk.RunOptions(new=True))
    found = rk.read_newest(spark, f"{tmp_path}/gold").groupBy("day").count().collect()
    assert {str(row["day"]): row["count"] for row in found} == {DAYS[0]: 20, DAYS[1]: 30}
