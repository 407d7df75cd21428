"""A location as Spark spells it. The store behind the same location is opened by `journal.stores`."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from rekindle.errors import Refused
from rekindle.storage.schemes import is_local, scheme_of, spark_spelling


def spark_root(location: str) -> str:
    """`s3a://bucket/prefix`, `file:/folder` and so on: where Spark reads and writes what the store calls `location`."""
    if is_local(location):
        folder = Path(unquote(urlsplit(location).path) if scheme_of(location) else location)
        return f"file:{folder.absolute().as_posix()}"
    remote = spark_spelling(location)
    if remote is None:
        raise Refused(
            f"Spark cannot keep results at {location}",
            "use a path, file:///folder, s3a://bucket/prefix, hdfs://namenode/folder, gs://bucket/prefix or abfss://container@account/prefix",
        )
    return remote.rstrip("/")


def run_root(location: str, pipeline: str, run: str) -> str:
    """Where Spark has what belongs to one run."""
    return f"{spark_root(location)}/{pipeline}/{run}"
