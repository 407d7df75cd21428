"""`rk.table` as the target of a stream: its batches are those of `rk.files` below the table's place, and the table's
location is `current` there.

Rules
- `current` is a link that a compaction changes by one rename, and a batch adds to the folder that it leads to. So the
  catalog is asked when a query starts, and never for a batch.
- Only a disk has `current`. Elsewhere a table of a format with a log of its own is needed, and is named.
- A table that was dropped is made again when a query starts: it is external, and dropping it removed no file.
- Columns may be added. A table that batches publish into, or somebody else made, takes no stream.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter

from rekindle.engine.adapter import Stores
from rekindle.engine.spark.jvm import stream_calls
from rekindle.engine.spark.publish import tables
from rekindle.engine.spark.publish.stream_files import FilesStream
from rekindle.engine.spark.publish.stream_target import CompactionReport, RegionDelivery, RegionTarget
from rekindle.engine.spark.session import attach
from rekindle.errors import GraphRefused, Refused
from rekindle.pipeline.declared import Declared
from rekindle.publish.stream_view import CURRENT
from rekindle.publish.table import Table
from rekindle.storage.schemes import is_local


@dataclass(frozen=True, slots=True)
class TableStream:
    """Adds batches to a table of the session catalog."""

    target: Table

    @property
    def base(self) -> str:
        return tables.base_of(SparkSession.active(), self.target)

    @property
    def code(self) -> Callable[..., Any] | None:
        return None

    @property
    def _files(self) -> FilesStream:
        return FilesStream(self.target.as_files(self.base))

    def check(self, spark: SparkSession, region: RegionTarget, stores: Stores, last: int) -> None:
        self._check_layout(region.sink)
        base = self.base
        if not is_local(base):
            raise GraphRefused(
                f"{region.sink.place}: {self.target.shown} keeps its files in {base}, and only on a disk a table can "
                "follow a stream",
                f'use rk.delta("{self.target.name}"), or rk.files("{base}") with rk.read_newest',
            )
        self._files.check(spark, region, stores, last)

    def _check_layout(self, sink: Declared) -> None:
        if self.target.hive_partition_by or self.target.as_files("/table").is_rewritten or self.target.adopt:
            raise GraphRefused(
                f"{sink.place}: {sink.name} is a stream, whose table has Parquet files without directories of values, "
                "and none from before",
                f'leave out all but name and location: rk.table("{self.target.name}")',
            )

    def check_columns(self, region: RegionTarget, columns: Mapping[str, str]) -> None:
        tables.check_stream(SparkSession.active(), self.target, columns)

    def delivery(self, doubts: tuple[str, ...]) -> RegionDelivery:
        return self._files.delivery(doubts)

    def may_have(self, region: RegionTarget, stores: Stores, batch: int) -> bool:
        return self._files.may_have(region, stores, batch)

    def begin(self, region: RegionTarget, stores: Stores, offsets: Sequence[bytes]) -> None:
        self._files.begin(region, stores, offsets)

    def take(self, region: RegionTarget, stores: Stores) -> int:
        return self._files.take(region, stores)

    def written_by(
        self, writer: DataStreamWriter, region: RegionTarget, owner: int, look: Callable[[], None]
    ) -> DataStreamWriter:
        """The table leads to what the stream writes before the first batch of this query."""
        spark, base = SparkSession.active(), self.base
        attach(spark)
        if not stream_calls.begin_view(spark, base, region.sink.name, region.generation):
            raise Refused(
                f"{base}/{CURRENT} is a folder that somebody else made, and {self.target.shown} cannot follow a stream",
                "move it away",
            )
        tables.follow_stream(spark, self.target, base, f"{base}/{CURRENT}", region.columns)
        return self._files.written_by(writer, region, owner, look)

    def compact(self, spark: SparkSession, region: RegionTarget, stores: Stores, every: int) -> CompactionReport | None:
        return self._files.compact(spark, region, stores, every)
