"""A driver of `make stream-kills` as a process of its own: ten regions, until SIGTERM or until all was read."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

import rekindle as rk
from rekindle.failover.backoff import Exponential
from rekindle.master.facts.config import BackoffSpec, MasterConfig
from stream_kills.live_place import (
    CALLED,
    DELAY,
    GAP,
    JOINED,
    KEYS,
    NUMBERED,
    ONCE,
    PLAIN,
    PYTHON,
    RECEIVED,
    SENT,
    SESSIONS,
    TOPIC,
    WINDOW,
    WINDOWS,
    LivePlace,
)

BACKOFF = Exponential(initial_ms=100, delay_ms_max=5_000, attempts_max=1_000)
AS_TEXT = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'"
STALL_SECONDS = 60.0


class Numbering(StatefulProcessor):  # type: ignore[misc]
    """Gives each row of a key the next number."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._last = handle.getValueState("last", "last long")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        last = self._last.get()[0] if self._last.exists() else 0
        count = sum(map(len, rows))
        self._last.update((last + count,))
        yield pd.DataFrame({"key": [key[0]] * count, "number": range(last + 1, last + count + 1)})

    def close(self) -> None:
        """Nothing is held."""


def pipeline_of(place: LivePlace, brokers: str) -> rk.Pipeline:
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

    @pipeline.sink(rk.files(f"{place.folder}/{NUMBERED}"), name=NUMBERED)
    def numbered(orders: DataFrame) -> DataFrame:
        keyed = orders.where("id >= 0").select(F.pmod("id", F.lit(KEYS)).alias("key"))
        return keyed.groupBy("key").transformWithStateInPandas(Numbering(), "key long, number long", "append", "none")

    def write(rows: DataFrame, key: str) -> None:
        """Once for each key. It does not return while it is told to hang."""
        found = [(row["at"], row["id"]) for row in rows.collect()]
        while place.hang.exists():
            place.hung.touch()
            time.sleep(0.2)
        made = place.folder / f".{os.getpid()}-{time.time_ns()}"
        made.write_text(json.dumps(found))
        made.rename(place.called / f"{hashlib.sha256(key.encode()).hexdigest()}.json")

    @pipeline.sink(rk.each_batch(write, "files by key", exactly_once=True), name=CALLED)
    def called(orders: DataFrame) -> DataFrame:
        return orders.where("id >= 0").select("id", "at")

    @pipeline.sink(rk.kafka(TOPIC, brokers), name=SENT)
    def sent(orders: DataFrame) -> DataFrame:
        known = orders.where("id >= 0")
        return known.select(F.col("id").cast("string").alias("key"), F.to_json(F.struct("at", "id")).alias("value"))

    @pipeline.source
    def sold(spark: SparkSession) -> DataFrame:
        reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", brokers)
        return reader.option("subscribe", TOPIC).option("startingOffsets", "earliest").load()

    @pipeline.sink(rk.files(f"{place.folder}/{RECEIVED}"), name=RECEIVED)
    def received(sold: DataFrame) -> DataFrame:
        return sold.select(F.col("value").cast("string").alias("value"), "partition", "offset")

    return pipeline


def tell_topic(spark: SparkSession, place: LivePlace, brokers: str) -> None:
    """The records of the topic, for the campaign, which has no client of Kafka."""
    counted = [json.loads(row["value"]) for row in rk.read_kafka(spark, TOPIC, brokers).collect()]
    place.told(SENT).write_text(json.dumps([(one["at"], one["id"]) for one in counted]))
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", brokers).option("subscribe", TOPIC)
    every = [(row["offset"], row["partition"], row["value"].decode()) for row in reader.load().collect()]
    place.told(TOPIC).write_text(json.dumps(every))


def main(folder: str, brokers: str, *words: str) -> None:
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
        stall_seconds=STALL_SECONDS,
        say=print,
    )
    pipeline_of(place, brokers).run(spark, str(place.location), options=options)
    if "now" in words:
        tell_topic(spark, place, brokers)
    print("ended", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
