"""Iceberg tables of a session's catalogs, by Iceberg's own classes (java-lake/rekindle/iceberg)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from rekindle.engine.spark.jvm.access import Package, frame_of, is_class, ours, session_of
from rekindle.engine.spark.jvm.plan_calls import execution
from rekindle.engine.spark.jvm.table_calls import lake_jar, lines_of
from rekindle.pipeline.table_versions import ICEBERG as FORMAT
from rekindle.pipeline.table_versions import TableVersion

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
    return is_class(spark, "rekindle.iceberg.IcebergTables")


def find(spark: SparkSession, name: str) -> TableFound:
    kind, catalog, whole, told = str(_tables(spark).found(session_of(spark), name)).split("\t")
    return TableFound(kind=kind, catalog=catalog, whole=whole, told=told)


def state(spark: SparkSession, name: str) -> str:
    """A table as JSON, empty where there is none."""
    return str(_tables(spark).state(session_of(spark), name))


def files(spark: SparkSession, name: str, columns: Iterable[str]) -> list[str]:
    """The files of the newest snapshot, as lines: path, bytes, values of the partition, statistics; tabs between."""
    return lines_of(_tables(spark).files(session_of(spark), name, "\n".join(columns)))


def changes(spark: SparkSession, name: str, snapshot: int, columns: Iterable[str]) -> list[str]:
    """The files whose rows came or went since a snapshot, as lines (java-lake/IcebergChanges)."""
    told = Package(spark, "rekindle.iceberg").IcebergChanges.since(
        session_of(spark), name, snapshot, "\n".join(columns)
    )
    return lines_of(told)


def footers(
    spark: SparkSession, name: str, *, directory: str, location: str, sizes: Mapping[str, int], single: Iterable[str]
) -> list[str]:
    """A line of JSON for each file of a directory, by its name with its bytes: what its footer says of its rows, and
    the file as Iceberg has it. `location` is how the table spells the directory."""
    names = "\n".join(f"{one}\t{length}" for one, length in sizes.items())
    told = Package(spark, "rekindle.iceberg").IcebergFooters.read(
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


def tables_read(frame: DataFrame) -> list[TableVersion]:
    """The tables that a frame reads at no version of the user's, as they are now."""
    lines = (line.split("\t") for line in lines_of(_sources(frame.sparkSession).newest(execution(frame))))
    return [TableVersion(name, of, int(snapshot), int(at_ms), FORMAT) for name, of, snapshot, at_ms in lines]


def read_at(frame: DataFrame, chosen: Iterable[TableVersion]) -> DataFrame | None:
    """The same frame, with each such table at a snapshot. None if one has other columns by now."""
    lines = "\n".join(f"{one.path}\t{one.version}\t{one.id}" for one in chosen)
    made = _sources(frame.sparkSession).at(session_of(frame.sparkSession), execution(frame), lines)
    return frame_of(frame.sparkSession, made.get()) if made.isDefined() else None


def gone(frame: DataFrame, one: TableVersion) -> str:
    """Why a snapshot of a table of the frame cannot be read any more; empty if it can."""
    return str(_sources(frame.sparkSession).gone(execution(frame), one.path, one.id, one.version))


def _sources(spark: SparkSession) -> Any:
    return Package(spark, "rekindle.iceberg").IcebergSources


def _tables(spark: SparkSession) -> Any:
    return Package(spark, "rekindle.iceberg").IcebergTables
