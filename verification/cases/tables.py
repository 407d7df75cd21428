"""The rows that the cases read, written once per campaign."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


class Tables:
    """Parquet directories that no case changes."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = folder

    @cached_property
    def small(self) -> str:
        """200 rows in 4 files: id, x as an int, 40 keys k, days 1 and 2, texts s that differ in case."""
        number = (F.col("id") % 10).cast("string")
        even = F.col("id") % 2 == 0
        columns = [
            F.col("id"),
            F.col("id").cast("int").alias("x"),
            (F.col("id") % 40).alias("k"),
            (F.col("id") % 2 + 1).cast("int").alias("day"),
            F.when(even, F.concat(F.lit("key"), number))
            .otherwise(F.concat(F.lit("KEY"), (F.col("id") % 10 - 1).cast("string")))
            .alias("s"),
        ]
        return self._written("small", self._spark.range(200).select(*columns).repartition(4))

    @cached_property
    def large(self) -> str:
        """20,000 rows in 6 files: id, an amount of its own for each row in no order, 50 keys k."""
        amount = (F.col("id") * 7919 % 20011).alias("amount")
        rows = self._spark.range(20_000).select("id", amount, (F.col("id") % 50).alias("k"))
        return self._written("large", rows.repartition(6))

    @cached_property
    def wide(self) -> str:
        """20,000 rows in 3 files: id, three keys k of the same size, a text v that does not compress."""
        text = F.sha2(F.col("id").cast("string"), 256).alias("v")
        rows = self._spark.range(20_000).select("id", (F.col("id") % 3).alias("k"), text)
        return self._written("wide", rows.repartition(3))

    def _written(self, name: str, frame: DataFrame) -> str:
        path = str(self._folder / name)
        frame.write.parquet(path)
        return path
