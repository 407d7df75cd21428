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
from rekindle.engine.spark.publish import current, rewriting, versions
from rekindle.engine.spark.publish.publication import Publication
from rekindle.engine.spark.publish.publisher import PublicationRequest, TargetState
from rekindle.engine.spark.publish.stream_files import read_batches, refuse_streams
from rekindle.engine.spark.publish.versions import columns
from rekindle.engine.spark.session import attach
from rekindle.errors import Refused
from rekindle.master.facts.events import Fence
from rekindle.publish.files import CSV, Files
from rekindle.publish.history import Reader, as_of, at_version, newest_before, previous
from rekindle.publish.pointers import VERSIONS, Pointer, hive_columns, newest
from rekindle.publish.target import PointerStore, url
from rekindle.storage.schemes import is_local

# The run whose steps are built, and the stores that it knows.
_READER: ContextVar[Reader | None] = ContextVar("rekindle_reader", default=None)
_STORES: ContextVar[Stores | None] = ContextVar("rekindle_stores", default=None)


@dataclass(frozen=True, slots=True)
class FilesPublisher:
    """Publishes into `rk.files`."""

    target: Files

    def base(self, spark: SparkSession) -> str:
        return url(self.target.path)

    def check(self, spark: SparkSession, request: PublicationRequest, base: str, stores: Stores) -> None:
        refuse_streams(self.target, stores(base))
        if is_local(self.target.path):
            current.check(base)
        if self.target.is_rewritten:
            rewriting.check_columns(spark, self.target, request.schema)
        versions.check_versions(request, self.target, base, stores, adds=self.target.adds)
        if self.target.adds and request.schema:
            top = newest(stores(base)).pointer
            versions.check_layout(self.target, self.target.shown, top)
            _check_same_columns(self.target, rewriting.schema_of(self.target, request.schema), top)

    def place(self, spark: SparkSession, base: str, stores: Stores) -> str | None:
        return versions.last_place(base, stores)

    def publish(self, spark: SparkSession, what: Publication, stores: Stores) -> Fence | None:
        base = self.base(spark)
        store = stores(base)
        if not self.target.is_rewritten:
            fence = self._publish(spark, what, base, store)
        else:
            with rewriting.staged(spark, what, self.target, base, newest(store).pointer) as written:
                fence = self._publish(spark, written, base, store)
        if is_local(self.target.path):
            current.follow(base, store)
        return fence

    def _publish(self, spark: SparkSession, what: Publication, base: str, store: PointerStore) -> Fence | None:
        adds = self.target.adds

        def check_columns(top: Pointer | None) -> None:
            if adds:
                versions.check_layout(self.target, self.target.shown, top)
                _check_same_columns(self.target, what.schema, top)

        top = versions.put_version(spark, what, base, store, adds=adds, stays=True, check_columns=check_columns)
        return versions.newer(what, top, adds=adds)

    def contents(self, spark: SparkSession, stores: Stores) -> TargetState:
        return versions.contents_of(self.base(spark), stores)


@contextmanager
def read_by(reader: Reader, stores: Stores) -> Iterator[None]:
    """While the steps of a run are built: what it published itself is not what it reads, and they reach what it
    reaches."""
    token, known = _READER.set(reader), _STORES.set(stores)
    try:
        yield
    finally:
        _READER.reset(token)
        _STORES.reset(known)


def run_stores() -> Stores | None:
    """The stores of the run whose steps are built, None outside of a run."""
    return _STORES.get()


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
        found = read_batches(spark, base, store) if wanted == NEWEST else None
        if found is None:
            raise Refused(f"nothing is published in {path}")
        return found
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
        reader = spark.read.schema(schema).format(pointer.files_format).options(**_options(pointer))
        return reader.load(versions.place(base, pointer))
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
        files_format=pointer.files_format,
        options=_options(pointer),
    )


def _options(pointer: Pointer) -> dict[str, str]:
    """With which its files are read: a value of CSV may have line breaks."""
    usual = {"multiLine": "true"} if pointer.files_format == CSV else {}
    return usual | dict(pointer.options)


def _check_same_columns(target: Files, schema: str, top: Pointer | None) -> None:
    """A new column is null in the rows that stay. Those rows have the other columns, with their types. CSV is read by
    the order of columns, whatever its header says, so there they also stay where they are."""
    if top is None:
        return
    now = columns(schema)
    if target.format == CSV:
        had, has = (
            [name for name in one if name not in target.hive_partition_by] for one in (columns(top.schema), now)
        )
        if has[: len(had)] != had:
            raise Refused(
                f"{target.shown} has the columns {', '.join(had)}, and the result {', '.join(has)}: CSV has columns by "
                "their order",
                f"select({', '.join(had)}, …) in the sink: new columns come last; or publish with mode='overwrite'",
            )
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
