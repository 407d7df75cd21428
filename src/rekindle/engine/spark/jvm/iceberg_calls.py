"""Iceberg tables of a session's catalogs, by Iceberg's own classes (java-lake/rekindle/iceberg)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from rekindle.engine.spark.jvm.access import ours, root, session_of
from rekindle.engine.spark.jvm.table_calls import is_class, lake_jar, lines_of

ICEBERG = "org.apache.iceberg.spark.SparkCatalog"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFound:
    """What a name stands for: `table` and its location, `absent`, `no namespace` and its name, `no catalog`, or `other`
    and what it is; with the catalog, and the whole name in quotes."""

    kind: str
    catalog: str
    whole: str
    told: str


def has_iceberg(spark: SparkSession) -> bool:
    """Whether Iceberg is on the class path of the session."""
    return bool(ours(spark).SparkObjects.hasClass(ICEBERG))


def iceberg_jar() -> str:
    """Our calls into Iceberg; empty where this installation was built without them."""
    return lake_jar("iceberg")


def has_iceberg_calls(spark: SparkSession) -> bool:
    return is_class(root(spark).rekindle.iceberg.IcebergTables)


def find(spark: SparkSession, name: str) -> TableFound:
    kind, catalog, whole, told = str(_tables(spark).found(session_of(spark), name)).split("\t")
    return TableFound(kind=kind, catalog=catalog, whole=whole, told=told)


def state(spark: SparkSession, name: str) -> str:
    """A table as JSON, empty where there is none."""
    return str(_tables(spark).state(session_of(spark), name))


def files(spark: SparkSession, name: str, columns: Iterable[str]) -> list[str]:
    """The files of the newest snapshot, as lines: path, bytes, values of the partition, statistics; tabs between."""
    return lines_of(_tables(spark).files(session_of(spark), name, "\n".join(columns)))


def footers(
    spark: SparkSession, name: str, *, directory: str, location: str, sizes: Mapping[str, int], single: Iterable[str]
) -> list[str]:
    """A line of JSON for each file of a directory, by its name with its bytes: what its footer says of its rows, and
    the file as Iceberg has it. `location` is how the table spells the directory."""
    names = "\n".join(f"{one}\t{length}" for one, length in sizes.items())
    told = root(spark).rekindle.iceberg.IcebergFooters.read(
        session_of(spark), name, directory, location, names, "\n".join(single)
    )
    return lines_of(told)


def commit(
    spark: SparkSession,
    name: str,
    version: str,
    *,
    removed: Iterable[str],
    added: Iterable[str],
    properties: Mapping[str, str],
    told: Mapping[str, str],
) -> bool:
    """One commit on top of metadata that was looked at. False if somebody else came first."""
    pairs = ("\n".join(f"{one}\t{value}" for one, value in found.items()) for found in (properties, told))
    lines = ("\n".join(one) for one in (removed, added))
    return str(_tables(spark).commit(session_of(spark), name, version, *lines, *pairs)) == "committed"


def _tables(spark: SparkSession) -> Any:
    return root(spark).rekindle.iceberg.IcebergTables
