"""Tables that have a log of their own, by the Java classes of their format, and the footers of files that they take."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from rekindle.engine.spark.jvm.access import Package, frame_java, frame_of, is_class, ours, session_of
from rekindle.engine.spark.jvm.plan_calls import execution
from rekindle.pipeline.table_versions import TableVersion

DELTA = "io.delta.tables.DeltaTable"


def has_delta(spark: SparkSession) -> bool:
    """Whether Delta is on the class path of the session."""
    return bool(ours(spark).SparkObjects.hasClass(DELTA))


def delta_jar() -> str:
    """Our calls into Delta; empty where this installation was built without them."""
    return lake_jar("delta")


def lake_jar(format_name: str) -> str:
    """The jar of ours for a format of tables; empty where this installation was built without it."""
    path = Path(str(files("rekindle.engine.spark") / "jars" / f"rekindle-{format_name}.jar"))
    return str(path) if path.exists() else ""


def has_delta_calls(spark: SparkSession) -> bool:
    return is_class(spark, "rekindle.delta.DeltaTables")


def delta_state(spark: SparkSession, path: str, prefix: str) -> list[str]:
    """Version, protocol, metadata, and the transactions whose ids begin with `prefix`, as lines. No line without a
    table."""
    return lines_of(_delta(spark).state(session_of(spark), path, prefix))


def delta_files(spark: SparkSession, path: str, version: int) -> list[str]:
    """The files of a version, as lines: path, bytes, values of the partition, statistics, with tabs between; and the
    publication of ours that a tag names, if one does."""
    return lines_of(_delta(spark).files(session_of(spark), path, version))


def delta_changes(spark: SparkSession, path: str, version: int) -> list[str]:
    """The files whose rows came or went since a version, as lines (java-lake/DeltaChanges)."""
    return lines_of(Package(spark, "rekindle.delta").DeltaChanges.since(session_of(spark), path, version))


def delta_fixed(frame: DataFrame) -> list[str]:
    """The paths of the tables that a frame reads at one version."""
    return lines_of(_sources(frame.sparkSession).fixed(execution(frame)))


def delta_commit(
    spark: SparkSession,
    path: str,
    version: int,
    *,
    watched: Iterable[str],
    removed: Iterable[str],
    added: Iterable[str],
    told: str,
    at_ms: int,
) -> bool:
    """One commit on top of a version that was looked at. False if somebody else came first."""
    lines = ("\n".join(one) for one in (watched, removed, added))
    answer = str(_delta(spark).commit(session_of(spark), path, version, *lines, told, at_ms))
    return answer.partition("\t")[0] == "committed"


def delta_rows(spark: SparkSession, path: str, version: int, names: Iterable[str]) -> DataFrame | None:
    """The rows of some files of a version, or of all (`*`). None if it is not the newest any more."""
    made = Package(spark, "rekindle.delta").DeltaRows.read(session_of(spark), path, version, "\n".join(names))
    return frame_of(spark, made) if made is not None else None


def delta_named(spark: SparkSession, path: str, version: int, names: Iterable[str]) -> list[str] | None:
    """The files of a version that Spark calls by these names (`input_file_name`). None if it is not the newest."""
    told = Package(spark, "rekindle.delta").DeltaRows.named(session_of(spark), path, version, "\n".join(names))
    return lines_of(told) if told is not None else None


def delta_write(frame: DataFrame, path: str, version: int) -> list[str] | None:
    """Rows written for a table by Delta's own writer, without a commit: the actions that add their files. None if the
    version is not the newest any more."""
    session, made = session_of(frame.sparkSession), frame_java(frame)
    told = Package(frame.sparkSession, "rekindle.delta").DeltaRows.write(session, path, version, made)
    return lines_of(told) if told is not None else None


def delta_read(frame: DataFrame) -> list[TableVersion]:
    """The tables that a frame reads at no version of the user's, as they are now."""
    lines = (line.split("\t") for line in lines_of(_sources(frame.sparkSession).newest(execution(frame))))
    return [TableVersion(path, of, int(version), int(at_ms)) for path, of, version, at_ms in lines]


def delta_at(frame: DataFrame, chosen: Iterable[TableVersion]) -> DataFrame | None:
    """The same frame, with each such table at a version. None if one has other columns there."""
    lines = "\n".join(f"{one.path}\t{one.version}" for one in chosen)
    made = _sources(frame.sparkSession).at(session_of(frame.sparkSession), execution(frame), lines)
    return frame_of(frame.sparkSession, made.get()) if made.isDefined() else None


def delta_gone(frame: DataFrame, one: TableVersion) -> str:
    """Why a version of a table of the frame cannot be read any more; empty if it can."""
    spark = frame.sparkSession
    return str(_sources(spark).gone(session_of(spark), one.path, one.id, one.version))


def footers(
    spark: SparkSession, directory: str, names: Iterable[str], columns: Iterable[str], single: Iterable[str]
) -> list[str]:
    """A line of JSON for each file: what its footer says of its rows (java/Footers)."""
    lines = ("\n".join(one) for one in (names, columns, single))
    return lines_of(ours(spark).Footers.read(session_of(spark), directory, *lines))


def touch(spark: SparkSession, directory: str, names: Iterable[str], at_ms: int) -> None:
    """Give links on a disk the age of now."""
    ours(spark).Footers.touch(session_of(spark), directory, "\n".join(names), at_ms)


def lines_of(told: Any) -> list[str]:
    """What Java tells line by line. JSON may hold what Python takes for the end of a line."""
    text = str(told)
    return text.split("\n") if text else []


def _sources(spark: SparkSession) -> Any:
    return Package(spark, "rekindle.delta").DeltaSources


def _delta(spark: SparkSession) -> Any:
    return Package(spark, "rekindle.delta").DeltaTables
