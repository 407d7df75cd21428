"""The session that a user's functions are given while they describe a step.

It is a Spark session like any other, but for two things:
- what Spark must do to read a schema is no action of the user: `spark.read` and queries over files by their path may
  start Spark jobs where actions may not (see describe.py);
- `spark.range` is cut as the run was cut when it started, on however many cores it goes on.

That a step changes settings is noticed by describe.py.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from pyspark.sql import DataFrame, DataFrameReader, SparkSession

from rekindle.engine.spark.jvm import plan_calls

# Spark takes a job's group, and so whether it is cancelled, from this property of the thread.
JOB_GROUP_ID = "spark.jobGroup.id"
SLICES = "spark.sql.leafNodeDefaultParallelism"
READS = ("load", "parquet", "csv", "json", "orc", "text", "table", "jdbc", "xml", "excel")


@contextlib.contextmanager
def may_start_jobs(session: SparkSession) -> Iterator[None]:
    """For a while jobs of this thread belong to no group."""
    context = session.sparkContext
    group = context.getLocalProperty(JOB_GROUP_ID)
    tags = context.getJobTags()
    context.setLocalProperty(JOB_GROUP_ID, None)
    context.clearJobTags()
    try:
        yield
    finally:
        context.setLocalProperty(JOB_GROUP_ID, group)
        for tag in tags:
            context.addJobTag(tag)


class SchemaReader(DataFrameReader):  # type: ignore[misc]
    """Spark's reader. Spark may start a job of its own to learn a schema."""


def _reads(usual: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(usual)
    def read(self: SchemaReader, *given: Any, **named: Any) -> Any:
        with may_start_jobs(self._spark):
            return usual(self, *given, **named)

    return read


for _name in READS:
    if hasattr(DataFrameReader, _name):
        setattr(SchemaReader, _name, _reads(getattr(DataFrameReader, _name)))


class UserSession(SparkSession):  # type: ignore[misc]
    """A session of ours that user code is given."""

    @property
    def read(self) -> DataFrameReader:
        return SchemaReader(self)

    def range(self, start: int, end: int | None = None, step: int = 1, numPartitions: int | None = None) -> DataFrame:
        slices = numPartitions or int(self.conf.get(SLICES, None) or 0) or None
        return super().range(start, end, step, slices)

    def sql(self, sqlQuery: str, *given: Any, **named: Any) -> DataFrame:
        """A query over files by their path may have to learn a schema. A command acts, as any action does."""
        with may_start_jobs(self) if plan_calls.reads_paths(self, sqlQuery) else contextlib.nullcontext():
            return super().sql(sqlQuery, *given, **named)
