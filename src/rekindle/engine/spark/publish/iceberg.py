"""`rk.iceberg`: committed files added to an Iceberg table by one commit, with the fence in it (table_log.py).

Rules
- One exchange of the table's metadata has the new files, the removal of those that they replace, and the fence. It is
  on top of the metadata that was looked at, and of no other: Iceberg's own second try is switched off for it
  (java-lake/rekindle/iceberg/PinnedOperations).
- Files that others deleted rows of, or changed some of, by files beside them: they are replaced whole where the values
  of their rows say so. Where the key alone says so it is refused: a changed row may be in a file of somebody else.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from rekindle.engine.spark.jvm import iceberg_calls
from rekindle.engine.spark.publish import log_files
from rekindle.engine.spark.publish.publication import Publication
from rekindle.engine.spark.publish.table_log import TableChange, TableCommit, TableLogPublisher, add_calls, told_of
from rekindle.errors import Refused
from rekindle.publish import iceberg_log
from rekindle.publish.iceberg import Iceberg
from rekindle.publish.iceberg_log import IcebergState
from rekindle.publish.table_changes import ChangedFile, read_changes
from rekindle.publish.table_fences import Earlier
from rekindle.publish.table_files import TableFile, read_files, type_of
from rekindle.publish.target import APPEND, OVERWRITE, url
from rekindle.storage.schemes import spark_spelling


@dataclass(frozen=True, slots=True)
class IcebergPublisher(TableLogPublisher[Iceberg, IcebergState]):
    """Publishes into `rk.iceberg`."""

    def base(self, spark: SparkSession) -> str:
        attach(spark, self.target)
        found = found_of(spark, self.target)
        return url(found.told) if found.kind == "table" else f"iceberg:/{found.whole}"

    def look(self, spark: SparkSession, base: str) -> IcebergState | None:
        told = iceberg_calls.state(spark, self.target.quoted)
        return iceberg_log.read_state(told) if told else None

    def make(self, spark: SparkSession, base: str, columns: str) -> None:
        spark.sql(f"CREATE TABLE IF NOT EXISTS {self.target.quoted} ({columns}) USING iceberg")

    def obstacles(self, state: IcebergState) -> Sequence[str]:
        return list(iceberg_log.obstacles(state))

    def schema_of(self, schema: str) -> str:
        return iceberg_log.spark_schema(schema)

    def folder(self, base: str, state: IcebergState) -> str:
        return spark_spelling(state.folder) or state.folder

    def files(self, spark: SparkSession, base: str, state: IcebergState) -> list[TableFile]:
        return list(read_files(iceberg_calls.files(spark, self.target.quoted, self._compared(state))))

    def changes(self, spark: SparkSession, base: str, state: IcebergState, since: int) -> list[ChangedFile] | None:
        return read_changes(iceberg_calls.changes(spark, self.target.quoted, since, self._compared(state)))

    def _compared(self, state: IcebergState) -> list[str]:
        return [name for name, _ in self.target.partition if type_of(state, name)]

    def replaced(
        self, spark: SparkSession, base: str, state: IcebergState, earlier: tuple[Earlier, ...]
    ) -> Sequence[str]:
        if self.target.mode == OVERWRITE:
            return log_files.EVERYTHING
        if self.target.mode == APPEND and not earlier:
            return ()
        there = self.files(spark, base, state)
        if self.target.mode != APPEND:
            return log_files.with_values(self.target, there, log_files.wanted_values(self.target, state))
        return log_files.of_key(self.target, there, earlier)

    def change(
        self,
        spark: SparkSession,
        base: str,
        state: IcebergState,
        what: Publication,
        earlier: tuple[Earlier, ...],
        before: TableChange | None,
    ) -> TableChange:
        removed = self.replaced(spark, base, state, earlier)
        added = before.added if before is not None else self.added(spark, base, state, what)
        return TableChange(removed=removed, added=added)

    def added(self, spark: SparkSession, base: str, state: IcebergState, what: Publication) -> Sequence[str]:
        """The committed files as Iceberg has them. They are in the folder of the table by now."""
        folder = self.folder(base, state)
        copies = log_files.taken(spark, folder, what, log_files.now_in_ms())
        wanted = log_files.wanted_values(self.target, state)
        told = iceberg_calls.footers(
            spark,
            self.target.quoted,
            directory=folder,
            location=state.folder,
            sizes={copy.name: copy.bytes for copy in copies},
            single=list(wanted),
        )
        footers = {copy.name: json.loads(line) for copy, line in zip(copies, told, strict=True)}
        for name, footer in footers.items():
            if "unlike" in footer:
                raise Refused(
                    f"{self.target.shown} cannot take kept files as they are: of {name} {footer['unlike']}",
                    "change the step, or publish to rk.files and write the rows into the table from there",
                )
            log_files.check_rows(self.target, name, footer, wanted)
            if "mixed" in footer:
                raise Refused(
                    f"{self.target.shown} is partitioned by {footer['mixed']}, and the footer of what would be {name} "
                    "does not prove that its rows have one value of it",
                    "partition the step by it, name its column in partition=, or publish to a table without it",
                )
        return [footer["file"] for footer in footers.values() if footer["rows"]]

    def is_committed(
        self, spark: SparkSession, base: str, state: IcebergState, what: Publication, commit: TableCommit
    ) -> bool:
        return iceberg_calls.commit(
            spark,
            self.target.quoted,
            state.version,
            removed=commit.removed,
            added=commit.added,
            properties=iceberg_log.properties_of(commit.after),
            told={f"rekindle.{name}": " ".join(text.split()) for name, text in told_of(what).items()},
        )


def attach(spark: SparkSession, target: Iceberg) -> None:
    """Make our calls into Iceberg known to the driver."""
    if not iceberg_calls.has_iceberg(spark):
        raise Refused(
            f"{target.shown}: this Spark session has no Iceberg",
            "start it with Iceberg's runtime for this Spark, and with the settings that Iceberg's own documentation "
            "names for a catalog",
        )
    if not iceberg_calls.has_iceberg_calls(spark):
        add_calls(spark, target, iceberg_calls.iceberg_jar())


def found_of(spark: SparkSession, target: Iceberg) -> iceberg_calls.TableFound:
    """What the name stands for. Refuses what is no Iceberg table and cannot become one."""
    found = iceberg_calls.find(spark, target.quoted)
    match found.kind:
        case "no catalog":
            raise Refused(
                f"{target.shown}: {found.catalog} is no Iceberg catalog of this session",
                'name the table with its catalog, rk.iceberg("catalog.database.table"), and set '
                "spark.sql.catalog.… for the catalog as Iceberg's documentation says",
            )
        case "no namespace":
            raise Refused(
                f"{target.shown}: there is no database {found.told} in {found.catalog}",
                f"CREATE DATABASE {found.catalog}.{found.told}",
            )
        case "other":
            raise Refused(f"{target.shown}: {found.whole} is {found.told}", "name an Iceberg table itself")
    return found
