"""A driver of `make stream-alone`: three disjoint streams, by Rekindle or as people write them without it."""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.failover.backoff import Exponential
from rekindle.master.facts.config import BackoffSpec, MasterConfig

NAMES = ("a", "b", "c")
FRAGILE = "b"
OURS, SCRIPT, ONE = "ours", "script", "one"
BACKOFF = Exponential(initial_ms=0, delay_ms_max=0, attempts_max=99)


def fragile(folder: str) -> Column:
    """Fails once for each file that lies in the folder of failures, and takes it away."""

    def looked_at(one: int) -> int:
        for file in Path(folder, "failures").glob("*"):
            file.unlink(missing_ok=True)
            raise ValueError("this batch fails")
        return one

    return F.udf(looked_at, "long")("id").alias("id")


def rows_of(spark: SparkSession, folder: str, name: str) -> DataFrame:
    return spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).json(f"{folder}/in-{name}")


def regions(spark: SparkSession, folder: str) -> None:
    pipeline = rk.Pipeline("live")
    for name in NAMES:

        def source(spark: SparkSession, name: str = name) -> DataFrame:
            return rows_of(spark, folder, name)

        def sink(rows: DataFrame, name: str = name) -> DataFrame:
            return rows.select(fragile(folder)) if name == FRAGILE else rows

        pipeline.add_source(source, name=f"rows_{name}")
        pipeline.add_sink(sink, rk.files(f"{folder}/out-{name}"), inputs={"rows": f"rows_{name}"}, name=name)
    options = rk.RunOptions(
        config=MasterConfig(backoff=BackoffSpec.of(BACKOFF), poison_tries_max=99),
        is_asked_to_stop=lambda: "halt" if Path(folder, "halt").exists() else "",
    )
    pipeline.run(spark, f"{folder}/state", options=options)


def script(spark: SparkSession, folder: str, *, is_one: bool) -> None:
    """Queries of one driver, which waits for any of them to end; or one query for all."""
    frames = {name: rows_of(spark, folder, name).withColumn("of", F.lit(name)) for name in NAMES}
    frames[FRAGILE] = frames[FRAGILE].select(fragile(folder), "of")
    if is_one:
        frames = {"all": frames["a"].unionByName(frames["b"]).unionByName(frames["c"])}
    for name, frame in frames.items():
        writer = frame.writeStream.queryName(name).option("checkpointLocation", f"{folder}/checkpoints/{name}")
        writer.format("parquet").option("path", f"{folder}/out-{name}").start()
    spark.streams.awaitAnyTermination()


def main(folder: str, how: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    if how == OURS:
        regions(spark, folder)
    else:
        script(spark, folder, is_one=how == ONE)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
