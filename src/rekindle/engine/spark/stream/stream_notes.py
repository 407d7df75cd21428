"""What the plan of a stream says of the Spark application that it runs in."""

from __future__ import annotations

from pyspark.sql import SparkSession

MODE, FAIR = "spark.scheduler.mode", "FAIR"
FIFO_NOTE = (
    "spark.scheduler.mode is FIFO: a region with much work holds up the others; start Spark with "
    "--conf spark.scheduler.mode=FAIR"
)


def fifo_notes(spark: SparkSession, regions: int) -> tuple[str, ...]:
    """Of a single region nothing is said."""
    is_fair = spark.sparkContext.getConf().get(MODE, "FIFO") == FAIR
    return () if is_fair or regions == 1 else (FIFO_NOTE,)
