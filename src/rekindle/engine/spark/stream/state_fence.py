"""State of streams is fenced by Spark's checkpoint format 2: the commit log names the files of state that count.

A Spark that does not have it may run regions without state. One with state is refused: a driver that was frozen could
write over the state of its successor when it wakes up, and nobody would notice.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import SparkSession

from rekindle.engine.spark.session import spark_line
from rekindle.engine.spark_lines import SparkFeature
from rekindle.errors import Refused
from rekindle.remedies import TextRemedy
from rekindle.streams.stream_spec import RegionSpec


def refuse_unfenced_state(spark: SparkSession, regions: Iterable[RegionSpec]) -> None:
    """Raise `Refused` if a region has state and this Spark cannot fence it."""
    found = next((one for one in regions if one.stateful), None)
    if found is not None and SparkFeature.FENCED_STATE in spark_line(spark).lacks:
        raise Refused(
            f"{found.name} has state at {found.stateful[-1]}, and Spark {spark.version} has no "
            f"{SparkFeature.FENCED_STATE.value}: a driver that was frozen could overwrite the state of its successor",
            hint=TextRemedy("run this pipeline on Spark 4.0 or newer; regions without state run on this one"),
        )
