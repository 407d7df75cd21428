"""What plain Spark makes of the steps of a pipeline, without a cut between them: the judge of a drill.

Rows are compared as multisets, each as one text of JSON: so are columns that Spark does not compare, such as maps.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rekindle.engine.adapter import PrepareRequest
from rekindle.engine.spark.plan.describe import describe
from rekindle.engine.spark.prepare import reader_of
from rekindle.engine.spark.publish.files import read_by
from rekindle.engine.spark.session import attach, clone
from rekindle.pipeline.step_trial import RowsCompared

# Text of JSON has milliseconds otherwise, and leaves out what is null.
OPTIONS = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSxxx",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


def compare(
    session: SparkSession, wanted: PrepareRequest, published: Mapping[str, DataFrame]
) -> dict[str, RowsCompared]:
    """Of each sink, how many rows plain Spark gives, and how many are not the same in what was published."""
    attach(session)
    own = clone(session, {})
    frames: dict[str, DataFrame] = {}
    with read_by(reader_of(wanted), wanted.stores):
        for one in wanted.steps:
            frames[one.name] = describe(one, own, frames, wanted.parameters, wanted.constants)
    return {sink: _compared(_texts(frames[sink]), _texts(rows)) for sink, rows in published.items()}


def _texts(frame: DataFrame) -> DataFrame:
    return frame.select(F.to_json(F.struct("*"), OPTIONS).alias("row"))


def _compared(plain: DataFrame, published: DataFrame) -> RowsCompared:
    different = plain.exceptAll(published).count() + published.exceptAll(plain).count()
    return RowsCompared(rows=plain.count(), different=different)
