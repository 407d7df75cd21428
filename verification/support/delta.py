"""Delta on this machine: the settings of a session with it, and a reader of tables that is not Delta."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from build_jar import JAR
from parts import delta_folder
from rekindle.engine.spark.jvm import table_calls
from rekindle.local_cluster.cluster import LIGHT

Rows = Counter[tuple[Any, ...]]


def delta_settings(*more: str) -> dict[str, str]:
    """Delta, our classes and `more` are on the class path of the driver, which is the only process."""
    jars = [*map(str, sorted(delta_folder().glob("*.jar"))), table_calls.delta_jar(), str(JAR), *more]
    return {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.retentionDurationCheck.enabled": "false",
        "spark.databricks.delta.snapshotPartitions": "1",
        # VACUUM lists in as many tasks.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
        "spark.driver.extraClassPath": os.pathsep.join(jars),
        "spark.driver.extraJavaOptions": LIGHT,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "3",
    }


@dataclass
class TableSeen:
    """A table without checkpoints alone, deletion vectors or column mapping, as its log says that it is."""

    version: int = -1
    files: dict[str, int] = field(default_factory=dict)
    transactions: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, table: Path) -> TableSeen:
        """All commits played one after the other, by the text of the protocol."""
        seen = cls()
        for commit in sorted((table / "_delta_log").glob("*.json")):
            seen.version += 1
            assert int(commit.stem) == seen.version, f"{commit} is not the commit after {seen.version - 1}"
            for line in commit.read_text().splitlines():
                seen._play(json.loads(line))
        return seen

    def _play(self, action: dict[str, Any]) -> None:
        match action:
            case {"add": {"path": path, "size": size}}:
                self.files[path] = size
            case {"remove": {"path": path}}:
                del self.files[path]
            case {"txn": {"appId": of, "version": number}}:
                self.transactions[of] = number

    def rows(self, table: Path) -> Rows:
        """Each file is read whole; one that is missing, or has another length, is an error."""
        found: Rows = Counter()
        for name, size in self.files.items():
            assert (table / name).stat().st_size == size, f"{name} has another length"
            columns = pq.read_table(table / name).to_pydict()
            found.update(zip(*columns.values(), strict=True))
        return found
