"""`make bench-laws`: what the laws of the rows cost, as a share of the CPU of a run's tasks.

A difference of half a percent cannot be seen between two runs on a shared machine. So the two parts are measured apart,
both by the CPU of threads:

  checks   nanoseconds for a row that is watched and counted (java/Watch, java/KeptParquet), less those for the same row
           going the same way without. Rows of the input that lie in memory, in turn, in a Spark task; unwatched rows
           are measured twice, which shows what the machine adds by itself. Starting and ending a watch is in there.
  run      a step kept by its key, over 1 GB of orders: one exchange, then the write by the product. The CPU of all of
           its tasks as Spark counts it.

The share is checks per row, times rows written, over the CPU of the run. Exit 0 only if it is at most LIMIT.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from pyspark.sql import SparkSession

from bench_batch import data
from build_jar import JAR, TEST_JAR
from local_spark import local_spark
from rekindle.engine.spark.jvm import result_calls
from rekindle.engine.spark.jvm.access import Package, ours
from rekindle.engine.spark.plan import layout
from rekindle.engine.spark.run import results
from rekindle.engine.spark.session import attach, group_session
from rekindle.model.partitions import Partitions

LIMIT = 0.005
PARTITIONS = 16
KEY = "customer"
ROWS, ROUNDS = 50_000, 101


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench-laws")
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--cache", type=Path, help="where the input is kept for the next time")
    asked = parser.parse_args()
    started = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="bench-laws-"))
    try:
        source = data.make(asked.cache or folder, asked.gigabytes)
        spark = local_spark(
            {"spark.driver.memory": "2g", "spark.local.dir": str(folder), "spark.jars": f"{JAR},{TEST_JAR}"}
        )
        attach(spark)
        rows, seconds = write(spark, source, folder)
        watched, plain, again = checks(spark, source)
        spark.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    share = (watched - plain) * rows / 1e9 / seconds
    print(
        f"RESULT laws cpu_share={share:.5f} limit={LIMIT} ns_per_row={watched - plain:.1f} "
        f"aa_ns_per_row={abs(again - plain):.1f} rows={rows} run_cpu_seconds={seconds:.1f} "
        f"gigabytes={asked.gigabytes:g} minutes={(time.monotonic() - started) / 60:.1f}"
    )
    return 0 if share <= LIMIT else 1


def _held(spark: SparkSession, source: Path) -> layout.PlannedQuery:
    session = group_session(spark, {})
    return layout.hold(session.read.parquet(f"file:{source}/orders"), session, layout.Layout((KEY,), PARTITIONS))


def write(spark: SparkSession, source: Path, folder: Path) -> tuple[int, float]:
    """The rows that the product wrote, and the CPU seconds of all tasks of the run."""
    held = _held(spark, source)
    rows = results.write(held, f"file:{folder}/out", Partitions.first(PARTITIONS), "measured", is_first=True)
    context = spark.sparkContext
    context._jsc.sc().listenerBus().waitUntilEmpty()
    none = context._gateway.new_array(context._jvm.double, 0)
    stages = (
        context._jsc.sc().statusStore().stageList(None, False, False, none, Package(spark, "java.util").ArrayList())
    )
    used = sum(stages.apply(at).executorCpuTime() / 1e9 for at in range(stages.size()))
    return rows, used


def checks(spark: SparkSession, source: Path) -> tuple[float, float, float]:
    """Nanoseconds for a row: watched, not watched, not watched again."""
    held = _held(spark, source)
    wanted = result_calls.packed(range(PARTITIONS))
    told = ours(spark).LawsCost.of(held.rdd(is_first=True), results._laws(held, "measured", wanted), ROWS, ROUNDS)
    lines = [tuple(map(float, line.split())) for line in str(told).splitlines()]
    watched, plain, again = (statistics.median(line[at] for line in lines) for at in range(3))
    return watched, plain, again


if __name__ == "__main__":
    sys.exit(main())
