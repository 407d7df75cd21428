"""Tables by Hive's partitions, new and adopted. Bare Spark's dynamic overwrite of a table of its own is the judge."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from pyspark.sql import DataFrame, SparkSession

import rekindle as rk
from rekindle.engine.spark.jvm import file_calls
from rekindle.engine.spark.publish import tables as published
from rekindle.master.facts.events import Fence
from rekindle.publish.pointers import Part, Pointer, top_of
from rekindle.publish.targets import Table
from rekindle.storage.stores import open_store

DAYS = ("2026-11-01", "2026-11-02", "2026-11-03")
BARE = "bare"


def orders_of(spark: SparkSession, day: str, rows: int, countries: int = 3) -> DataFrame:
    """Countries have letters that Hive escapes, and one is null."""
    country = f"case id % {countries} when 0 then 'D:E%20F' when 1 then null else concat('C', id % {countries}) end"
    return spark.range(rows).selectExpr("id % 7 customer", "id amount", f"'{day}' day", f"{country} country")


class Warehouse:
    """A pipeline with one table, and beside it a table that bare Spark writes."""

    def __init__(self, spark: SparkSession, folder: Path, target: Table) -> None:
        self.spark, self.folder, self.target = spark, folder, target

    def night(self, day: str, rows: int, countries: int = 3, *, new: bool = False) -> None:
        """Both of them."""
        pipeline = rk.Pipeline("nightly")

        @pipeline.source
        def orders(spark: SparkSession, day: str) -> DataFrame:
            return orders_of(spark, day, rows, countries)

        @pipeline.sink(self.target, partition_by="customer", partitions=3)
        def fact(orders: DataFrame) -> DataFrame:
            return orders

        pipeline.run(self.spark, f"{self.folder}/runs", day=day, options=rk.RunOptions(new=new))
        self.bare(day, rows, countries)

    def bare(self, day: str, rows: int, countries: int = 3) -> None:
        """Replaces one day with all its countries."""
        frame = orders_of(self.spark, day, rows, countries)
        if not self.spark.catalog.tableExists(BARE):
            frame.limit(0).write.partitionBy("day", "country").saveAsTable(BARE, format="parquet")
        frame.createOrReplaceTempView("night")
        into = f"insert overwrite table {BARE} partition (day = '{day}', country)"
        self.spark.sql(f"{into} select customer, amount, country from night")

    def holds(self) -> bool:
        return rows_of(self.spark.table(self.target.name)) == rows_of(self.spark.table(BARE))

    def partitions(self) -> list[str]:
        return sorted(row[0] for row in self.spark.sql(f"show partitions {self.target.name}").collect())


def rows_of(frame: DataFrame) -> list[tuple[str, ...]]:
    return sorted(tuple(map(str, row)) for row in frame.select("customer", "amount", "day", "country").collect())


@pytest.fixture
def tables(spark: SparkSession) -> Iterator[str]:
    yield "fact"
    for name in ("fact", BARE):
        spark.sql(f"drop table if exists {name}")
        for left in ("", "-rekindle"):  # What was adopted outlives its table.
            shutil.rmtree(f"{urlsplit(str(spark.conf.get('spark.sql.warehouse.dir'))).path}/{name}{left}", True)


def test_a_day_is_replaced_and_others_stay(spark: SparkSession, tmp_path: Path, tables: str) -> None:
    target = rk.table(
        tables, hive_partition_by=["day", "country"], partition={"day": "{day}"}, location=f"{tmp_path}/fact"
    )
    shop = Warehouse(spark, tmp_path, target)
    for day in DAYS:
        shop.night(day, 60)
    assert shop.holds() and len(shop.partitions()) == 9
    before = {path: path.stat().st_ino for path in (tmp_path / "fact").rglob("day=2026-11-02/**/*.parquet")}
    shop.night(DAYS[0], 90, 2, new=True)  # One country fewer: its partition is gone.
    assert shop.holds() and len(shop.partitions()) == 8
    assert {path: path.stat().st_ino for path in before} == before != {}
    shop.night(DAYS[2], 0, new=True)
    assert shop.holds() and len(shop.partitions()) == 5
    one = spark.table(tables).where(f"day = '{DAYS[1]}'")
    assert "day=2026-11-02" in one.inputFiles()[0] and one.count() == 60


def test_a_table_whose_catalog_forgot_it_comes_back_whole(spark: SparkSession, tmp_path: Path, tables: str) -> None:
    """As in every new session without Hive."""
    shop = Warehouse(spark, tmp_path, rk.table(tables, partition={"day": "{day}"}, location=f"{tmp_path}/fact"))
    shop.night(DAYS[0], 30)
    spark.sql(f"drop table {tables}")
    shop.night(DAYS[1], 30)
    assert shop.holds() and shop.partitions() == [f"day={DAYS[0]}", f"day={DAYS[1]}"]


@pytest.mark.parametrize("is_external", [False, True])
def test_a_table_of_somebody_else_is_adopted(
    spark: SparkSession, tmp_path: Path, tables: str, *, is_external: bool
) -> None:
    """Its other days stay where they are; the files of the day that is replaced are not deleted."""
    for name in (tables, BARE):
        writer = orders_of(spark, DAYS[0], 40).union(orders_of(spark, DAYS[1], 40)).write.partitionBy("day", "country")
        path = {"path": f"{tmp_path}/{name}"} if is_external or name == BARE else {}
        writer.saveAsTable(name, format="parquet", **path)
    before = set(spark.table(tables).inputFiles())
    target = rk.table(tables, hive_partition_by=["day", "country"], partition={"day": "{day}"})
    refused = Warehouse(spark, tmp_path, target)
    with pytest.raises(rk.Refused, match=r"was not published by Rekindle[\s\S]*add adopt=True"):
        refused.night(DAYS[1], 50)
    adopted = rk.table(tables, hive_partition_by=["day", "country"], partition={"day": "{day}"}, adopt=True)
    shop = Warehouse(spark, tmp_path, adopted)
    shop.night(DAYS[1], 50, 2)
    assert shop.holds() and len(shop.partitions()) == 5
    assert all(Path(unquote(urlsplit(path).path)).exists() for path in before)
    assert {path for path in before if DAYS[0] in path} < set(spark.table(tables).inputFiles())
    Warehouse(spark, tmp_path, target).night(DAYS[2], 10)  # The word is needed once.
    assert shop.holds()


def test_what_cannot_be_adopted_is_refused_before_anything_runs(
    spark: SparkSession, tmp_path: Path, tables: str
) -> None:
    orders_of(spark, DAYS[0], 5).write.saveAsTable(tables, format="parquet")
    for target, words in (
        (rk.table(tables, adopt=True), "its files are the catalog's own"),
        (
            rk.table(tables, partition={"day": "{day}"}, adopt=True),
            r"is without partitions, and the result is .* by day",
        ),
    ):
        with pytest.raises(rk.Refused, match=words):
            Warehouse(spark, tmp_path, target).night(DAYS[0], 5)
    spark.sql(f"drop table {tables}")
    orders_of(spark, DAYS[0], 5).drop("day").write.saveAsTable(tables, format="json")
    with pytest.raises(rk.Refused, match="is of json, and only tables of Parquet files can be adopted"):
        Warehouse(spark, tmp_path, rk.table(tables, adopt=True)).night(DAYS[0], 5)


def test_an_external_table_without_partitions_is_adopted(spark: SparkSession, tmp_path: Path, tables: str) -> None:
    orders_of(spark, DAYS[0], 5).write.saveAsTable(tables, format="parquet", path=f"{tmp_path}/old")
    with pytest.raises(rk.Refused, match="the rows that it has would be lost"):
        Warehouse(spark, tmp_path, rk.table(tables, "append", adopt=True)).night(DAYS[0], 5)
    shop = Warehouse(spark, tmp_path, rk.table(tables, adopt=True))
    shop.night(DAYS[1], 50)
    assert shop.holds() and spark.read.parquet(f"{tmp_path}/old").count() == 5


def test_an_append_by_partitions_is_refused_at_its_line() -> None:
    with pytest.raises(rk.Refused, match='use mode="partition"'):
        rk.table("fact", "append", hive_partition_by="day")


def test_a_table_that_was_adopted_outlives_its_drop(spark: SparkSession, tmp_path: Path, tables: str) -> None:
    """One that the catalog managed would take the published files with it."""
    orders_of(spark, DAYS[0], 9).write.partitionBy("day").saveAsTable(tables, format="parquet")
    target = rk.table(tables, partition={"day": "{day}"}, adopt=True, location=f"{tmp_path}/fact")
    Warehouse(spark, tmp_path, target).night(DAYS[1], 30)
    spark.sql(f"alter table {tables} drop partition (day = '{DAYS[1]}')")
    spark.sql(f"drop table {tables}")
    assert spark.read.parquet(f"{tmp_path}/fact/versions").count() == 30


def test_versions_of_a_dropped_table_are_not_those_of_a_new_one(
    spark: SparkSession, tmp_path: Path, tables: str
) -> None:
    def made(rows: int) -> None:
        writer = orders_of(spark, DAYS[0], rows).write.partitionBy("day").mode("overwrite")
        writer.saveAsTable(tables, format="parquet", path=f"{tmp_path}/old")

    made(5)
    shop = Warehouse(spark, tmp_path, rk.table(tables, partition={"day": "{day}"}, adopt=True))
    shop.night(DAYS[0], 30)
    spark.sql(f"drop table {tables}")
    made(7)
    with pytest.raises(rk.Refused, match=r"has versions of a table of its name[\s\S]*keep its versions elsewhere"):
        shop.night(DAYS[1], 30)
    elsewhere = rk.table(tables, partition={"day": "{day}"}, adopt=True, location=f"{tmp_path}/new")
    Warehouse(spark, tmp_path, elsewhere).night(DAYS[1], 30)
    assert {row[0]: row[1] for row in spark.table(tables).groupBy("day").count().collect()} == {DAYS[0]: 7, DAYS[1]: 30}


def test_buckets_and_another_layout_are_refused(spark: SparkSession, tmp_path: Path, tables: str) -> None:
    bucketed = orders_of(spark, DAYS[0], 5).write.partitionBy("day").bucketBy(4, "customer")
    bucketed.saveAsTable(tables, format="parquet", path=f"{tmp_path}/old")
    target = rk.table(tables, partition={"day": "{day}"}, adopt=True)
    with pytest.raises(rk.Refused, match="has buckets: 4 by customer, and the result is published with none"):
        Warehouse(spark, tmp_path, target).night(DAYS[0], 5)
    spark.sql(f"drop table {tables}")
    Warehouse(spark, tmp_path, rk.table(tables, location=f"{tmp_path}/fact")).night(DAYS[0], 5)
    spark.sql(f"drop table {tables}")
    by_day = rk.table(tables, partition={"day": "{day}"}, location=f"{tmp_path}/fact")
    with pytest.raises(rk.Refused, match="was published without hive_partition_by before"):
        Warehouse(spark, tmp_path, by_day).night(DAYS[1], 5)


def test_a_publisher_that_changes_the_table_late_does_not_hide_a_later_day(
    spark: SparkSession, tmp_path: Path, tables: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds an older pointer, and changes the table between the two calls of a later publisher; then it looks at
    the newest pointer, as `follow` does."""
    target = rk.table(tables, partition={"day": "{day}"}, location=f"{tmp_path}/fact")
    shop, base = Warehouse(spark, tmp_path, target), f"file:{tmp_path}/fact"
    store = open_store(f"{tmp_path}/fact", {})
    shop.night(DAYS[0], 5)
    old, real = top_of(store), file_calls.point_table
    late: list[list[str]] = []

    def between(spark: SparkSession, *given: Any) -> None:
        if not late:
            late.append([])
            monkeypatch.setattr(file_calls, "point_table", real)
            published.change(spark, target, base, old)
            late[0] = shop.partitions()
        real(spark, *given)

    monkeypatch.setattr(file_calls, "point_table", between)
    shop.night(DAYS[1], 6)
    assert late == [[f"day={DAYS[0]}", f"day={DAYS[1]}"]], "the late one leaves what is later than its pointer"
    spark.sql(f"alter table {tables} drop partition (day = '{DAYS[1]}')")
    published.follow(spark, target, base, lambda: top_of(store))
    assert shop.holds() and len(shop.partitions()) == 2, "the places count, not what the table says of its version"


