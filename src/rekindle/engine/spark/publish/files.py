"""Versioned files: the highest pointer names the version, and the act is to put the next one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from rekindle.engine.adapter import Stores
from rekindle.engine.spark.publish import current, hive_files, versions
from rekindle.engine.spark.publish.publication import Publication
from rekindle.engine.spark.publish.publisher import PublicationRequest, TargetState
from rekindle.engine.spark.publish.versions import columns
from rekindle.errors import Refused
from rekindle.master.facts.events import Fence
from rekindle.publish.files import Files
from rekindle.publish.pointers import Pointer, Reader, newest, newest_before
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
            schema = hive_files.schema_of(self.target, request.schema)
            _check_same_columns(self.target, schema, newest(stores(base)).pointer)

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

        top = versions.put_version(spark, what, base, store, adds=adds, check_columns=check_columns)
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


def read_newest(spark: SparkSession, path: str, stores: Stores) -> DataFrame:
    """The newest version of `files(path)`; in a step of a run that published to it, the version before that. The
    DataFrame stays on its version, whatever is published later."""
    base = url(path)
    store, reader = stores(base), _READER.get()
    pointer = newest(store).pointer if reader is None else newest_before(store, reader)
    if pointer is None:
        raise Refused(f"nothing is published in {path}")
    schema = StructType.fromJson(json.loads(pointer.schema))
    return spark.read.schema(schema).parquet(versions.place(base, pointer))


def _check_same_layout(target: Files, top: Pointer | None) -> None:
    """One version has directories of values, or files without them: a reader could not read both."""
    parts = [one for one in top.parts if one.files()] if top is not None else []
    if any(one.is_listed != bool(target.hive_partition_by) for one in parts):
        had = "without hive_partition_by" if target.hive_partition_by else "with hive_partition_by"
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
