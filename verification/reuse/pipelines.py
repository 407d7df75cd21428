"""The pipelines of `make reuse`: each has Python that fails on one key, above its last exchange or below it.

`BELOW_NOTHING` have no opaque Python below an exchange, so that a new driver reuses what it can on every Spark.
`BELOW_EXCHANGE` have: there checksums of map outputs decide, which Spark has since 4.1.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk

PARTITIONS = 8
POISON = 3
KEYS = 40
Build = Callable[[rk.Pipeline, Path], None]


def prepare(spark: SparkSession, folder: Path) -> None:
    orders = spark.range(4000).selectExpr("id", f"id % {KEYS} as k", "id % 90 as day", "cast(id % 17 as int) as amount")
    orders.repartition(6).write.parquet(f"{folder}/orders")
    spark.range(KEYS).selectExpr("id as k", "concat('n', id) as name").write.parquet(f"{folder}/names")


def judged(folder: Path) -> Callable[[int], int]:
    """Python that fails on one key as long as a file is there."""

    def judge(k: int) -> int:
        if k == POISON and Path(f"{folder}/poison").exists():
            raise ValueError(f"cannot judge {k}")
        return k * 2

    return judge


def sources(pipeline: rk.Pipeline, folder: Path) -> None:
    @pipeline.source
    def orders(spark: SparkSession) -> DataFrame:
        return spark.read.parquet(f"{folder}/orders")

    @pipeline.source
    def names(spark: SparkSession) -> DataFrame:
        return spark.read.parquet(f"{folder}/names")


def scan(pipeline: rk.Pipeline, folder: Path) -> None:
    @pipeline.step(partition_by="k", partitions=PARTITIONS)
    def last(orders: DataFrame) -> DataFrame:
        return orders.withColumn("judged", F.udf(judged(folder), "long")("k"))


def aggregate(pipeline: rk.Pipeline, folder: Path) -> None:
    @pipeline.step(partition_by="k", partitions=PARTITIONS)
    def last(orders: DataFrame) -> DataFrame:
        summed = orders.groupBy("k").agg(F.sum("amount").alias("amount"), F.max("id").alias("newest"))
        return summed.withColumn("judged", F.udf(judged(folder), "long")("k"))


def join(pipeline: rk.Pipeline, folder: Path) -> None:
    @pipeline.step(partition_by="k", partitions=PARTITIONS)
    def last(orders: DataFrame, names: DataFrame) -> DataFrame:
        both = orders.hint("merge").join(names, "k")
        return both.withColumn("judged", F.udf(judged(folder), "long")("k"))


def broadcast(pipeline: rk.Pipeline, folder: Path) -> None:
    @pipeline.step(partition_by="k", partitions=PARTITIONS)
    def last(orders: DataFrame, names: DataFrame) -> DataFrame:
        summed = orders.join(F.broadcast(names), "k").groupBy("k", "name").count()
        return summed.withColumn("judged", F.udf(judged(folder), "long")("k"))


def chain(pipeline: rk.Pipeline, folder: Path) -> None:
    @pipeline.step(partition_by="day", partitions=PARTITIONS)
    def daily(orders: DataFrame) -> DataFrame:
        return orders.groupBy("day", "k").agg(F.sum("amount").alias("amount"))

    @pipeline.step(partition_by="k", partitions=PARTITIONS)
    def last(daily: DataFrame) -> DataFrame:
        return daily.withColumn("judged", F.udf(judged(folder), "long")("k"))


def python_key(pipeline: rk.Pipeline, folder: Path) -> None:
    @pipeline.step(partition_by="made", partitions=PARTITIONS)
    def last(orders: DataFrame) -> DataFrame:
        made = orders.withColumn("made", F.udf(lambda day: day % 40, "long")("day"))
        return made.repartition(PARTITIONS, "made").withColumn("judged", F.udf(judged(folder), "long")("made"))


def grouped(pipeline: rk.Pipeline, folder: Path) -> None:
    @pipeline.step(partition_by="k", partitions=PARTITIONS)
    def last(orders: DataFrame) -> DataFrame:
        def spread(group: pd.DataFrame) -> pd.DataFrame:
            return group.assign(rank=range(len(group)))

        ranked = orders.groupBy("day").applyInPandas(spread, "id long, k long, day long, amount int, rank long")
        return ranked.repartition(PARTITIONS, "k").withColumn("judged", F.udf(judged(folder), "long")("k"))


BELOW_NOTHING: dict[str, Build] = {one.__name__: one for one in (scan, aggregate, join, broadcast, chain)}
BELOW_EXCHANGE: dict[str, Build] = {one.__name__: one for one in (python_key, grouped)}


def pipeline_of(name: str, folder: Path) -> rk.Pipeline:
    pipeline = rk.Pipeline(name)
    sources(pipeline, folder)
    (BELOW_NOTHING | BELOW_EXCHANGE)[name](pipeline, folder)

    @pipeline.sink(rk.files(f"{folder}/out"))
    def result(last: DataFrame) -> None: ...

    return pipeline
