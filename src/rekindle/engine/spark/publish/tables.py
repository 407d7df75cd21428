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
- A table that is adopted becomes external first: no DROP of it, or of its partitions, removes what was published.
- With Hive's partitions the places are compared at each look, whatever the table says of its version: another publisher
  may have changed them since. The place of each partition that differs is changed: new ones first, then those that
  moved, by one call each, then those that are gone. A partition of an adopted table that lies elsewhere stays, unless
  it is replaced; its files stay even then.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession

from rekindle.engine.adapter import Stores
from rekindle.engine.spark.jvm import file_calls, plan_calls
from rekindle.engine.spark.jvm.file_calls import TableFacts
from rekindle.engine.spark.publish import rewriting, versions
from rekindle.engine.spark.publish.publication import Publication
from rekindle.engine.spark.publish.publisher import PublicationRequest, TargetState
from rekindle.engine.spark.publish.stream_files import refuse_streams
from rekindle.engine.spark.publish.versions import columns, place
from rekindle.errors import Refused
from rekindle.master.facts.events import Fence
from rekindle.publish.pointers import VERSION as VERSION_NAME
from rekindle.publish.pointers import VERSIONS, Pointer, fence_in, is_below, newest, top_of
from rekindle.publish.table import Table
from rekindle.publish.target import PointerStore, url

BASE, VERSION, FENCE = "rekindle.base", "rekindle.version", "rekindle.fence"
# What was left out of the version, on the user's word. Set in each version: the call that moves a table only adds.
HOLES, NO_HOLES = "rekindle.holes", "none"
# The location of a table whose partitions have their own: no files.
UNPARTITIONED = "table"
_ONE_CHANGE_AT_A_TIME = threading.Lock()


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """A table as the catalog has it. `base` is None where it is not ours."""

    base: str | None
    facts: TableFacts

    @property
    def columns(self) -> dict[str, str]:
        return columns(self.facts.schema)

    @property
    def place(self) -> str:
        """Where it keeps its versions once it is adopted, if nothing is said."""
        return f"{self.facts.location}-rekindle"

    def is_at(self, location: str, pointer: Pointer) -> bool:
        return self.facts.location == location and self.facts.properties.get(FENCE) == pointer.mark


@dataclass(frozen=True, slots=True)
class TablePublisher:
    """Publishes into `rk.table`."""

    target: Table

    def base(self, spark: SparkSession) -> str:
        return base_of(spark, self.target)

    def check(self, spark: SparkSession, request: PublicationRequest, base: str, stores: Stores) -> None:
        if request.schema:
            if self.target.as_files(base).is_rewritten:
                rewriting.check_columns(spark, self.target.as_files(base), request.schema)
            found = _find(spark, self.target)
            check_schema(self.target, found, rewriting.schema_of(self.target.as_files(base), request.schema))
            _check_chain(self.target, found, request, base, stores(base))
        refuse_streams(self.target.as_files(base), stores(base))
        versions.check_versions(request, self.target, base, stores, adds=self.target.adds)

    def place(self, spark: SparkSession, base: str, stores: Stores) -> str | None:
        return versions.last_place(base, stores)

    def publish(self, spark: SparkSession, what: Publication, stores: Stores) -> Fence | None:
        base = self.base(spark)
        store, as_files = stores(base), self.target.as_files(base)
        if not as_files.is_rewritten:
            return self._publish(spark, what, base, store)
        with rewriting.staged(spark, what, as_files, base, newest(store).pointer) as written:
            return self._publish(spark, written, base, store)

    def _publish(self, spark: SparkSession, what: Publication, base: str, store: PointerStore) -> Fence | None:
        adds, stays = self.target.adds, bool(self.target.hive_partition_by)

        def check_columns(top: Pointer | None) -> None:
            check_schema(self.target, _find(spark, self.target), what.schema)
            if adds:
                versions.check_layout(self.target.as_files(base), self.target.shown, top)

        top = versions.put_version(spark, what, base, store, adds=adds, stays=stays, check_columns=check_columns)
        follow(spark, self.target, base, lambda: top_of(store))
        return versions.newer(what, top, adds=adds)

    def contents(self, spark: SparkSession, stores: Stores) -> TargetState:
        return versions.contents_of(self.base(spark), stores)


def base_of(spark: SparkSession, target: Table) -> str:
    """Where the versions and pointers of the table lie. Refuses a table that is not ours."""
    found = _find(spark, target)
    if found is None:
        return url(target.location) if target.location is not None else _default_place(spark, target)
    if found.base is None:
        _check_adopted(target, found.facts)
        return url(target.location) if target.location is not None else found.place
    if target.location is not None and url(target.location) != found.base:
        raise Refused(
            f"table {target.name} keeps its versions in {found.base}, not in {target.location}",
            "use that location, or publish to another table",
        )
    return found.base


