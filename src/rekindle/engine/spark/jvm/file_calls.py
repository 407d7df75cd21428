"""Files and tables, by the file systems and the catalog that Spark has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from rekindle.engine.spark.jvm.access import ours, session_of


def list_files(spark: SparkSession, directory: str) -> str:
    """Every file below a directory, one per line: path below it, tab, length. Empty if there is no such directory."""
    return str(ours(spark).Bridge.list(session_of(spark), directory))


def file_length(spark: SparkSession, path: str) -> int:
    """-1 if there is no such file."""
    return int(ours(spark).Bridge.length(session_of(spark), path))


def put_file(spark: SparkSession, path: str, body: bytes) -> None:
    """Write a small file, replacing it."""
    ours(spark).Bridge.put(session_of(spark), path, body)


def get_file(spark: SparkSession, path: str) -> bytes:
    """A small file's bytes; none if there is no such file."""
    return bytes(ours(spark).Bridge.get(session_of(spark), path))


def delete_directory(spark: SparkSession, directory: str, levels: int) -> None:
    """A directory and all below it, and of the directories above it as many as `levels` says, if they are empty."""
    ours(spark).Bridge.delete(session_of(spark), directory, levels)


def copy_files(spark: SparkSession, files: str, directory: str, scratch: str) -> list[str]:
    """One Spark job that brings files into a directory; a line for each that is not what was committed."""
    return str(ours(spark).Publishing.copy(session_of(spark), files, directory, scratch)).splitlines()


def remove_files(spark: SparkSession, directory: str, names: Iterable[str]) -> None:
    ours(spark).Publishing.remove(session_of(spark), directory, "\n".join(names))


def write_empty_file(spark: SparkSession, path: str, its_schema: str) -> None:
    ours(spark).Publishing.empty(session_of(spark), path, its_schema)


def write_buckets(
    rows: DataFrame, buckets: int, layout: tuple[Sequence[str], Sequence[str], Sequence[str]], options: dict[str, str]
) -> None:
    """Parquet files in this number of buckets, below the `path` of the options. `layout` are the columns of Hive's
    directories, of the buckets, and of the order within them."""
    by, bucket_by, sort_by = map(list, layout)
    ours(rows.sparkSession).BucketedFiles.write(rows._jdf, by, buckets, bucket_by, sort_by, options)


def has_database(spark: SparkSession, database: str) -> bool:
    return bool(ours(spark).Publishing.hasDatabase(session_of(spark), database))


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """A table as the catalog has it; `schema` is Spark's JSON, `by` are the columns of its partitions, and `buckets`
    is what it says of those. `tracks`: the catalog knows where each partition lies."""

    location: str
    schema: str
    provider: str
    is_managed: bool
    buckets: str
    tracks: bool
    by: tuple[str, ...]
    properties: dict[str, str]


def table_facts(spark: SparkSession, database: str, name: str) -> TableFacts | None:
    """None if there is no such table."""
    told = ours(spark).Publishing.table(session_of(spark), database, name)
    if told is None:
        return None
    location, its_schema, provider, kind, buckets, tracks, by, *words = (str(one) for one in told)
    return TableFacts(
        location=location,
        schema=its_schema,
        provider=provider.lower(),
        is_managed=kind == "MANAGED",
        buckets=buckets,
        tracks=tracks == "true",
        by=tuple(by.splitlines()),
        properties=dict(zip(words[::2], words[1::2], strict=True)),
    )


def table_partitions(spark: SparkSession, database: str, name: str) -> dict[str, str]:
    """Where each partition of a table lies, by its directory as Hive writes it."""
    told = [str(one) for one in ours(spark).TablePartitions.partitions(session_of(spark), database, name)]
    return dict(zip(told[::2], told[1::2], strict=True))


def move_partitions(spark: SparkSession, database: str, name: str, to: Mapping[str, str]) -> None:
    """Where partitions of a table lie from now on, by directory; nowhere: the table has it no more. Files stay."""
    lines = "\n".join(f"{directory}\t{place}" for directory, place in to.items())
    ours(spark).TablePartitions.movePartitions(session_of(spark), database, name, lines)


def default_table_place(spark: SparkSession, database: str, name: str) -> str:
    return str(ours(spark).Publishing.defaultPlace(session_of(spark), database, name))


def make_external(spark: SparkSession, database: str, name: str) -> None:
    """From now on dropping the table, or a partition of it, removes no file."""
    ours(spark).Publishing.makeExternal(session_of(spark), database, name)


def point_table(spark: SparkSession, database: str, name: str, location: str, properties: Mapping[str, str]) -> None:
    """Location and properties of a table, changed by one call to the catalog."""
    ours(spark).Publishing.point(session_of(spark), database, name, location, dict(properties))
