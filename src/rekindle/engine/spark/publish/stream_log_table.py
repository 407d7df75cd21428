"""A table that has a log of its own as the target of a stream: what is the same for every format of such tables.

Rules
- The format's own writer writes the rows, and makes one commit of each batch, which carries the number of the batch by
  an id of the stream. Partitions and constraints of the table are its business; so is compaction: nothing is compacted
  here.
- The id is told by region, checkpoint and stream: a new checkpoint, whose batches count from 0 again, has another one.
- The streams that had the table, and the first batches of a shard, which have no rows, are noted beside its files.
- A table that batches of ours publish into takes no stream: a publication could replace the rows of the stream.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar
from urllib.parse import quote

from pyspark.sql import SparkSession

from rekindle.engine.adapter import Stores
from rekindle.engine.spark.publish.stream_target import (
    CompactionReport,
    RegionDelivery,
    RegionTarget,
    refuse_other_owner,
    take_target,
)
from rekindle.errors import GraphRefused, Refused
from rekindle.publish.log_table import LogTable
from rekindle.publish.stream_entries import has_entry, put_begun
from rekindle.publish.table_fences import STREAM_PREFIX, owners
from rekindle.publish.target import APPEND, MERGE, PARTITION
from rekindle.remedies import TextRemedy, new_run
from rekindle.streams.stream_spec import Delivery

NOTED = "_rekindle/stream"
NAMED_MAX = 3


class StreamedState(Protocol):
    """The newest version of a table."""

    @property
    def numbers(self) -> Mapping[str, int]:
        """Those of our publications, and of our batches."""
        ...


State = TypeVar("State", bound=StreamedState)
Target = TypeVar("Target", bound=LogTable)


@dataclass(frozen=True, slots=True)
class LogTableStream(ABC, Generic[Target, State]):
    """Adds batches to such a table."""

    target: Target

    @property
    @abstractmethod
    def base(self) -> str:
        """Where the table lies; empty where only a table that is there says so."""

    @abstractmethod
    def look(self, spark: SparkSession) -> State | None:
        """The newest version of the table, None where there is no table."""

    @abstractmethod
    def refuse_table(self, state: State) -> None:
        """Refuse a table that cannot know its batches."""

    @abstractmethod
    def refuse_missing(self, region: RegionTarget, columns: Mapping[str, str]) -> None:
        """Refuse a table that is not there, unless the first batch makes it."""

    @abstractmethod
    def columns_there(self, spark: SparkSession) -> Mapping[str, str]:
        """The columns of the table, in lower case, with their types as Spark names them."""

    @property
    def code(self) -> Callable[..., Any] | None:
        return None

    def check(self, spark: SparkSession, region: RegionTarget, stores: Stores, last: int) -> None:
        name = region.sink.name
        if self.target.mode in (PARTITION, MERGE):
            raise GraphRefused(
                f"{region.sink.place}: {name} is a stream, which adds rows and replaces none",
                f"leave out partition and keys: rk.{self.target.format.lower()}({self.target.table!r})",
            )
        if region.output_mode != APPEND:
            raise GraphRefused(
                f"{region.sink.place}: {name} has output_mode={region.output_mode!r}, and rows that were added to "
                f"{self.target.shown} do not change",
                'leave out output_mode; with an aggregate over event time and withWatermark, "append" gives each group '
                "when it is final",
            )
        state = self.look(spark)
        numbers = {} if state is None else state.numbers
        if state is not None:
            self.refuse_table(state)
        for _, owner, _ in owners(numbers):
            raise Refused(
                f"{self.target.shown} is the target of {owner}, which publishes batches: a publication could replace "
                "the rows of a stream",
                f"give {name} a table of its own",
            )
        base = self.base
        if not base:
            return
        store = stores(f"{base}/{NOTED}")
        refuse_other_owner(region, store)
        is_there = numbers.get(transaction_of(region), -1) >= last
        if last >= 0 and not is_there and not has_entry(store, name, region.generation, last):
            raise Refused(
                f"the checkpoint of {name} has committed batch {last}, and {self.target.shown} lacks it: the table was "
                "restored to an older version, or it is another one",
                (TextRemedy("restore the table"), new_run("or start a new stream, which reads from the beginning")),
            )

    def check_columns(self, region: RegionTarget, columns: Mapping[str, str]) -> None:
        """A column of the table that the rows lack is null for them."""
        spark = SparkSession.active()
        if self.look(spark) is None:
            self.refuse_missing(region, columns)
            return
        there = self.columns_there(spark)
        odd = [
            f"{name} is {there[name.lower()]} in the table and {kind} in the stream"
            if name.lower() in there
            else f"{name} is not in the table"
            for name, kind in columns.items()
            if there.get(name.lower()) != kind
        ]
        if odd:
            raise Refused(
                f"{self.target.shown} has other columns than {region.sink.name}: {'; '.join(odd[:NAMED_MAX])}",
                "change the step, or the table with ALTER TABLE",
            )

    def delivery(self, doubts: tuple[str, ...]) -> RegionDelivery:
        return RegionDelivery(Delivery.EXACTLY_ONCE)

    def may_have(self, region: RegionTarget, stores: Stores, batch: int) -> bool:
        state = self.look(SparkSession.active())
        return state is not None and state.numbers.get(transaction_of(region), -1) >= batch

    def begin(self, region: RegionTarget, stores: Stores, offsets: Sequence[bytes]) -> None:
        put_begun(stores(f"{self.base}/{NOTED}"), region.sink.name, region.generation, offsets)

    def take(self, region: RegionTarget, stores: Stores) -> int:
        return take_target(region, stores(f"{self.base}/{NOTED}"))

    def compact(self, spark: SparkSession, region: RegionTarget, stores: Stores, every: int) -> CompactionReport | None:
        return None


def refuse_no_table(target: LogTable, region: RegionTarget, columns: Mapping[str, str]) -> Refused:
    """The refusal of a table that the user is to make, with the statement that makes it."""
    declared = ", ".join(f"`{name}` {kind}" for name, kind in columns.items())
    return Refused(
        f"there is no table {target.table}, to which {region.sink.name} would add rows",
        f"CREATE TABLE {target.table} ({declared}) USING {target.format.lower()}",
    )


def transaction_of(region: RegionTarget) -> str:
    """The id of the batches of a region's checkpoint, which no other checkpoint of any location has."""
    return f"{STREAM_PREFIX}{quote(region.sink.name, '')}/{quote(region.everywhere, '')}"
