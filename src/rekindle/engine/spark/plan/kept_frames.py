"""Kept results as DataFrames: over what the journal names, or over nothing, to be planned with before a run.

A result with keys lies in Spark's own bucketed layout. A damaged file is an error wherever it is read, never fewer
rows, whatever the session's settings say about missing or corrupt files.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from rekindle.engine.spark.jvm import result_calls
from rekindle.engine.spark.plan import cuts
from rekindle.engine.spark.plan.layout import Layout
from rekindle.engine.spark.session import clone
from rekindle.results import manifest

ONE_FILE_EACH = {
    "spark.sql.files.maxPartitionBytes": str(2**40),
    "spark.sql.files.openCostInBytes": str(2**40),
    # A number that the user wants is reached by putting files together.
    "spark.sql.files.maxPartitionNum": str(2**31 - 1),
    # Of what has keys, too.
    "spark.sql.sources.bucketing.enabled": "false",
}

# A path in a line about a Spark partition of a scan, with what of it is read behind it. It may have spaces.
SPLIT = re.compile(r"(\S.*?) \d+\+\d+(?: |$)")


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
    rows = scan(session, root, files, schema, layout, outline=outline, is_by_file=is_by_file, is_source=is_source)
    return rows if outline is None else result_calls.restored(rows, outline)


def scan(
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
    """The same, as rows and no more: what the outline restores is not above them. The session of a relation decides how
    its files are cut. Blocks are planned as files are."""
    listed = list(files)
    return result_calls.scan(
        session,
        root,
        "\n".join(f"{path}\t{length}" for path, length in listed),
        its_schema=schema,
        keys=layout.keys,
        partitions=layout.partitions,
        cut_by=clone(session, ONE_FILE_EACH) if is_by_file or _is_one(layout, outline) else session,
        is_blocks=bool(listed) and manifest.is_block(listed[0][0]),
        is_source=is_source,
    )


def stand_in(session: SparkSession, step: str, schema: Any, layout: Layout, outline: Any = None) -> DataFrame:
    """A kept result without files: same schema, same layout. What is planned over it can be known before a run."""
    rows = result_calls.stand_in(
        session,
        place(step),
        its_schema=schema,
        keys=layout.keys,
        partitions=layout.partitions,
        cut_by=clone(session, ONE_FILE_EACH) if _is_one(layout, outline) else session,
    )
    return rows if outline is None else result_calls.restored(rows, outline)


def over_files(frame: DataFrame, session: SparkSession, scans: Mapping[str, DataFrame]) -> DataFrame | None:
    """A frame that was built over stand-ins, with the files of these steps in their place. None where it is not proved
    to be what building it again would give (see java/StandIn)."""
    return result_calls.over_files(frame, session, {place(step): rows for step, rows in scans.items()})


def place(step: str) -> str:
    """Where the stand-in of a step says that its files are."""
    return f"{cuts.NOWHERE}{step}"


def _is_one(layout: Layout, outline: Any) -> bool:
    """Whether all rows are in one file, which is read in its order."""
    return outline is not None and not layout.keys and result_calls.is_single(outline)


def files_of(session: SparkSession, rdd: Any) -> list[str]:
    """The file that each Spark partition of a scan reads, in one call."""
    return result_calls.splits(session, rdd)


def paths_in(line: str) -> list[str]:
    """The paths in one such line, in which each is followed by where it is read: `file:/lake/a b.csv 0+640 `."""
    return SPLIT.findall(line)


def splits(session: SparkSession, rdd: Any) -> str:
    """A digest of how a scan is cut: equal in another driver if and only if its partitions are."""
    return hashlib.sha256("\n".join(files_of(session, rdd)).encode()).hexdigest()[:16]
