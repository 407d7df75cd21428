"""A driver of `make bench-stream`: one stream, by Rekindle, or by the shortest script that starts its query again."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.failover.backoff import Exponential
from rekindle.master.facts.config import BackoffSpec, MasterConfig

NAME, TRIGGER, LOOK_S = "live", "100 milliseconds", 0.2
FRAGILE = "fragile"
BACKOFF = Exponential(initial_ms=0, delay_ms_max=0, attempts_max=9_999)


def rows_of(spark: SparkSession, folder: str, plan: str) -> DataFrame:
    """Each file is a batch. A fragile plan fails once for a file that lies in `fail`, and writes down when."""
    rows = spark.readStream.schema("id long, text string").option("maxFilesPerTrigger", 1).json(f"{folder}/in")

    def looked_at(one: int) -> int:
        for file in Path(folder, "fail").glob("*"):
            file.unlink(missing_ok=True)
            Path(folder, "raised", file.name).write_text(str(time.time_ns() // 1_000_000))
            raise ValueError("this batch fails")
        return one

    same = F.udf(looked_at, "long")("id") if plan == FRAGILE else F.col("id")
    return rows.select(same.alias("id"), F.upper("text").alias("text"))


def supervised(spark: SparkSession, folder: str, plan: str) -> None:
    pipeline = rk.Pipeline("bench")

    @pipeline.source
    def rows(spark: SparkSession) -> DataFrame:
        return rows_of(spark, folder, plan)

    @pipeline.sink(rk.files(f"{folder}/out"), name=NAME, trigger=TRIGGER)
    def live(rows: DataFrame) -> DataFrame:
        return rows

    options = rk.RunOptions(
        config=MasterConfig(backoff=BackoffSpec.of(BACKOFF), poison_tries_max=9_999),
        is_asked_to_stop=lambda: "halt" if Path(folder, "halt").exists() else "",
        say=lambda line: seen(folder) if " failed: " in line else None,
    )
    pipeline.run(spark, f"{folder}/state", options=options)


def bare(spark: SparkSession, folder: str, plan: str) -> None:
    """With Spark's own files, which are exactly once for those who read them with Spark."""
    frame = rows_of(spark, folder, plan)
    writer = frame.writeStream.queryName(NAME).trigger(processingTime=TRIGGER).format("parquet")
    writer = writer.option("checkpointLocation", f"{folder}/checkpoints/{NAME}").option("path", f"{folder}/out")
    query = writer.start()
    while not Path(folder, "halt").exists():
        if not query.isActive:
            seen(folder)
            query = writer.start()
        time.sleep(LOOK_S)
    query.stop()


def seen(folder: str) -> None:
    """A failure was noticed."""
    with Path(folder, "seen").open("a") as file:
        file.write(f"{time.time_ns() // 1_000_000}\n")


def main(folder: str, how: str, plan: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    (supervised if how == "ours" else bare)(spark, folder, plan)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
