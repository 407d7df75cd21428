"""Digests of result partitions: made in the JVM while the partition is written, or by reading its file back.

A digest is 24 bytes: the number of rows, and two sums of 64-bit hashes of them, with the schema in each sum. The same
rows have the same digest in any order, in any driver, whatever their plan; `java/rekindle/spark/RowHash.java` says
what counts as the same. A schema with a type that has no canonical form has no digests, and unknown is a mismatch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace
from pyspark.sql import SparkSession

from rekindle.engine.spark.jvm import plan_calls, result_calls
from rekindle.engine.spark.plan import kept_frames
from rekindle.engine.spark.plan.layout import Layout
from rekindle.results import manifest

UNREADABLE = "!"


def read_back(
    session: SparkSession, directory: str, commits: Sequence[manifest.Commit], schema: Any
) -> list[manifest.Commit]:
    """The same commits with the digests of their files, which one Spark job reads; what has one keeps it, and a file
    that cannot be read has none."""
    files = [(commit.name, commit.bytes) for commit in commits if commit.has_rows and not commit.digest]
    found = of_files(session, directory, files, schema)
    told = {name: one for name, one in found.items() if not one.startswith(UNREADABLE)}
    return [replace(commit, digest=commit.digest or told.get(commit.name, "")) for commit in commits]


def of_files(session: SparkSession, folder: str, files: Sequence[tuple[str, int]], schema: Any) -> dict[str, str]:
    """The digest of each file by its name, in one Spark job; of one that cannot be read `!` and why. `files` are (path
    below the folder, bytes), no two of one name."""
    if not files:
        return {}
    rows = kept_frames.read(session, folder, files, schema, Layout((), len(files)), is_by_file=True)
    rdd = plan_calls.execution(rows).toRdd()
    names = [line.rstrip().rsplit(" ", 1)[0].rsplit("/", 1)[-1] for line in kept_frames.files_of(session, rdd)]
    lines = result_calls.digests_readable(session, rdd, schema)
    return dict(zip(names, lines, strict=True))
