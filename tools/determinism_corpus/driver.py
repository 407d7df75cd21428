"""One Spark application that runs every step over the rounds it is given, and says what came out as one line each."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

import msgspec
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

from determinism_corpus import steps
from determinism_corpus.steps import STEPS
from rekindle.engine.spark.layout import verdict_of
from rekindle.engine.spark.session import attach
from rekindle.engine.spark.trials import text_of_value


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
        for name, step in STEPS.items():
            if only and name not in only:
                continue
            frame = step.frame(spark)
            verdict = verdict_of(frame)
            said = Said(name, number, digest(frame), verdict.level.value, verdict.because)
            out.write(f"SAID {msgspec.json.encode(said).decode()}\n")
            out.flush()
    spark.stop()


if __name__ == "__main__":
    main()
