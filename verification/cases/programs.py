"""Pipelines for cases with two drivers: the first fails or is killed, the second goes on with what it left."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk

TARGET = "table"


def not_yet(folder: str) -> Any:
    """A Python function that raises for one number until the file `fixed` is there."""

    def add(x: int) -> int:
        if x == 777 and not Path(folder, "fixed").exists():
            raise ValueError("not yet")
        return x + 1

    return F.udf(add, "long")


def ranged(spark: SparkSession, folder: str) -> rk.Pipeline:
    """A source of spark.range, which has as many partitions as the driver has cores."""
    pipeline, add = rk.Pipeline("ranged"), not_yet(folder)

    @pipeline.source
    def numbers(spark: SparkSession) -> DataFrame:
        return spark.range(0, 1000)

    @pipeline.step
    def added(numbers: DataFrame) -> DataFrame:
        return numbers.withColumn("y", add("id"))

    @pipeline.sink(rk.files(f"{folder}/{TARGET}"))
    def out(added: DataFrame) -> None: ...

    return pipeline


def listed(spark: SparkSession, folder: str) -> rk.Pipeline:
    """A source of createDataFrame."""
    pipeline, add = rk.Pipeline("listed"), not_yet(folder)

    @pipeline.source
    def numbers(spark: SparkSession) -> DataFrame:
        return spark.createDataFrame([(i, i % 7) for i in range(1000)], "id long, k long")

    @pipeline.step(partition_by="k", partitions=4)
    def added(numbers: DataFrame) -> DataFrame:
        return numbers.withColumn("y", add("id"))

    @pipeline.sink(rk.files(f"{folder}/{TARGET}"))
    def out(added: DataFrame) -> None: ...

    return pipeline


def slow(spark: SparkSession, folder: str) -> rk.Pipeline:
    """An aggregation with a slow Python function, a join with its own maxima, and a sum."""
    pipeline = rk.Pipeline("slow")

    def double(x: int) -> int:
        time.sleep(0.004)
        return x * 2

    doubled = F.udf(double, "int")
    if not Path(folder, "orders").exists():
        rows = spark.range(0, 4000).select("id", F.col("id").cast("int").alias("x"), (F.col("id") % 40).alias("k"))
        rows.repartition(4).write.parquet(f"{folder}/orders")

    @pipeline.source
    def orders(spark: SparkSession) -> DataFrame:
        return spark.read.parquet(f"{folder}/orders")

    @pipeline.step(partition_by="k")
    def priced(orders: DataFrame) -> DataFrame:
        summed = orders.groupBy("k", "id").agg(F.sum("x").alias("x"))
        return summed.withColumn("y", doubled(F.col("x").cast("int")))

    @pipeline.step
    def joined(priced: DataFrame) -> DataFrame:
        return priced.join(priced.groupBy("k").agg(F.max("y").alias("m")), "k")

    @pipeline.sink(rk.files(f"{folder}/{TARGET}"))
    def out(joined: DataFrame) -> DataFrame:
        return joined.groupBy("k").agg(F.count("*").alias("n"), F.sum("y").alias("s"), F.max("m").alias("m"))

    return pipeline


def own_target(spark: SparkSession, folder: str) -> rk.Pipeline:
    """A pipeline that reads its own target and publishes each count plus one; the first time it begins with zero."""
    pipeline, target = rk.Pipeline("own_target"), f"{folder}/{TARGET}"

    @pipeline.source
    def before(spark: SparkSession, day: str) -> DataFrame:
        if day == "0":
            return spark.range(0, 40).select(F.col("id").alias("k"), F.lit(0).cast("long").alias("n"))
        return rk.read_newest(spark, target)

    @pipeline.sink(rk.files(target), partition_by="k", partitions=4)
    def out(before: DataFrame) -> DataFrame:
        return before.select("k", (F.col("n") + 1).alias("n"))

    return pipeline


PROGRAMS: Mapping[str, Callable[[SparkSession, str], rk.Pipeline]] = {
    "ranged": ranged,
    "listed": listed,
    "slow": slow,
    "own_target": own_target,
}


def kill_after_pointers(folder: str, count: int) -> None:
    """Kill this process as soon as so many versions are published, from a thread of its own."""

    def watch() -> None:
        pointers = Path(folder, TARGET, "pointers")
        while not pointers.exists() or sum(not one.name.startswith(".") for one in pointers.iterdir()) < count:
            time.sleep(0.0005)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()
