"""A driver of `make stream-shards`: numbers from files to files in so many shards, until `halt` is there, or until all
was read (`now`). One number fails every time while `poison` is there."""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.errors import RunFailed
from rekindle.failover.backoff import FixedDelay
from rekindle.master.facts.config import BackoffSpec, MasterConfig

PLAIN = "plain"
BACKOFF = FixedDelay(attempts_max=50, delay_ms=200)


def main(folder: str, shards: str, poisoned: str, *words: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    pipeline, bad, poison = rk.Pipeline("live"), int(poisoned), f"{folder}/poison"

    @pipeline.source(shards=int(shards))
    def orders(spark: SparkSession) -> DataFrame:
        return spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).json(f"{folder}/in")

    @pipeline.sink(rk.files(f"{folder}/{PLAIN}"), name=PLAIN)
    def plain(orders: DataFrame) -> DataFrame:
        def looked_at(one: int) -> int:
            if one == bad and Path(poison).exists():
                raise ValueError("this record fails")
            return one

        return orders.withColumn("id", F.udf(looked_at, "long")("id"))

    options = rk.RunOptions(
        config=MasterConfig(backoff=BackoffSpec.of(BACKOFF), poison_tries_max=3),
        available_now="now" in words,
        stale_seconds=10,
        is_asked_to_stop=lambda: "halt" if Path(folder, "halt").exists() else "",
        say=print,
    )
    try:
        pipeline.run(spark, f"{folder}/state", options=options)
    except RunFailed as failed:
        print(f"failed: {failed}", flush=True)
    print("ended", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
