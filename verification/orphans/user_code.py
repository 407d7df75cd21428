"""A pipeline that takes a second: one source, three kept steps that go when they are consumed, two sinks."""

from __future__ import annotations

import os

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk

INPUT = os.environ["STAGE_INPUT"]
OUTPUT = os.environ["STAGE_OUTPUT"]
N = 3

shop = rk.Pipeline("tiny")


@shop.source
def orders(spark: SparkSession, name: str) -> DataFrame:
    return spark.read.parquet(f"{INPUT}/orders")


@shop.step(result="blocking", partition_by="customer", partitions=N, keep_until="consumed")
def clean(orders: DataFrame) -> DataFrame:
    return orders.where("amount > 0").withColumn("note", F.md5(F.col("id").cast("string")))


@shop.step(result="blocking", partition_by="customer", partitions=N, keep_until="consumed")
def priced(clean: DataFrame) -> DataFrame:
    """Reads partition by partition: no exchange."""
    return clean.withColumn("price", F.col("amount") * 2)


@shop.step(result="blocking", partition_by="product", partitions=N, keep_until="consumed")
def by_product(priced: DataFrame) -> DataFrame:
    return priced.groupBy("product").agg(F.sum("price").alias("sold"), F.max("note").alias("note"))


@shop.sink(rk.files(f"{OUTPUT}/report"), partition_by="product", partitions=N)
def report(by_product: DataFrame) -> DataFrame:
    return by_product.where("sold > 0")


@shop.sink(rk.files(f"{OUTPUT}/ledger"), partition_by="customer", partitions=N)
def ledger(priced: DataFrame) -> DataFrame:
    return priced.select("customer", "id", "price")


def bare(spark: SparkSession) -> dict[str, DataFrame]:
    """The same without Rekindle."""
    made = priced(clean(orders(spark, "bare")))
    return {"report": report(by_product(made)), "ledger": ledger(made)}
