"""The tables with a log of their own that sources read, each at one version for the whole run.

- A table of Delta or Iceberg is looked at again whenever a query runs over it, so that two attempts of one run could
  read two versions. The plan of a source is taken, and reads each table at the version of the run from there on.
- A version that is journaled and cannot be read any more is refused before anything runs, by what is missing.
- A version that the user asked for by an option stays the user's.
- Sources are read so; what a step reads by itself, without a source, is not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession

from rekindle.engine.spark.jvm import driver_calls, iceberg_calls, table_calls
from rekindle.errors import InputChanged
from rekindle.pipeline.table_versions import DELTA, ICEBERG, TableVersion, noted, read
from rekindle.remedies import StartRemedy


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionedFormat:
    """How tables of one format are read at a version. `is_there` is about the session, `has_calls` and `jar` are about
    our own classes for it. `fixed` are the paths of a plan that are tables at one version."""

    is_there: Callable[[SparkSession], bool]
    has_calls: Callable[[SparkSession], bool]
    jar: Callable[[], str]
    tables_read: Callable[[DataFrame], list[TableVersion]]
    fixed: Callable[[DataFrame], list[str]]
    read_at: Callable[[DataFrame, Sequence[TableVersion]], DataFrame | None]
    gone: Callable[[DataFrame, TableVersion], str]

    def can_read(self, spark: SparkSession) -> bool:
        """Where Rekindle was built without our classes a table is pinned by its files, or its version, as before."""
        if not self.is_there(spark):
            return False
        if not self.has_calls(spark) and self.jar():
            driver_calls.add_jar(spark, self.jar())
        return self.has_calls(spark)


FORMATS = {
    DELTA: VersionedFormat(
        is_there=table_calls.has_delta,
        has_calls=table_calls.has_delta_calls,
        jar=table_calls.delta_jar,
        tables_read=table_calls.delta_read,
        fixed=table_calls.delta_fixed,
        read_at=table_calls.delta_at,
        gone=table_calls.delta_gone,
    ),
    ICEBERG: VersionedFormat(
        is_there=iceberg_calls.has_iceberg,
        has_calls=iceberg_calls.has_iceberg_calls,
        jar=iceberg_calls.iceberg_jar,
        tables_read=iceberg_calls.tables_read,
        fixed=lambda frame: [],  # Its tables are no paths of a plan.
        read_at=iceberg_calls.read_at,
        gone=iceberg_calls.gone,
    ),
}


class VersionsRead:
    """What the sources of one run read: as the journal has it, and what is found beside it."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._known = read(settings)
        self._found: dict[str, tuple[TableVersion, ...]] = {}
        self._newest: dict[str, int] = {}
        self._chosen = {one.path: one for tables in self._known.values() for one in tables}

    @property
    def settings(self) -> dict[str, str]:
        """By which the next driver reads the same."""
        return noted(self._found)

    @property
    def tables(self) -> tuple[TableVersion, ...]:
        """What the sources read."""
        return tuple(one for tables in self._found.values() for one in tables)

    def pinned(self, source: str, frame: DataFrame) -> DataFrame:
        """The frame of a source, with each table that it reads at one version."""
        for one in FORMATS.values():
            if one.can_read(frame.sparkSession):
                frame = self._pinned(source, frame, one)
        return frame

    def _pinned(self, source: str, frame: DataFrame, form: VersionedFormat) -> DataFrame:
        now = form.tables_read(frame)
        if not now:
            return frame
        self._newest |= {one.path: one.version for one in now}
        chosen = tuple(sorted(self._chosen.setdefault(one.path, one) for one in now))
        for one in chosen:
            why = form.gone(frame, one) if one not in now else ""
            if why:
                raise _changed(source, f"{one.shown}, which this run reads, is gone: {why}")
        fixed = form.read_at(frame, chosen)
        if fixed is None:
            told = ", ".join(one.shown for one in chosen)
            raise _changed(source, f"the table has other columns by now than {told}, which this run reads")
        self._found[source] = (*self._found.get(source, ()), *chosen)
        return fixed

    def told(self) -> tuple[str, ...]:
        """What a plan says of the tables that sources read."""
        return tuple(self._told(source, one) for source, tables in self._found.items() for one in tables)

    def _told(self, source: str, one: TableVersion) -> str:
        at = datetime.fromtimestamp(one.at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
        newest = self._newest[one.path]
        if one.format == ICEBERG:
            since = ", which is not the newest" if newest != one.version else ""
            return f"{source} reads snapshot {one.version} of Iceberg table {one.path}, of {at}{since}"
        later = newest - one.version
        since = f", {later} commits before the newest" if later else ""
        return f"{source} reads version {one.version} of Delta table {one.path}, of {at}{since}"


def at_one_version(frame: DataFrame) -> set[str]:
    """The paths that a frame reads, of tables that it reads at one version."""
    spark = frame.sparkSession
    return {path for one in FORMATS.values() if one.can_read(spark) for path in one.fixed(frame)}


def at_any_version(frame: DataFrame) -> list[TableVersion]:
    """The tables that a frame reads as they are when it is executed."""
    spark = frame.sparkSession
    return [table for one in FORMATS.values() if one.can_read(spark) for table in one.tables_read(frame)]


def _changed(source: str, why: str) -> InputChanged:
    return InputChanged(f"{source}: {why}", hint=StartRemedy(to="compute from the newest version", replace=(source,)))
