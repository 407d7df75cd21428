"""What a step hands on beside its rows: types, names, aliases, views, caches, file names, settings, partitions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cases.case import EQUAL_OR_REFUSED, Finding, case
from cases.context import Context, by_k, kept, rows, same


@case("10")
def column_without_a_type(context: Context) -> Finding:
    """A kept step has a column lit(None)."""

    def left(orders: DataFrame) -> DataFrame:
        return orders.withColumn("comment", F.lit(None))

    def right(left: DataFrame) -> DataFrame:
        return left.groupBy("k").agg(F.count("*").alias("n"), F.count("comment").alias("c"))

    return context.compare(by_k(left), by_k(right))


@case("11", EQUAL_OR_REFUSED)
def calendar_interval(context: Context) -> Finding:
    """A kept step has a column of calendar intervals, which the next adds to a date."""

    def left(orders: DataFrame) -> DataFrame:
        return orders.withColumn("i", F.make_interval(days=F.col("x")))

    def right(left: DataFrame) -> DataFrame:
        moved = F.lit("2020-01-01").cast("timestamp_ntz") + F.col("i")
        return left.select("k", F.date_format(moved, "yyyy-MM-dd").alias("t"))

    return context.compare(by_k(left), by_k(right))


@case("12", EQUAL_OR_REFUSED, is_quick=False)
def global_view_between_steps(context: Context) -> Finding:
    """A step registers a global temporary view of its input, and the next reads it by name."""

    def counts(orders: DataFrame) -> DataFrame:
        return orders.groupBy("k").count()

    def joined(spark: SparkSession, counts: DataFrame, orders: DataFrame) -> DataFrame:
        counts.createOrReplaceGlobalTempView("case_counts")
        text = "select o.*, g.count from {orders} o join global_temp.case_counts g on o.k = g.k"
        return spark.sql(text, orders=orders)

    def summed(spark: SparkSession, joined: DataFrame) -> DataFrame:
        text = "select b.k, count(*) n, sum(g.count) s from {joined} b join global_temp.case_counts g on b.k = g.k"
        return spark.sql(f"{text} group by b.k", joined=joined)

    try:
        return context.compare(by_k(counts), by_k(joined), by_k(summed))
    finally:
        context.spark.catalog.dropGlobalTempView("case_counts")


@case("13", EQUAL_OR_REFUSED)
def doubled_names(context: Context) -> Finding:
    """A step joins by an expression and hands on two columns k, the next selects others."""

    def left(orders: DataFrame) -> DataFrame:
        counts = orders.groupBy("k").count()
        return orders.join(counts, orders.k == counts.k)

    def right(left: DataFrame) -> DataFrame:
        return left.select("id", "count")

    return context.compare(left, right)


@case("14", is_quick=False)
def caches_inside_steps(context: Context) -> Finding:
    """Two steps cache frames while they are built."""

    def left(orders: DataFrame) -> DataFrame:
        even = orders.where("x % 2 = 0").cache()
        return even.join(even.groupBy("k").count(), "k")

    def right(left: DataFrame) -> DataFrame:
        large = left.where("x > 10").persist()
        return large.groupBy("k").agg(F.count("*").alias("n"), F.sum("count").alias("s"))

    return context.compare(by_k(left), by_k(right))


@case("16", EQUAL_OR_REFUSED)
def file_name_above_a_kept_step(context: Context) -> Finding:
    """A step filters and is kept, the next asks for the name of the file that each row came from."""

    def left(orders: DataFrame) -> DataFrame:
        return orders.where("x > 5")

    def right(left: DataFrame) -> DataFrame:
        return left.select("id", F.element_at(F.split(F.input_file_name(), "/"), -2).alias("folder"))

    return context.compare(kept(left, result="blocking"), right)


@case("22", EQUAL_OR_REFUSED)
def setting_made_in_a_step(context: Context) -> Finding:
    """A step sets the time zone of the session, and a later step asks for the hour."""

    def local(spark: SparkSession, orders: DataFrame) -> DataFrame:
        spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        return orders.select("k", "id", F.timestamp_seconds("id").cast("string").alias("t"))

    def hours(local: DataFrame) -> DataFrame:
        return local.select("k", "id", "t", F.hour(F.timestamp_seconds("id")).alias("h"))

    return context.compare(by_k(local, 2), by_k(hours, 2), settings={"spark.sql.session.timeZone": "UTC"})


@case("35")
def read_inside_a_step(context: Context) -> Finding:
    """A step reads a Parquet directory by itself and joins it."""
    path = context.tables.small

    def joined(spark: SparkSession, orders: DataFrame) -> DataFrame:
        lookup = spark.read.parquet(path).select("id", F.col("x").alias("x2"))
        return orders.join(lookup, "id")

    return context.compare(by_k(joined, 2))


@case("37")
def one_partition_is_one_partition(context: Context) -> Finding:
    """A step repartitions into one, and the next counts its partitions in mapInPandas."""

    def total(batches: Iterator[Any]) -> Iterator[Any]:
        yield pd.DataFrame({"n": [sum(len(batch) for batch in batches)]})

    def one(orders: DataFrame) -> DataFrame:
        return orders.repartition(1)

    def counted(one: DataFrame) -> DataFrame:
        return one.mapInPandas(total, "n long")

    def grouped(counted: DataFrame) -> DataFrame:
        return counted.groupBy("n").count()

    hadoop = context.spark.sparkContext._jsc.hadoopConfiguration()
    hadoop.set("parquet.block.size", "65536")
    small = {"spark.sql.files.maxPartitionBytes": "256KB", "spark.sql.files.openCostInBytes": "1KB"}
    try:
        steps = (one, kept(counted, result="pipelined"), grouped)
        return context.compare(*steps, source=context.tables.wide, settings=small)
    finally:
        hadoop.unset("parquet.block.size")


@case("38")
def alias_used_in_the_next_step(context: Context) -> Finding:
    """A step gives its result an alias, and the next names columns by it."""

    def counts(orders: DataFrame) -> DataFrame:
        return orders.groupBy("k").count().alias("o")

    def joined(counts: DataFrame, orders: DataFrame) -> DataFrame:
        return counts.join(orders.alias("p"), F.col("o.k") == F.col("p.k")).select("p.id", "o.count")

    return context.compare(counts, joined)


@case("40")
def sample_kept_as_written(context: Context) -> Finding:
    """The on-ramp keeps a sample with a seed; bare Spark writes the same frame."""
    frame = context.spark.read.parquet(context.tables.small).sample(0.3, seed=42)
    frame.write.parquet(context.path("bare"))
    expected = rows(context.spark.read.parquet(context.path("bare")))
    assert expected == rows(frame), "bare Spark gives the same sample twice"
    with context.script("sampled") as run:
        return same(expected, rows(run.keep(frame, "sampled")))
