"""`rk.iceberg` as the target of a stream: each batch is one commit of Iceberg's own writer, which has the number of the
batch as a property of the table (java-lake/IcebergBatches). The table is the user's to make."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter

from rekindle.engine.spark.jvm import iceberg_calls
from rekindle.engine.spark.publish.iceberg import attach, found_of
from rekindle.engine.spark.publish.stream_log_table import NOTED, LogTableStream, refuse_no_table, transaction_of
from rekindle.engine.spark.publish.stream_target import RegionTarget
from rekindle.errors import Refused
from rekindle.publish import iceberg_log
from rekindle.publish.iceberg import Iceberg
from rekindle.publish.iceberg_log import STAGES, IcebergState
from rekindle.publish.target import url

SINK = "rekindle.iceberg.IcebergBatches"


@dataclass(frozen=True, slots=True)
class IcebergStream(LogTableStream[Iceberg, IcebergState]):
    """Adds batches to an Iceberg table."""

    @property
    def base(self) -> str:
        spark = SparkSession.active()
        attach(spark, self.target)
        found = found_of(spark, self.target)
        return url(found.told) if found.kind == "table" else ""

    def look(self, spark: SparkSession) -> IcebergState | None:
        attach(spark, self.target)
        told = iceberg_calls.state(spark, self.target.quoted)
        return iceberg_log.read_state(told) if told else None

    def refuse_table(self, state: IcebergState) -> None:
        if state.properties.get(STAGES, "").lower() == "true":
            raise Refused(
                f"commits to {self.target.shown} wait for an audit ({STAGES}), and readers would not see its batches",
                f"ALTER TABLE {self.target.table} UNSET TBLPROPERTIES ('{STAGES}')",
            )

    def refuse_missing(self, region: RegionTarget, columns: Mapping[str, str]) -> None:
        raise refuse_no_table(self.target, region, columns)

    def columns_there(self, spark: SparkSession) -> Mapping[str, str]:
        fields = spark.table(self.target.quoted).schema.fields
        return {field.name.lower(): field.dataType.simpleString() for field in fields}

    def written_by(
        self, writer: DataStreamWriter, region: RegionTarget, owner: int, look: Callable[[], None]
    ) -> DataStreamWriter:
        (number_of_batch,) = iceberg_log.properties_of({transaction_of(region): 0})
        own = {"table": self.target.quoted, "property": number_of_batch, "owner": str(owner)}
        return writer.format(SINK).options(**own, entries=f"{self.base}/{NOTED}")
