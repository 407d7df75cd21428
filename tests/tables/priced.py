"""A pipeline whose source is a table: a step notes each call, and one partition of it fails while `poison` is there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.failover.backoff import FixedDelay
from rekindle.master.facts.config import BackoffSpec, MasterConfig
from rekindle.publish.targets import Target

AT_ONCE = MasterConfig(backoff=BackoffSpec.of(FixedDelay(1, 0)))
ROWS, PARTITIONS = 40, 4
OLD = {(number, "old") for number in range(ROWS)}


def priced_pipeline(folder: Path, read: Callable[[SparkSession], DataFrame], target: Target) -> rk.Pipeline:
    made, notes = rk.Pipeline("daily"), str(folder)

    @made.source
    def orders(spark: SparkSession) -> DataFrame:
        return read(spark)

    @made.step(partition_by="id", partitions=PARTITIONS)
    def priced(orders: DataFrame) -> DataFrame:
        def price(number: int) -> int:
            from pathlib import Path

            if number == 3 and Path(notes, "poison").exists():
                raise ValueError("a bad row")
            with Path(notes, "calls").open("a") as calls:
                calls.write(f"{number}\n")
            return number * 2

        return orders.withColumn("price", F.udf(price, "long")("id"))

    @made.sink(target)
    def gold(priced: DataFrame) -> DataFrame:
        return priced

    return made


def run_again(pipeline: rk.Pipeline, spark: SparkSession, folder: Path, **options: Any) -> Any:
    """The calls of this run alone are noted."""
    (folder / "calls").write_text("")
    return pipeline.run(spark, str(folder / "runs"), options=rk.RunOptions(config=AT_ONCE, **options))


def calls(folder: Path) -> int:
    return len((folder / "calls").read_text().splitlines())
