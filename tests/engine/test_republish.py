"""Sinks are published, or may be, when the driver dies; what they were made from is lost and comes back different."""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.engine.spark.publish import sinks
from rekindle.errors import PublishedDiffers, RunFailed
from rekindle.failover.backoff import FixedDelay
from rekindle.master.facts.config import BackoffSpec, MasterConfig
from rekindle.master.facts.events import AttemptOpened, Event, PublicationOpened, SinkPublished, SinkUntouched
from rekindle.master.state.run_state import RunState
from support.shop import shop

AT_ONCE = MasterConfig(backoff=BackoffSpec.of(FixedDelay(5, 0)))
WAIT_SECONDS_MAX = 600


def pipeline(folder: Path) -> rk.Pipeline:
    """Prices by chance, which two sinks are made from."""
    made = shop(folder)

    @made.step(partition_by="id", partitions=2)
    def priced(orders: DataFrame) -> DataFrame:
        return orders.withColumn("price", F.udf(lambda number: random.random(), "double")("id"))

    @made.sink(rk.files(str(folder / "first")), partition_by="id", partitions=2)
    def first(priced: DataFrame) -> DataFrame:
        return priced.where("id >= 0")

    @made.sink(rk.files(str(folder / "second")), partition_by="id", partitions=2)
    def second(priced: DataFrame) -> DataFrame:
        return priced.where("id < 1000")

    return made


def half_published(spark: SparkSession, folder: Path) -> None:
    """The driver dies when `first` is published; `second` waits for that, and then is not published any more."""
    is_first_published, publish = threading.Event(), sinks.publish

    def held(session: SparkSession, what: Any, stores: Any) -> Any:
        if what.sink == "first":
            return publish(session, what, stores)
        is_first_published.wait(WAIT_SECONDS_MAX)
        raise OSError("the driver is dead")

    def watch(events: tuple[Event, ...], state: RunState) -> None:
        if any(isinstance(event, SinkPublished) for event in events):
            is_first_published.set()
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(sinks, "publish", held)
        pipeline(folder).run(spark, str(folder / "runs"), options=rk.RunOptions(config=AT_ONCE, watcher=watch))


def prices(spark: SparkSession, folder: Path, sink: str) -> dict[int, float]:
    return {row.id: row.price for row in rk.read_newest(spark, str(folder / sink)).collect()}


def test_two_targets_never_hold_two_versions_of_one_input(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(60).write.parquet(str(tmp_path / "orders"))
    half_published(spark, tmp_path)
    before = prices(spark, tmp_path, "first")
    for step in ("priced", "second"):
        [file] = (tmp_path / "runs").glob(f"shop/*/results/{step}/*/*/part-*_00001.*")
        file.unlink()
    with pytest.raises(PublishedDiffers, match=r"digest [0-9a-f]{48}, published [0-9a-f]{48}") as caught:
        pipeline(tmp_path).run(spark, str(tmp_path / "runs"), options=rk.RunOptions(config=AT_ONCE))
    assert "priced[1], which first was published from, and second may have been, was recomputed with other rows" in str(
        caught.value
    )
    assert "republish=True" in caught.value.hint and caught.value.is_resumable
    assert prices(spark, tmp_path, "first") == before and not (tmp_path / "second" / "pointers").exists()

    options = rk.RunOptions(config=AT_ONCE, republish=True)
    pipeline(tmp_path).run(spark, str(tmp_path / "runs"), options=options)
    now = prices(spark, tmp_path, "first")
    assert now == prices(spark, tmp_path, "second") and len(now) == 60
    changed = {number for number in now if now[number] != before[number]}
    assert changed and len(changed) < 60, "what was kept of the other partition still counts"


def test_what_a_target_took_unheard_is_not_replaced_without_a_word(spark: SparkSession, tmp_path: Path) -> None:
    """A target takes `first`, and the answer is lost: for the journal nothing is published."""
    spark.range(60).write.parquet(str(tmp_path / "orders"))
    is_taken, publish = threading.Event(), sinks.publish

    def unheard(session: SparkSession, what: Any, stores: Any) -> Any:
        if what.sink == "first":
            publish(session, what, stores)
            is_taken.set()
        is_taken.wait(WAIT_SECONDS_MAX)
        raise OSError("the driver is dead")

    with pytest.MonkeyPatch.context() as patch, pytest.raises(RunFailed):
        patch.setattr(sinks, "publish", unheard)
        pipeline(tmp_path).run(spark, str(tmp_path / "runs"), options=rk.RunOptions(config=AT_ONCE))
    before = prices(spark, tmp_path, "first")
    for step in ("priced", "second"):
        [file] = (tmp_path / "runs").glob(f"shop/*/results/{step}/*/*/part-*_00001.*")
        file.unlink()
    is_made_again = threading.Event()

    def late(session: SparkSession, what: Any, stores: Any) -> Any:
        if what.sink == "first":
            is_made_again.wait(WAIT_SECONDS_MAX)
        return publish(session, what, stores)

    def watch(events: tuple[Event, ...], state: RunState) -> None:
        if any(isinstance(event, AttemptOpened) for event in events):
            is_made_again.set()

    again = rk.RunOptions(config=AT_ONCE, watcher=watch)
    match = "which first and second may have been published from"
    with pytest.MonkeyPatch.context() as patch, pytest.raises(PublishedDiffers, match=match):
        patch.setattr(sinks, "publish", late)
        pipeline(tmp_path).run(spark, str(tmp_path / "runs"), options=again)
    assert prices(spark, tmp_path, "first") == before
    pipeline(tmp_path).run(spark, str(tmp_path / "runs"), options=rk.RunOptions(config=AT_ONCE, republish=True))
    assert before != prices(spark, tmp_path, "first") == prices(spark, tmp_path, "second")


def test_a_file_that_is_gone_when_it_is_to_be_published_is_made_again(spark: SparkSession, tmp_path: Path) -> None:
    """Nothing of that publication was written, and the journal says so: no word is needed."""
    spark.range(60).write.parquet(str(tmp_path / "orders"))
    journal: list[Event] = []

    def watch(events: tuple[Event, ...], state: RunState) -> None:
        if any(isinstance(event, PublicationOpened) for event in events) and state.publication_number == 1:
            [file] = (tmp_path / "runs").glob("shop/*/results/first/*/*/part-*_00001.*")
            file.unlink()
        journal.extend(events)

    pipeline(tmp_path).run(spark, str(tmp_path / "runs"), options=rk.RunOptions(config=AT_ONCE, watcher=watch))
    [untouched] = (event for event in journal if isinstance(event, SinkUntouched))
    assert (untouched.sink, untouched.fence.number) == ("first", 1)
