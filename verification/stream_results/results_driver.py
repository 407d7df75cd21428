"""A driver of `make stream-results`: a topic, a step whose rows are drawn anew each time, and two regions that read its
result, one of them with state. Until SIGTERM, or until all was read."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from types import FrameType

from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.failover.backoff import Exponential
from rekindle.master.facts.config import BackoffSpec, MasterConfig
from stream_results.results_place import DRAWN, ONCE, PLAIN, SENT, TOPIC, ResultsPlace

# Spark tries a task again before the query fails.
LAST_ATTEMPT = 3
BACKOFF = Exponential(initial_ms=100, delay_ms_max=5_000, attempts_max=1_000)


def kafka(spark: SparkSession, brokers: str, *, is_stream: bool) -> DataFrame:
    reader = (spark.readStream if is_stream else spark.read).format("kafka")
    options = {"kafka.bootstrap.servers": brokers, "subscribe": TOPIC, "startingOffsets": "earliest"}
    return reader.options(**options).load()


def pipeline_of(place: ResultsPlace, brokers: str) -> rk.Pipeline:
    pipeline, fail = rk.Pipeline("live"), str(place.fail)

    @pipeline.source
    def orders(spark: SparkSession) -> DataFrame:
        return spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).json(str(place.orders))

    @pipeline.sink(rk.kafka(TOPIC, brokers), name=SENT)
    def sent(orders: DataFrame) -> DataFrame:
        return orders.select(F.col("id").cast("string").alias("value"))

    @pipeline.source
    def sold(spark: SparkSession) -> DataFrame:
        return kafka(spark, brokers, is_stream=True)

    @pipeline.step(result="caching", name=DRAWN)
    def drawn(sold: DataFrame) -> DataFrame:
        same = F.udf(lambda one: one, "long")
        return sold.select("partition", same("offset").alias("offset"), F.rand().alias("drawn"))

    @pipeline.sink(rk.files(f"{place.folder}/{PLAIN}"), name=PLAIN)
    def plain(drawn: DataFrame) -> DataFrame:
        def looked_at(one: int) -> int:
            if Path(fail).exists():
                task = TaskContext.get()
                if task is None or task.attemptNumber() >= LAST_ATTEMPT:
                    Path(fail).unlink(missing_ok=True)
                raise ValueError("this batch fails")
            return one

        return drawn.withColumn("offset", F.udf(looked_at, "long")("offset"))

    @pipeline.sink(rk.files(f"{place.folder}/{ONCE}"), name=ONCE)
    def once(drawn: DataFrame) -> DataFrame:
        return drawn.dropDuplicates(["partition", "offset"])

    return pipeline


def tell_topic(spark: SparkSession, place: ResultsPlace, brokers: str) -> None:
    rows = kafka(spark, brokers, is_stream=False).collect()
    place.topic.write_text(json.dumps([(one["partition"], one["offset"], int(one["value"])) for one in rows]))


def main(folder: str, brokers: str, *words: str) -> None:
    place, told = ResultsPlace(Path(folder)), [""]

    def asked(number: int, frame: FrameType | None) -> None:
        told[0] = "SIGTERM"

    signal.signal(signal.SIGTERM, asked)
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    options = rk.RunOptions(
        config=MasterConfig(backoff=BackoffSpec.of(BACKOFF), poison_tries_max=1_000),
        available_now="now" in words,
        force="force" in words,
        is_asked_to_stop=lambda: told[0],
        say=print,
    )
    pipeline_of(place, brokers).run(spark, str(place.location), options=options)
    if "now" in words:
        tell_topic(spark, place, brokers)
    print("ended", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
