"""`rk.files` as the target of a stream: which of them take one, and their rows.

A stream adds the files of its batches, and an entry for each batch (publish/stream_entries.py): there are no versions.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from rekindle.engine.spark.jvm import result_calls
from rekindle.engine.spark.session import attach
from rekindle.errors import GraphRefused, Refused
from rekindle.pipeline.declared import Declared
from rekindle.publish.files import PARQUET, Files
from rekindle.publish.pointers import POINTERS
from rekindle.publish.stream_entries import batch_files, owner_of
from rekindle.publish.target import PointerStore, url


def _files(sink: Declared) -> Files:
    if not isinstance(sink.target, Files):
        raise GraphRefused(
            f"{sink.place}: {sink.name} publishes a stream, and {sink.shown_target} takes none", 'use rk.files("…")'
        )
    return sink.target


def base_of(sink: Declared) -> str:
    """Where the target lies."""
    return url(_files(sink).path)


def check_layout(sink: Declared) -> None:
    """Refuse what the files of a stream cannot be."""
    target = _files(sink)
    if target.is_rewritten or target.partition:
        raise GraphRefused(
            f"{sink.place}: {sink.name} is a stream, whose files are Parquet without directories of values",
            f'leave out all but the path: rk.files("{target.path}")',
        )


def refuse_versions(sink: Declared, store: PointerStore) -> None:
    """Refuse a target that batches publish into."""
    if store.list_after(POINTERS):
        target = _files(sink)
        raise Refused(
            f"{target.shown} has versions of a batch pipeline: a stream would add to none of them",
            f'give {sink.name} a target of its own: rk.files("{target.path}_live")',
        )


def refuse_streams(target: Files, store: PointerStore) -> None:
    """Refuse a target that a stream has: a version would hide its rows from readers."""
    held = owner_of(store)
    if held is not None:
        raise Refused(
            f"{target.shown} is the target of {held.region}, which is a stream: a batch cannot publish there",
            f'use a target of its own: rk.files("{target.path}_daily")',
        )


def read_batches(spark: SparkSession, base: str, store: PointerStore) -> DataFrame | None:
    """The rows of all batches that count now, with the columns of the newest; None if there are none."""
    files = list(batch_files(store))
    if not files:
        return None
    attach(spark)
    newest = f"{base}/{files[-1].directory}/{files[-1].name}"
    numbers = {directory: number for number, directory in enumerate(dict.fromkeys(one.directory for one in files))}
    return result_calls.version(
        spark,
        [f"{base}/{directory}" for directory in numbers],
        [(numbers[one.directory], one.name, one.bytes) for one in files],
        its_schema=spark.read.parquet(newest).schema.json(),
        hive_columns=(),
        files_format=PARQUET,
        options={},
    )
