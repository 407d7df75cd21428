"""A location as Spark spells it. The store behind the same location is opened by `journal.stores`."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from rekindle.errors import Refused

SAME = ("gs", "abfs", "abfss")
S3 = ("s3", "s3a", "s3n")


def spark_root(location: str) -> str:
    """`s3a://bucket/prefix`, `file:/folder` and so on: where Spark reads and writes what the store calls `location`."""
    parts = urlsplit(location)
    path = location.rstrip("/")
    if parts.scheme in ("", "file"):
        folder = Path(unquote(parts.path) if parts.scheme else location)
        return f"file:{folder.absolute().as_posix()}"
    if parts.scheme in S3:
        return f"s3a{path.removeprefix(parts.scheme)}"
    if parts.scheme in SAME:
        return path
    raise Refused(
        f"Spark cannot keep results at {location}",
        hint="use a path, file:///folder, s3a://bucket/prefix, gs://bucket/prefix or abfss://container@account/prefix",
    )


def run_root(location: str, pipeline: str, run: str) -> str:
    """Where Spark has what belongs to one run."""
    return f"{spark_root(location)}/{pipeline}/{run}"
