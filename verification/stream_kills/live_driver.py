"""A driver of `make stream-kills` as a process of its own: six regions, until SIGTERM or until all was read."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from types import FrameType

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.failover.backoff import Exponential
from rekindle.master.facts.config import BackoffSpec, MasterConfig
from stream_kills.live_place import DELAY, GAP, JOINED, KEYS, ONCE, PLAIN, PYTHON, SESSIONS, WINDOW, WINDOWS, LivePlace

BACKOFF = Exponential(initial_ms=100, delay_ms_max=5_000, attempts_max=1_000)
AS_TEXT = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'"


def pipeline_of(place: LivePlace) -> rk.Pipeline:
    pipeline = rk.Pipeline("live")

    @pipeline.source
    def orders(spark: SparkSession) -> DataFrame:
        return spark.readStream.schema("id long, at string").option("maxFilesPerTrigger", 1).json(str(place.orders))

    @pipeline.source
    def payments(spark: SparkSession) -> DataFrame:
        reader = spark.readStream.schema("order long, paid long").option("maxFilesPerTrigger", 1)
        return reader.json(str(place.payments))

    @pipeline.step
    def timed(orders: DataFrame) -> DataFrame:
        event = F.to_timestamp("at", AS_TEXT.replace("'Z'", "X"))
        return orders.withColumn("event", event).withColumn("key", F.pmod("id", F.lit(KEYS)))

    @pipeline.sink(rk.files(f"{place.folder}/{PLAIN}"), name=PLAIN)
    def plain(orders: DataFrame) -> DataFrame:
        return orders.where("id >= 0").select("id", "at")

    @pipeline.sink(rk.files(f"{place.folder}/{PYTHON}"), name=PYTHON)
    def python(orders: DataFrame) -> DataFrame:
        same = F.udf(lambda one: one, "long")
        return orders.where("id >= 0").select(same("id").alias("id"), "at")

    @pipeline.sink(rk.files(f"{place.folder}/{ONCE}"), name=ONCE)
    def once(orders: DataFrame) -> DataFrame:
        return orders.where("id >= 0").select("id", "at").dropDuplicates(["id"])

    @pipeline.sink(rk.files(f"{place.folder}/{WINDOWS}"), name=WINDOWS)
    def windows(timed: DataFrame) -> DataFrame:
        window = F.window("event", f"{WINDOW.seconds} seconds")
        counted = timed.withWatermark("event", DELAY).groupBy("key", window).count()
        begins = F.date_format("window.start", AS_TEXT).alias("begins")
        return counted.select("key", begins, "count")

    @pipeline.sink(rk.files(f"{place.folder}/{SESSIONS}"), name=SESSIONS)
    def sessions(timed: DataFrame) -> DataFrame:
        session = F.session_window("event", f"{GAP.seconds} seconds").alias("session")
        counted = timed.withWatermark("event", DELAY).groupBy("key", session).count()
        begins = F.date_format("session.start", AS_TEXT).alias("begins")
        return counted.select("key", begins, "count")

    @pipeline.sink(rk.files(f"{place.folder}/{JOINED}"), name=JOINED)
    def joined(orders: DataFrame, payments: DataFrame) -> DataFrame:
        return orders.where("id >= 0").join(payments, F.col("id") == F.col("order")).select("id", "paid")

    return pipeline


def main(folder: str, *words: str) -> None:
    place, told = LivePlace(Path(folder)), [""]

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
    )
    pipeline_of(place).run(spark, str(place.location), options=options)
    print("ended", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