def test_what_an_overwrite_replaced_is_gone_although_it_died_before_the_table_followed() -> None:
    """A pointer of a later night tells that everything was replaced before it."""

    def part(order: int, day: str) -> Part:
        file = (f"day={day}/part.parquet", 1)
        return Part(fence=Fence(order, 1, 1), source=str(order), bytes=(), listed=(file,), folder=f"v{order}-1-1")

    pointer = Pointer(
        fence=Fence(3, 1, 1),
        owner="p",
        version="v3-1-1",
        schema="",
        parts=(part(2, "1"), part(3, "2")),
        floor=Fence(2, 1, 1),
    )
    wanted = {f"day={day}": f"/t/versions/v{order}-1-1/day={day}" for order, day in ((2, "1"), (3, "2"))}
    foreign = {"day=0": "/elsewhere/day=0"}
    assert published._moves("/t", pointer, foreign, "v1-1-1") == {**wanted, "day=0": ""}
    assert published._moves("/t", pointer, foreign, "v2-1-1") == wanted
    later = {"day=9": "/t/versions/v4-1-1/day=9", "day=8": "/t/versions/v1-1-1/day=8"}
    assert published._moves("/t", pointer, later, "v3-1-1") == {**wanted, "day=8": ""}


IN_HIVE = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from engine.test_partitioned_tables import BARE, DAYS, Warehouse, orders_of
import rekindle as rk

