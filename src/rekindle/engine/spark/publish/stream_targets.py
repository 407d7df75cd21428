"""The targets that take streams, each with who writes into it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rekindle.engine.spark.publish.stream_delta import DeltaStream
from rekindle.engine.spark.publish.stream_each_batch import EachBatchStream
from rekindle.engine.spark.publish.stream_files import FilesStream
from rekindle.engine.spark.publish.stream_iceberg import IcebergStream
from rekindle.engine.spark.publish.stream_kafka import KafkaStream
from rekindle.engine.spark.publish.stream_table import TableStream
from rekindle.engine.spark.publish.stream_target import StreamTarget
from rekindle.errors import GraphRefused
from rekindle.pipeline.declared import Declared
from rekindle.publish.targets import Delta, EachBatch, Files, Iceberg, Kafka, Table

STREAMS: Mapping[type, Callable[[Any], StreamTarget]] = {
    Files: FilesStream,
    Kafka: KafkaStream,
    EachBatch: EachBatchStream,
    Delta: DeltaStream,
    Iceberg: IcebergStream,
    Table: TableStream,
}


def stream_target_of(sink: Declared) -> StreamTarget:
    """Who writes the batches of a sink. Refuses a target that takes no stream."""
    kind = next((kind for kind in type(sink.target).__mro__ if kind in STREAMS), None)
    if kind is None:
        raise GraphRefused(
            f"{sink.place}: {sink.name} publishes a stream, and {sink.shown_target} takes none",
            'use rk.files("…"), rk.table("…"), rk.delta("…"), rk.iceberg("…"), rk.kafka("topic", "host:9092") or '
            "rk.each_batch(…)",
        )
    return STREAMS[kind](sink.target)
