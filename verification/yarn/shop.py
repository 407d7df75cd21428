"""The pipeline of `make yarn`: Python that takes its time, and notes for each key in which container it was called."""

from __future__ import annotations

import os

# A module that `--py-files` brings.
from pricing import price  # type: ignore[import-not-found]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk

PARTITIONS = int(os.environ["SHOP_PARTITIONS"])

pipeline = rk.Pipeline("shop")
place, noted, seconds = os.environ["SHOP_PLACE"], os.environ["SHOP_CALLS"], float(os.environ["SHOP_SECONDS"])


@pipeline.source
def orders(spark: SparkSession) -> DataFrame:
    return spark.read.schema("id long, k long").parquet(f"{place}/orders")


def priced_in(k: int) -> int:
    """One row of a key: the others of the group were added up before."""
    return int(price(k, noted, seconds))


@pipeline.step(partition_by="k", partitions=PARTITIONS)
def priced(orders: DataFrame) -> DataFrame:
    summed = orders.groupBy("k").agg(F.count("*").alias("n"), F.max("id").alias("newest"))
    return summed.withColumn("price", F.udf(priced_in, "long")("k"))


@pipeline.sink(rk.files(f"{place}/out"))
def priced_orders(priced: DataFrame) -> None: ...
