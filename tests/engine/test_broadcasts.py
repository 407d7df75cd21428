"""A join with a broadcast, and a subquery: what is handed to every task moves no row of the other side.

Bare Spark runs the same program, and what runs again after a loss is counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.engine.spark import prepare
from rekindle.engine.spark.adapter import SparkAdapter
from rekindle.engine.spark.plan import layout
from rekindle.engine.spark.plan.layout import EDGES, UNIONS
from rekindle.engine.spark.plan.plans import Shape
from rekindle.engine.spark.run import results
from rekindle.engine.spark.session import group_session
from rekindle.failover.backoff import FixedDelay
from rekindle.master.facts.config import BackoffSpec, MasterConfig
from rekindle.model.partitions import Partitions
from rekindle.runtime.opening import peek
from rekindle.storage.stores import open_store

TRIES = rk.RunOptions(config=MasterConfig(backoff=BackoffSpec.of(FixedDelay(4, 1))), quiet=True)
LOST = 2

Join = Callable[[DataFrame, DataFrame], DataFrame]


def named(sales: DataFrame, shops: DataFrame) -> DataFrame:
    return sales.join(F.broadcast(shops), "shop", "left").select("customer", "total", "name")


def without_key(sales: DataFrame, shops: DataFrame) -> DataFrame:
    return sales.join(F.broadcast(shops), "shop").selectExpr("total * 2 t", "name")


def above_least(sales: DataFrame, shops: DataFrame) -> DataFrame:
    return sales.where(F.col("shop") > shops.select(F.min("shop")).scalar())


def not_asked_for(sales: DataFrame, shops: DataFrame) -> DataFrame:
    """Spark may broadcast the small side, by its size; nobody asked for it."""
    return sales.join(shops, "shop").select("customer", "total", "name")


def either(sales: DataFrame, shops: DataFrame) -> DataFrame:
    """Spark broadcasts the side that is smaller when it runs."""
    return F.broadcast(sales).join(F.broadcast(shops), "shop").select("total", "name")


def by_cached(sales: DataFrame, shops: DataFrame) -> DataFrame:
    """What the cached rows were made from is not in the plan."""
    totals = sales.groupBy("shop").agg(F.sum("total").alias("whole")).cache()
    return sales.join(F.broadcast(totals), "shop").select("customer", "total", "whole")


def with_itself(sales: DataFrame, shops: DataFrame) -> DataFrame:
    return sales.join(
        F.broadcast(sales.select(F.col("total").alias("t2"), F.col("customer").alias("c2"))), F.expr("customer = c2")
    )


def bare(spark: SparkSession, folder: Path, join: Join) -> DataFrame:
    orders = spark.read.parquet(f"{folder}/orders")
    sales = orders.groupBy("customer", "shop").agg(F.sum("amount").alias("total"))
    return join(sales, orders.select("shop").distinct().withColumn("name", F.expr("concat('n', shop)")))


def made(folder: Path, join: Join) -> rk.Pipeline:
    """The user gives no word for `sales`, so that what is made again of it counts as different."""
    pipeline, poison = rk.Pipeline("shops"), Path(f"{folder}/poison")

    @pipeline.source
    def orders(spark: SparkSession) -> DataFrame:
        return spark.read.parquet(f"{folder}/orders")

    @pipeline.step(
        result="blocking",
        partition_by="customer",
        partitions=4,
        keep_until="run end",
        deterministic=False,
        digest="never",
    )
    def sales(orders: DataFrame) -> DataFrame:
        return orders.groupBy("customer", "shop").agg(F.sum("amount").alias("total"))

    @pipeline.step(result="blocking", partition_by="shop", partitions=2, keep_until="run end")
    def shops(orders: DataFrame) -> DataFrame:
        return orders.select("shop").distinct().withColumn("name", F.expr("concat('n', shop)"))

    @pipeline.step(result="blocking", keep_until="run end")
    def both(sales: DataFrame, shops: DataFrame) -> DataFrame:
        return join(sales, shops)

    @pipeline.sink(rk.files(f"{folder}/gold"))
    def gold(both: DataFrame) -> DataFrame:
        return both.where(F.expr(f"if({str(poison.exists()).lower()}, raise_error('poison'), true)"))

    return pipeline


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Path:
    rows = spark.range(900).selectExpr("id % 40 customer", "id % 5 shop", "id amount")
    rows.coalesce(3).write.parquet(f"{tmp_path}/orders")
    return tmp_path


def is_right(spark: SparkSession, lake: Path, join: Join) -> bool:
    both = rk.read_newest(spark, f"{lake}/gold"), bare(spark, lake, join)
    ours, theirs = (sorted(map(str, frame.collect())) for frame in both)
    return ours == theirs


def edges_of(lake: Path, run: str) -> dict[str, str]:
    state = peek(open_store(f"{lake}/runs", {}), "shops", run)
    assert state is not None
    return {edge.producer: edge.mapping for edge in state.spec.graph.edges if edge.consumer == "both"}


@pytest.mark.parametrize(
    ("join", "edges"),
    [
        (named, {"sales": "identity", "shops": "broadcast"}),
        (without_key, {"sales": "identity", "shops": "broadcast"}),
        (above_least, {"sales": "identity", "shops": "broadcast"}),
        (not_asked_for, {"sales": "all", "shops": "all"}),
        (either, {"sales": "all", "shops": "broadcast"}),
        (by_cached, {"sales": "all", "shops": "all"}),
        (with_itself, {"sales": "all", "shops": "all"}),
    ],
)
def test_what_is_handed_to_every_task_moves_no_other_row(
    spark: SparkSession, lake: Path, join: Join, edges: dict[str, str]
) -> None:
    """What is read as it lies and handed to every task, too, is read as a whole."""
    done = made(lake, join).run(spark, f"{lake}/runs", options=rk.RunOptions(quiet=True))
    assert edges_of(lake, done.run) == edges
    assert is_right(spark, lake, join)


@pytest.mark.parametrize("join", [named, without_key, above_least])
@pytest.mark.parametrize("drawn", [{}, {EDGES: UNIONS}], ids=["now", "as it was drawn before"])
def test_a_lost_partition_takes_along_the_one_that_read_it(
    spark: SparkSession, lake: Path, join: Join, drawn: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, all of them: a run that was started then goes on as it began. No digest tells that the same came back."""
    real = prepare.pinned_settings
    (lake / "poison").touch()
    with monkeypatch.context() as older:
        older.setattr(SparkAdapter, "pinned_settings", staticmethod(lambda spark: real(spark) | drawn))
        with pytest.raises(rk.RunFailed):
            made(lake, join).run(spark, f"{lake}/runs", options=TRIES)
    (lake / "poison").unlink()
    for step in ("sales", "both"):
        (file,) = (lake / "runs").rglob(f"results/{step}/**/part-*_{LOST:05d}.*")
        file.unlink()
    done = made(lake, join).run(spark, f"{lake}/runs", options=rk.RunOptions(quiet=True))
    again = {name: step.computed for name, step in done.steps.items()}
    whole = done.steps["both"].partitions
    assert again == {"sales": 1, "shops": 0, "both": whole if drawn else 1, "gold": whole}
    assert is_right(spark, lake, join)


def test_the_control_an_exchange_that_was_not_drawn_is_noticed(spark: SparkSession, tmp_path: Path) -> None:
    """One partition was given the input of one partition only."""
    session = group_session(spark, {})
    frame = session.range(90).selectExpr("id % 7 k").groupBy("k").count()
    held = layout.hold(frame, session, layout.choose(frame, ("k",), 4))
    drawn = replace(
        held,
        shape=Shape(exchanges=0, broadcasts=0, subqueries=0, is_barrier=False),
        way=layout.ShufflePlacement.POINTWISE,
    )
    with pytest.raises(RuntimeError, match="drawn without one"):
        results.write(drawn, f"file:{tmp_path}", Partitions((1,)), "test", is_first=False)
