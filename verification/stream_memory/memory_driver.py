"""A driver of `make stream-memory`: records of a topic through a step that two regions read, until `halt` is there.
One of the two fails while `bad` is there."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.errors import RunFailed
from rekindle.failover.backoff import FixedDelay
from rekindle.master.facts.config import BackoffSpec, MasterConfig

MADE, PLAIN, FRAGILE = "made", "plain", "fragile"
# Kinds of the step.
SIMPLE, FUSED, STATEFUL, CONSTANT = "simple", "fused", "stateful", "constant"
BACKOFF = FixedDelay(attempts_max=9_999, delay_ms=500)


def computed(rows: DataFrame, kind: str) -> DataFrame:
    value = rows.selectExpr("cast(cast(value as string) as long) as id")
    if kind == STATEFUL:
        return value.dropDuplicates(["id"])
    # One value for a whole batch, and another one whenever it is computed.
    made = F.current_timestamp().cast("string") if kind == CONSTANT else F.col("id").cast("string")
    return value.withColumn("made", made)


def main(folder: str, brokers: str, topic: str, kind: str, memory_bytes: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    pipeline, bad = rk.Pipeline("live"), f"{folder}/bad"

    @pipeline.source
    def sold(spark: SparkSession) -> DataFrame:
        options = {"kafka.bootstrap.servers": brokers, "subscribe": topic, "startingOffsets": "earliest"}
        return spark.readStream.format("kafka").options(**options).load()

    pipeline.add_step(lambda sold: computed(sold, kind), name=MADE, result="pipelined" if kind == FUSED else "memory")
    pipeline.add_sink(lambda made: None, rk.files(f"{folder}/{PLAIN}"), name=PLAIN)

    @pipeline.sink(rk.files(f"{folder}/{FRAGILE}"), name=FRAGILE)
    def fragile(made: DataFrame) -> DataFrame:
        def looked_at(one: int) -> int:
            if Path(bad).exists():
                Path(f"{bad}.seen").touch()
                raise ValueError("this batch fails")
            return one

        return made.withColumn("id", F.udf(looked_at, "long")("id"))

    options = rk.RunOptions(
        config=MasterConfig(backoff=BackoffSpec.of(BACKOFF), poison_tries_max=9_999),
        memory_bytes_max=int(memory_bytes),
        is_asked_to_stop=lambda: "halt" if Path(folder, "halt").exists() else "",
        say=print,
    )
    try:
        summary = pipeline.run(spark, f"{folder}/state", options=options)
        assert isinstance(summary, rk.StreamSummary)
        told = {name: {"replayed": one.replayed, "restarts": one.restarts} for name, one in summary.regions.items()}
        print("summary", json.dumps(told), flush=True)
    except RunFailed as failed:
        print(f"failed: {failed}", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
