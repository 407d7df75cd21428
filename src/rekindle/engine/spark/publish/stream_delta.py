"""`rk.delta` as the target of a stream: each batch is one commit of Delta's own writer, which has the number of the
batch as a transaction (java-lake/DeltaBatches). A table with a name is the user's to make; a folder becomes one with
the first batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter

from rekindle.engine.spark.publish.delta import attach, place_of, state_of
from rekindle.engine.spark.publish.stream_log_table import NOTED, LogTableStream, refuse_no_table, transaction_of
from rekindle.engine.spark.publish.stream_target import RegionTarget
from rekindle.errors import Refused
from rekindle.publish.delta import Delta
from rekindle.publish.delta_log import RETENTION, DeltaState

SINK = "rekindle.delta.DeltaBatches"


@dataclass(frozen=True, slots=True)
class DeltaStream(LogTableStream[Delta, DeltaState]):
    """Adds batches to a Delta table."""

    @property
    def base(self) -> str:
        spark = SparkSession.active()
        attach(spark, self.target)
        return place_of(spark, self.target)

    def look(self, spark: SparkSession) -> DeltaState | None:
        return state_of(spark, self.base)

    def refuse_table(self, state: DeltaState) -> None:
        if RETENTION in state.properties:
            raise Refused(
                f"{self.target.shown} forgets transactions ({RETENTION}), by which batches are known",
                f"ALTER TABLE … UNSET TBLPROPERTIES ('{RETENTION}')",
            )

    def refuse_missing(self, region: RegionTarget, columns: Mapping[str, str]) -> None:
        """One that has a name must be empty when it becomes one, and has our notes by then."""
        if not self.target.is_path:
            raise refuse_no_table(self.target, region, columns)

    def columns_there(self, spark: SparkSession) -> Mapping[str, str]:
        fields = spark.read.format("delta").load(self.base).schema.fields
        return {field.name.lower(): field.dataType.simpleString() for field in fields}

    def written_by(
        self, writer: DataStreamWriter, region: RegionTarget, owner: int, look: Callable[[], None]
    ) -> DataStreamWriter:
        base = self.base
        own = {"path": base, "transaction": transaction_of(region), "entries": f"{base}/{NOTED}", "owner": str(owner)}
        return writer.format(SINK).options(**own)
