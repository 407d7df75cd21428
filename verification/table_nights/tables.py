"""The tables of the nights, by format: how they are read and changed, and what people do to keep them in order."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from pyiceberg.table import StaticTable
from pyspark.sql import DataFrame, SparkSession

from rekindle.publish import targets
from rekindle.publish.targets import Target
from support.iceberg import CATALOG

COLUMNS = {"orders": "id BIGINT, amount BIGINT, day INT", "gold": "id BIGINT, price BIGINT, day INT"}
DATABASE = f"{CATALOG}.nights"
# Snapshots that stay when old ones are expired: a run that fails may have to go back further.
SNAPSHOTS_KEPT = 3


@dataclass(frozen=True, slots=True)
class NightTables(ABC):
    """Two tables below a folder: orders, which everybody changes, and gold, which the pipeline publishes."""

    folder: Path

    @abstractmethod
    def name(self, table: str) -> str: ...

    @abstractmethod
    def target(self, table: str, partition: Mapping[str, str]) -> Target: ...

    @abstractmethod
    def rows(self, table: str) -> list[dict[str, Any]]:
        """By a reader that is not Spark."""

    @abstractmethod
    def tidy(self, spark: SparkSession, table: str, chance: random.Random) -> str:
        """One kind of maintenance that changes no row; its name."""

    @property
    @abstractmethod
    def format(self) -> str: ...

    @property
    @abstractmethod
    def root(self) -> Path:
        """Where both lie."""

    def begin(self, spark: SparkSession) -> None:
        for table, columns in COLUMNS.items():
            spark.sql(f"CREATE TABLE {self.name(table)} ({columns}) USING {self.format} PARTITIONED BY (day)")

    def read(self, spark: SparkSession, table: str) -> DataFrame:
        return spark.table(self.name(table))

    def insert(self, spark: SparkSession, day: int, rows: int) -> None:
        spark.sql(f"INSERT INTO {self.name('orders')} SELECT id, id * 10, {day} FROM range({rows})")

    def correct(self, spark: SparkSession, day: int) -> None:
        """Orders of a day are changed as upstream systems do it."""
        name = self.name("orders")
        spark.sql(f"UPDATE {name} SET amount = amount + 1 WHERE day = {day} AND id % 3 = 0")
        spark.sql(f"DELETE FROM {name} WHERE day = {day} AND id = 5")
        spark.sql(
            f"MERGE INTO {name} t USING (SELECT id, id AS amount, {day} AS day FROM range(10, 14)) s "
            "ON t.id = s.id AND t.day = s.day WHEN MATCHED THEN UPDATE SET amount = s.amount + 7 "
            "WHEN NOT MATCHED THEN INSERT *"
        )

    def maintain(self, spark: SparkSession, day: int, chance: random.Random) -> str:
        """What somebody does to a table, drawn; what it was."""
        if chance.random() < 0.3:
            spark.sql(f"DELETE FROM {self.name('orders')} WHERE day < {day - 40}")
            return "deleted old orders"
        table = chance.choice(tuple(COLUMNS))
        return f"{self.tidy(spark, table, chance)} of {table}"

    def files(self) -> frozenset[Path]:
        return frozenset(path for path in self.root.rglob("*") if path.is_file())


@dataclass(frozen=True, slots=True)
class DeltaNights(NightTables):
    """By their paths."""

    @property
    def format(self) -> str:
        return "delta"

    @property
    def root(self) -> Path:
        return self.folder / "tables"

    def name(self, table: str) -> str:
        return f"delta.`{self.root}/{table}`"

    def target(self, table: str, partition: Mapping[str, str]) -> Target:
        return targets.delta(f"{self.root}/{table}", partition=partition)

    def rows(self, table: str) -> list[dict[str, Any]]:
        return list(DeltaTable(f"{self.root}/{table}").to_pyarrow_table().to_pylist())

    def tidy(self, spark: SparkSession, table: str, chance: random.Random) -> str:
        if chance.random() < 0.5:
            spark.sql(f"OPTIMIZE {self.name(table)}")
            return "OPTIMIZE"
        spark.sql(f"VACUUM {self.name(table)} RETAIN 0 HOURS")
        return "VACUUM"


@dataclass(frozen=True, slots=True)
class IcebergNights(NightTables):
    """In a catalog of files."""

    @property
    def format(self) -> str:
        return "iceberg"

    @property
    def root(self) -> Path:
        return self.folder.parent / CATALOG / "nights"

    def begin(self, spark: SparkSession) -> None:
        spark.sql(f"CREATE DATABASE {DATABASE}")
        NightTables.begin(self, spark)

    def name(self, table: str) -> str:
        return f"{DATABASE}.{table}"

    def target(self, table: str, partition: Mapping[str, str]) -> Target:
        return targets.iceberg(self.name(table), partition=partition)

    def rows(self, table: str) -> list[dict[str, Any]]:
        folder = self.root / table / "metadata"
        newest = (folder / "version-hint.text").read_text().strip()
        return list(StaticTable.from_metadata(str(folder / f"v{newest}.metadata.json")).scan().to_arrow().to_pylist())

    def tidy(self, spark: SparkSession, table: str, chance: random.Random) -> str:
        name, what = self.name(table), chance.choice(("rewrite_data_files", "expire_snapshots", "remove_orphan_files"))
        more = {
            "rewrite_data_files": ", options => map('rewrite-all', 'true')",
            "expire_snapshots": f", older_than => now(), retain_last => {SNAPSHOTS_KEPT}",
            "remove_orphan_files": "",
        }[what]
        spark.sql(f"CALL {CATALOG}.system.{what}(table => '{name}'{more})").collect()
        return what


TABLES: Mapping[str, type[NightTables]] = {"delta": DeltaNights, "iceberg": IcebergNights}
