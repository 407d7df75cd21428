"""A step that ends with a sort is kept as its rows lie below it: its readers get the sort, and another driver what was
kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.engine.spark import prepare
from rekindle.engine.spark.adapter import SparkAdapter
from rekindle.engine.spark.plan.layout import EDGES, UNIONS
from rekindle.failover.backoff import NoRestart
from rekindle.master.facts.config import BackoffSpec, MasterConfig
from rekindle.model.kinds import Determinism
from rekindle.runtime.opening import peek
from rekindle.storage.stores import open_store

ONE_TRY = rk.RunOptions(config=MasterConfig(backoff=BackoffSpec.of(NoRestart())), quiet=True)


def in_places(rows: DataFrame) -> DataFrame:
    def numbered(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for batch in batches:
            yield batch.assign(place=range(len(batch)))

    return rows.mapInPandas(numbered, "customer long, total long, place long")


SORTED = {
    "a sort": lambda rows: rows.orderBy(F.desc("total"), "customer"),
    "a filter and a column above it": lambda rows: (
        rows.orderBy("total", "customer").where("total > 9").selectExpr("*", "1 one")
    ),
    "a number above it": lambda rows: rows.orderBy("total", "customer").withColumn(
        "n", F.monotonically_increasing_id()
    ),
    "a column that is not returned": lambda rows: rows.orderBy("total", "customer").select("customer"),
    "python above it": lambda rows: in_places(rows.orderBy("total", "customer")),
    "a limit above it": lambda rows: rows.orderBy("total", "customer").limit(7),
}
LEFT = ("a sort", "a filter and a column above it")


def made(folder: Path, name: str) -> rk.Pipeline:
    pipeline, poison = rk.Pipeline("ranks"), Path(f"{folder}/poison")

    @pipeline.source
    def orders(spark: SparkSession) -> DataFrame:
        return spark.read.parquet(f"{folder}/orders")

    @pipeline.step(result="blocking", partition_by="customer", partitions=3, keep_until="run end")
    def totals(orders: DataFrame) -> DataFrame:
        return orders.groupBy("customer").agg(F.sum("amount").alias("total"))

    @pipeline.step(result="blocking", keep_until="run end")
    def ranked(totals: DataFrame) -> DataFrame:
        return SORTED[name](totals)

    @pipeline.step(result="blocking", keep_until="run end")
    def top(ranked: DataFrame) -> DataFrame:
        return ranked.limit(5)

    @pipeline.sink(rk.files(f"{folder}/gold"))
    def gold(top: DataFrame) -> DataFrame:
        return top.where(F.expr(f"if({str(poison.exists()).lower()}, raise_error('poison'), true)"))

    return pipeline


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Path:
    spark.range(900).selectExpr("id % 40 customer", "id amount").coalesce(3).write.parquet(f"{tmp_path}/orders")
    return tmp_path


def expected(spark: SparkSession, lake: Path, name: str) -> list[str]:
    totals = spark.read.parquet(f"{lake}/orders").groupBy("customer").agg(F.sum("amount").alias("total"))
    return sorted(map(str, SORTED[name](totals).limit(5).collect()))


@pytest.mark.parametrize("name", SORTED)
def test_readers_see_the_order_and_another_driver_goes_on(spark: SparkSession, lake: Path, name: str) -> None:
    """Where nothing above the sort sees the order, the sort is left to the readers: one partition is read by one, and
    the step is determinate. A new driver computes nothing of it again."""
    (lake / "poison").touch()
    with pytest.raises((rk.RunFailed, rk.GraphRefused)) as stopped:
        made(lake, name).run(spark, f"{lake}/runs", options=ONE_TRY)
    (lake / "poison").unlink()
    if stopped.type is rk.GraphRefused:
        assert name not in LEFT, stopped.value
        return
    done = made(lake, name).run(spark, f"{lake}/runs", options=rk.RunOptions(quiet=True))
    assert sorted(map(str, rk.read_newest(spark, f"{lake}/gold").collect())) == expected(spark, lake, name)
    state = peek(open_store(f"{lake}/runs", {}), "ranks", done.run)
    assert state is not None and done.was_resumed
    steps, edges = state.spec.graph.steps, state.spec.graph.edges
    found = {edge.mapping for edge in edges if edge.consumer == "ranked"}
    if name in LEFT:
        assert found == {"identity"} and state.spec.graph.step("ranked").determinism is Determinism.DETERMINATE
        assert done.steps["ranked"].computed == 0
    else:
        assert "identity" not in found, [step.name for step in steps]


def test_a_run_that_kept_its_rows_sorted_goes_on(
    spark: SparkSession, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = prepare.pinned_settings
    (lake / "poison").touch()
    with monkeypatch.context() as older:
        older.setattr(SparkAdapter, "pinned_settings", staticmethod(lambda spark: real(spark) | {EDGES: UNIONS}))
        with pytest.raises(rk.RunFailed):
            made(lake, "a sort").run(spark, f"{lake}/runs", options=ONE_TRY)
    (lake / "poison").unlink()
    done = made(lake, "a sort").run(spark, f"{lake}/runs", options=rk.RunOptions(quiet=True))
    state = peek(open_store(f"{lake}/runs", {}), "ranks", done.run)
    assert state is not None and done.was_resumed
    assert {edge.mapping for edge in state.spec.graph.edges if edge.consumer == "ranked"} == {"all"}
    assert sorted(map(str, rk.read_newest(spark, f"{lake}/gold").collect())) == expected(spark, lake, "a sort")
