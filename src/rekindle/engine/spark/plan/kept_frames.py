"""Kept results as DataFrames: over what the journal names, or over nothing, to be planned with before a run.

A result with keys lies in Spark's own bucketed layout. A damaged file is an error wherever it is read, never fewer
rows, whatever the session's settings say about missing or corrupt files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
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
    `is_by_file`: each file is one partition. `is_source`: for what is made of it they are files like any others, and
    pinned."""
    found = relation(session, root, files, schema, layout, outline=outline, is_by_file=is_by_file, is_source=is_source)
    return _frame(session, found, outline)


def relation(
    session: SparkSession,
    root: str,
    files: Iterable[tuple[str, int]],
    schema: Any,
    layout: Layout,
    *,
    outline: Any = None,
    is_by_file: bool = False,
    is_source: bool = False,
) -> Any:
    """The committed files as Spark's relation, whose session decides how they are cut. Blocks are planned as files
    are."""
    ours = jvm(session).rekindle.spark
    listed = list(files)
    is_one = _is_one(layout, outline)
    is_blocks = bool(listed) and manifest.is_block(listed[0][0])
    kind = ours.KeptBlocks.index if is_blocks else ours.KeptFiles if is_source else ours.CommittedFiles
    index = kind(root, "\n".join(f"{path}\t{length}" for path, length in listed))
    home = clone(session, ONE_FILE_EACH) if is_by_file or is_one else session
    return _relation(home, index, ours.BlockRows() if is_blocks else _parquet(session), schema, layout)


def over_files(frame: DataFrame, session: SparkSession, read: Mapping[str, Any]) -> DataFrame | None:
    """A frame that was built over stand-ins, with the relations of these steps in their place. None where it is not
    proved to be what building it again would give (see java/StandIn)."""
    places = {place(step): relation for step, relation in read.items()}
    replaced = jvm(session).rekindle.spark.StandIn.replaced
    made = replaced(session._jsparkSession, frame._jdf.queryExecution(), places)
    return None if made is None else DataFrame(made, session)


def traces(session: SparkSession) -> str:
    """Differs after a function was called over stand-ins that must be called over real files too: it asked one for its
    files or its size, or left a view for the whole application."""
    return str(jvm(session).rekindle.spark.StandIn.traces(session._jsparkSession))


def reads_stand_in(plan: Any, session: SparkSession) -> bool:
    """Whether a physical plan reads the stand-in of a kept step: it would find no rows."""
    return bool(jvm(session).rekindle.spark.StandIn.isRead(plan))


def place(step: str) -> str:
    """Where the stand-in of a step says that its files are."""
    return f"{cuts.NOWHERE}{step}"


def _is_one(layout: Layout, outline: Any) -> bool:
    """Whether all rows are in one file, which is read in its order."""
    return outline is not None and not layout.keys and bool(outline.isSingle())


def _frame(session: SparkSession, relation: Any, outline: Any) -> DataFrame:
    rows = DataFrame(session._jsparkSession.baseRelationToDataFrame(relation), session)
    return rows if outline is None else cuts.restored(rows, outline)


def _relation(session: SparkSession, index: Any, kind: Any, schema: Any, layout: Layout) -> Any:
    return jvm(session).org.apache.spark.sql.execution.datasources.HadoopFsRelation(
        index,
        index.partitionSchema(),
        schema,
        scala_option(session, _buckets(session, layout) if layout.keys else None),
        kind,
        scala_map(session, STRICT),
        session._jsparkSession,
    )


def stand_in(session: SparkSession, step: str, schema: Any, layout: Layout, outline: Any = None) -> DataFrame:
    """A kept result without files: same schema, same layout. What is planned over it can be known before a run."""
    index = jvm(session).rekindle.spark.StandIn(place(step))
    home = clone(session, ONE_FILE_EACH) if _is_one(layout, outline) else session
    return _frame(session, _relation(home, index, _parquet(session), schema, layout), outline)


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
