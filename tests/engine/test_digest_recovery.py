"""A lost partition comes back: with an equal digest nobody is told, with another or none its readers start over."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Literal

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.failover.backoff import FixedDelay
from rekindle.master.facts.config import BackoffSpec, MasterConfig
from rekindle.master.facts.events import AttemptOpened, Event, PartitionsCommitted
from rekindle.master.state.run_state import RunState
from rekindle.model.partitions import EMPTY, Partitions

AT_ONCE = MasterConfig(backoff=BackoffSpec.of(FixedDelay(5, 0)))


class Committed:
    """What each step committed, which of it came back different, and whether it had digests. The driver dies when the
    step `dies_at` is started."""

    def __init__(self, dies_at: str = "") -> None:
        self._dies_at = dies_at
        self.partitions: dict[str, Partitions] = {}
        self.changed: dict[str, Partitions] = {}
        self.has_digests: dict[str, bool] = {}

    def __call__(self, events: tuple[Event, ...], state: RunState) -> None:
        for event in events:
            if isinstance(event, PartitionsCommitted):
                step = event.attempt.step
                self.partitions[step] = self.partitions.get(step, EMPTY) | event.partitions
                self.changed[step] = self.changed.get(step, EMPTY) | event.changed
                self.has_digests[step] = event.digests is not None
            elif isinstance(event, AttemptOpened) and event.attempt.step == self._dies_at:
                raise KeyboardInterrupt


def pipeline(folder: Path, *, is_random: bool = False) -> rk.Pipeline:
    """Priced in Python, which nobody can prove; counted; and joined."""
    made = rk.Pipeline("shop")

    @made.source
    def orders(spark: SparkSession) -> DataFrame:
        return spark.read.schema("id long, k long").parquet(str(folder / "orders"))

    @made.step(result="blocking")
    def priced(orders: DataFrame) -> DataFrame:
        price = F.udf(lambda number: number * (random.random() if is_random else 2.0), "double")
        return orders.withColumn("price", price("id"))

    @made.step
    def counted(priced: DataFrame) -> DataFrame:
        return priced.groupBy("k").agg(F.count("*").alias("n"))

    @made.sink(rk.files(str(folder / "out")))
    def joined(priced: DataFrame, counted: DataFrame) -> DataFrame:
        return priced.join(counted, "k")

    return made


Policy = Literal["auto", "always", "never"]


def lost_and_resumed(
    spark: SparkSession, folder: Path, digest: Policy = "auto", *, is_random: bool = False
) -> tuple[Committed, Committed]:
    """A driver dies before the last step; a file of the first one is removed; another driver goes on. What each
    committed."""
    spark.range(400).selectExpr("id", "id % 7 k").repartition(4).write.parquet(str(folder / "orders"))
    first, second = Committed(dies_at="joined"), Committed()
    with pytest.raises(KeyboardInterrupt):
        options = rk.RunOptions(config=AT_ONCE, watcher=first, digest=digest)
        pipeline(folder, is_random=is_random).run(spark, str(folder / "runs"), options=options)
    next((folder / "runs").glob("shop/*/results/priced/*/*/part-*_00001.*")).unlink()
    options = rk.RunOptions(watcher=second, digest=digest)
    summary = pipeline(folder, is_random=is_random).run(spark, str(folder / "runs"), options=options)
    assert summary.was_resumed and second.partitions["priced"] == Partitions((1,))
    rows = rk.read_newest(spark, str(folder / "out"))
    assert rows.count() == 400 and rows.select("n").distinct().count() == 2
    return first, second


def test_by_itself_what_is_not_proved_gets_digests_and_what_is_proved_none(spark: SparkSession, tmp_path: Path) -> None:
    first, _ = lost_and_resumed(spark, tmp_path)
    assert first.has_digests == {"priced": True, "counted": False}


def test_an_equal_digest_leaves_the_readers_alone(spark: SparkSession, tmp_path: Path) -> None:
    _, second = lost_and_resumed(spark, tmp_path)
    assert not second.changed["priced"]
    assert "counted" not in second.partitions


def test_another_digest_restarts_them(spark: SparkSession, tmp_path: Path) -> None:
    first, second = lost_and_resumed(spark, tmp_path, is_random=True)
    assert second.changed["priced"] == Partitions((1,))
    assert second.partitions["counted"] == first.partitions["counted"]


def test_the_control_without_digests_they_restart_for_nothing(spark: SparkSession, tmp_path: Path) -> None:
    first, second = lost_and_resumed(spark, tmp_path, "never")
    assert first.has_digests == {"priced": False, "counted": False}
    assert second.changed["priced"] == Partitions((1,))
    assert second.partitions["counted"] == first.partitions["counted"]
