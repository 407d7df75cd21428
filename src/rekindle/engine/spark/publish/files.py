"""Versioned files: the highest pointer names the version, and the act is to put the next one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from rekindle.engine.adapter import NEWEST, Stores, VersionRequest
from rekindle.engine.spark.jvm import result_calls
from rekindle.engine.spark.publish import current, hive_files, versions
from rekindle.engine.spark.publish.publication import Publication
from rekindle.engine.spark.publish.publisher import PublicationRequest, TargetState
from rekindle.engine.spark.publish.versions import columns
from rekindle.engine.spark.session import attach
from rekindle.errors import Refused
from rekindle.master.facts.events import Fence
from rekindle.publish.files import Files
from rekindle.publish.history import Reader, as_of, at_version, newest_before, previous
from rekindle.publish.pointers import VERSIONS, Pointer, hive_columns, newest
from rekindle.publish.target import PointerStore, url
from rekindle.storage.schemes import is_local

# The run whose steps are built.
_READER: ContextVar[Reader | None] = ContextVar("rekindle_reader", default=None)


@dataclass(frozen=True, slots=True)
class FilesPublisher:
    """Publishes into `rk.files`."""

    target: Files

    def base(self, spark: SparkSession) -> str:
        return url(self.target.path)

    def check(self, spark: SparkSession, request: PublicationRequest, base: str, stores: Stores) -> None:
        if is_local(self.target.path):
            current.check(base)
        if self.target.hive_partition_by:
            hive_files.check_columns(self.target, request.schema)
        versions.check_versions(request, self.target, base, stores, adds=self.target.adds)
        if self.target.adds and request.schema:
            top = newest(stores(base)).pointer
            _check_same_layout(self.target, top)
            _check_same_columns(self.target, hive_files.schema_of(self.target, request.schema), top)

    def place(self, base: str, stores: Stores) -> str | None:
        return versions.last_place(base, stores)

    def publish(self, spark: SparkSession, what: Publication, stores: Stores) -> Fence | None:
        base = self.base(spark)
        store = stores(base)
        if not self.target.hive_partition_by:
            fence = self._publish(spark, what, base, store)
        else:
            with hive_files.staged(spark, what, self.target, base, newest(store).pointer) as written:
                fence = self._publish(spark, written, base, store)
        if is_local(self.target.path):
            current.follow(base, store)
        return fence

    def _publish(self, spark: SparkSession, what: Publication, base: str, store: PointerStore) -> Fence | None:
        adds = self.target.adds

        def check_columns(top: Pointer | None) -> None:
            if adds:
                _check_same_layout(self.target, top)
                _check_same_columns(self.target, what.schema, top)

        top = versions.put_version(spark, what, base, store, adds=adds, stays=True, check_columns=check_columns)
        return versions.newer(what, top, adds=adds)

    def contents(self, spark: SparkSession, stores: Stores) -> TargetState:
        return versions.contents_of(self.base(spark), stores)


@contextmanager
def read_by(reader: Reader) -> Iterator[None]:
    """While the steps of a run are built: what it published itself is not what it reads."""
    token = _READER.set(reader)
    try:
        yield
    finally:
        _READER.reset(token)


def read_newest(spark: SparkSession, path: str, stores: Stores, wanted: VersionRequest = NEWEST) -> DataFrame:
    """A version of `files(path)`: the one that is wanted, or the newest; in a step of a run that published to it, the
    one before that. The DataFrame stays on its version, whatever is published later."""
    base = url(path)
    store, reader = stores(base), _READER.get()
    if wanted.version is not None:
        pointer: Pointer | None = at_version(store, wanted.version, path)
    elif wanted.as_of is not None:
        pointer = as_of(store, wanted.as_of, path)
    else:
        pointer = newest(store).pointer if reader is None else newest_before(store, reader)
    if pointer is None:
        raise Refused(f"nothing is published in {path}")
    return _frame(spark, base, pointer)


def read_previous(spark: SparkSession, path: str, stores: Stores, schema: StructType | str) -> DataFrame:
    """The version of `files(path)` before the key of the run whose steps are built, with the columns of `schema`; no
    rows if its key is the first."""
    base, reader = url(path), _READER.get()
    if reader is None:
        raise Refused(
            f"rk.previous({path!r}) is read outside of a run: nobody knows before which one",
            "call it in a step; anywhere else rk.read_newest(spark, path) reads the newest version",
        )
    wanted = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    pointer = previous(stores(base), reader.key, path)
    rows = spark.range(0).select() if pointer is None else _frame(spark, base, pointer)
    return _with_columns(rows, wanted, path)


def _with_columns(rows: DataFrame, wanted: StructType, path: str) -> DataFrame:
    """The columns that were asked for, in their order: null where the version has none. Nothing is left out."""
    there = {field.name: field.dataType.simpleString() for field in rows.schema}
    now = {field.name: field.dataType.simpleString() for field in wanted}
    changed = [
        f"{name} is {kind}, and {now.get(name, 'not in the schema')}"
        for name, kind in there.items()
        if now.get(name) != kind
    ]
    if changed:
        raise Refused(
            f"rk.previous({path!r}): the version before has other columns than the schema: {', '.join(changed)}",
            "correct the schema (new columns may be added: they are null), or convert the target once with another run",
        )
    return rows.select(
        *(
            F.col(f"`{one.name}`") if one.name in there else F.lit(None).cast(one.dataType).alias(one.name)
            for one in wanted
        )
    )


def _frame(spark: SparkSession, base: str, pointer: Pointer) -> DataFrame:
    """The rows of one version, by the files that its pointer names where they lie in several directories."""
    if pointer.is_one_directory:
        schema = StructType.fromJson(json.loads(pointer.schema))
        return spark.read.schema(schema).parquet(versions.place(base, pointer))
    attach(spark)
    numbers = {folder: number for number, folder in enumerate(pointer.folders)}
    files = [
        (numbers[pointer.folder_of(part)], name, length) for part in pointer.parts for name, length in part.files()
    ]
    return result_calls.version(
        spark,
        [f"{base}/{VERSIONS}/{folder}" for folder in numbers],
        files,
        its_schema=pointer.schema,
        hive_columns=hive_columns(pointer),
    )


def _check_same_layout(target: Files, top: Pointer | None) -> None:
    """One version has directories of values, of the same columns, or files without them: a reader could not read
    both."""
    columns_before = hive_columns(top) if top is not None and top.has_files else target.hive_partition_by
    if columns_before != target.hive_partition_by:
        had = f"with hive_partition_by={list(columns_before)}" if columns_before else "without hive_partition_by"
        raise Refused(
            f"{target.shown} was published {had} before, and a version cannot have both layouts",
            'publish everything once with mode="overwrite", or to another path',
        )


def _check_same_columns(target: Files, schema: str, top: Pointer | None) -> None:
    """A new column is null in the rows that stay. Those rows have the other columns, with their types."""
    if top is None:
        return
    now = columns(schema)
    changed = [
        f"{name} was {kind}, is {now.get(name, 'gone')}"
        for name, kind in columns(top.schema).items()
        if now.get(name) != kind
    ]
    if changed:
        raise Refused(
            f"{target.shown} cannot take the result beside the rows that stay: {', '.join(changed)}",
            "keep the old columns and their types (new ones may be added), or publish with mode='overwrite'",
        )
