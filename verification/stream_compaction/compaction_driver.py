"""A streaming driver as a process of its own, which compacts its target all the time, until it is killed or ends."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import msgspec
from pyspark.sql import DataFrame, SparkSession

import rekindle as rk
from local_spark import local_spark

EVERY = 5


class DriverPlace(msgspec.Struct, frozen=True, kw_only=True):
    """A folder on a server, the settings of Spark by which it reaches that, and those of our store."""

    url: str = ""
    settings: dict[str, str] = {}
    storage: dict[str, str] = {}


def main(folder: Path, order: str = "{}") -> None:
    """The order says where location and target lie, if not in the folder, and what reaches them."""
    given = msgspec.json.decode(order, type=DriverPlace)
    base = given.url or str(folder)
    pipeline = rk.Pipeline("live")

    def orders(spark: SparkSession) -> DataFrame:
        return spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).json(str(folder / "in"))

    def halts() -> str:
        return "the campaign ends" if (folder / "halt").exists() else ""

    pipeline.add_source(orders)
    pipeline.add_sink(lambda orders: None, rk.files(f"{base}/out"), name="plain")
    options = rk.RunOptions(say=lambda line: print(line, flush=True), is_asked_to_stop=halts, compact_batches=EVERY)
    with local_spark({"spark.scheduler.mode": "FAIR", **given.settings}) as spark:
        pipeline.run(spark, f"{base}/state", options=replace(options, force=True, storage=given.storage))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
