"""`rk.each_batch`: the function of the user's is called by Spark's own `foreachBatch`, after a look at the fence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter

from rekindle.engine.adapter import Stores
from rekindle.engine.spark.publish.stream_target import NoFiles, RegionDelivery, RegionTarget
from rekindle.publish.each_batch import EachBatch, asked_of_stream
from rekindle.publish.each_partition import name_of
from rekindle.streams.stream_spec import Delivery


@dataclass(frozen=True, slots=True)
class EachBatchStream(NoFiles):
    """Gives batches to a function."""

    target: EachBatch

    @property
    def code(self) -> Callable[..., Any] | None:
        return self.target.write

    def check(self, spark: SparkSession, region: RegionTarget, stores: Stores, last: int) -> None:
        """What the function takes is known to nobody."""

    def check_columns(self, region: RegionTarget, columns: Mapping[str, str]) -> None:
        """The function takes rows as they are."""

    def delivery(self, doubts: tuple[str, ...]) -> RegionDelivery:
        called = f"{name_of(self.target.write)}()"
        if self.target.exactly_once:
            return RegionDelivery(Delivery.EXACTLY_ONCE, f"by your word that {called} keeps the key with the rows")
        asks = "key" in asked_of_stream(self.target.write)
        advice = "it asks for its key" if asks else f"key it by the parameter key of {called}"
        return RegionDelivery(Delivery.AT_LEAST_ONCE, f"your function {called} is called again after a crash; {advice}")

    def written_by(
        self, writer: DataStreamWriter, region: RegionTarget, owner: int, look: Callable[[], None]
    ) -> DataStreamWriter:
        write, asked = self.target.write, asked_of_stream(self.target.write)

        def call(rows: DataFrame, batch: int) -> None:
            look()
            key = f"{region.sink.name}/{region.everywhere}/{batch}"
            values = {"batch": batch, "key": key}
            write(rows, **{name: values[name] for name in asked})

        return writer.foreachBatch(call)
