"""Files and tables, by the file systems and the catalog that Spark has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyspark.sql import SparkSession

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


def has_database(spark: SparkSession, database: str) -> bool:
    return bool(ours(spark).Publishing.hasDatabase(session_of(spark), database))


def table_facts(spark: SparkSession, database: str, name: str) -> tuple[str, str, dict[str, str]] | None:
    """Location, schema as JSON and properties of a table; None if there is no such table."""
    told = ours(spark).Publishing.table(session_of(spark), database, name)
    if told is None:
        return None
    location, its_schema, *words = (str(one) for one in told)
    return location, its_schema, dict(zip(words[::2], words[1::2], strict=True))


def default_table_place(spark: SparkSession, database: str, name: str) -> str:
    return str(ours(spark).Publishing.defaultPlace(session_of(spark), database, name))


def point_table(spark: SparkSession, database: str, name: str, location: str, properties: Mapping[str, str]) -> None:
    """Location and properties of a table, changed by one call to the catalog."""
    ours(spark).Publishing.point(session_of(spark), database, name, location, dict(properties))
