"""The pipeline of `make yarn`: Python that takes its time, and notes for each key in which container it was called."""

from __future__ import annotations

import os
import time
import uuid
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk

FOLDER = Path(os.environ.get("SHOP_FOLDER", "."))
SECONDS = float(os.environ.get("SHOP_SECONDS", "1"))
PARTITIONS = int(os.environ.get("SHOP_PARTITIONS", "24"))
KEYS, ROWS = 4 * PARTITIONS, 40 * PARTITIONS

pipeline = rk.Pipeline("shop")
folder, seconds = str(FOLDER), SECONDS


@pipeline.source
def orders(spark: SparkSession) -> DataFrame:
    return spark.read.schema("id long, k long").parquet(f"{folder}/orders")


def price(k: int) -> int:
    """One row of a key: the others of the group were added up before."""
    time.sleep(seconds / 4)
    container = os.environ.get("CONTAINER_ID", "local")
    Path(f"{folder}/calls/{k}-{container}-{uuid.uuid4().hex}").touch()
    return k * 2


@pipeline.step(partition_by="k", partitions=PARTITIONS)
def priced(orders: DataFrame) -> DataFrame:
    summed = orders.groupBy("k").agg(F.count("*").alias("n"), F.max("id").alias("newest"))
    return summed.withColumn("price", F.udf(price, "long")("k"))


@pipeline.sink(rk.files(f"{folder}/out"))
def priced_orders(priced: DataFrame) -> None: ...
