"""The result of a step of a stream, for other regions of the same stream: a log of batches below the stream's files.

java/StreamFiles writes it as it writes the files of a target, one entry for each batch, which is the same for all
readers and for ever. java/StreamSegments reads it. The rows of a caching result are files; those of a memory result are
blocks on executors (java/StreamBlocks), which vanish, and are made again. Where the user named a topic, rows are its
records (java/TopicBatches): the entry of a batch says which of them count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter
from pyspark.sql.types import StructType

from rekindle.engine.adapter import ResultFiles, ResultRecords, Stores
from rekindle.engine.spark.jvm import stream_calls
from rekindle.engine.spark.jvm.plan_calls import quoted
from rekindle.engine.spark.jvm.stream_calls import ResultPlace
from rekindle.engine.spark.publish.stream_files import SINK, frame_of_files
from rekindle.engine.spark.publish.stream_kafka import COLUMNS, refuse_columns, refuse_no_connector
from rekindle.engine.spark.publish.stream_target import NoFiles, RegionDelivery, RegionTarget
from rekindle.engine.spark.session import attach, refuse_connect
from rekindle.errors import GraphRefused, Refused
from rekindle.pipeline.declared import Declared
from rekindle.publish.kafka import Kafka
from rekindle.publish.stream_entries import RESULTS, has_entry, put_begun
from rekindle.remedies import TextRemedy, new_run
from rekindle.streams.stream_spec import Delivery

SOURCE = "rekindle.spark.StreamSegments"
# What a record has that is read as it was sent.
RECORD = {name: COLUMNS[name] for name in ("value", "key", "headers")}


@dataclass(frozen=True, slots=True)
class ResultStream(NoFiles):
    """Adds batches to a result at `path`. Its readers have numbers of batches as their positions, so it is never
    compacted. With `memory_bytes` it is in memory, up to so many."""

    path: str
    memory_bytes: int = 0
    topic: Kafka | None = None

    def check(self, spark: SparkSession, region: RegionTarget, stores: Stores, last: int) -> None:
        """Refuse a result that has lost what the checkpoint says is there."""
        if self.topic is not None:
            refuse_no_connector(spark, f"{region.sink.place}: the result of {region.sink.name} is {self.topic.shown}")
        if last >= 0 and not has_entry(stores(self.path), region.sink.name, region.generation, last):
            raise Refused(
                f"the checkpoint of {region.sink.name} has committed batch {last}, and its result lacks it: files of "
                "the stream were removed",
                (TextRemedy("restore them"), new_run("or start a new stream, which reads from the beginning")),
            )

    def check_columns(self, region: RegionTarget, columns: Mapping[str, str]) -> None:
        """Its files take every column; a record has its own."""
        if self.topic is not None:
            refuse_columns(region.sink, f"has its result in {self.topic.shown}", columns, RECORD)

    def delivery(self, doubts: tuple[str, ...]) -> RegionDelivery:
        return RegionDelivery(Delivery.EXACTLY_ONCE)

    def may_have(self, region: RegionTarget, stores: Stores, batch: int) -> bool:
        return has_entry(stores(self.path), region.sink.name, region.generation, batch)

    def begin(self, region: RegionTarget, stores: Stores, offsets: Sequence[bytes]) -> None:
        put_begun(stores(self.path), region.sink.name, region.generation, offsets)

    def written_by(
        self, writer: DataStreamWriter, region: RegionTarget, owner: int, look: Callable[[], None]
    ) -> DataStreamWriter:
        writer = writer.format(SINK).options(**region.options, path=self.path)
        if self.topic is not None:
            return writer.options(**self.topic.client, topic=self.topic.topic)
        return writer.option("memory", self.memory_bytes) if self.memory_bytes else writer


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultReader:
    """A source function: the result of a step as a stream."""

    step: Declared
    path: str
    generation: str
    schema: StructType

    def __call__(self, spark: SparkSession) -> DataFrame:
        reader = spark.readStream.format(SOURCE).schema(self.schema).options(**client_of(self.step))
        return reader.options(path=self.path, region=self.step.name, generation=self.generation).load()


def read_result(
    spark: SparkSession, found: Sequence[ResultFiles | ResultRecords], brokers: str, options: Mapping[str, str]
) -> DataFrame:
    """Batches of the result of a step: those of its shards, one after the other."""
    refuse_connect(spark)
    frames = (
        frame_of_files(spark, one.base, one.files)
        if isinstance(one, ResultFiles)
        else _records(spark, one, brokers, options)
        for one in found
    )
    return reduce(DataFrame.unionByName, frames)


def _records(spark: SparkSession, found: ResultRecords, brokers: str, options: Mapping[str, str]) -> DataFrame:
    """Refuses batches of which the topic no longer has all records."""
    attach(spark)
    told = f"the rows of {found.region} are records of the topic {found.topic}"
    if not brokers:
        raise Refused(f"{told}, and nobody said which brokers have it", 'say brokers="host:9092" to rk.read_result')
    refuse_no_connector(spark, told)
    client = Kafka(topic=found.topic, brokers=brokers, options=tuple(sorted(options.items()))).client
    result = ResultPlace(found.base, found.region, found.generation, client)
    lost = stream_calls.lost_batches(spark, result, found.after, found.last)
    if lost:
        raise Refused(
            f"{told}, which no longer has those of batch {lost[0]}",
            "say a later batch for after, and let the topic keep its records longer",
        )
    columns = ", ".join(f"{quoted(name)} {kind}" for name, kind in found.columns.items())
    schema = spark.createDataFrame([], columns).schema.json()
    return stream_calls.result_rows(spark, result, schema, found.after, found.last)


def topic_of(step: Declared) -> Kafka | None:
    """The topic that has the result of a step, where the user named one."""
    if step.topic is None or isinstance(step.topic, Kafka):
        return step.topic
    raise GraphRefused(
        f"{step.place}: {step.name} has its result in {step.topic.shown}, and no region can read it from there",
        'say result="caching", which is files, or result=rk.kafka(topic, brokers)',
    )


def client_of(step: Declared) -> dict[str, str]:
    """What Spark is told of the brokers that have the result of a step; nothing where it is in no topic."""
    topic = topic_of(step)
    return {} if topic is None else topic.client


def result_path(root: str, step: str) -> str:
    """Where the result of a step lies, below the directory of its stream."""
    return f"{root}/{RESULTS}/{step}"
