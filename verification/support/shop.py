"""A small pipeline that tests complete: orders of a folder, to which each adds what it is about."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import rekindle as rk


def shop(folder: Path) -> rk.Pipeline:
    """With the source `orders`: the ids in `folder/orders`."""
    made = rk.Pipeline("shop")

    @made.source
    def orders(spark: SparkSession) -> DataFrame:
        return spark.read.schema("id long").parquet(str(folder / "orders"))

    return made
