"""A catalog table that follows its chain of pointers.

Rules
- The pointer decides, the table follows. Location, version and fence change by one call to the catalog.
- Spark's catalog has no compare-and-swap. So the newest pointer is read right before the change and again right after
  it, until both are the same: a publisher that slept before the change sets the newest version, whoever made it.
- In one process changes are made one at a time. What is left is a publisher frozen inside the catalog call itself, with
  a metastore that others share: its late call shows an older version until it wakes up one line further and looks
  again, or, if it died there, until the next `follow`. The chain is right all along.
- A version directory never changes and is never removed here, so a query that has begun goes on to read its version.
- Columns may be added; the location changes before them, so that the old columns are always there. Other changes of the
  schema are refused with their names: a reader would see nulls or errors in between.
- Tables are external: dropping one removes no version, and its fence survives.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import SparkSession

from rekindle.engine.adapter import Stores
from rekindle.engine.spark.jvm import file_calls, plan_calls
from rekindle.engine.spark.publish import versions
from rekindle.engine.spark.publish.publication import Publication
from rekindle.engine.spark.publish.publisher import PublicationRequest, TargetState
from rekindle.engine.spark.publish.versions import columns, place
from rekindle.errors import Refused
from rekindle.master.facts.events import Fence
from rekindle.publish.pointers import Pointer, top_of
from rekindle.publish.table import Table
from rekindle.publish.target import url

BASE, VERSION, FENCE = "rekindle.base", "rekindle.version", "rekindle.fence"
# What was left out of the version, on the user's word. Set in each version: the call that moves a table only adds.
HOLES, NO_HOLES = "rekindle.holes", "none"
_ONE_CHANGE_AT_A_TIME = threading.Lock()


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """A table as the catalog has it. `base` is None where it is not ours."""

    base: str | None
    location: str
    fence: str
    columns: dict[str, str]

    def is_at(self, base: str, pointer: Pointer) -> bool:
        return self.location == place(base, pointer) and self.fence == pointer.mark


@dataclass(frozen=True, slots=True)
class TablePublisher:
    """Publishes into `rk.table`."""

    target: Table

    def base(self, spark: SparkSession) -> str:
        return base_of(spark, self.target)

    def check(self, spark: SparkSession, request: PublicationRequest, base: str, stores: Stores) -> None:
        if request.schema:
            check_schema(spark, self.target, request.schema)
        versions.check_versions(request, self.target, base, stores, adds=self.target.adds)

    def place(self, base: str, stores: Stores) -> str | None:
        return versions.last_place(base, stores)

    def publish(self, spark: SparkSession, what: Publication, stores: Stores) -> Fence | None:
        base, adds = self.base(spark), self.target.adds

        def check_columns(top: Pointer | None) -> None:
            check_schema(spark, self.target, what.schema)

        top = versions.put_version(spark, what, base, stores(base), adds=adds, stays=False, check_columns=check_columns)
        follow(spark, self.target, base, lambda: top_of(stores(base)))
        return versions.newer(what, top, adds=adds)

    def contents(self, spark: SparkSession, stores: Stores) -> TargetState:
        return versions.contents_of(self.base(spark), stores)


def base_of(spark: SparkSession, target: Table) -> str:
    """Where the versions and pointers of the table lie. Refuses a table that is not ours."""
    found = _find(spark, target)
    if found is None:
        return url(target.location) if target.location is not None else _default_place(spark, target)
    if found.base is None:
        raise Refused(
            f"table {target.name} exists and was not published by Rekindle",
            f"ALTER TABLE {target.name} RENAME TO another name, or publish to another table",
        )
    if target.location is not None and url(target.location) != found.base:
        raise Refused(
            f"table {target.name} keeps its versions in {found.base}, not in {target.location}",
            "use that location, or publish to another table",
        )
    return found.base


def check_schema(spark: SparkSession, target: Table, schema: str) -> None:
    """Refuse a result that the table cannot take without a moment of nulls or errors."""
    found = _find(spark, target)
    if found is None:
        return
    now = columns(schema)
    changed = [
        f"{name} was {kind}, is {now.get(name, 'gone')}"
        for name, kind in found.columns.items()
        if now.get(name) != kind
    ]
    if changed:
        raise Refused(
            f"table {target.name} cannot take the result: {', '.join(changed)}",
            "publish to a new table, or keep the old columns",
        )


def follow(spark: SparkSession, target: Table, base: str, newest: Callable[[], Pointer]) -> None:
    """Bring the table to the newest pointer. Done when nothing newer came while it was changed."""
    with _ONE_CHANGE_AT_A_TIME:
        pointer = newest()
        while True:
            change(spark, target, base, pointer)
            now = newest()
            if now == pointer:
                return
            pointer = now


def change(spark: SparkSession, target: Table, base: str, pointer: Pointer) -> None:
    """Point the table at one version, unless it is there."""
    found = _find(spark, target)
    if found is None:
        _create(spark, target, base, pointer)
        found = _find(spark, target)
        assert found is not None, "a table that was created exists"
    if not found.is_at(base, pointer):
        database, name = _names(spark, target)
        file_calls.point_table(spark, database, name, place(base, pointer), _properties(base, pointer))
    _add_columns(spark, target, found, pointer.schema)
    spark.catalog.refreshTable(".".join(f"`{part}`" for part in _names(spark, target)))


def _find(spark: SparkSession, target: Table) -> CatalogTable | None:
    database, name = _names(spark, target)
    if not file_calls.has_database(spark, database):
        raise Refused(f"there is no database {database}", f"CREATE DATABASE {database}")
    table = file_calls.table_facts(spark, database, name)
    if table is None:
        return None
    location, schema, properties = table
    return CatalogTable(properties.get(BASE), location, properties.get(FENCE, ""), columns(schema))


def _create(spark: SparkSession, target: Table, base: str, pointer: Pointer) -> None:
    """Somebody else may create it at the same time: then theirs is changed like any other."""
    database, name = _names(spark, target)
    properties = ", ".join(f"{_quoted(key)} = {_quoted(value)}" for key, value in _properties(base, pointer).items())
    spark.sql(
        f"CREATE TABLE IF NOT EXISTS `{database}`.`{name}` ({_ddl(spark, pointer.schema)}) USING parquet "
        f"LOCATION {_quoted(place(base, pointer))} TBLPROPERTIES ({properties})"
    )


def _add_columns(spark: SparkSession, target: Table, found: CatalogTable, schema: str) -> None:
    added = _ddl(spark, schema, without=found.columns)
    if added:
        database, name = _names(spark, target)
        spark.sql(f"ALTER TABLE `{database}`.`{name}` ADD COLUMNS ({added})")


def _properties(base: str, pointer: Pointer) -> dict[str, str]:
    return {
        BASE: base,
        VERSION: pointer.version,
        FENCE: pointer.mark,
        HOLES: pointer.holes or NO_HOLES,
    }


def _ddl(spark: SparkSession, schema: str, without: dict[str, str] | None = None) -> str:
    """Columns as SQL; in a table of files every column may be null."""
    fields = [
        {**field, "nullable": True, "metadata": {}}
        for field in json.loads(schema)["fields"]
        if field["name"] not in (without or {})
    ]
    text = json.dumps({"type": "struct", "fields": fields})
    return plan_calls.ddl(spark, text)


def _default_place(spark: SparkSession, target: Table) -> str:
    return file_calls.default_table_place(spark, *_names(spark, target))


def _names(spark: SparkSession, target: Table) -> tuple[str, str]:
    return target.identifier(spark.catalog.currentDatabase())


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
