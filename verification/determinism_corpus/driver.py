"""One Spark application that runs every step over the rounds it is given, and says what came out as one line each."""

from __future__ import annotations

import hashlib
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

from determinism_corpus import steps
from determinism_corpus.steps import STEPS
from rekindle.engine.spark.plan.layout import verdict_of
from rekindle.engine.spark.plan.trials import text_of_value
from rekindle.engine.spark.session import attach

AT_ONCE = 3  # Steps: most of what a small one takes is waiting.


class Said(msgspec.Struct, frozen=True):
    """What one step gave in one round: a digest of its rows in any order, and what the table says of it."""

    step: str
    round: int
    digest: str
    level: str
    because: tuple[str, ...]


def digest(frame: DataFrame) -> str:
    lines = sorted(text_of_value(row) for row in frame.collect())
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def said(spark: SparkSession, name: str, number: int) -> Said:
    frame = STEPS[name].frame(spark)
    verdict = verdict_of(frame)
    return Said(name, number, digest(frame), verdict.level.value, verdict.because)


def main() -> None:
    folder, rounds, only = Path(sys.argv[1]), [int(text) for text in sys.argv[2].split(",")], sys.argv[3:]
    cloudpickle.register_pickle_by_value(steps)  # Executors cannot import it.
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    attach(spark)
    out = os.fdopen(os.dup(1), "w")
    for number in rounds:
        for table in ("t", "u"):
            spark.read.parquet(f"{folder}/round-{number}/{table}").createOrReplaceTempView(table)
        names = [name for name in STEPS if not only or name in only]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for one in pool.map(lambda name, number=number: said(spark, name, number), names):
                out.write(f"SAID {msgspec.json.encode(one).decode()}\n")
                out.flush()
    spark.stop()


if __name__ == "__main__":
    main()
