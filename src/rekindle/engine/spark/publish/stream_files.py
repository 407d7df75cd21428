"""`rk.files` as the target of a stream: which of them take one, and their rows.

A stream adds the files of its batches, and an entry for each batch (publish/stream_entries.py): there are no versions.
Small files become few in the background (stream_compaction.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter

from rekindle.engine.adapter import Stores
from rekindle.engine.spark.jvm import result_calls
from rekindle.engine.spark.publish.stream_compaction import StreamCompactor
from rekindle.engine.spark.publish.stream_target import (
    CompactionReport,
    RegionDelivery,
    RegionTarget,
    refuse_other_owner,
    take_target,
)
from rekindle.engine.spark.session import attach
from rekindle.errors import GraphRefused, Refused
from rekindle.pipeline.declared import Declared
from rekindle.publish.files import PARQUET, Files
from rekindle.publish.pointers import POINTERS
from rekindle.publish.stream_compactions import BatchFile
from rekindle.publish.stream_entries import batch_files, generations, has_entry, owner_of, put_begun
from rekindle.publish.target import APPEND, PointerStore, url
from rekindle.remedies import TextRemedy, new_run
from rekindle.streams.stream_spec import Delivery

SINK = "rekindle.spark.StreamFiles"
# Of the batches of the checkpoint that it has nothing was compacted yet: it is to be looked at again.
NOTHING = -1


@dataclass(frozen=True, slots=True)
class FilesStream:
    """Adds batches to files: java/StreamFiles puts one entry for each, exactly once."""

    target: Files

    @property
    def base(self) -> str:
        return url(self.target.path)

    @property
    def code(self) -> Callable[..., Any] | None:
        return None

    def check(self, spark: SparkSession, region: RegionTarget, stores: Stores, last: int) -> None:
        """Refuse what these files cannot take, a target that batches or another stream have, and one that has lost what
        the checkpoint says is there."""
        self._check_layout(region.sink)
        if region.output_mode != APPEND:
            raise GraphRefused(
                f"{region.sink.place}: {region.sink.name} has output_mode={region.output_mode!r}, and rows in files do "
                "not change",
                'leave out output_mode; with an aggregate over event time and withWatermark, "append" gives each group '
                "when it is final",
            )
        store, name = stores(self.base), region.sink.name
        self._refuse_versions(name, store)
        refuse_other_owner(region, store)
        if last >= 0 and not has_entry(store, name, region.generation, last):
            raise Refused(
                f"the checkpoint of {name} has committed batch {last}, and {self.target.shown} lacks it: "
                "rows were removed from it, or it is another one",
                (TextRemedy("restore the target"), new_run("or start a new stream, which reads from the beginning")),
            )

    def check_columns(self, region: RegionTarget, columns: Mapping[str, str]) -> None:
        """Files take every column."""

    def delivery(self, doubts: tuple[str, ...]) -> RegionDelivery:
        return RegionDelivery(Delivery.EXACTLY_ONCE)

    def may_have(self, region: RegionTarget, stores: Stores, batch: int) -> bool:
        return has_entry(stores(self.base), region.sink.name, region.generation, batch)

    def begin(self, region: RegionTarget, stores: Stores, offsets: Sequence[bytes]) -> None:
        put_begun(stores(self.base), region.sink.name, region.generation, offsets)

    def take(self, region: RegionTarget, stores: Stores) -> int:
        return take_target(region, stores(self.base))

    def written_by(
        self, writer: DataStreamWriter, region: RegionTarget, owner: int, look: Callable[[], None]
    ) -> DataStreamWriter:
        return writer.format(SINK).options(**region.options, path=self.base, owner=str(owner))

    def compact(self, spark: SparkSession, region: RegionTarget, stores: Stores, every: int) -> CompactionReport | None:
        """Those of checkpoints that it had before first: what has their batches is final."""
        store, told = stores(self.base), ""
        there = {generation for name, generation in generations(store) if name == region.sink.name}
        for generation in (*(one for one in region.older if one in there), region.generation):
            compactor = StreamCompactor(
                spark=spark, base=self.base, store=store, region=region.sink.name, generation=generation
            )
            report = compactor.compact(every)
            if report.told and generation != region.generation:
                told = f"{report.told}, of a checkpoint that it had before ({generation})"
            if told:
                return CompactionReport(NOTHING, told)
        return report

    def _check_layout(self, sink: Declared) -> None:
        if self.target.is_rewritten or self.target.partition:
            raise GraphRefused(
                f"{sink.place}: {sink.name} is a stream, whose files are Parquet without directories of values",
                f'leave out all but the path: rk.files("{self.target.path}")',
            )

    def _refuse_versions(self, name: str, store: PointerStore) -> None:
        """Batches publish into it."""
        if store.list_after(POINTERS):
            raise Refused(
                f"{self.target.shown} has versions of a batch pipeline: a stream would add to none of them",
                f'give {name} a target of its own: rk.files("{self.target.path}_live")',
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
    return frame_of_files(spark, base, files) if files else None


def frame_of_files(spark: SparkSession, base: str, files: Sequence[BatchFile]) -> DataFrame:
    """With the columns of the newest."""
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
