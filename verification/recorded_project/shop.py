"""The pipeline whose location is recorded with every release: a source of files, three kept results, two sinks."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import rekindle as rk

HERE = Path(__file__).parent
SCHEMA = "id long, customer string, country int, cents long"
pipeline = rk.Pipeline("shop")


@pipeline.source
def orders(spark: SparkSession) -> DataFrame:
    return spark.read.schema(SCHEMA).csv("viewfs://recorded/orders")


def rate(country: int) -> int:
    return int(Path(f"{HERE}/rates/{country}").read_text())


@pipeline.step(partition_by="country", partitions=4)
def priced(orders: DataFrame) -> DataFrame:
    return orders.withColumn("price", f.col("cents") * f.udf(rate, "long")("country"))


@pipeline.sink(rk.files(f"{HERE}/totals"), partition_by="customer", partitions=3)
def totals(priced: DataFrame) -> DataFrame:
    return priced.groupBy("customer").agg(f.sum("price").alias("price"))


@pipeline.sink(rk.files(f"{HERE}/counts"), partition_by="country", partitions=2)
def counts(orders: DataFrame) -> DataFrame:
    return orders.groupBy("country").count()
