"""`rk.delta` as the target of a stream: each batch is one commit, with a transaction by which Delta knows it.

Rules
- Delta's own writer writes the rows (java-lake/DeltaBatches): partitions, constraints and generated columns of the
  table are its business. So is OPTIMIZE: nothing is compacted here. A table with a name is the user's to make.
- A transaction is told by region, checkpoint and stream: a new checkpoint, whose batches count from 0 again, has
  another one.
- The streams that had the table, and the first batches of a shard, which have no rows, are noted beside its files.
- A table that batches of ours publish into takes no stream: a publication could replace the rows of the stream.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter

from rekindle.engine.adapter import Stores
from rekindle.engine.spark.jvm import table_calls
from rekindle.engine.spark.publish.delta import attach, place_of, state_of
from rekindle.engine.spark.publish.stream_target import (
    CompactionReport,
    RegionDelivery,
    RegionTarget,
    refuse_other_owner,
    take_target,
)
from rekindle.errors import GraphRefused, Refused
from rekindle.publish.delta import Delta
from rekindle.publish.delta_log import RETENTION
from rekindle.publish.stream_entries import has_entry, put_begun
from rekindle.publish.table_fences import STREAM_PREFIX, owners
from rekindle.publish.target import APPEND, MERGE, PARTITION
from rekindle.remedies import TextRemedy, new_run
from rekindle.streams.stream_spec import Delivery

SINK = "rekindle.delta.DeltaBatches"
NOTED = "_rekindle/stream"
NAMED_MAX = 3


@dataclass(frozen=True, slots=True)
class DeltaStream:
    """Adds batches to a Delta table."""

    target: Delta

    @property
    def base(self) -> str:
        spark = SparkSession.active()
        attach(spark, self.target)
        return place_of(spark, self.target)

    @property
    def code(self) -> Callable[..., Any] | None:
        return None

    def check(self, spark: SparkSession, region: RegionTarget, stores: Stores, last: int) -> None:
        name = region.sink.name
        if self.target.mode in (PARTITION, MERGE):
            raise GraphRefused(
                f"{region.sink.place}: {name} is a stream, which adds rows and replaces none",
                f"leave out partition and keys: rk.delta({self.target.table!r})",
            )
        if region.output_mode != APPEND:
            raise GraphRefused(
                f"{region.sink.place}: {name} has output_mode={region.output_mode!r}, and rows that were added to "
                f"{self.target.shown} do not change",
                'leave out output_mode; with an aggregate over event time and withWatermark, "append" gives each group '
                "when it is final",
            )
        base = self.base
        state = state_of(spark, base)
        if state is not None and RETENTION in state.properties:
            raise Refused(
                f"{self.target.shown} forgets transactions ({RETENTION}), by which batches are known",
                f"ALTER TABLE … UNSET TBLPROPERTIES ('{RETENTION}')",
            )
        for _, owner, _ in owners(state.numbers) if state is not None else ():
            raise Refused(
                f"{self.target.shown} is the target of {owner}, which publishes batches: a publication could replace "
                "the rows of a stream",
                f"give {name} a table of its own",
            )
        store = stores(f"{base}/{NOTED}")
        refuse_other_owner(region, store)
        is_there = state is not None and state.numbers.get(transaction_of(region), -1) >= last
        if last >= 0 and not is_there and not has_entry(store, name, region.generation, last):
            raise Refused(
                f"the checkpoint of {name} has committed batch {last}, and {self.target.shown} lacks it: the table was "
                "restored to an older version, or it is another one",
                (TextRemedy("restore the table"), new_run("or start a new stream, which reads from the beginning")),
            )

    def check_columns(self, region: RegionTarget, columns: Mapping[str, str]) -> None:
        """A column of the table that the rows lack is null for them."""
        spark, base = SparkSession.active(), self.base
        if state_of(spark, base) is None:
            self._refuse_missing(region, columns)
            return
        there = {field.name.lower(): field.dataType for field in spark.read.format("delta").load(base).schema.fields}
        odd = [
            f"{name} is {there[name.lower()].simpleString()} in the table and {kind} in the stream"
            if name.lower() in there
            else f"{name} is not in the table"
            for name, kind in columns.items()
            if name.lower() not in there or there[name.lower()].simpleString() != kind
        ]
        if odd:
            raise Refused(
                f"{self.target.shown} has other columns than {region.sink.name}: {'; '.join(odd[:NAMED_MAX])}",
                "change the step, or the table with ALTER TABLE",
            )

    def _refuse_missing(self, region: RegionTarget, columns: Mapping[str, str]) -> None:
        """A folder becomes a table with the first batch. One that has a name must be empty when it becomes one, and has
        our notes by then."""
        if not self.target.is_path:
            declared = ", ".join(f"`{name}` {kind}" for name, kind in columns.items())
            raise Refused(
                f"there is no table {self.target.table}, to which {region.sink.name} would add rows",
                f"CREATE TABLE {self.target.table} ({declared}) USING delta",
            )

    def delivery(self, doubts: tuple[str, ...]) -> RegionDelivery:
        return RegionDelivery(Delivery.EXACTLY_ONCE)

    def may_have(self, region: RegionTarget, stores: Stores, batch: int) -> bool:
        return table_calls.delta_batch(SparkSession.active(), self.base, transaction_of(region)) >= batch

    def begin(self, region: RegionTarget, stores: Stores, offsets: Sequence[bytes]) -> None:
        put_begun(stores(f"{self.base}/{NOTED}"), region.sink.name, region.generation, offsets)

    def take(self, region: RegionTarget, stores: Stores) -> int:
        return take_target(region, stores(f"{self.base}/{NOTED}"))

    def written_by(
        self, writer: DataStreamWriter, region: RegionTarget, owner: int, look: Callable[[], None]
    ) -> DataStreamWriter:
        base = self.base
        own = {"path": base, "transaction": transaction_of(region), "entries": f"{base}/{NOTED}", "owner": str(owner)}
        return writer.format(SINK).options(**own)

    def compact(self, spark: SparkSession, region: RegionTarget, stores: Stores, every: int) -> CompactionReport | None:
        return None


def transaction_of(region: RegionTarget) -> str:
    """The id of the transactions of a region's batches, which no other checkpoint of any location has."""
    return f"{STREAM_PREFIX}{quote(region.sink.name, '')}/{quote(region.everywhere, '')}"
