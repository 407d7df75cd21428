"""Unions, coalesces and chains over kept results: no row is moved, and one lost partition costs one of each reader.

Bare Spark runs the same program, and Spark's own event log and plans are the judges of what was read.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.engine.spark import prepare
from rekindle.engine.spark.adapter import SparkAdapter
from rekindle.engine.spark.plan import file_partitions
from rekindle.engine.spark.plan.layout import EDGES, UNIONS
from rekindle.engine.spark.run import results
from rekindle.failover.backoff import FixedDelay, NoRestart
from rekindle.master.facts.config import BackoffSpec, MasterConfig
from rekindle.runtime.opening import peek
from rekindle.storage.stores import open_store

SHOPS = ("east", "west")
TRIES = rk.RunOptions(config=MasterConfig(backoff=BackoffSpec.of(FixedDelay(4, 1))))
ONE_TRY = rk.RunOptions(config=MasterConfig(backoff=BackoffSpec.of(NoRestart())))

Unite = Callable[[DataFrame, DataFrame], DataFrame]


def bare(spark: SparkSession, folder: Path, shop: str) -> DataFrame:
    orders = spark.read.parquet(f"{folder}/orders").where(f"shop = '{shop}'")
    return orders.groupBy("customer").agg(F.sum("amount").alias("total"))


def united(east: DataFrame, west: DataFrame) -> DataFrame:
    both = east.withColumn("shop", F.lit("east")).unionByName(west.withColumn("shop", F.lit("west")))
    return both.where("total % 5 <> 0")


def without_keys(east: DataFrame, west: DataFrame) -> DataFrame:
    return east.selectExpr("total * 2 t").union(west.selectExpr("total t"))


def with_itself(east: DataFrame, west: DataFrame) -> DataFrame:
    return east.select("total").union(west.select("total")).union(east.select("total"))


def chained(east: DataFrame, west: DataFrame) -> DataFrame:
    return east.selectExpr("total + 1 t")


def coalesced(east: DataFrame, west: DataFrame) -> DataFrame:
    return united(east, west).coalesce(3)


def coalesced_alone(east: DataFrame, west: DataFrame) -> DataFrame:
    return east.coalesce(2).selectExpr("total + 1 t")


def coalesced_twice(east: DataFrame, west: DataFrame) -> DataFrame:
    return east.coalesce(3).selectExpr("total + 1 t").coalesce(2)


def made(folder: Path, unite: Unite) -> rk.Pipeline:
    """The sink fails as long as there is a file `poison`, for the rows that its text selects."""
    pipeline, poison = rk.Pipeline("shops"), Path(f"{folder}/poison")

    @pipeline.source
    def orders(spark: SparkSession) -> DataFrame:
        return spark.read.parquet(f"{folder}/orders")

    @pipeline.step(result="blocking", partition_by="customer", partitions=4, keep_until="run end")
    def east(orders: DataFrame) -> DataFrame:
        return orders.where("shop = 'east'").groupBy("customer").agg(F.sum("amount").alias("total"))

    @pipeline.step(result="blocking", partition_by="customer", partitions=3, keep_until="run end")
    def west(orders: DataFrame) -> DataFrame:
        return orders.where("shop = 'west'").groupBy("customer").agg(F.sum("amount").alias("total"))

    @pipeline.step(result="blocking", keep_until="run end")
    def both(east: DataFrame, west: DataFrame) -> DataFrame:
        return unite(east, west)

    @pipeline.sink(rk.files(f"{folder}/gold"))
    def gold(both: DataFrame) -> DataFrame:
        wrong = (poison.read_text() or "true") if poison.exists() else "false"
        return both.where(F.expr(f"if({wrong}, raise_error('poison'), true)"))

    return pipeline


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Path:
    shop = "case when id % 3 = 0 then 'east' else 'west' end shop"
    rows = spark.range(900).selectExpr("id % 40 customer", "id amount", shop)
    rows.coalesce(3).write.parquet(f"{tmp_path}/orders")
    return tmp_path


def rows_of(frame: DataFrame) -> list[str]:
    return sorted(str(tuple(row)) for row in frame.collect())


def is_right(spark: SparkSession, lake: Path, unite: Unite) -> bool:
    expected = unite(*(bare(spark, lake, shop) for shop in SHOPS))
    return rows_of(rk.read_newest(spark, f"{lake}/gold")) == rows_of(expected)


def edges_of(lake: Path, run: str) -> dict[str, str]:
    """How `both` reads, as the journal has it."""
    state = peek(open_store(f"{lake}/runs", {}), "shops", run)
    assert state is not None
    edges = [edge for edge in state.spec.graph.edges if edge.consumer == "both"]
    return {edge.producer: f"{edge.mapping} {edge.by}" + (f" of {edge.of}" if edge.of else "") for edge in edges}


@pytest.mark.parametrize(
    ("unite", "partitions", "edges"),
    [
        (united, 7, {"east": "offset 0", "west": "offset 4"}),
        (without_keys, 7, {"east": "offset 0", "west": "offset 4"}),
        (chained, 4, {"east": "identity 0"}),
        (with_itself, 3, {"east": "all 0", "west": "all 0"}),
        (coalesced, 3, {"east": "interval 0 of 7", "west": "interval 4 of 7"}),
        (coalesced_alone, 2, {"east": "interval 0"}),
        (coalesced_twice, 2, {"east": "all 0"}),
    ],
)
def test_partitions_are_read_one_by_one(
    spark: SparkSession, lake: Path, unite: Unite, partitions: int, edges: dict[str, str]
) -> None:
    """And the rows are those of bare Spark. What is read twice goes through an exchange."""
    done = made(lake, unite).run(spark, f"{lake}/runs")
    found = edges_of(lake, done.run)
    assert {name: edge for name, edge in found.items() if name in edges} == edges
    assert done.steps["both"].partitions == partitions
    assert is_right(spark, lake, unite)


def lose_and_resume(spark: SparkSession, lake: Path, unite: Unite, lost: dict[str, int]) -> rk.RunSummary:
    """A run whose sink fails, and a new one after these partitions are gone."""
    (lake / "poison").touch()
    with pytest.raises(rk.RunFailed):
        made(lake, unite).run(spark, f"{lake}/runs", options=TRIES)
    (lake / "poison").unlink()
    for step, at in lost.items():
        (file,) = (lake / "runs").rglob(f"results/{step}/**/part-*_{at:05d}.*")
        file.unlink()
    return made(lake, unite).run(spark, f"{lake}/runs")


@pytest.mark.parametrize(
    ("unite", "lost", "number", "read_by"),
    [
        (united, "east", 2, 2),
        (united, "west", 1, 5),
        (coalesced, "east", 2, 1),
        (coalesced, "west", 1, 2),
        (coalesced_alone, "east", 3, 1),
    ],
)
def test_a_lost_partition_costs_its_readers_and_no_others(
    spark: SparkSession, lake: Path, unite: Unite, lost: str, number: int, read_by: int
) -> None:
    """A new driver finds one partition of one side gone, and that of the union which reads it."""
    done = lose_and_resume(spark, lake, unite, {lost: number, "both": read_by})
    computed = {name: step.computed for name, step in done.steps.items()}
    expected = {"east": 0, "both": 1, "gold": done.steps["both"].partitions} | {lost: 1}
    assert {name: computed[name] for name in expected} == expected
    assert is_right(spark, lake, unite)


def test_control_files_put_together_as_spark_lists_them_give_other_rows(
    spark: SparkSession, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan of one partition reads fewer files: their places say nothing, their numbers do."""
    monkeypatch.setattr(file_partitions, "numbers", lambda offsets, lines: list(range(len(list(lines)))))
    lose_and_resume(spark, lake, coalesced, {"west": 1, "both": 2})
    assert not is_right(spark, lake, coalesced)


