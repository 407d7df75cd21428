"""A pipeline that reads the table that it replaces, as a slowly changing dimension does: what happened to the table
since it was read is not undone."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.engine.spark.jvm import iceberg_calls
from rekindle.engine.spark.publish.table_log import TableLogPublisher
from rekindle.master.facts.events import SinkPublished
from rekindle.publish.targets import Target


@dataclass(frozen=True)
class Own:
    """A table of one format: how it is read, and which target it is. `name` is what SQL calls it."""

    spark: SparkSession
    folder: Path
    name: str
    read: Callable[[SparkSession], DataFrame]
    target: Callable[..., Target]

    def pipeline(self, change: Callable[[DataFrame, str], DataFrame], **target: Any) -> rk.Pipeline:
        made = rk.Pipeline("nightly")
        read = self.read

        @made.source
        def before(spark: SparkSession) -> DataFrame:
            return read(spark)

        @made.sink(self.target(**target), partition_by="id", partitions=2)
        def history(before: DataFrame, day: str) -> DataFrame:
            return change(before, day)

        return made

    def run(self, pipeline: rk.Pipeline, day: str, **options: Any) -> rk.RunSummary:
        return pipeline.run(self.spark, f"{self.folder}/runs", day=day, options=rk.RunOptions(**options))

    def days(self) -> dict[str, int]:
        return dict(Counter(row["day"] for row in self.read(self.spark).collect()))

    def sql(self, text: str) -> None:
        self.spark.sql(text.format(table=self.name))


@pytest.fixture(params=["delta", "iceberg"])
def own(request: pytest.FixtureRequest, tables: SparkSession, tmp_path: Path) -> Own:
    """With a first day, which no run of ours wrote."""
    if request.param == "delta":
        path = f"{tmp_path}/history"
        made = Own(
            tables,
            tmp_path,
            f"delta.`{path}`",
            lambda spark: spark.read.format("delta").load(path),
            lambda **options: rk.delta(path, **options),
        )
    else:
        name = "lake.db.past"  # `history` is what Iceberg calls a part of each table.
        tables.sql("CREATE DATABASE IF NOT EXISTS lake.db")
        found = iceberg_calls.find(tables, name)
        tables.sql(f"DROP TABLE IF EXISTS {name}")
        if found.kind == "table":  # Catalogs leave files that no snapshot has.
            shutil.rmtree(found.told.removeprefix("file:"), ignore_errors=True)
        made = Own(
            tables, tmp_path, name, lambda spark: spark.table(name), lambda **options: rk.iceberg(name, **options)
        )
    made.sql(f"CREATE TABLE {{table}} (id BIGINT, day STRING) USING {request.param}")
    made.sql("INSERT INTO {table} SELECT id, '1' FROM range(3)")
    return made


def with_day(before: DataFrame, day: str) -> DataFrame:
    """Everything that is there, and three rows of the day."""
    return before.unionByName(before.sparkSession.range(3).select("id", F.lit(day).alias("day")))


def only_day(before: DataFrame, day: str) -> DataFrame:
    """One row of the day, which says how many days there are."""
    return before.groupBy().agg(F.countDistinct("day").alias("id")).withColumn("day", F.lit(day))


def during(own: Own, act: Callable[[], object]) -> dict[str, Any]:
    """Options of a run beside which something happens after it has read the table."""
    return {"on_plan": lambda plan: void(act())}


def void(answer: object) -> None: ...


def test_night_after_night_and_a_night_again(own: Own) -> None:
    nightly = own.pipeline(with_day)
    own.run(nightly, "2")
    own.run(nightly, "3")
    assert own.days() == {"1": 3, "2": 3, "3": 3}
    again = own.run(nightly, "3")
    assert again.was_done and again.differs == ()
    assert own.days() == {"1": 3, "2": 3, "3": 3}


def test_two_nights_at_once_do_not_undo_each_other(own: Own) -> None:
    nightly = own.pipeline(with_day)
    with pytest.raises(rk.RunFailed, match="what that run changed would be undone") as failed:
        own.run(nightly, "3", **during(own, lambda: own.run(own.pipeline(with_day), "2")))
    assert not failed.value.is_resumable and "RunOptions(new=True)" in failed.value.hint
    assert own.days() == {"1": 3, "2": 3}
    own.run(nightly, "3", new=True)
    assert own.days() == {"1": 3, "2": 3, "3": 3}


def test_control_without_the_look_a_night_is_undone(own: Own, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TableLogPublisher, "_check_undone", lambda self, spark, what, base, state: None)
    own.run(own.pipeline(with_day), "3", **during(own, lambda: own.run(own.pipeline(with_day), "2")))
    assert own.days() == {"1": 3, "3": 3}


def test_rows_that_somebody_deleted_do_not_come_back(own: Own) -> None:
    delete = "DELETE FROM {table} WHERE id = 1"
    with pytest.raises(rk.RunFailed, match="somebody else changed rows of it since") as failed:
        own.run(own.pipeline(with_day), "2", **during(own, lambda: own.sql(delete)))
    assert not failed.value.is_resumable
    assert own.days() == {"1": 2}


def test_files_that_are_compacted_meanwhile_are_no_change(own: Own) -> None:
    own.sql("INSERT INTO {table} SELECT id, '0' FROM range(2)")

    def compact() -> None:
        if own.name.startswith("delta"):
            own.sql("OPTIMIZE {table}")
        else:
            own.sql("CALL lake.system.rewrite_data_files(table => '{table}', options => map('rewrite-all', 'true'))")

    own.run(own.pipeline(with_day), "2", **during(own, compact))
    assert own.days() == {"0": 2, "1": 3, "2": 3}


def test_days_that_read_all_days_and_replace_their_own_do_not_hinder_each_other(own: Own) -> None:
    """Each looked at the other days as they were."""
    nightly = own.pipeline(only_day, partition={"day": "{day}"})
    beside = own.pipeline(only_day, partition={"day": "{day}"})
    own.run(nightly, "3", **during(own, lambda: own.run(beside, "2")))
    assert own.days() == {"1": 3, "2": 1, "3": 1}
    inserted = "INSERT INTO {table} VALUES (7, '4')"
    with pytest.raises(rk.RunFailed, match="somebody else changed rows"):
        own.run(nightly, "4", **during(own, lambda: own.sql(inserted)))


def test_rows_of_a_key_are_not_replaced_by_what_was_made_by_looking_at_them(own: Own) -> None:
    """What is new of a day, as many write it: the second time nothing is new, and nothing would be left."""

    def what_is_new(before: DataFrame, day: str) -> DataFrame:
        rows = before.sparkSession.range(3).select("id", F.lit(day).alias("day"))
        return rows.join(before, ["id", "day"], "left_anti")

    nightly = own.pipeline(what_is_new, mode="append")
    own.run(nightly, "2")
    assert own.days() == {"1": 3, "2": 3}
    with pytest.raises(rk.Refused, match="this run would read those rows and then replace them"):
        own.run(nightly, "2", new=True)
    assert own.days() == {"1": 3, "2": 3}


def test_a_driver_that_died_after_publishing_is_followed_by_one_that_reads_the_table_as_it_was(own: Own) -> None:
    made = own.pipeline(with_day)

    @made.source
    def of_day(spark: SparkSession, day: str) -> DataFrame:
        return spark.range(5)

    @made.sink(rk.files(f"{own.folder}/later"), partition_by="id", partitions=2)
    def later(of_day: DataFrame) -> None: ...

    def die(events: tuple[object, ...], state: object) -> None:
        if any(isinstance(event, SinkPublished) and event.sink == "history" for event in events):
            raise InterruptedError

    with pytest.raises(InterruptedError):
        own.run(made, "2", watcher=die)
    assert own.days() == {"1": 3, "2": 3}
    own.run(made, "2", force=True)
    assert own.days() == {"1": 3, "2": 3}


def test_a_step_that_reads_the_table_by_itself_is_refused(own: Own) -> None:
    made, read = rk.Pipeline("nightly"), own.read

    @made.source
    def numbers(spark: SparkSession) -> DataFrame:
        return spark.range(3)

    @made.sink(own.target(), partition_by="id", partitions=2)
    def history(numbers: DataFrame, day: str) -> DataFrame:
        return with_day(read(numbers.sparkSession).join(numbers, "id", "left_semi"), day)

    with pytest.raises(rk.Refused, match=r"read by a step of this run, at no version|publish to another directory"):
        own.run(made, "2")
    assert own.days() == {"1": 3}
