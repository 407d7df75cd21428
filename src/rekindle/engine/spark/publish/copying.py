"""Committed files into a directory of a target: byte for byte, by one Spark job, whatever storage they lie on.

Rules
- A copy is known by its name and length, so that a second try copies only what is missing.
- A copy gets its name when it is whole: by a link to the checked file on one local disk, at once on object stores,
  elsewhere by a rename from a scratch directory. A task that wakes up late puts the same bytes there, and never cuts a
  file that somebody reads.
- Nothing that is copied is trusted by the name in a journal: a source that is missing, has another length, or fails
  its checksum (local disk) is reported by path, and nothing is published.
- Names that begin with a dot or an underscore are hidden from Spark's readers, and are not looked at here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql import SparkSession

from rekindle.engine.adapter import FileCopy
from rekindle.engine.spark.jvm import file_calls

SCRATCH = "results/_scratch"


class SourceFilesLost(Exception):
    """Sources that are not what was committed, each with what is wrong."""

    def __init__(self, found: dict[str, str]) -> None:
        super().__init__("; ".join(f"{path} {why}" for path, why in found.items()))
        self.found = found


def complete(
    spark: SparkSession, directory: str, scratch: str, wanted: Sequence[FileCopy], *, shows_hidden: bool = False
) -> set[str]:
    """Copy what the directory does not have yet. Afterwards it has every file of `wanted` at its full length, and
    perhaps others: the names of all are the answer. A directory of ours may have names that readers would not see."""
    there = visible(spark, directory, shows_hidden=shows_hidden)
    missing = [one for one in wanted if there.get(one.name) != one.bytes]
    if not missing:
        return set(there)
    lines = "\n".join(f"{one.source}\t{one.bytes}\t{one.name}" for one in missing)
    try:
        lost = file_calls.copy_files(spark, lines, directory, scratch)
    finally:
        file_calls.delete_directory(spark, scratch, 1)
    if lost:
        raise SourceFilesLost(dict(line.split("\t", 1) for line in lost))
    there = visible(spark, directory, shows_hidden=shows_hidden)
    absent = [one.name for one in wanted if there.get(one.name) != one.bytes]
    if absent:
        raise OSError(f"{len(absent)} copies are not in {directory}, the first is {absent[0]}")
    return set(there)


def into_run(spark: SparkSession, root: str, copies: Sequence[FileCopy]) -> frozenset[str]:
    """Bring files of an earlier run into this one; the sources that are not what was committed."""
    try:
        complete(spark, root, f"{root}/{SCRATCH}", copies, shows_hidden=True)
    except SourceFilesLost as lost:
        return frozenset(lost.found)
    return frozenset()


def write_empty(spark: SparkSession, directory: str, name: str, schema: str) -> None:
    """A file without rows, so that a directory without rows has a schema."""
    file_calls.write_empty_file(spark, f"{directory}/{name}", schema)


def visible(spark: SparkSession, directory: str, *, shows_hidden: bool = False) -> dict[str, int]:
    """Names and lengths of the files that a reader of the directory sees, also below it."""
    found = {}
    for line in file_calls.list_files(spark, directory).splitlines():
        name, length = line.rsplit("\t", 1)
        if shows_hidden or not any(part.startswith((".", "_")) for part in name.split("/")):
            found[name] = int(length)
    return found


def remove(spark: SparkSession, directory: str, names: Iterable[str]) -> None:
    """Remove files by name."""
    file_calls.remove_files(spark, directory, names)


def put(spark: SparkSession, path: str, body: bytes) -> None:
    """Write a small file, replacing it."""
    file_calls.put_file(spark, path, body)
