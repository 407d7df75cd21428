"""The schemes of the URLs of locations and targets: one table, for stores, Spark and comparisons alike.

- A place that Rekindle can use has a store for journals and pointers, and a name under which Spark writes there.
- `s3`, `s3a` and `s3n` are the same bucket. The letters of a scheme have no case.
- A namenode is the same with its usual port and without one, in capitals or not.
- `memory:` is a store for tests: Spark cannot write there.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit

LOCAL = ("", "file")
HDFS, HDFS_PORT = "hdfs", 8020
MEMORY = "memory"


class Spelling(NamedTuple):
    """A scheme as the store spells it, and as Spark does."""

    store: str
    spark: str


REMOTE = {
    "s3": Spelling("s3", "s3a"),
    "s3a": Spelling("s3", "s3a"),
    "s3n": Spelling("s3", "s3a"),
    "gs": Spelling("gs", "gs"),
    HDFS: Spelling(HDFS, HDFS),
    "abfs": Spelling("abfs", "abfs"),
    "abfss": Spelling("abfss", "abfss"),
}


def scheme_of(url: str) -> str:
    """In small letters; empty for a plain path."""
    return urlsplit(url).scheme


def is_local(url: str) -> bool:
    """On disk, where one rename moves a whole directory."""
    return scheme_of(url) in LOCAL


def plain_path(url: str) -> str:
    """A local URL without its scheme."""
    return url[url.index(":") + 1 :] if scheme_of(url) else url


def store_spelling(url: str) -> str | None:
    """A remote URL as the store behind it is opened; None where no store is known."""
    known = REMOTE.get(scheme_of(url))
    return None if known is None else _with_scheme(url, known.store)


def spark_spelling(url: str) -> str | None:
    """A remote URL as Spark reads and writes it; None where it cannot."""
    known = REMOTE.get(scheme_of(url))
    return None if known is None else _with_scheme(url, known.spark)


def one_spelling(url: str) -> str:
    """Equal for all schemes of one storage; also for a scheme that nobody knows."""
    scheme = scheme_of(url)
    known = REMOTE.get(scheme)
    if scheme == HDFS:
        authority, slash, path = url.partition("://")[2].partition("/")
        host, port = host_and_port(authority)
        return f"{HDFS}://{host if port == HDFS_PORT else f'{host}:{port}'}{slash}{path}"
    return _with_scheme(url, scheme if known is None else known.spark) if scheme else url


def host_and_port(authority: str) -> tuple[str, int]:
    """Of a namenode, or of a name service, which has no port."""
    host, colon, port = authority.rpartition(":")
    return (host.lower(), int(port)) if colon and port.isdecimal() else (authority.lower(), HDFS_PORT)


def _with_scheme(url: str, scheme: str) -> str:
    return scheme + url[url.index(":") :]
