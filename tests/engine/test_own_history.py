"""A pipeline that reads the newest version of its own target and replaces it, as a slowly changing dimension does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.master.facts.events import SinkPublished
from rekindle.service import running
from rekindle.storage.store import Store
from rekindle.storage.stores import open_target


def nightly(folder: Path) -> rk.Pipeline:
    made = rk.Pipeline("nightly")

    @made.source
    def before(spark: SparkSession) -> DataFrame:
        return rk.read_newest(spark, f"{folder}/history")

    @made.sink(rk.files(f"{folder}/history"), partition_by="id", partitions=2)
    def history(before: DataFrame, day: str) -> DataFrame:
        return before.unionByName(before.sparkSession.range(3).select("id", F.lit(day).alias("day")))

    return made


def days(spark: SparkSession, folder: Path) -> dict[str, int]:
    rows = rk.read_newest(spark, f"{folder}/history").groupBy("day").count().collect()
    return {row["day"]: row["count"] for row in rows}


def void(summary: rk.RunSummary) -> None: ...


def begin(spark: SparkSession, folder: Path) -> None:
    """The first night, of the same pipeline."""
    made = rk.Pipeline("nightly")
    made.add_source(lambda spark, day: spark.range(3).selectExpr("id", f"'{day}' day"), name="customers")
    made.add_sink(lambda customers: customers, rk.files(f"{folder}/history"), name="history")
    made.run(spark, f"{folder}/runs", day="1")


def test_two_nights_at_once_do_not_undo_each_other(spark: SparkSession, tmp_path: Path) -> None:
    """Night 3 read the history before night 2 published its own: it would have put a history without night 2 there."""
    begin(spark, tmp_path)
    options = rk.RunOptions(on_plan=lambda plan: void(nightly(tmp_path).run(spark, f"{tmp_path}/runs", day="2")))
    with pytest.raises(rk.RunFailed, match="what that run changed would be undone") as failed:
        nightly(tmp_path).run(spark, f"{tmp_path}/runs", day="3", options=options)
    assert not failed.value.is_resumable and "RunOptions(new=True)" in failed.value.hint
    assert days(spark, tmp_path) == {"1": 3, "2": 3}
    nightly(tmp_path).run(spark, f"{tmp_path}/runs", day="3", options=rk.RunOptions(new=True))
    assert days(spark, tmp_path) == {"1": 3, "2": 3, "3": 3}


def test_a_run_does_not_read_what_it_published(spark: SparkSession, tmp_path: Path) -> None:
    """Asked for again, and resumed after it published one of two sinks: its input is the version before, as it was."""
    begin(spark, tmp_path)
    location = f"{tmp_path}/runs"
    made = nightly(tmp_path)

    @made.sink(rk.files(f"{tmp_path}/later"), partition_by="id", partitions=2)
    def later(history_of_day: DataFrame) -> None: ...

    @made.source
    def history_of_day(spark: SparkSession, day: str) -> DataFrame:
        return spark.range(5)

    def die(events: tuple[object, ...], state: object) -> None:
        if any(isinstance(event, SinkPublished) and event.sink == "history" for event in events):
            raise InterruptedError

    with pytest.raises(InterruptedError):
        made.run(spark, location, day="2", options=rk.RunOptions(watcher=die))
    assert days(spark, tmp_path) == {"1": 3, "2": 3}
    made.run(spark, location, day="2", options=rk.RunOptions(force=True))
    assert days(spark, tmp_path) == {"1": 3, "2": 3}
    made.run(spark, location, day="3")
    for day in ("2", "3"):
        again = made.run(spark, location, day=day)
        assert again.was_done and again.differs == ()
    assert days(spark, tmp_path) == {"1": 3, "2": 3, "3": 3}


def test_a_step_reads_a_target_with_the_storage_options_of_its_run(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Endpoint and credentials were given to the run: a step must not need them again. Outside of a run the settings
    have them."""
    begin(spark, tmp_path)
    asked: list[dict[str, str]] = []

    def opened(base: str, storage: Mapping[str, str]) -> Store:
        asked.append(dict(storage))
        return open_target(base, storage)

    monkeypatch.setattr(running, "open_target", opened)
    nightly(tmp_path).run(spark, f"{tmp_path}/runs", day="2", options=rk.RunOptions(storage={"region": "of the run"}))
    assert asked and all(one == {"region": "of the run"} for one in asked)
    asked.clear()
    monkeypatch.setenv("REKINDLE_STORAGE_REGION", "of the settings")
    assert days(spark, tmp_path) == {"1": 3, "2": 3}
    assert asked == [{"region": "of the settings"}]
    rk.read_newest(spark, f"{tmp_path}/history", {})
    assert asked[-1] == {}