folder, night = Path(sys.argv[1]), int(sys.argv[2])
builder = SparkSession.builder.master("local[2]").enableHiveSupport()
for key, value in {
    "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.warehouse.dir": f"{folder}/warehouse", "spark.sql.shuffle.partitions": "2",
    "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/metastore;create=true",
}.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("OFF")
if night == 0:
    for name in ("fact", BARE):  # One that the catalog manages is adopted.
        orders_of(spark, DAYS[2], 9).write.partitionBy("day", "country").saveAsTable(name, format="parquet")
target = rk.table("fact", hive_partition_by=["day", "country"], partition={"day": "{day}"}, adopt=True)
shop = Warehouse(spark, folder, target)
shop.night(DAYS[night % 2], (60, 40, 30)[night], (3, 3, 2)[night], new=night == 2)
assert shop.holds(), "other rows than bare Spark"
print("partitions:", len(shop.partitions()))
if night == 2:
    spark.sql("drop table fact")
    assert any((folder / "warehouse/fact-rekindle/versions").rglob("*.parquet")), "the table took its versions with it"
"""


@pytest.mark.spark
def test_nights_with_a_hive_metastore(tmp_path: Path) -> None:
    """Three sessions, one after the other; the third one corrects the first day."""
    told = []
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    for night in range(3):
        command = [sys.executable, "-c", IN_HIVE, str(tmp_path), str(night)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=env, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        told.append(done.stdout.split("partitions:")[1].strip())
    assert told == ["6", "9", "8"]
