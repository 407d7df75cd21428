"""All rows in one partition: there is no other way to cut them, in whatever driver."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.engine.spark.plan import layout
from rekindle.engine.spark.session import group_session
from rekindle.model.kinds import Determinism
from rekindle.runtime.opening import peek
from rekindle.storage.stores import open_store


@pytest.mark.parametrize(
    ("total", "level"),
    [
        ("sum(s)", Determinism.DETERMINATE),
        ("first(s)", Determinism.UNKNOWN),
    ],
)
def test_an_exact_total_is_determinate(spark: SparkSession, tmp_path: Path, total: str, level: Determinism) -> None:
    spark.range(90).selectExpr("id % 7 k", "id v").coalesce(3).write.parquet(f"{tmp_path}/orders")
    pipeline = rk.Pipeline("totals")

    @pipeline.source
    def orders(spark: SparkSession) -> DataFrame:
        return spark.read.parquet(f"{tmp_path}/orders")

    @pipeline.step(result="blocking")
    def grand(orders: DataFrame) -> DataFrame:
        return orders.groupBy("k").agg(F.sum("v").alias("s")).agg(F.expr(total).alias("total"))

    @pipeline.sink(rk.files(f"{tmp_path}/gold"))
    def gold(grand: DataFrame) -> DataFrame:
        return grand

    done = pipeline.run(spark, f"{tmp_path}/runs")
    state = peek(open_store(f"{tmp_path}/runs", {}), "totals", done.run)
    assert state is not None
    step = state.spec.graph.step("grand")
    assert (step.partitions, step.determinism) == (1, level)
    if level is Determinism.DETERMINATE:
        assert rk.read_newest(spark, f"{tmp_path}/gold").collect()[0].total == sum(range(90))


def test_what_is_below_is_cut_as_ever(spark: SparkSession) -> None:
    """One partition is asked for at the top, not in every exchange of the plan."""
    session = group_session(spark, {"spark.sql.shuffle.partitions": "5"})
    frame = session.range(0, 90, 1, 4).groupBy(F.expr("id % 7 k")).count().agg(F.max("count").alias("n"))
    chosen = layout.choose(frame, (), 5)
    held = layout.hold(frame, session, chosen)
    assert str(chosen) == "1 alone" and held.frame.collect()[0].n == 13
    assert re.search(r"hashpartitioning\(.*, 5\)", str(held.plan)) and "SinglePartition" in str(held.plan)
