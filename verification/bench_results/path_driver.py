"""A driver of `make bench-stream-results`: rows from files through one step to a target, in one query, in two with a
result between them, which may be in a topic, or in two pipelines with a topic between them. Or just the first half,
into a result or by Spark's own sink for files. A fragile one fails once, in the last query, for a file in `fail`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.failover.backoff import Exponential
from rekindle.master.facts.config import BackoffSpec, MasterConfig

FUSED, CACHING, MEMORY, KAFKA, MADE, SPARKS = "fused", "caching", "memory", "kafka", "made", "sparks"
TOPIC, FRAGILE = "topic", "fragile"
FIRST, LAST, TRIGGER, LATER = "first", "last", "100 milliseconds", "1 hour"
BACKOFF = Exponential(initial_ms=0, delay_ms_max=0, attempts_max=9_999)
COLUMNS = "id long, text string, amount double"


def read(spark: SparkSession, folder: str) -> DataFrame:
    return spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).json(f"{folder}/in")


def made(rows: DataFrame) -> DataFrame:
    """The first half: what is dear enough to be done once."""
    return rows.select("id", F.upper("text").alias("text"), (F.col("amount") * 2).alias("amount"))


def used(rows: DataFrame) -> DataFrame:
    """The second half."""
    return rows.where("id % 10 < 9").withColumn("size", F.length("text"))


def send(rows: DataFrame) -> DataFrame:
    return made(rows).select(F.to_json(F.struct("*")).alias("value"))


def pipeline_of(folder: str, how: str, brokers: str, topic: str, is_fragile: bool) -> rk.Pipeline:
    pipeline = rk.Pipeline("bench")
    pipeline.add_source(lambda spark: read(spark, folder), name="rows")
    target = rk.files(f"{folder}/out")

    def looked_at(one: int) -> int:
        for file in Path(folder, "fail").glob("*"):
            file.unlink(missing_ok=True)
            raise ValueError("this batch fails")
        return one

    def ended(rows: DataFrame) -> DataFrame:
        return rows.withColumn("id", F.udf(looked_at, "long")("id")) if is_fragile else rows

    def parsed(sent: DataFrame) -> DataFrame:
        row = F.from_json(F.col("value").cast("string"), COLUMNS).alias("row")
        return ended(used(sent.select(row).select("row.*")))

    if how == TOPIC:
        pipeline.add_step(send, name=FIRST, result=rk.kafka(topic, brokers))
        pipeline.add_sink(parsed, target, name=LAST, inputs={"sent": FIRST}, trigger=TRIGGER)
        return pipeline
    if how == KAFKA:

        def receive(spark: SparkSession) -> DataFrame:
            options = {"kafka.bootstrap.servers": brokers, "subscribe": topic, "startingOffsets": "earliest"}
            return spark.readStream.format("kafka").options(**options).load()

        pipeline.add_sink(send, rk.kafka(topic, brokers), name=FIRST, trigger=TRIGGER)
        pipeline.add_source(receive, name="sent")
        pipeline.add_sink(parsed, target, name=LAST, trigger=TRIGGER)
        return pipeline
    result: Literal["auto", "caching", "memory"] = "auto" if how == FUSED else "memory" if how == MEMORY else "caching"
    pipeline.add_step(made, name=FIRST, result=result)
    trigger = LATER if how == MADE else TRIGGER
    pipeline.add_sink(lambda first: ended(used(first)), target, name=LAST, inputs={"first": FIRST}, trigger=trigger)
    return pipeline


def by_spark(spark: SparkSession, folder: str) -> None:
    writer = made(read(spark, folder)).writeStream.trigger(processingTime=TRIGGER).format("parquet")
    writer = writer.option("checkpointLocation", f"{folder}/checkpoints/{FIRST}").option("path", f"{folder}/out")
    query = writer.start()
    while not Path(folder, "halt").exists() and not query.awaitTermination(1):
        pass


def main(folder: str, how: str, brokers: str, topic: str, plan: str = "") -> None:
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    if how == SPARKS:
        by_spark(spark, folder)
    else:
        options = rk.RunOptions(
            config=MasterConfig(backoff=BackoffSpec.of(BACKOFF), poison_tries_max=9_999),
            is_asked_to_stop=lambda: "halt" if Path(folder, "halt").exists() else "",
        )
        pipeline_of(folder, how, brokers, topic, plan == FRAGILE).run(spark, f"{folder}/state", options=options)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
