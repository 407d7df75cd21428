"""The nightly ETL as a pipeline: LAKE=… GOLD=… rekindle run pipeline.py -p day=2026-11-01."""

import os
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation

import pandas as pd
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

import rekindle as rk

LAKE, GOLD = os.environ["LAKE"], os.environ["GOLD"]
ORDERS = "order_id long, version int, customer_id long, product_id long, amount string"
HISTORY = "customer_id long, name string, country string, valid_from string, valid_to string"
BONUS = 5

pipeline = rk.Pipeline("nightly")


@pipeline.source
def orders(spark: SparkSession, day: str) -> DataFrame:
    return spark.read.csv(f"{LAKE}/orders/day={day}", ORDERS, header=True)


@pipeline.source
def events(spark: SparkSession, day: str) -> DataFrame:
    return spark.read.parquet(f"{LAKE}/events").where(F.col("day") == day)


@pipeline.source
def customers(spark: SparkSession, day: str) -> DataFrame:
    return spark.read.parquet(f"{LAKE}/customers/day={day}")


@pipeline.source
def products(spark: SparkSession) -> DataFrame:
    return spark.read.parquet(f"{LAKE}/products")


@pipeline.source
def before(spark: SparkSession) -> DataFrame:
    try:
        return rk.read_newest(spark, f"{GOLD}/history")
    except rk.Refused:  # The first night: nothing is published.
        return spark.createDataFrame([], HISTORY)


def cents_of(amount: str) -> int | None:
    try:
        return int(Decimal(amount) * 100)
    except InvalidOperation:
        return None


def add_score(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    for batch in batches:
        yield batch.assign(score=(batch["cents"] // 1000 * BONUS + batch["product_id"]) % 100)


@pipeline.step
def parsed(orders: DataFrame) -> DataFrame:
    return orders.withColumn("cents", F.udf(cents_of, "long")("amount"))


@pipeline.step
def deduped(parsed: DataFrame) -> DataFrame:
    newest = F.row_number().over(Window.partitionBy("order_id").orderBy(F.desc("version")))
    return parsed.where("cents is not null").withColumn("n", newest).where("n = 1").drop("n", "amount", "version")


@pipeline.step
def scored(deduped: DataFrame) -> DataFrame:
    columns = ", ".join(f"{name} {kind}" for name, kind in deduped.dtypes)
    return deduped.mapInPandas(add_score, f"{columns}, score long")


@pipeline.step(partition_by="customer_id", partitions=2)
def visits(events: DataFrame) -> DataFrame:
    return events.groupBy("customer_id").agg(F.count("*").alias("visits"))


@pipeline.step(partition_by="customer_id", partitions=2)
def enriched(scored: DataFrame, visits: DataFrame, customers: DataFrame, products: DataFrame) -> DataFrame:
    return (
        scored.join(visits, "customer_id", "left")
        .join(customers, "customer_id")
        .join(F.broadcast(products), "product_id")
        .fillna(0, ["visits"])
    )


@pipeline.step
def fact(enriched: DataFrame, day: str) -> DataFrame:
    return enriched.withColumn("day", F.lit(day)).select(
        "order_id", "customer_id", "product", "category", "cents", "score", "visits", "country", "day"
    )


@pipeline.sink(rk.files(f"{GOLD}/fact", "partition", hive_partition_by=["day", "country"], partition={"day": "{day}"}))
def fact_files(fact: DataFrame) -> None: ...


@pipeline.sink(rk.table("fact", mode="append", location=f"{GOLD}/fact_table"))
def fact_table(fact: DataFrame) -> None: ...


@pipeline.step
def totals(fact: DataFrame) -> DataFrame:
    return fact.groupBy("day", "country", "product").agg(F.sum("cents").alias("cents"), F.count("*").alias("orders"))


@pipeline.sink(rk.files(f"{GOLD}/totals", mode="append"))
def totals_files(totals: DataFrame) -> None: ...


@pipeline.sink(rk.files(f"{GOLD}/history"))
def history(before: DataFrame, customers: DataFrame, day: str) -> DataFrame:
    is_open = before.where("valid_to is null")
    now = customers.toDF("customer_id", "new_name", "new_country")
    is_changed = f"valid_from is null or valid_from < '{day}' and (name <> new_name or country <> new_country)"
    changed = now.join(is_open, "customer_id", "left").where(is_changed)
    marked = before.join(changed.selectExpr("customer_id", "true is_new"), "customer_id", "left")
    ended = marked.withColumn(
        "valid_to", F.when(F.expr("is_new and valid_to is null"), day).otherwise(F.col("valid_to"))
    )
    begun = changed.selectExpr(
        "customer_id", "new_name name", "new_country country", f"'{day}' valid_from", "string(null) valid_to"
    )
    return ended.drop("is_new").unionByName(begun)


@pipeline.sink(rk.files(f"{GOLD}/report/day={{day}}"))
def report(totals: DataFrame) -> DataFrame:
    totals.createOrReplaceTempView("totals")
    return totals.sparkSession.sql("""
        select country, product, cents, dense_rank() over (partition by country order by cents desc, product) place
        from totals qualify place <= 3
    """)


@pipeline.sink(rk.files(f"{GOLD}/quarantined", "partition", hive_partition_by="day", partition={"day": "{day}"}))
def quarantined(parsed: DataFrame) -> DataFrame:
    return parsed.where("cents is null").drop("cents")