@pytest.mark.parametrize(("unite", "drawn"), [(united, {}), (coalesced, {}), (coalesced, {EDGES: UNIONS})])
def test_a_run_that_was_started_before_these_had_numbers_goes_on(
    spark: SparkSession,
    lake: Path,
    monkeypatch: pytest.MonkeyPatch,
    unite: Unite,
    drawn: dict[str, str],
) -> None:
    real = prepare.pinned_settings

    def before(spark: SparkSession) -> dict[str, str]:
        return {name: value for name, value in real(spark).items() if name != EDGES} | drawn

    (lake / "poison").touch()
    with monkeypatch.context() as older:
        older.setattr(SparkAdapter, "pinned_settings", staticmethod(before))
        with pytest.raises(rk.RunFailed):
            made(lake, unite).run(spark, f"{lake}/runs", options=ONE_TRY)
    (lake / "poison").unlink()
    done = made(lake, unite).run(spark, f"{lake}/runs")
    assert edges_of(lake, done.run) == {"east": "all 0", "west": "all 0"}
    assert done.was_resumed and done.steps["both"].computed == 0
    assert is_right(spark, lake, unite)


def test_control_files_that_are_not_told_apart_are_noticed(
    spark: SparkSession, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If Spark read other files than one in each task, no partition may count as empty."""
    monkeypatch.setattr(results, "files_of", lambda session, rdd: [])
    with pytest.raises(rk.RunFailed, match="kept results in 7 tasks"):
        made(lake, united).run(spark, f"{lake}/runs", options=ONE_TRY)


def test_a_coalesce_of_nothing_is_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """A source without files, as on a day without orders."""
    pipeline = rk.Pipeline("nothing")
    spark.range(0).write.parquet(f"{tmp_path}/orders")
    for file in (tmp_path / "orders").glob("part-*"):
        file.unlink()

    @pipeline.source
    def orders(spark: SparkSession) -> DataFrame:
        return spark.read.schema("id long").parquet(f"{tmp_path}/orders")

    @pipeline.sink(rk.files(f"{tmp_path}/gold"))
    def gold(orders: DataFrame) -> DataFrame:
        return orders.where("id > 3").coalesce(4)

    pipeline.run(spark, f"{tmp_path}/runs")
    assert rk.read_newest(spark, f"{tmp_path}/gold").count() == 0


@pytest.mark.parametrize("place", ["monotonically_increasing_id()", "spark_partition_id()"])
def test_a_number_of_the_place_of_a_task_is_made_for_all_partitions(
    spark: SparkSession, lake: Path, place: str
) -> None:
    """Where fewer files are read a task has another place: partitions of two attempts would share numbers."""

    def placed(east: DataFrame, west: DataFrame) -> DataFrame:
        return east.selectExpr("total", f"{place} place").coalesce(3)

    done = lose_and_resume(spark, lake, placed, {"east": 0, "both": 0})
    assert done.steps["both"].computed == 3
    rows = rk.read_newest(spark, f"{lake}/gold")
    distinct = rows.select("place").distinct().count()
    assert distinct == (rows.count() if "increasing" in place else 4)


def test_a_failure_names_the_partition_that_was_read(spark: SparkSession, lake: Path) -> None:
    """Also in a Spark job of some partitions only, whose tasks are counted from 0."""
    (lake / "poison").write_text("shop = 'west' and customer = 7")
    with pytest.raises(rk.RunFailed) as failed:
        made(lake, united).run(spark, f"{lake}/runs", options=TRIES)
    told = re.findall(r"gold\[(\d+)\][^\n]*reading kept result both\[(\d+)\]", str(failed.value))
    assert told and all(own == read and int(own) >= 4 for own, read in told), str(failed.value)
