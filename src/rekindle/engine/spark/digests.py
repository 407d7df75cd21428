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

from rekindle.engine import manifest
from rekindle.engine.spark import results
from rekindle.engine.spark.layout import Layout
from rekindle.engine.spark.session import jvm


def of_nothing(session: SparkSession, schema: Any) -> str:
    """What a partition without rows has; empty if nothing of this schema can have a digest."""
    return str(jvm(session).rekindle.spark.RowDigest.ofNothing(schema))


def read_back(
    session: SparkSession, directory: str, commits: Sequence[manifest.Commit], schema: Any
) -> list[manifest.Commit]:
    """The same commits with the digests of their files, which one Spark job reads; what has one keeps it."""
    files = [(commit.name, commit.bytes) for commit in commits if commit.bytes >= 0 and not commit.digest]
    if not files:
        return list(commits)
    rows = results.read(session, directory, files, schema, Layout((), len(files)), is_by_file=True)
    rdd = rows._jdf.queryExecution().toRdd()
    numbers = [manifest.number_of(line) for line in results.files_of(session, rdd)]
    lines = str(jvm(session).rekindle.spark.RowDigest.ofPartitions(rdd, schema)).splitlines()
    found = dict(zip(numbers, lines, strict=True))
    return [replace(commit, digest=commit.digest or found.get(commit.partition, "")) for commit in commits]
