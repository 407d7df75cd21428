"""What a user would write: three sources, six steps, two sinks. The harness copies this file and edits the copy."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

import rekindle as rk

INPUT = os.environ["STAGE_INPUT"]
CURE = Path(os.environ["STAGE_CURE"])
OUTPUT = os.environ["STAGE_OUTPUT"]
N = int(os.environ.get("SHOP_PARTITIONS", "64"))
POISON = 4321
BURN = int(os.environ.get("SHOP_BURN", "2000"))

shop = rk.Pipeline("shop")


def bonus(order: int) -> int:
    return order % 7


@F.udf(LongType())  # type: ignore[untyped-decorator]
def score(order: int) -> int:
    if order == POISON and not CURE.exists():
        raise ValueError(f"cannot score order {order}")
    for _ in range(BURN // 100):
        order ^= 0
    return order + bonus(order)


@shop.source
def orders(spark: SparkSession, name: str) -> DataFrame:
    return spark.read.parquet(f"{INPUT}/orders")


@shop.source
def customers(spark: SparkSession) -> DataFrame:
    return spark.read.parquet(f"{INPUT}/customers")


@shop.source
def products(spark: SparkSession) -> DataFrame:
    return spark.read.parquet(f"{INPUT}/products")


@shop.step(result="blocking", partition_by="customer", partitions=N)
def scored(orders: DataFrame) -> DataFrame:
    """The exchange stands below Python, so that what Python made survives partition by partition."""
    return orders.where("amount > 0").repartition(N, "customer").withColumn("score", score("id"))


@shop.step(result="blocking", partition_by="customer", partitions=N)
def people(customers: DataFrame) -> DataFrame:
    return customers.where("is_active")


@shop.step(result="blocking", partition_by="customer", partitions=N)
def enriched(scored: DataFrame, people: DataFrame) -> DataFrame:
    """Both sides lie by customer: no exchange."""
    return scored.join(people, "customer")


@shop.step
def valuable(enriched: DataFrame) -> DataFrame:
    return enriched.where("amount > 10")


@shop.step(result="blocking", partition_by="product", partitions=N)
def by_product(valuable: DataFrame) -> DataFrame:
    return valuable.groupBy("product").agg(F.sum("amount").alias("sold"), F.sum("score").alias("points"))


@shop.sink(rk.files(f"{OUTPUT}/report"), partition_by="product", partitions=N)
def report(by_product: DataFrame, products: DataFrame) -> DataFrame:
    return by_product.join(products, "product")


@shop.sink(rk.files(f"{OUTPUT}/ledger"))
def ledger(enriched: DataFrame) -> DataFrame:
    return enriched.select("customer", "id", "amount", "region", "score")


PIPELINES: dict[str, Any] = {"shop": shop}


def bare(spark: SparkSession) -> dict[str, DataFrame]:
    """The same without Rekindle."""
    full = enriched(scored(orders(spark, "bare")), people(customers(spark)))
    return {"report": report(by_product(valuable(full)), products(spark)), "ledger": ledger(full)}
