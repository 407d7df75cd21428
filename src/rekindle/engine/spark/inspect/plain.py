"""What plain Spark makes of the steps of a pipeline, without a cut between them: the judge of a drill.

Rows are compared as multisets, each as one text of JSON: so are columns that Spark does not compare, such as maps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rekindle.engine.spark.plan.describe import describe
from rekindle.engine.spark.session import attach
from rekindle.pipeline.constants import TimeAndSeed
from rekindle.pipeline.declared import Declared
from rekindle.pipeline.step_trial import RowsCompared

OPTIONS = {"ignoreNullFields": "false"}


def compare(
    session: SparkSession,
    steps: Sequence[Declared],
    parameters: Mapping[str, Any],
    constants: TimeAndSeed,
    published: Mapping[str, DataFrame],
) -> dict[str, RowsCompared]:
    """Of each sink, how many rows plain Spark gives, and how many are not the same in what was published."""
    attach(session)
    frames: dict[str, DataFrame] = {}
    for one in steps:
        frames[one.name] = describe(one, session, frames, parameters, constants)
    return {sink: _compared(_texts(frames[sink]), _texts(rows)) for sink, rows in published.items()}


def _texts(frame: DataFrame) -> DataFrame:
    return frame.select(F.to_json(F.struct("*"), OPTIONS).alias("row"))


def _compared(plain: DataFrame, published: DataFrame) -> RowsCompared:
    different = plain.exceptAll(published).count() + published.exceptAll(plain).count()
    return RowsCompared(rows=plain.count(), different=different)
