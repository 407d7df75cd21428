"""A streaming driver as a process of its own, which compacts its target all the time, until it is killed or ends."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import rekindle as rk
from local_spark import local_spark

EVERY = 5


def main(folder: Path) -> None:
    pipeline = rk.Pipeline("live")

    def orders(spark: SparkSession) -> DataFrame:
        return spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).json(str(folder / "in"))

    def halts() -> str:
        return "the campaign ends" if (folder / "halt").exists() else ""

    pipeline.add_source(orders)
    pipeline.add_sink(lambda orders: None, rk.files(str(folder / "out")), name="plain")
    options = rk.RunOptions(say=lambda line: print(line, flush=True), is_asked_to_stop=halts, compact_batches=EVERY)
    with local_spark({"spark.scheduler.mode": "FAIR"}) as spark:
        pipeline.run(spark, str(folder / "state"), options=replace(options, force=True))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