def _check_adopted(target: Table, facts: TableFacts) -> None:
    """Refuse a table of somebody else's that was not handed over, or that cannot be taken."""
    if not target.adopt:
        raise Refused(
            f"table {target.name} exists and was not published by Rekindle",
            f"add adopt=True to publish to it; or ALTER TABLE {target.name} RENAME TO another name",
        )
    if facts.provider != "parquet":
        raise Refused(
            f"table {target.name} is of {facts.provider or 'another format'}, and only tables of Parquet files can be "
            "adopted",
            "publish to another table",
        )
    if not target.hive_partition_by and (facts.is_managed or target.adds):
        why = "its files are the catalog's own" if facts.is_managed else "the rows that it has would be lost"
        raise Refused(
            f"table {target.name} cannot be adopted: it has no partitions, and {why}",
            'publish to another table; an external table can be adopted with mode="overwrite"',
        )


def _check_chain(
    target: Table, found: CatalogTable | None, request: PublicationRequest, base: str, store: PointerStore
) -> None:
    """Refuse versions that are not those of the table: of one that was dropped and made anew by somebody else, or with
    another layout."""
    top = newest(store).pointer
    if target.adds:
        versions.check_layout(target.as_files(base), target.shown, top)
    is_adopted = found is not None and found.base is None
    if is_adopted and top is not None and (top.place, top.fence.order) != (request.by.place, request.order):
        raise Refused(
            f"table {target.name} was not published by Rekindle, but {base} has versions of a table of its name: they "
            "would take the place of what it has now",
            f'keep its versions elsewhere: location="…"; or resume run {top.fence.order}, if it was to adopt it',
        )


def _check_partitions(target: Table, facts: TableFacts) -> None:
    """Refuse a table with other partitions, or one whose catalog does not say where they lie."""
    if facts.by != target.hive_partition_by:
        had = f"by {', '.join(facts.by)}" if facts.by else "without partitions"
        raise Refused(
            f"table {target.name} is {had}, and the result is published by "
            f"{', '.join(target.hive_partition_by) or 'none'}",
            f"write hive_partition_by={list(facts.by)}, or publish to another table",
        )
    wanted = target.as_files("/table").buckets_told
    if facts.buckets != wanted:
        raise Refused(
            f"table {target.name} has {f'buckets: {facts.buckets}' if facts.buckets else 'no buckets'}, and the result "
            f"is published with {f'buckets: {wanted}' if wanted else 'none'}",
            "write bucket_by=, buckets= and sort_by= as the table has them, or publish to another table",
        )
    if facts.by and not facts.tracks:
        raise Refused(
            f"the catalog does not know where the partitions of table {target.name} lie",
            "create the table with spark.sql.hive.manageFilesourcePartitions=true, or publish to files(path)",
        )


def check_schema(target: Table, found: CatalogTable | None, schema: str) -> None:
    """Refuse a result that the table cannot take without a moment of nulls or errors."""
    if found is None:
        return
    _check_partitions(target, found.facts)
    _refuse_other_columns(target, found, columns(schema))


def check_stream(spark: SparkSession, target: Table, now: Mapping[str, str]) -> None:
    """Refuse columns that a table cannot take which follows a stream."""
    found = _find(spark, target)
    if found is not None:
        _refuse_other_columns(target, found, now)


def follow_stream(spark: SparkSession, target: Table, base: str, location: str, now: Mapping[str, str]) -> None:
    """Let the table lead to what a stream adds to, with all columns that it has by now."""
    database, name = _names(spark, target)
    properties = {BASE: base}
    with _ONE_CHANGE_AT_A_TIME:
        if _find(spark, target) is None:
            told = ", ".join(f"{_quoted(key)} = {_quoted(value)}" for key, value in properties.items())
            spark.sql(
                f"CREATE TABLE IF NOT EXISTS `{database}`.`{name}` ({_columns_ddl(now)}) USING parquet "
                f"LOCATION {_quoted(location)} TBLPROPERTIES ({told})"
            )
        found = _find(spark, target)
        assert found is not None, "a table that was created exists"
        if found.facts.location != location:
            file_calls.point_table(spark, database, name, location, properties)
        added = _columns_ddl({column: kind for column, kind in now.items() if column not in found.columns})
        if added:
            spark.sql(f"ALTER TABLE `{database}`.`{name}` ADD COLUMNS ({added})")
        spark.catalog.refreshTable(f"`{database}`.`{name}`")


def _columns_ddl(kinds: Mapping[str, str]) -> str:
    return ", ".join(f"{plan_calls.quoted(name)} {kind}" for name, kind in kinds.items())


