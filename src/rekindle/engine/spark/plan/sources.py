"""What a step reads from outside, pinned: equal pins mean that the same bytes are read.

- Files: path, size and modification time of each one that the plan asks for, from the listing that the scan itself was
  made with. A table in a catalog that Spark reads as files is pinned by them too.
- A table with versions (Iceberg and others that tell Spark): its name and version.
- Rows that stand in the plan (`VALUES`, `range`, a small pandas frame) belong to the plan's shape; nothing is read.
- Files that Spark may skip (`ignoreCorruptFiles`, `ignoreMissingFiles`): which rows there are is told by no listing.
- Everything else (JDBC, Kafka, Python data sources, RDDs, cached or checkpointed frames) cannot be pinned: it is
  indeterminate, and kept on first read.

One JVM call per plan, however many files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from rekindle.engine.spark.jvm import plan_calls

UNPINNED_NAMES = {
    "InMemoryRelation": "a cached frame",
    "LogicalRDD": "an RDD or rows given by the driver",
    "ExternalRDD": "an RDD",
    "JDBCRelation": "a JDBC table",
    "KafkaRelation": "a Kafka topic",
    "PythonTable": "a Python data source",
    "HiveTableRelation": "a Hive table that Spark does not read as files",
}


@dataclass(frozen=True, slots=True)
class SourcePin:
    """What a plan reads from outside. `digest` is of all that could be pinned, empty if nothing is read at all;
    `because` names what could not be."""

    is_pinned: bool
    digest: str = ""
    files: int = 0
    bytes: int = 0
    because: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.is_pinned:
            return f"unpinned: {', '.join(self.because)} {self.digest}".rstrip()
        return f"{self.digest} {self.files} files {self.bytes} bytes" if self.digest else ""


def pin(frame: DataFrame) -> SourcePin:
    """The sources of a frame, those of the frames it is made from included. Kept results of ours are no sources."""
    lines = [line.split("\t") for line in plan_calls.source_pins(frame).splitlines()]
    loose = sorted({UNPINNED_NAMES.get(line[1], line[1]) for line in lines if line[0] == "unpinned"})
    pinned = [line for line in lines if line[0] != "unpinned"]
    files = [line for line in pinned if line[0] == "files"]
    text = "\n".join("\t".join(line) for line in sorted(pinned))
    return SourcePin(
        is_pinned=not loose,
        digest=hashlib.sha256(text.encode()).hexdigest()[:16] if pinned else "",
        files=sum(int(line[2]) for line in files),
        bytes=sum(int(line[3]) for line in files),
        because=tuple(loose),
    )


def places(frame: DataFrame) -> list[str]:
    """The files and directories that a frame was told to read. Kept results of ours are none."""
    return plan_calls.source_places(frame)


def settings(spark: SparkSession, names: Iterable[str], prefixes: Iterable[str] = ()) -> list[tuple[str, str, str]]:
    """Name, value and default of these settings, and of all below the prefixes that somebody set. One JVM call."""
    rows = [line.split("\t") for line in plan_calls.settings(spark, names, prefixes)]
    return [(name, value, usual) for name, value, usual in rows]
