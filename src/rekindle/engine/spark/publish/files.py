"""Versioned files: the highest pointer names the version, and the act is to put the next one."""

from __future__ import annotations

import json
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from rekindle.engine.adapter import Stores
from rekindle.engine.spark.publish import versions
from rekindle.engine.spark.publish.publication import Publication
from rekindle.engine.spark.publish.publisher import PublicationRequest, TargetState
from rekindle.engine.spark.publish.versions import columns
from rekindle.errors import Refused
from rekindle.master.facts.events import Fence
from rekindle.publish.files import Files
from rekindle.publish.pointers import Pointer, newest
from rekindle.publish.target import url


@dataclass(frozen=True, slots=True)
class FilesPublisher:
    """Publishes into `rk.files`."""

    target: Files

    def base(self, spark: SparkSession) -> str:
        return url(self.target.path)

    def check(self, spark: SparkSession, request: PublicationRequest, base: str, stores: Stores) -> None:
        versions.check_versions(request, self.target, base, stores, adds=self.target.adds)

    def place(self, base: str, stores: Stores) -> str | None:
        return versions.last_place(base, stores)

    def publish(self, spark: SparkSession, what: Publication, stores: Stores) -> Fence | None:
        base, adds = self.base(spark), self.target.adds

        def check_columns(top: Pointer | None) -> None:
            if adds:
                _check_same_columns(what, top)

        top = versions.put_version(spark, what, base, stores(base), adds=adds, check_columns=check_columns)
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


def _check_same_columns(what: Publication, top: Pointer | None) -> None:
    if top is not None and columns(top.schema) != columns(what.schema):
        raise Refused(
            f"{what.target.shown} has columns {columns(top.schema)}, the result {columns(what.schema)}",
            "append the same columns, or publish with mode='overwrite'",
        )
