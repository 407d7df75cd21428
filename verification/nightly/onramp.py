"""The nightly ETL with the on-ramp: python onramp.py LAKE GOLD DAY."""

import sys
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation

import pandas as pd
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F

import rekindle as rk

LAKE, GOLD, DAY = sys.argv[1:]
ORDERS = "order_id long, version int, customer_id long, product_id long, amount string"
HISTORY = "customer_id long, name string, country string, valid_from string, valid_to string"
BONUS = 5

spark = SparkSession.builder.appName("nightly").getOrCreate()
orders = spark.read.csv(f"{LAKE}/orders/day={DAY}", ORDERS, header=True)
events = spark.read.parquet(f"{LAKE}/events").where(F.col("day") == DAY)
customers = spark.read.parquet(f"{LAKE}/customers/day={DAY}")
products = spark.read.parquet(f"{LAKE}/products")


def cents_of(amount: str) -> int | None:
    try:
        return int(Decimal(amount) * 100)
    except InvalidOperation:
        return None


def add_score(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    for batch in batches:
        yield batch.assign(score=(batch["cents"] // 1000 * BONUS + batch["product_id"]) % 100)


parsed = orders.withColumn("cents", F.udf(cents_of, "long")("amount"))
quarantined = parsed.where("cents is null").drop("cents").withColumn("day", F.lit(DAY))
newest = F.row_number().over(Window.partitionBy("order_id").orderBy(F.desc("version")))
deduped = parsed.where("cents is not null").withColumn("n", newest).where("n = 1").drop("n", "amount", "version")
scored = deduped.mapInPandas(add_score, ", ".join(f"{name} {kind}" for name, kind in deduped.dtypes) + ", score long")
visits = events.groupBy("customer_id").agg(F.count("*").alias("visits"))
enriched = (
    scored.join(visits, "customer_id", "left")
    .join(customers, "customer_id")
    .join(F.broadcast(products), "product_id")
    .fillna(0, ["visits"])
)
with rk.run("nightly", spark, f"{GOLD}_runs", day=DAY) as run:
    enriched = run.keep(enriched, "enriched", partition_by="customer_id", partitions=2)
    fact = enriched.withColumn("day", F.lit(DAY)).select(
        "order_id", "customer_id", "product", "category", "cents", "score", "visits", "country", "day"
    )
    totals = fact.groupBy("day", "country", "product").agg(F.sum("cents").alias("cents"), F.count("*").alias("orders"))

    try:
        before = rk.read_newest(spark, f"{GOLD}/history")
    except rk.Refused:  # The first night: nothing is published.
        before = spark.createDataFrame([], HISTORY)
    is_open = before.where("valid_to is null")
    now = customers.toDF("customer_id", "new_name", "new_country")
    is_changed = f"valid_from is null or valid_from < '{DAY}' and (name <> new_name or country <> new_country)"
    changed = now.join(is_open, "customer_id", "left").where(is_changed)
    marked = before.join(changed.selectExpr("customer_id", "true is_new"), "customer_id", "left")
    ended = marked.withColumn(
        "valid_to", F.when(F.expr("is_new and valid_to is null"), DAY).otherwise(F.col("valid_to"))
    )
    begun = changed.selectExpr(
        "customer_id", "new_name name", "new_country country", f"'{DAY}' valid_from", "string(null) valid_to"
    )
    history = ended.drop("is_new").unionByName(begun)

    totals.createOrReplaceTempView("totals")
    report = spark.sql("""
        select country, product, cents, dense_rank() over (partition by country order by cents desc, product) place
        from totals qualify place <= 3
    """)
    day = {"day": "{day}"}
    run.publish(
        fact, rk.files(f"{GOLD}/fact", "partition", hive_partition_by=["day", "country"], partition=day), name="fact"
    )
    run.publish(totals, rk.files(f"{GOLD}/totals", mode="append"), name="totals")
    run.publish(history, rk.files(f"{GOLD}/history"), name="history", deterministic=True)
    run.publish(report, rk.directory(f"{GOLD}/report/day={{day}}"), name="report")
    run.publish(
        quarantined,
        rk.files(f"{GOLD}/quarantined", "partition", hive_partition_by="day", partition=day),
        name="quarantined",
    )
