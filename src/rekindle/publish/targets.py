"""The kinds of targets, one file for each. A new one is a file here and a file for the engine, with a row in this list
and one in the engine's (`engine/spark/publish/sinks.py`)."""

from __future__ import annotations

from rekindle.publish.delta import Delta as Delta
from rekindle.publish.delta import delta as delta
from rekindle.publish.directory import Directory as Directory
from rekindle.publish.directory import directory as directory
from rekindle.publish.each_batch import EachBatch as EachBatch
from rekindle.publish.each_batch import each_batch as each_batch
from rekindle.publish.each_partition import EachPartition as EachPartition
from rekindle.publish.each_partition import each_partition as each_partition
from rekindle.publish.files import Files as Files
from rekindle.publish.files import files as files
from rekindle.publish.iceberg import Iceberg as Iceberg
from rekindle.publish.iceberg import iceberg as iceberg
from rekindle.publish.kafka import Kafka as Kafka
from rekindle.publish.kafka import kafka as kafka
from rekindle.publish.log_table import LogTable
from rekindle.publish.replace import Replace as Replace
from rekindle.publish.replace import replace as replace
from rekindle.publish.table import Table as Table
from rekindle.publish.table import table as table

Target = Table | Directory | Files | Replace | EachPartition | Kafka | EachBatch | Delta | Iceberg


def has_pointers(target: Target) -> bool:
    """Whether a store decides what is published there, by a chain of pointers or a label; else the log of a table."""
    return not isinstance(target, LogTable)
