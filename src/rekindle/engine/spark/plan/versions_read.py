"""The tables with a log of their own that sources read, each at one version for the whole run.

- Delta looks at a table again whenever a query runs over it, so that two attempts of one run could read two versions.
  The plan of a source is taken, and reads each table at the version of the run from there on.
- A version that is journaled and cannot be read any more is refused before anything runs, by what is missing.
- A version that the user asked for by an option stays the user's.
- Sources are read so; what a step reads by itself, without a source, is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession

from rekindle.engine.spark.jvm import driver_calls, table_calls
from rekindle.errors import InputChanged
from rekindle.pipeline.table_versions import TableVersion, noted, read
from rekindle.remedies import StartRemedy


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

    def pinned(self, source: str, frame: DataFrame) -> DataFrame:
        """The frame of a source, with each table that it reads at one version."""
        spark = frame.sparkSession
        if not (table_calls.has_delta(spark) and _has_calls(spark)):
            return frame
        now = table_calls.delta_read(frame)
        if not now:
            return frame
        self._newest |= {one.path: one.version for one in now}
        chosen = tuple(sorted(self._chosen.setdefault(one.path, one) for one in now))
        for one in chosen:
            if one not in now:
                _refuse_gone(spark, source, one)
        fixed = table_calls.delta_at(frame, {one.path: one.version for one in chosen})
        if fixed is None:
            told = ", ".join(f"version {one.version} of {one.path}" for one in chosen)
            raise _changed(source, f"the table has other columns by now than {told}, which this run reads")
        self._found[source] = chosen
        return fixed

    def told(self) -> tuple[str, ...]:
        """What a plan says of the tables that sources read."""
        return tuple(self._told(source, one) for source, tables in self._found.items() for one in tables)

    def _told(self, source: str, one: TableVersion) -> str:
        at = datetime.fromtimestamp(one.at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
        later = self._newest[one.path] - one.version
        since = f", {later} commits before the newest" if later else ""
        return f"{source} reads version {one.version} of Delta table {one.path}, of {at}{since}"


def _has_calls(spark: SparkSession) -> bool:
    """Where Rekindle was built without them a table is pinned by its files, as before."""
    if not table_calls.has_delta_calls(spark) and table_calls.delta_jar():
        driver_calls.add_jar(spark, table_calls.delta_jar())
    return table_calls.has_delta_calls(spark)


def _refuse_gone(spark: SparkSession, source: str, one: TableVersion) -> None:
    why = table_calls.delta_gone(spark, one.path, one.id, one.version)
    if why:
        raise _changed(source, f"version {one.version} of {one.path}, which this run reads, is gone: {why}")


def _changed(source: str, why: str) -> InputChanged:
    return InputChanged(f"{source}: {why}", hint=StartRemedy(to="compute from the newest version", replace=(source,)))
