"""How many rows differ between what was published and what Spark makes of the same orders without Rekindle."""

from __future__ import annotations

import sys
from collections import Counter

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


def rows_of(frame: DataFrame) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row) for row in frame.collect())


place, factor, target = sys.argv[1:]
settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1"}
# A local Spark on a host of HDFS: a task that waits for a core near its block is never offered one again.
settings["spark.locality.wait"] = "0s"
spark = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
orders = spark.read.schema("id long, k long").parquet(f"{place}/orders")
summed = orders.groupBy("k").agg(F.count("*").alias("n"), F.max("id").alias("newest"))
expected = summed.withColumn("price", F.col("k") * int(factor))
made, published = rows_of(expected), rows_of(spark.read.parquet(target).select(expected.columns))
differ = ((made - published) + (published - made)).total()
print(f"DIFFER {differ} OF {made.total()}")
spark.stop()
