"""How many rows differ between what was published and what Spark makes of the same orders without Rekindle."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

place, factor, target = sys.argv[1:]
settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1"}
spark = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
orders = spark.read.schema("id long, k long").parquet(f"{place}/orders")
summed = orders.groupBy("k").agg(F.count("*").alias("n"), F.max("id").alias("newest"))
rows = summed.withColumn("price", F.col("k") * int(factor))
published = spark.read.parquet(target).select(rows.columns)
differ = rows.exceptAll(published).count() + published.exceptAll(rows).count()
print(f"DIFFER {differ} OF {rows.count()}")
spark.stop()
