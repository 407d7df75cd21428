"""`rk.delta`: committed files added to a Delta table by one commit, with the fence in it (table_log.py), or their rows
where it cannot take them as they are (row_writing.py)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from rekindle.engine.spark.jvm import file_calls, table_calls
from rekindle.engine.spark.publish import delta_files, row_writing
from rekindle.engine.spark.publish.log_files import now_in_ms
from rekindle.engine.spark.publish.publication import Publication
from rekindle.engine.spark.publish.table_log import (
    TableChange,
    TableCommit,
    TableLogPublisher,
    add_calls,
    told_of,
)
from rekindle.errors import Refused
from rekindle.publish import delta_log
from rekindle.publish.delta import Delta
from rekindle.publish.delta_log import DeltaState
from rekindle.publish.table_changes import ChangedFile, read_changes
from rekindle.publish.table_fences import PREFIX, Earlier, watched
from rekindle.publish.table_files import TableFile, changed_columns
from rekindle.publish.target import APPEND, url


@dataclass(frozen=True, slots=True)
class DeltaPublisher(TableLogPublisher[Delta, DeltaState]):
    """Publishes into `rk.delta`."""

    def base(self, spark: SparkSession) -> str:
        attach(spark, self.target)
        return place_of(spark, self.target)

    def look(self, spark: SparkSession, base: str) -> DeltaState | None:
        return state_of(spark, base)

    def make(self, spark: SparkSession, base: str, columns: str) -> None:
        name = ".".join(f"`{one}`" for one in _names(spark, self.target))
        spark.sql(
            f"CREATE TABLE IF NOT EXISTS {f'delta.`{base}`' if self.target.is_path else name} ({columns}) USING delta"
        )

    def obstacles(self, state: DeltaState) -> Sequence[str]:
        return list(delta_log.obstacles(state, removes=self.target.mode != APPEND))

    def refusal(self, obstacles: Sequence[str]) -> str:
        return f"cannot take a publication: {'; '.join(obstacles)}"

    def changed_columns(self, state: DeltaState, schema: str) -> list[str]:
        given = [field["name"] for field in json.loads(schema)["fields"]]
        return changed_columns(delta_log.without_generated(state, given), schema)

    def how(self, spark: SparkSession, base: str) -> str:
        state = self.look(spark, base)
        return row_writing.told(spark, self.target, base, state) if state is not None else self.target.how

    def check_fits(self, state: DeltaState, schema: str) -> None:
        TableLogPublisher.check_fits(self, state, schema)
        if schema:
            row_writing.check_columns(self.target, state, [one["name"] for one in json.loads(schema)["fields"]])
        if self.target.mode == APPEND and state.properties.get(delta_log.COMPACTS, "").lower() not in ("", "false"):
            raise Refused(
                f"{self.target.shown} compacts its files by itself ({delta_log.COMPACTS}): rows of several keys would "
                "be in one file, and Rekindle could not replace those of one",
                f"switch it off, or replace by the values of columns: rk.delta({self.target.table!r}, partition={{…}})",
            )

    def files(self, spark: SparkSession, base: str, state: DeltaState) -> list[TableFile]:
        return delta_files.files_of(spark, base, state)

    def changes(self, spark: SparkSession, base: str, state: DeltaState, since: int) -> list[ChangedFile] | None:
        found = read_changes(table_calls.delta_changes(spark, base, since))
        if found is None:
            return None
        return [replace(one, file=delta_log.with_names(state, one.file)) for one in found]

    def replaced(
        self, spark: SparkSession, base: str, state: DeltaState, earlier: tuple[Earlier, ...]
    ) -> Sequence[str]:
        return delta_files.replaced(spark, self.target, base, state, earlier).all

    def change(
        self,
        spark: SparkSession,
        base: str,
        state: DeltaState,
        what: Publication,
        earlier: tuple[Earlier, ...],
        before: TableChange | None,
    ) -> TableChange | None:
        writing = row_writing.RowWriting(spark, self.target, base, state, what)
        return writing.change(delta_files.replaced(spark, self.target, base, state, earlier), before)

    def is_committed(
        self, spark: SparkSession, base: str, state: DeltaState, what: Publication, commit: TableCommit
    ) -> bool:
        now_ms = now_in_ms()
        numbers = [
            {"txn": {"appId": one, "version": number, "lastUpdated": now_ms}} for one, number in commit.after.items()
        ]
        return table_calls.delta_commit(
            spark,
            base,
            state.version,
            watched=watched(state.numbers, commit.after),
            removed=commit.removed,
            added=[*commit.added, *map(json.dumps, numbers)],
            told=json.dumps({"rekindle": told_of(what)}),
            at_ms=now_ms,
        )


def attach(spark: SparkSession, target: Delta) -> None:
    """Make our calls into Delta known to the driver."""
    if not table_calls.has_delta(spark):
        raise Refused(
            f"{target.shown}: this Spark session has no Delta Lake",
            "start it with Delta's package for this Spark, and with the settings that Delta's own documentation names",
        )
    if not table_calls.has_delta_calls(spark):
        add_calls(spark, target, table_calls.delta_jar())


def state_of(spark: SparkSession, base: str) -> DeltaState | None:
    """The newest version of a table, None where there is no table."""
    lines = table_calls.delta_state(spark, base, PREFIX)
    return delta_log.read_state(lines) if lines else None


def place_of(spark: SparkSession, target: Delta) -> str:
    """Where the table lies, or will lie. Refuses a name that is another kind of table."""
    if target.is_path:
        return url(target.table)
    database, name = _names(spark, target)
    if not file_calls.has_database(spark, database):
        raise Refused(f"there is no database {database}", f"CREATE DATABASE {database}")
    found = file_calls.table_facts(spark, database, name)
    if found is None:
        return file_calls.default_table_place(spark, database, name)
    if found.provider != "delta":
        raise Refused(f"{target.table} is a table of {found.provider or 'another kind'}, not of Delta", "use rk.table")
    return url(found.location)


def _names(spark: SparkSession, target: Delta) -> tuple[str, str]:
    *rest, table = target.table.split(".")
    return (rest[-1] if rest else spark.catalog.currentDatabase()), table
