"""A driver of `make stream-release`: a step whose result regions read, as fast as batches come. `without` says that one
of the readers is no longer in the code."""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import rekindle as rk
from rekindle.failover.backoff import FixedDelay
from rekindle.master.facts.config import BackoffSpec, MasterConfig

MADE, PLAIN, ONCE, SIDE = "made", "plain", "once", "side"
READERS = (PLAIN, ONCE, SIDE)
ROWS, KEEP_MINUTES, WITHOUT = 10, 0.5, "without"


def pipeline_of(folder: str, *, is_without: bool) -> rk.Pipeline:
    pipeline = rk.Pipeline("live")

    @pipeline.source
    def rows(spark: SparkSession) -> DataFrame:
        return spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).load()

    @pipeline.step(result="caching", name=MADE)
    def made(rows: DataFrame) -> DataFrame:
        return rows.selectExpr("value", "rand() as drawn")

    for name in READERS[:2] if is_without else READERS:

        def read(made: DataFrame, name: str = name) -> DataFrame:
            return made.dropDuplicates(["value"]) if name == ONCE else made

        pipeline.add_sink(read, rk.files(f"{folder}/{name}"), name=name, inputs={"made": MADE})
    return pipeline


def main(folder: str, *words: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    options = rk.RunOptions(
        config=MasterConfig(backoff=BackoffSpec.of(FixedDelay(attempts_max=99, delay_ms=100)), poison_tries_max=99),
        is_asked_to_stop=lambda: "halt" if Path(folder, "halt").exists() else "",
        keep_results_minutes=KEEP_MINUTES,
        force=True,
        say=print,
    )
    pipeline_of(folder, is_without=WITHOUT in words).run(spark, f"{folder}/state", options=options)
    print("ended", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
