"""What the plan of a stream says of the Spark application that it runs in, and of queries that are a script's own."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from rekindle.engine.spark.jvm import stream_calls
from rekindle.engine.spark.stream.input_lists import decoded

MODE, FAIR = "spark.scheduler.mode", "FAIR"
FIFO_NOTE = (
    "spark.scheduler.mode is FIFO: a region with much work holds up the others; start Spark with "
    "--conf spark.scheduler.mode=FAIR"
)


def fifo_notes(spark: SparkSession, regions: int) -> tuple[str, ...]:
    """Of a single region nothing is said."""
    is_fair = spark.sparkContext.getConf().get(MODE, "FIFO") == FAIR
    return () if is_fair or regions == 1 else (FIFO_NOTE,)


def input_notes(name: str, frame: DataFrame) -> tuple[str, ...]:
    """The batch inputs of a query of a script: the script makes its frame, so that nothing takes their place."""
    found = decoded(stream_calls.batch_inputs(frame))
    read = [*(place for leaf in found.leaves for place in leaf.base.splitlines()), *found.loose]
    return (f"{name}: reads {', '.join(read)} anew at each start: not pinned",) if read else ()
