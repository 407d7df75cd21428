"""A total order is cut by a sample of its rows, and a broadcast is collected, by Spark jobs of their own. Spark's plan
keeps the error of such a job: the next attempt needs another plan, or it fails with the error of the one before."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.failover.backoff import FixedDelay
from rekindle.master.facts.config import BackoffSpec, MasterConfig


@pytest.mark.parametrize("below", ["a sort", "a broadcast"])
@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_a_function_that_fails_twice_is_tried_a_third_time(
    spark: SparkSession, tmp_path: Path, adaptive: str, below: str
) -> None:
    flags = tmp_path / "flags"
    flags.mkdir()
    spark.range(120).repartition(2).write.parquet(f"file:{tmp_path}/orders")
    folder = str(flags)
    made = rk.Pipeline("sorted")

    @made.source
    def orders(spark: SparkSession) -> DataFrame:
        return spark.read.parquet(f"file:{tmp_path}/orders")

    @made.sink(rk.files(f"{tmp_path}/gold"))
    def gold(orders: DataFrame) -> DataFrame:
        @F.udf("long")  # type: ignore[untyped-decorator]
        def ready(value: int) -> int:
            failed = len(list(Path(folder).iterdir()))
            if value == 77 and failed < 2:
                (Path(folder) / str(failed)).touch()
                raise ValueError("the service is down")
            return value

        made = orders.withColumn("ready", ready("id"))
        return made.orderBy(F.desc("id")) if below == "a sort" else orders.join(F.broadcast(made), "id")

    options = rk.RunOptions(config=MasterConfig(backoff=BackoffSpec.of(FixedDelay(3, 50))), sweep=None)
    spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    try:
        made.run(spark, f"{tmp_path}/runs", options=options)
    finally:
        spark.conf.unset("spark.sql.adaptive.enabled")
    assert len(list(flags.iterdir())) == 2
    assert sorted(row["id"] for row in rk.read_newest(spark, f"{tmp_path}/gold").collect()) == list(range(120))
