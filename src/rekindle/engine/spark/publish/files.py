"""Versioned files: the highest pointer names the version, and the act is to put the next one."""

from __future__ import annotations

import json
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
from rekindle.publish.pointers import Pointer, newest
from rekindle.publish.target import PointerStore, url
from rekindle.storage.schemes import is_local


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
                _check_same_columns(what, top)

        top = versions.put_version(spark, what, base, store, adds=adds, check_columns=check_columns)
        return versions.newer(what, top, adds=adds)

    def contents(self, spark: SparkSession, stores: Stores) -> TargetState:
        return versions.contents_of(self.base(spark), stores)


def read_newest(spark: SparkSession, path: str, stores: Stores) -> DataFrame:
    """The newest version of `files(path)`. The DataFrame stays on its version, whatever is published later."""
    base = url(path)
    pointer = newest(stores(base)).pointer
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


def _check_same_columns(what: Publication, top: Pointer | None) -> None:
    if top is not None and columns(top.schema) != columns(what.schema):
        raise Refused(
            f"{what.target.shown} has columns {columns(top.schema)}, the result {columns(what.schema)}",
            "append the same columns, or publish with mode='overwrite'",
        )
