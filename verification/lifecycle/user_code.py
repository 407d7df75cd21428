"""One result that two steps read. The second one waits for a gate, and can be made to fail on one order; what reads it
can be held back too."""

from __future__ import annotations

import os
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

import rekindle as rk

INPUT = os.environ["STAGE_INPUT"]
OUTPUT = os.environ["STAGE_OUTPUT"]
CURE = Path(os.environ["STAGE_CURE"])
POISON = CURE.with_name("poison")
HOLD = CURE.with_name("hold")
N = 3

shop = rk.Pipeline("life")


@F.udf(LongType())  # type: ignore[untyped-decorator]
def held_back(order: int) -> int:
    if order == 4321 and POISON.exists():
        raise ValueError("cannot do order 4321")
    while not CURE.exists():
        time.sleep(0.05)
    return order


@F.udf(LongType())  # type: ignore[untyped-decorator]
def not_yet(order: int) -> int:
    while HOLD.exists():
        time.sleep(0.05)
    return order


@shop.source
def orders(spark: SparkSession, name: str) -> DataFrame:
    return spark.read.parquet(f"{INPUT}/orders")


@shop.step(result="blocking", partition_by="customer", partitions=N, keep_until="consumed")
def clean(orders: DataFrame) -> DataFrame:
    return orders.where("amount > -100")


@shop.step(result="blocking", partition_by="customer", partitions=N, keep_until="run end", deterministic=True)
def slow(clean: DataFrame) -> DataFrame:
    return clean.withColumn("held", held_back("id"))


@shop.sink(rk.files(f"{OUTPUT}/report"), partition_by="customer", partitions=N)
def report(clean: DataFrame) -> DataFrame:
    return clean.where("amount > 10")


@shop.sink(rk.files(f"{OUTPUT}/ledger"), partition_by="customer", partitions=N)
def ledger(slow: DataFrame) -> DataFrame:
    return slow.select("customer", "id", not_yet("held").alias("held"))


def bare(spark: SparkSession) -> dict[str, DataFrame]:
    """The same without Rekindle, for an open gate."""
    read = clean(orders(spark, "bare"))
    return {"report": report(read), "ledger": ledger(read.withColumn("held", F.col("id")))}
