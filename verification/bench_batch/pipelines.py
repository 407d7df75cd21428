"""The pipelines that are measured, as a user would write them, each beside the same in bare PySpark.

Rules
- Both sides call the same functions, in the same session, at Spark's defaults.
- Bare Spark writes the same intermediates: same keys and number of partitions (`repartition`), columns and codec.
- Bare Spark is told the schema of an intermediate that it reads back, which spares it a Spark job; Rekindle knows it
  from its journal.
- Only what writes is tagged, so that its Spark jobs can be told from the small ones that look at a schema.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk

WRITES = "bench-writes"
POISON = 17
HOT, HOT_OF_TEN = 1, 3


def orders(spark: SparkSession, source: str) -> DataFrame:
    return spark.read.parquet(f"{source}/orders")


def products(spark: SparkSession, source: str) -> DataFrame:
    return spark.read.parquet(f"{source}/products")


def customers(spark: SparkSession, source: str) -> DataFrame:
    return spark.read.parquet(f"{source}/customers")


def clean(orders: DataFrame) -> DataFrame:
    return orders.where("amount > 0").withColumn("tax", F.col("amount") * 19 / 100)


def enriched(clean: DataFrame, products: DataFrame) -> DataFrame:
    return clean.join(F.broadcast(products), "product").withColumn("value", F.col("amount") * F.col("price"))


def tidy(rows: DataFrame) -> DataFrame:
    return rows.withColumn("text", F.upper("text")).withColumn("mark", F.sha2("text", 256))


def scored(clean: DataFrame, rates: str, effort: int) -> DataFrame:
    """Python work on every row. One customer needs a file of rates, if one is named."""

    @F.pandas_udf("long")  # type: ignore[untyped-decorator]
    def score(customer: pd.Series, text: pd.Series) -> pd.Series:
        if rates and (customer == POISON).any():
            Path(rates).read_text()
        found = []
        for one in text:
            state = one.encode()
            for _ in range(effort):
                state = hashlib.sha256(state).digest()
            found.append(state[0])
        return pd.Series(found)

    return clean.withColumn("score", score("customer", "text"))


def skewed(orders: DataFrame) -> DataFrame:
    """Three rows of ten belong to one customer."""
    is_hot = F.col("id") % 10 < HOT_OF_TEN
    return orders.withColumn("customer", F.when(is_hot, F.lit(HOT)).otherwise(F.col("customer")))


def joined(skewed: DataFrame, customers: DataFrame) -> DataFrame:
    return skewed.join(customers, "customer")


def with_two_results(partitions: int) -> rk.Pipeline:
    """P4: two kept results, each after an exchange by its own key."""
    pipeline = rk.Pipeline("kept")
    pipeline.add_source(orders)
    pipeline.add_source(products)
    pipeline.add_step(clean, result="blocking", partition_by="customer", partitions=partitions, keep_until="forever")
    pipeline.add_step(enriched, result="blocking", partition_by="product", partitions=partitions, keep_until="forever")
    return pipeline


def two_results_bare(spark: SparkSession, source: str, target: str, partitions: int) -> None:
    first = clean(orders(spark, source)).repartition(partitions, "customer")
    write(first, f"{target}/clean")
    again = spark.read.schema(first.schema).parquet(f"{target}/clean")
    write(enriched(again, products(spark, source)).repartition(partitions, "product"), f"{target}/enriched")


def into_one_sink(target: str, *, has_join: bool) -> rk.Pipeline:
    """P5: nothing is kept on the way to the sink."""
    pipeline = rk.Pipeline("fused")
    pipeline.add_source(orders)
    pipeline.add_step(clean)
    if has_join:
        pipeline.add_source(products)
        pipeline.add_step(enriched, result="pipelined")
    pipeline.add_step(tidy, inputs=["enriched" if has_join else "clean"])
    pipeline.add_sink(published, rk.directory(target))
    return pipeline


def published(tidy: DataFrame) -> DataFrame:
    return tidy.drop("tax")


def one_sink_bare(spark: SparkSession, source: str, target: str, *, has_join: bool) -> None:
    frame = clean(orders(spark, source))
    write(published(tidy(enriched(frame, products(spark, source)) if has_join else frame)), target)


def with_python(partitions: int) -> rk.Pipeline:
    """P1, P3: a kept result, and Python over it, partition by partition."""
    pipeline = rk.Pipeline("scores")
    pipeline.add_source(orders)
    for function in (clean, scored):
        pipeline.add_step(
            function, result="blocking", partition_by="customer", partitions=partitions, keep_until="forever"
        )
    return pipeline


def python_bare(spark: SparkSession, source: str, target: str, partitions: int, effort: int) -> None:
    first = clean(orders(spark, source)).repartition(partitions, "customer")
    write(first, f"{target}/clean")
    write(scored(spark.read.schema(first.schema).parquet(f"{target}/clean"), "", effort), f"{target}/scored")


def one_partition_bare(part: DataFrame, target: str, rates: str, effort: int) -> None:
    """The least that bare Spark can do: `part` is the one file of the intermediate that this partition needs."""
    write(scored(part.coalesce(1), rates, effort), target)


def with_skew(keys: str, partitions: int) -> rk.Pipeline:
    """A skewed join that is kept by a key which is not skewed; by what Rekindle chooses, if no key is named."""
    pipeline = rk.Pipeline("skew")
    pipeline.add_source(orders)
    pipeline.add_source(customers)
    pipeline.add_step(skewed)
    if keys:
        pipeline.add_step(joined, result="blocking", partition_by=keys, partitions=partitions, keep_until="forever")
    else:
        pipeline.add_step(joined, result="blocking", keep_until="forever")
    return pipeline


def skew_bare(spark: SparkSession, source: str, target: str, keys: str, partitions: int) -> None:
    frame = joined(skewed(orders(spark, source)), customers(spark, source))
    write(frame.repartition(partitions, keys) if keys else frame, f"{target}/joined")


def write(frame: DataFrame, target: str) -> None:
    context = frame.sparkSession.sparkContext
    context.addJobTag(WRITES)
    try:
        frame.write.parquet(target)
    finally:
        context.removeJobTag(WRITES)
