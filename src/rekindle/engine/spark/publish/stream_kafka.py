"""`rk.kafka`: batches of a stream sent by java/StreamKafka, and the reader that drops what was sent twice.

How doubles are told
- A record belongs to a batch, and was sent by one query of its region. Within that query its partition and row tell it:
  one that is there twice was sent by two tries of one Spark task.
- Of the records of one batch that have the same key, value and headers, each query sent as many as the batch has, or
  fewer if it died. So as many count as the one query sent that sent most. Nothing depends on how a batch is cut into
  partitions, or on the order of its rows.
- What differs in anything is no double: none that is needed is ever dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamWriter

from rekindle.engine.adapter import Stores
from rekindle.engine.spark.jvm import stream_calls
from rekindle.engine.spark.publish.stream_target import NoFiles, RegionDelivery, RegionTarget
from rekindle.engine.spark.session import refuse_connect
from rekindle.errors import GraphRefused, Refused
from rekindle.pipeline.declared import Declared
from rekindle.publish.kafka import Kafka
from rekindle.remedies import StartRemedy
from rekindle.streams.stream_spec import Delivery

SINK = "rekindle.spark.StreamKafka"
SOURCE = "kafka"
TEXT = ("string", "binary")
COLUMNS = {
    "value": TEXT,
    "key": TEXT,
    "headers": ("array<struct<key:string,value:binary>>",),
    "partition": ("int",),
}
# The headers that java/StreamKafka adds.
HEADER = "rekindle."
OF_BATCH = ("region", "generation", "batch")
SENT = "a driver that dies in a batch has sent some of its rows, and the next one sends all"


@dataclass(frozen=True, slots=True)
class KafkaStream(NoFiles):
    """Sends batches to a topic."""

    target: Kafka

    def check(self, spark: SparkSession, region: RegionTarget, stores: Stores, last: int) -> None:
        refuse_no_connector(spark, f"{region.sink.place}: {region.sink.name} publishes to {self.target.shown}")

    def check_columns(self, region: RegionTarget, columns: Mapping[str, str]) -> None:
        refuse_columns(region.sink, f"publishes to {self.target.shown}", columns, COLUMNS)

    def delivery(self, doubts: tuple[str, ...]) -> RegionDelivery:
        if not doubts:
            return RegionDelivery(Delivery.AT_LEAST_ONCE, f"{SENT}; rk.read_kafka drops what was sent twice")
        told = f"{SENT}; doubles cannot be told, because it may have other rows then: {', '.join(doubts)}"
        return RegionDelivery(Delivery.AT_LEAST_ONCE, told)

    def written_by(
        self, writer: DataStreamWriter, region: RegionTarget, owner: int, look: Callable[[], None]
    ) -> DataStreamWriter:
        own = {**region.options, "generation": region.everywhere, "topic": self.target.topic}
        return writer.format(SINK).options(**{**self.target.client, **own})


def refuse_columns(step: Declared, what: str, columns: Mapping[str, str], known: Mapping[str, tuple[str, ...]]) -> None:
    """Refuse rows that are no records."""
    odd = [f"{name} {kind}" for name, kind in columns.items() if kind not in known.get(name, ())]
    if odd or "value" not in columns:
        fault = f"it does not take {', '.join(odd)}" if odd else "value is missing"
        raise GraphRefused(
            f"{step.place}: {step.name} {what}, which takes the columns value and key (string or binary), "
            f"{' and '.join([*known][2:])}; {fault}",
            'give it those: orders.selectExpr("id as key", "to_json(struct(*)) as value")',
        )


def refuse_no_connector(spark: SparkSession, what: str) -> None:
    if not stream_calls.has_source(spark, SOURCE):
        package = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}"
        raise GraphRefused(
            f"{what}, and this Spark has no Kafka connector",
            StartRemedy(to="start Spark with it", conf=(("spark.jars.packages", package),)),
        )


def read_kafka(spark: SparkSession, topic: str, brokers: str, options: Mapping[str, str]) -> DataFrame:
    """The records of a topic, each once as far as that can be told."""
    refuse_connect(spark)
    given = {name: value for name, value in options.items() if name.startswith("kafka.")}
    target = Kafka(topic=topic, brokers=brokers, options=tuple(given.items()))
    if "subscribe" in options or str(options.get("includeHeaders", "true")).lower() != "true":
        raise Refused("rk.read_kafka reads one topic with its headers", "leave out subscribe and includeHeaders")
    reader = spark.read.format(SOURCE).options(**{**options, **target.client})
    return without_doubles(reader.option("subscribe", topic).option("includeHeaders", "true").load())


def without_doubles(records: DataFrame) -> DataFrame:
    """Of records with their headers those that count."""
    columns = records.columns
    for name in (*OF_BATCH, "query", "partition", "row"):
        found = F.expr(f"element_at(filter(headers, one -> one.key = '{HEADER}{name}'), -1).value")
        records = records.withColumn(f"_{name}", found.cast("string"))
    users = F.expr(f"filter(headers, one -> not startswith(one.key, '{HEADER}'))")
    records = records.withColumn("_headers", users)
    is_ours = F.col("_row").isNotNull()
    same = [*(f"_{name}" for name in OF_BATCH), "key", "value", "_headers"]
    place = ["partition", "offset"]
    ours = records.where(is_ours)
    # Two tries of one task; then which of its equals in its query it is; then one for each such number.
    by_task = Window.partitionBy(*same, "_query", "_partition", "_row").orderBy(*place)
    by_query = Window.partitionBy(*same, "_query").orderBy(F.col("_partition").cast("int"), F.col("_row").cast("long"))
    by_number = Window.partitionBy(*same, "_number").orderBy(*place)
    ours = ours.withColumn("_try", F.row_number().over(by_task)).where("_try = 1")
    ours = ours.withColumn("_number", F.row_number().over(by_query))
    ours = ours.withColumn("_first", F.row_number().over(by_number)).where("_first = 1")
    return records.where(~is_ours).select(columns).union(ours.select(columns))
