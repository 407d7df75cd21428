"""The shop with tables of Delta or Iceberg for its gold: the same pipeline with other targets, and readers that are not
Spark: delta-rs, PyIceberg, and DuckDB over what these read.

`fact` and `fact_table` are made before the first night, as such tables usually are: partitioned by day, which files of
one day fit as they are, and by day and country, for which rows are written again. The others are made by their first
night. What a new column asks of a table is `ALTER TABLE`, on the day on which it begins.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable
from pyiceberg.table import StaticTable
from pyspark.sql import SparkSession

from nightly.gold import Mark
from nightly.lake import NEW_COLUMN
from support.delta import delta_settings
from support.iceberg import CATALOG, iceberg_jars_here, iceberg_settings

DATABASE = f"{CATALOG}.gold"
FACT = (
    "order_id BIGINT, customer_id BIGINT, product STRING, category STRING, cents BIGINT, score BIGINT, visits BIGINT, "
    "country STRING, day STRING"
)
HISTORY = "customer_id BIGINT, name STRING, country STRING, valid_from STRING, valid_to STRING"
# Each target with the options that it has in `pipeline.py` as files, and as a table.
TARGETS = {
    "fact": (
        'rk.files(f"{GOLD}/fact", "partition", hive_partition_by=["day", "country"], partition={"day": "{day}"})',
        'partition={"day": "{day}"}',
    ),
    "fact_table": ('rk.table("fact", mode="append", location=f"{GOLD}/fact_table")', 'mode="append"'),
    "totals": ('rk.files(f"{GOLD}/totals", mode="append")', 'mode="append"'),
    "history": ('rk.files(f"{GOLD}/history")', ""),
    "quarantined": (
        'rk.files(f"{GOLD}/quarantined", "partition", hive_partition_by="day", partition={"day": "{day}"})',
        'partition={"day": "{day}"}',
    ),
}
BEFORE = """    try:
        return rk.read_newest(spark, f"{GOLD}/history")
    except rk.Refused:  # The first night: nothing is published.
        return spark.createDataFrame([], HISTORY)
"""


@dataclass(frozen=True, slots=True)
class LakeTables(ABC):
    """The tables of one format below a folder."""

    root: Path

    @property
    @abstractmethod
    def format(self) -> str: ...

    @property
    @abstractmethod
    def settings(self) -> Mapping[str, str]:
        """With which Spark reads and writes them."""

    @abstractmethod
    def name(self, table: str) -> str:
        """As SQL names it."""

    @abstractmethod
    def target(self, table: str, options: str) -> str:
        """As the pipeline declares it."""

    @property
    @abstractmethod
    def reader(self) -> str:
        """Who reads them without Spark."""

    @abstractmethod
    def arrow(self, table: str) -> pa.Table:
        """The rows of a table, by that reader."""

    @abstractmethod
    def by_day(self, table: str) -> dict[str, dict[str, Mark]]:
        """The files of each day, with what tells whether they are the same."""

    @property
    def edits(self) -> tuple[tuple[str, str], ...]:
        """What makes a pipeline over tables of the one over files."""
        history = f"    return spark.table({self.name('history')!r})\n"
        return (
            (BEFORE, history),
            *((files, self.target(table, options)) for table, (files, options) in TARGETS.items()),
        )

    def begin(self, spark: SparkSession) -> None:
        """What is there before the first night."""
        for table, columns, partitions in (
            ("fact", FACT, "day"),
            ("fact_table", FACT, "day, country"),
            ("history", HISTORY, ""),
        ):
            by = f"PARTITIONED BY ({partitions})" if partitions else ""
            spark.sql(f"CREATE TABLE {self.name(table)} ({columns}) USING {self.format} {by}")

    def add_column(self, spark: SparkSession) -> None:
        for table in ("fact", "fact_table"):
            spark.sql(f"ALTER TABLE {self.name(table)} ADD COLUMN {NEW_COLUMN} STRING AFTER score")

    def rows(self, table: str) -> list[dict[str, Any]]:
        return list(self.arrow(table).to_pylist())

    def rows_by_duckdb(self, table: str) -> list[dict[str, Any]]:
        with duckdb.connect() as connection:
            found = connection.from_arrow(self.arrow(table))
            return [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]

    def rows_by_spark(self, spark: SparkSession, table: str) -> list[dict[str, Any]]:
        return [row.asDict() for row in spark.table(self.name(table)).collect()]


@dataclass(frozen=True, slots=True)
class DeltaTables(LakeTables):
    """By their paths."""

    @property
    def format(self) -> str:
        return "delta"

    @property
    def settings(self) -> Mapping[str, str]:
        return delta_settings()

    def name(self, table: str) -> str:
        return f"delta.`{self.root}/{table}`"

    def target(self, table: str, options: str) -> str:
        return f'rk.delta(f"{{GOLD}}/{table}", {options})'

    @property
    def reader(self) -> str:
        return "delta-rs"

    def arrow(self, table: str) -> pa.Table:
        return DeltaTable(str(self.root / table)).to_pyarrow_table()

    def by_day(self, table: str) -> dict[str, dict[str, Mark]]:
        found: dict[str, dict[str, Mark]] = {}
        if not DeltaTable.is_deltatable(str(self.root / table)):
            return found
        for file in pa.table(DeltaTable(str(self.root / table)).get_add_actions(flatten=True)).to_pylist():
            known = (self.root / table / file["path"]).stat()
            found.setdefault(file["partition.day"], {})[file["path"]] = (known.st_ino, known.st_mtime_ns)
        return found


@dataclass(frozen=True, slots=True)
class IcebergTables(LakeTables):
    """In a catalog of files."""

    @property
    def format(self) -> str:
        return "iceberg"

    @property
    def settings(self) -> Mapping[str, str]:
        return delta_settings(*iceberg_jars_here()) | iceberg_settings(self.root)

    def name(self, table: str) -> str:
        return f"{DATABASE}.{table}"

    def target(self, table: str, options: str) -> str:
        return f"rk.iceberg({self.name(table)!r}, {options})"

    def begin(self, spark: SparkSession) -> None:
        spark.sql(f"CREATE DATABASE {DATABASE}")
        LakeTables.begin(self, spark)

    @property
    def reader(self) -> str:
        return "PyIceberg"

    def arrow(self, table: str) -> pa.Table:
        return self._table(table).scan().to_arrow()

    def by_day(self, table: str) -> dict[str, dict[str, Mark]]:
        found: dict[str, dict[str, Mark]] = {}
        for file in self._table(table).inspect.files().to_pylist():
            known = Path(file["file_path"].removeprefix("file:")).stat()
            found.setdefault(file["partition"]["day"], {})[file["file_path"]] = (known.st_ino, known.st_mtime_ns)
        return found

    def _table(self, table: str) -> StaticTable:
        folder = self.root / "gold" / table / "metadata"
        newest = (folder / "version-hint.text").read_text().strip()
        return StaticTable.from_metadata(str(folder / f"v{newest}.metadata.json"))


FORMATS: Mapping[str, type[LakeTables]] = {"delta": DeltaTables, "iceberg": IcebergTables}