def _refuse_other_columns(target: Table, found: CatalogTable, now: Mapping[str, str]) -> None:
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
    location = _location(found, base, pointer)
    database, name = _names(spark, target)
    if found.facts.is_managed:
        file_calls.make_external(spark, database, name)
    has_moved = bool(found.facts.by) and _move_partitions(spark, target, found, base, pointer)
    if has_moved or not found.is_at(location, pointer):
        file_calls.point_table(spark, database, name, location, _properties(base, pointer))
    _add_columns(spark, target, found, pointer.schema)
    spark.catalog.refreshTable(".".join(f"`{part}`" for part in _names(spark, target)))


def _move_partitions(spark: SparkSession, target: Table, found: CatalogTable, base: str, pointer: Pointer) -> bool:
    """Whether one was at another place."""
    database, name = _names(spark, target)
    there = file_calls.table_partitions(spark, database, name)
    moves = _moves(base, pointer, there, found.facts.properties.get(FENCE, ""))
    if moves:
        file_calls.move_partitions(spark, database, name, moves)
    return bool(moves)


def _location(found: CatalogTable, base: str, pointer: Pointer) -> str:
    """That of a table with partitions stays: each of them has its own."""
    return found.facts.location if found.facts.by else place(base, pointer)


def _moves(base: str, pointer: Pointer, there: Mapping[str, str], followed: str = "") -> dict[str, str]:
    """The partitions whose place in the catalog is not where the pointer has their files; nowhere if it has none.
    `followed` is the mark of the pointer that the table followed last. What a later publication than those of the
    pointer brought stays: another publisher was faster, and this one looks again."""
    wanted = {
        name.rsplit("/", 1)[0]: f"{base}/{VERSIONS}/{pointer.folder_of(part)}/{name.rsplit('/', 1)[0]}"
        for part in pointer.parts
        for name, _ in part.listed
    }
    replaced = [one for part in pointer.parts for one in part.directories]
    overwrote = _has_overwritten(pointer, followed)
    ours = f"{base}/{VERSIONS}/"
    is_later = {
        one for one, location in there.items() if location.startswith(ours) and _is_later(location, ours, pointer)
    }
    gone = {
        one: ""
        for one, location in there.items()
        if one not in wanted and (overwrote or location.startswith(ours) or is_below(one, replaced))
    }
    moved = {one: location for one, location in wanted.items() if there.get(one) != location}
    return {one: location for one, location in (moved | gone).items() if one not in is_later}


def _is_later(location: str, ours: str, pointer: Pointer) -> bool:
    """Whether a version directory is of a later run than any that the pointer knows of."""
    found = VERSION_NAME.match(location.removeprefix(ours))
    if found is None:
        return False
    place, fence = fence_in(found)
    floor = [pointer.floor] if pointer.floor is not None and pointer.floor_place == place else []
    known = [*floor, *(part.newest_fence for part in pointer.parts if part.place == place)]
    return bool(known) and fence > max(known)


def _has_overwritten(pointer: Pointer, followed: str) -> bool:
    """Whether everything was replaced since the table followed a pointer."""
    if pointer.floor is None:
        return False
    found = VERSION_NAME.fullmatch(followed)
    if found is None:
        return True
    place, fence = fence_in(found)
    return fence < pointer.floor if place == pointer.floor_place else pointer.floor_place == pointer.place


def _find(spark: SparkSession, target: Table) -> CatalogTable | None:
    database, name = _names(spark, target)
    if not file_calls.has_database(spark, database):
        raise Refused(f"there is no database {database}", f"CREATE DATABASE {database}")
    table = file_calls.table_facts(spark, database, name)
    if table is None:
        return None
    return CatalogTable(table.properties.get(BASE), table)


def _create(spark: SparkSession, target: Table, base: str, pointer: Pointer) -> None:
    """Somebody else may create it at the same time: then theirs is changed like any other."""
    database, name = _names(spark, target)
    told = _properties(base, pointer)
    if target.hive_partition_by:
        del told[FENCE]  # It is there when it has its partitions.
    properties = ", ".join(f"{_quoted(key)} = {_quoted(value)}" for key, value in told.items())
    by = ", ".join(f"`{column}`" for column in target.hive_partition_by)
    location = f"{base}/{UNPARTITIONED}" if by else place(base, pointer)
    layout = f"{f'PARTITIONED BY ({by}) ' if by else ''}{_clustered(target)}"
    spark.sql(
        f"CREATE TABLE IF NOT EXISTS `{database}`.`{name}` ({_ddl(spark, pointer.schema)}) USING parquet "
        f"{layout}LOCATION {_quoted(location)} TBLPROPERTIES ({properties})"
    )


def _clustered(target: Table) -> str:
    """What SQL says of buckets; nothing without them."""
    if not target.buckets:
        return ""
    by, order = (", ".join(f"`{one}`" for one in names) for names in (target.bucket_by, target.sort_by))
    return f"CLUSTERED BY ({by}) {f'SORTED BY ({order}) ' if order else ''}INTO {target.buckets} BUCKETS "


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
