"""A driver of `make stream-pools`: a light region, and a heavy one of many tasks that take their time."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk

LIGHT, HEAVY = "light", "heavy"
TASKS, TASK_S = 60, 0.4


def main(folder: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    pipeline = rk.Pipeline("pools")

    @pipeline.source
    def light_rows(spark: SparkSession) -> DataFrame:
        return spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).json(f"{folder}/in-{LIGHT}")

    @pipeline.source
    def heavy_rows(spark: SparkSession) -> DataFrame:
        return spark.readStream.schema("id long").option("maxFilesPerTrigger", TASKS).json(f"{folder}/in-{HEAVY}")

    def slow(one: int) -> int:
        time.sleep(TASK_S)
        return one

    @pipeline.sink(rk.files(f"{folder}/out-{LIGHT}"), name=LIGHT)
    def light(light_rows: DataFrame) -> DataFrame:
        return light_rows

    @pipeline.sink(rk.files(f"{folder}/out-{HEAVY}"), name=HEAVY)
    def heavy(heavy_rows: DataFrame) -> DataFrame:
        return heavy_rows.select(F.udf(slow, "long")("id").alias("id"))

    options = rk.RunOptions(is_asked_to_stop=lambda: "halt" if Path(folder, "halt").exists() else "")
    pipeline.run(spark, f"{folder}/state", options=options)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
