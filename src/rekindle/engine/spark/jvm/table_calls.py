"""Tables that have a log of their own, by the Java classes of their format, and the footers of files that they take."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from rekindle.engine.spark.jvm.access import ours, root, session_of


def has_delta(spark: SparkSession) -> bool:
    """Whether Delta is on the class path of the session."""
    return _is_class(root(spark).org.apache.spark.sql.delta.DeltaLog)


def delta_jar() -> str:
    """Our calls into Delta; empty where this installation was built without them."""
    path = Path(str(files("rekindle.engine.spark") / "jars" / "rekindle-delta.jar"))
    return str(path) if path.exists() else ""


def has_delta_calls(spark: SparkSession) -> bool:
    return _is_class(root(spark).rekindle.delta.DeltaTables)


def delta_state(spark: SparkSession, path: str, prefix: str) -> list[str]:
    """Version, protocol, metadata, and the transactions whose ids begin with `prefix`, as lines. No line without a
    table."""
    return _lines(_delta(spark).state(session_of(spark), path, prefix))


def delta_files(spark: SparkSession, path: str, version: int) -> list[str]:
    """The files of a version, as lines: path, bytes, values of the partition, statistics, with tabs between."""
    return _lines(_delta(spark).files(session_of(spark), path, version))


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


def footers(
    spark: SparkSession, directory: str, names: Iterable[str], columns: Iterable[str], single: Iterable[str]
) -> list[str]:
    """A line of JSON for each file: what its footer says of its rows (java/Footers)."""
    lines = ("\n".join(one) for one in (names, columns, single))
    return _lines(ours(spark).Footers.read(session_of(spark), directory, *lines))


def touch(spark: SparkSession, directory: str, names: Iterable[str], at_ms: int) -> None:
    """Give links on a disk the age of now."""
    ours(spark).Footers.touch(session_of(spark), directory, "\n".join(names), at_ms)


def _lines(told: Any) -> list[str]:
    """JSON may hold what Python takes for the end of a line."""
    text = str(told)
    return text.split("\n") if text else []


def _is_class(found: Any) -> bool:
    return str(found).startswith("<py4j.java_gateway.JavaClass")


def _delta(spark: SparkSession) -> Any:
    return root(spark).rekindle.delta.DeltaTables
