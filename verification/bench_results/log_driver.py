"""A driver of `make bench-stream-results`: a query over a result with many batches, or over a folder with as many
files, into nowhere. What comes new is told to the result as a sink in this process would tell it."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

RESULT, FILES = "result", "files"
STEP, GENERATION, TRIGGER, ALL, LOOK_S = "made", "g", "100 milliseconds", "1000000", 0.02
COLUMNS = "id long, text string, amount double"


def main(folder: str, how: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    reader = spark.readStream.schema(COLUMNS)
    if how == RESULT:
        options = {"path": folder, "region": STEP, "generation": GENERATION, "maxEntriesPerTrigger": ALL}
        rows = reader.format("rekindle.spark.StreamSegments").options(**options).load()
    else:
        rows = reader.option("latestFirst", "false").parquet(f"{folder}/data")
    writer = rows.where("id >= 0").writeStream.format("noop").trigger(processingTime=TRIGGER)
    query = writer.option("checkpointLocation", f"{folder}/checkpoint").start()
    told, new = "", Path(folder, "new")
    path = spark.sparkContext._jvm.org.apache.hadoop.fs.Path
    tell = spark.sparkContext._jvm.rekindle.spark.StreamSegments.tell
    while not Path(folder, "halt").exists() and query.isActive:
        found = new.read_text() if new.exists() else ""
        if found != told and how == RESULT:
            tell(path(f"{folder}/entries/{STEP}/{GENERATION}/{found}"))
        told = found
        time.sleep(LOOK_S)
    if query.exception() is not None:
        raise RuntimeError(str(query.exception()))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
