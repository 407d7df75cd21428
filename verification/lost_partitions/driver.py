"""A driver: runs each pipeline, or resumes it, until its sink fails or it is done. Its command line says where the lake
is and where its answers go."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.engine.spark import prepare
from rekindle.engine.spark.adapter import SparkAdapter
from rekindle.engine.spark.plan.layout import EDGES
from rekindle.failover.backoff import FixedDelay
from rekindle.master.facts.config import BackoffSpec, MasterConfig

FACTS, DIMENSIONS, FEW = 48, 16, 6
CONFIG = MasterConfig(backoff=BackoffSpec.of(FixedDelay(3, 100)))
DRAWN = ("before", "now")

Shape = Callable[[DataFrame, DataFrame], DataFrame]
SHAPES: dict[str, Shape] = {
    "union": lambda facts, dims: facts.select("k", "v").union(dims.selectExpr("k", "d")),
    "coalesce": lambda facts, dims: facts.selectExpr("v + 1 v").coalesce(FEW),
    "broadcast": lambda facts, dims: facts.join(F.broadcast(dims), "k", "left").select("v", "d"),
}


class Answer(msgspec.Struct, frozen=True):
    """Of a run: its name, the application, and what was computed of each step."""

    name: str
    run: str
    application: str
    computed: dict[str, int]


def pipeline(name: str, shape: Shape, lake: Path) -> rk.Pipeline:
    """The user says that `facts` may be different when they are made again, and nothing tells whether they are."""
    made, poison = rk.Pipeline(name), lake / "poison"

    @made.source
    def orders(spark: SparkSession) -> DataFrame:
        return spark.read.parquet(f"{lake}/orders")

    @made.step(
        result="blocking",
        partition_by="k",
        partitions=FACTS,
        keep_until="run end",
        deterministic=False,
        digest="never",
    )
    def facts(orders: DataFrame) -> DataFrame:
        return orders.groupBy("k").agg(F.sum("v").alias("v"))

    @made.step(result="blocking", partition_by="k", partitions=DIMENSIONS, keep_until="run end")
    def dims(orders: DataFrame) -> DataFrame:
        return orders.where("k % 3 = 0").groupBy("k").agg(F.max("v").alias("d"))

    @made.step(result="blocking", keep_until="run end")
    def joined(facts: DataFrame, dims: DataFrame) -> DataFrame:
        return shape(facts, dims)

    @made.sink(rk.files(f"{lake}/{name}"))
    def gold(joined: DataFrame) -> DataFrame:
        return joined.where(F.expr(f"if({str(poison.exists()).lower()}, raise_error('poison'), true)"))

    return made


def before(spark: SparkSession) -> dict[str, str]:
    """What a run was pinned to when nothing was said of its edges: a union, a coalesce and a join with a broadcast are
    exchanges then."""
    return {key: value for key, value in prepare.pinned_settings(spark).items() if key != EDGES}


def main() -> None:
    lake, answers = Path(sys.argv[1]), Path(sys.argv[2])
    spark = SparkSession.builder.getOrCreate()
    for drawn in DRAWN:
        SparkAdapter.pinned_settings = staticmethod(before if drawn == "before" else prepare.pinned_settings)
        for name, shape in SHAPES.items():
            told = f"{name}_{drawn}"
            options = rk.RunOptions(config=CONFIG, sweep=None)
            computed: dict[str, int] = {}
            try:
                done = pipeline(told, shape, lake).run(spark, f"{lake}/runs", options=options)
                computed = {step: one.computed for step, one in done.steps.items()}
            except rk.RunFailed as failed:
                assert "poison" in str(failed), failed
            run = next((lake / "runs" / told).glob("2*")).name
            answer = Answer(told, run, spark.sparkContext.applicationId, computed)
            with answers.open("ab") as out:
                out.write(msgspec.json.encode(answer) + b"\n")
    spark.stop()


if __name__ == "__main__":
    main()
