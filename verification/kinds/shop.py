"""One pipeline whose middle step has any kind of result: priced in Python by customer, summed, and both joined.

Prices are whole numbers, so that sums are exact: a report whose prices do not add up to its totals saw two versions.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, Literal, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk

Result = Literal["pipelined", "blocking", "caching", "memory"]
PARTITIONS, CUSTOMERS = 8, 400
ROUNDS = 60


def price_of(number: int) -> int:
    """Some work for each row, as parsing or scoring would be."""
    value = number
    for _ in range(ROUNDS):
        value = (value * 48_271 + 11) % 2_147_483_647
    return value % 1_000


def random_price(number: int) -> int:
    return (price_of(number) + random.getrandbits(40)) % 1_000_000


def pipeline(kind: str, source: Path, target: Path, *, is_random: bool = False, replicas: int = 1) -> rk.Pipeline:
    shop = rk.Pipeline("shop")
    layout: dict[str, Any] = {} if kind == "pipelined" else {"partition_by": "customer", "partitions": PARTITIONS}
    layout |= {"replicas": replicas} if replicas > 1 else {}
    price = F.udf(random_price if is_random else price_of, "long")

    @shop.source
    def orders(spark: SparkSession) -> DataFrame:
        return spark.read.schema("id long, customer long").parquet(str(source))

    def priced(orders: DataFrame) -> DataFrame:
        return orders.withColumn("price", price("id"))

    shop.add_step(priced, result=cast(Result, kind), deterministic=not is_random, **layout)

    @shop.step(result="blocking", partition_by="customer", partitions=PARTITIONS)
    def totals(priced: DataFrame) -> DataFrame:
        return priced.groupBy("customer").agg(F.sum("price").alias("total"))

    @shop.sink(rk.files(str(target)), partition_by="customer", partitions=PARTITIONS)
    def report(priced: DataFrame, totals: DataFrame) -> DataFrame:
        return priced.join(totals, "customer")

    return shop


def is_one_version(spark: SparkSession, target: Path, rows: int) -> bool:
    """Is every order there once, and do the prices of each customer add up to the total beside them?"""
    found = rk.read_newest(spark, str(target))
    sums = found.groupBy("customer").agg(
        F.sum("price").alias("sum"), F.min("total").alias("a"), F.max("total").alias("b")
    )
    wrong = sums.where("sum <> a or a <> b").count()
    return (wrong, found.count(), found.select("id").distinct().count()) == (0, rows, rows)
