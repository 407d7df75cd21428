"""A driver of `make stream-soak`: many regions, and now and then a line of what it holds."""

from __future__ import annotations

import gc
import json
import sys
import threading
import time
from pathlib import Path

from py4j.finalizer import ThreadSafeFinalizer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.failover.backoff import Exponential
from rekindle.master.facts.config import BackoffSpec, MasterConfig

REGIONS = 24
TRIGGER, LOOK_S = "2 seconds", 15.0
BACKOFF = Exponential(initial_ms=100, delay_ms_max=2_000, attempts_max=100_000)
MEASURE, RESTARTS = "MEASURE ", "RESTARTS "


def name_of(number: int) -> str:
    return f"region_{number:02d}"


def is_fragile(number: int) -> bool:
    """Every third region calls Python, and every third one has state."""
    return number % 3 == 0


def has_state(number: int) -> bool:
    return number % 3 == 1


def rows_of(rows: DataFrame, folder: str, number: int) -> DataFrame:
    """A fragile region fails once for each file that lies in its folder of failures."""

    def looked_at(one: int) -> int:
        for file in Path(folder, "fail", name_of(number)).glob("*"):
            file.unlink(missing_ok=True)
            raise ValueError("this batch fails")
        return one

    if is_fragile(number):
        return rows.select(F.udf(looked_at, "long")("id").alias("id"))
    return rows.dropDuplicates(["id"]) if has_state(number) else rows


def pipeline_of(folder: str) -> rk.Pipeline:
    pipeline = rk.Pipeline("soak")
    for number in range(REGIONS):
        name = name_of(number)

        def source(spark: SparkSession, name: str = name) -> DataFrame:
            return spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).json(f"{folder}/in/{name}")

        def sink(rows: DataFrame, number: int = number) -> DataFrame:
            return rows_of(rows, folder, number)

        pipeline.add_source(source, name=f"rows_{name}")
        target = rk.files(f"{folder}/out/{name}")
        pipeline.add_sink(sink, target, inputs={"rows": f"rows_{name}"}, name=name, trigger=TRIGGER)
    return pipeline


def measured(spark: SparkSession, folder: str) -> dict[str, float]:
    """What this driver holds now, garbage not counted."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    gc.collect()
    jvm.java.lang.System.gc()
    runtime = jvm.java.lang.Runtime.getRuntime()
    journal = list(Path(folder).glob("state/soak/_streams/*/journal/*"))
    return {
        "at_s": time.monotonic(),
        "heap_mb": (runtime.totalMemory() - runtime.freeMemory()) / 1e6,
        "jvm_threads": jvm.java.lang.management.ManagementFactory.getThreadMXBean().getThreadCount(),
        "python_threads": threading.active_count(),
        "py4j_objects": len(ThreadSafeFinalizer.finalizers),
        "temporary_files": sum(1 for one in Path(folder, "tmp").rglob("*") if one.is_file()),
        "descriptors": sum(1 for _ in Path("/proc/self/fd").iterdir()),
        "journal_records": len(journal),
        "journal_bytes": sum(one.stat().st_size for one in journal),
    }


def main(folder: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    is_over = threading.Event()

    def look() -> None:
        while not is_over.wait(LOOK_S):
            print(f"{MEASURE}{json.dumps(measured(spark, folder))}", flush=True)

    threading.Thread(target=look, daemon=True).start()
    options = rk.RunOptions(
        config=MasterConfig(backoff=BackoffSpec.of(BACKOFF), poison_tries_max=100_000),
        is_asked_to_stop=lambda: "halt" if Path(folder, "halt").exists() else "",
    )
    summary = pipeline_of(folder).run(spark, f"{folder}/state", options=options)
    is_over.set()
    print(f"{RESTARTS}{summary.failures}", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
