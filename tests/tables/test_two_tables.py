"""A run with two tables for targets: both are complete before the first is published, and a driver that dies between
the two commits is followed by one that publishes the other, and computes nothing again."""

from __future__ import annotations

from pathlib import Path
from threading import Event
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.engine.spark.publish.iceberg import IcebergPublisher
from rekindle.master.facts.events import AttemptOpened, SinkPublished

ROWS = 20


def shop(folder: Path, salt: int) -> rk.Pipeline:
    """Each row of a sink has a number that is drawn when it is computed: what is computed again is seen."""
    made, notes = rk.Pipeline("shop"), str(folder)

    @made.source
    def orders(spark: SparkSession, day: str) -> DataFrame:
        return spark.range(ROWS)

    @made.step(partition_by="id", partitions=2)
    def priced(orders: DataFrame) -> DataFrame:
        def price(number: int) -> int:
            from pathlib import Path

            with Path(notes, "calls").open("a") as calls:
                calls.write(f"{number}\n")
            return number + salt

        return orders.withColumn("price", F.udf(price, "long")("id"))

    @made.sink(rk.delta(f"{folder}/by_day"), partition_by="id", partitions=2)
    def by_day(priced: DataFrame) -> DataFrame:
        return priced.where("id % 2 = 0")

    @made.sink(rk.iceberg("lake.db.by_week"), partition_by="id", partitions=2)
    def by_week(priced: DataFrame) -> DataFrame:
        return priced.where("id % 2 = 1")

    return made


def salts(spark: SparkSession, folder: Path) -> tuple[set[int], set[int]]:
    """Of which run the rows of each table are."""
    delta = spark.read.format("delta").load(f"{folder}/by_day").collect()
    iceberg = spark.table("lake.db.by_week").collect()
    assert len(delta) == len(iceberg) == ROWS // 2
    return {row["price"] - row["id"] for row in delta}, {row["price"] - row["id"] for row in iceberg}


def run(spark: SparkSession, folder: Path, salt: int, day: str, **options: Any) -> rk.RunSummary:
    return shop(folder, salt).run(spark, f"{folder}/runs", day=day, options=rk.RunOptions(**options))


@pytest.fixture
def published(tables: SparkSession, tmp_path: Path) -> Path:
    """Both tables have the rows of a first day."""
    tables.sql("CREATE DATABASE IF NOT EXISTS lake.db")
    tables.sql("DROP TABLE IF EXISTS lake.db.by_week")
    run(tables, tmp_path, 100, "1")
    assert salts(tables, tmp_path) == ({100}, {100})
    (tmp_path / "calls").unlink()
    return tmp_path


def test_a_driver_that_dies_between_two_commits(
    tables: SparkSession, published: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    died = Event()

    def die(events: tuple[object, ...], state: object) -> None:
        if any(isinstance(event, SinkPublished) for event in events):
            died.set()
            raise InterruptedError

    def too_late(*_: object) -> None:
        assert died.wait(600), "the other sink is published"
        raise InterruptedError

    with monkeypatch.context() as patch, pytest.raises(InterruptedError):
        patch.setattr(IcebergPublisher, "publish", too_late)
        run(tables, published, 200, "2", watcher=die)
    assert salts(tables, published) == ({200}, {100}), "one is new, the other is old, each of them whole"
    calls = (published / "calls").read_text()
    assert len(calls.splitlines()) == ROWS
    seen: list[object] = []
    run(tables, published, 200, "2", force=True, watcher=lambda events, state: seen.extend(events))
    assert salts(tables, published) == ({200}, {200})
    assert (published / "calls").read_text() == calls, "nothing was computed again"
    assert not any(isinstance(event, AttemptOpened) for event in seen)


def test_the_plan_says_what_is_seen_in_between(tables: SparkSession, published: Path) -> None:
    plan = " ".join(str(shop(published, 300).plan(tables, f"{published}/runs", day="3")).split())
    assert "Both sinks are complete before the first one is published" in plan
