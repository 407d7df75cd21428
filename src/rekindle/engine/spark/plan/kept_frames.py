"""Kept results as DataFrames: over what the journal names, or over nothing, to be planned with before a run.

A result with keys lies in Spark's own bucketed layout. A damaged file is an error wherever it is read, never fewer
rows, whatever the session's settings say about missing or corrupt files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from rekindle.engine.spark.plan import cuts
from rekindle.engine.spark.plan.layout import Layout
from rekindle.engine.spark.session import clone, jvm, scala_map, scala_option, scala_seq
from rekindle.results import manifest

ONE_FILE_EACH = {
    "spark.sql.files.maxPartitionBytes": str(2**40),
    "spark.sql.files.openCostInBytes": str(2**40),
    # A number that the user wants is reached by putting files together.
    "spark.sql.files.maxPartitionNum": str(2**31 - 1),
}
STRICT = {
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    "parquet.page.verify-checksum.enabled": "true",
}


def read(
    session: SparkSession,
    root: str,
    files: Iterable[tuple[str, int]],
    schema: Any,
    layout: Layout,
    *,
    outline: Any = None,
    is_by_file: bool = False,
    is_source: bool = False,
) -> DataFrame:
    """The committed files as a DataFrame; with keys its partition p is ours. `files` are (path below root, bytes).
    `outline` is what readers observe of the step beside its rows (see cuts.py); without it they are rows and no more.
    `is_by_file`: each file is one partition. The session of a relation decides how its files are cut. `is_source`: for
    what is made of it they are files like any others, and pinned. Blocks are planned as files are."""
    java = jvm(session)
    listed = list(files)
    is_one = outline is not None and not layout.keys and bool(outline.isSingle())
    is_blocks = bool(listed) and manifest.is_block(listed[0][0])
    ours = java.rekindle.spark
    kind = ours.KeptBlocks.index if is_blocks else ours.KeptFiles if is_source else ours.CommittedFiles
    index = kind(root, "\n".join(f"{path}\t{length}" for path, length in listed))
    relation = java.org.apache.spark.sql.execution.datasources.HadoopFsRelation(
        index,
        index.partitionSchema(),
        schema,
        scala_option(session, _buckets(session, layout) if layout.keys else None),
        ours.BlockRows() if is_blocks else _parquet(session),
        scala_map(session, STRICT),
        (clone(session, ONE_FILE_EACH) if is_by_file or is_one else session)._jsparkSession,
    )
    rows = DataFrame(session._jsparkSession.baseRelationToDataFrame(relation), session)
    return rows if outline is None else cuts.restored(rows, outline)


def stand_in(session: SparkSession, step: str, schema: Any, layout: Layout, outline: Any = None) -> DataFrame:
    """A kept result without files: same schema, same layout. What is planned over it can be known before a run."""
    return read(session, f"{cuts.NOWHERE}{step}", (), schema, layout, outline=outline)


def _buckets(spark: SparkSession, layout: Layout) -> Any:
    spec = jvm(spark).org.apache.spark.sql.catalyst.catalog.BucketSpec
    return spec(layout.partitions, scala_seq(spark, layout.keys), scala_seq(spark, []))


def _parquet(spark: SparkSession) -> Any:
    return jvm(spark).org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat()


def files_of(session: SparkSession, rdd: Any) -> list[str]:
    """The file that each Spark partition of a scan reads, in one call."""
    return str(jvm(session).rekindle.spark.Bridge.splits(rdd)).splitlines()


def splits(session: SparkSession, rdd: Any) -> str:
    """A digest of how a scan is cut: equal in another driver if and only if its partitions are."""
    return hashlib.sha256("\n".join(files_of(session, rdd)).encode()).hexdigest()[:16]
