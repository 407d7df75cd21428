"""Kept results in Spark's own bucketed layout: written from a held plan, read back from what the journal names."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from rekindle.engine.spark.layout import Held
from rekindle.engine.spark.session import jvm, scala_map, scala_option, scala_seq
from rekindle.model.partitions import Partitions


def write(held: Held, directory: str, wanted: Partitions, name: str, *, is_first: bool) -> None:
    """One Spark job that computes and commits `wanted`. All of them: the held plan itself, as a plain write costs.
    Fewer, or after a failed map stage: the same RDD, pruned; finished map tasks are skipped."""
    session = held.session
    if len(wanted) == held.partitions and (is_first or held.is_planned_to_the_end()):
        _run(held, held.execution, held.plan, directory, name, {})
        return
    packed = struct.pack(f"<{len(wanted)}i", *wanted)
    pruned = jvm(session).rekindle.spark.Bridge.prune(held.rdd(is_first=is_first), packed)
    rows = session._jsparkSession.internalCreateDataFrame(pruned, held.schema, False)
    execution = rows.queryExecution()
    chosen = {"rekindle.partitions": base64.b64encode(packed).decode()}
    _run(held, execution, execution.executedPlan(), directory, name, chosen)


def _run(held: Held, execution: Any, plan: Any, directory: str, name: str, options: Mapping[str, str]) -> None:
    """Spark's plain file write: every task has the rows of one partition, so the bucket needs no look at a row."""
    spark = held.session
    java = jvm(spark)
    nothing = scala_seq(spark, [])
    command = java.org.apache.spark.sql.execution.datasources.InsertIntoHadoopFsRelationCommand(
        java.org.apache.hadoop.fs.Path(directory),
        scala_map(spark, {}),
        False,
        nothing,
        scala_option(spark, None),
        _parquet(spark),
        scala_map(spark, options),
        execution.optimizedPlan(),
        java.org.apache.spark.sql.SaveMode.Append,
        scala_option(spark, None),
        scala_option(spark, None),
        scala_seq(spark, held.frame.columns),
    )
    java.rekindle.spark.Bridge.write(command, spark._jsparkSession, execution, plan, name)


def read(
    session: SparkSession,
    root: str,
    files: Iterable[tuple[str, int]],
    schema: Any,
    keys: tuple[str, ...],
    partitions: int,
) -> DataFrame:
    """The committed files as a DataFrame whose partition p is ours. `files` are (path below root, bytes)."""
    java = jvm(session)
    index = java.rekindle.spark.CommittedFiles(root, "\n".join(f"{path}\t{length}" for path, length in files))
    relation = java.org.apache.spark.sql.execution.datasources.HadoopFsRelation(
        index,
        index.partitionSchema(),
        schema,
        scala_option(session, _buckets(session, keys, partitions)),
        _parquet(session),
        scala_map(session, {}),
        session._jsparkSession,
    )
    return DataFrame(session._jsparkSession.baseRelationToDataFrame(relation), session)


def _buckets(spark: SparkSession, keys: tuple[str, ...], partitions: int) -> Any:
    spec = jvm(spark).org.apache.spark.sql.catalyst.catalog.BucketSpec
    return spec(partitions, scala_seq(spark, keys), scala_seq(spark, []))


def _parquet(spark: SparkSession) -> Any:
    return jvm(spark).org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat()
