"""What everybody reads of the gold, and what bare Spark wrote: rows as text, sorted, with the names of columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import rekindle as rk
from nightly.gold import Gold
from nightly.lake_tables import TARGETS, LakeTables

# By path below the gold, and whether the values of directories are columns.
HIVE, FLAT, BY_DAY = ("fact", "quarantined"), ("totals", "history"), ("report",)
TABLE = "fact_table"
Row = dict[str, Any]
Rows = list[tuple[str, ...]]
Read = Callable[[str], list[Row]]


def rows_of(found: Iterable[Mapping[str, Any]]) -> Rows:
    """A column without a value counts as no column: readers without `mergeSchema` see those of one file."""
    return sorted(tuple(sorted(f"{k}={v}" for k, v in row.items() if v is not None)) for row in found)


class Readers:
    """Reads with plain `spark.read`, pyarrow, pandas and DuckDB, and with `rk.read_newest`; tables of Delta and Iceberg
    with Spark, DuckDB, and a reader of that format."""

    def __init__(self, spark: SparkSession, bare: Path, gold: Gold, tables: LakeTables | None = None) -> None:
        self._spark, self._bare, self._gold, self._tables = spark, bare, gold, tables

    def differing(self) -> list[str]:
        """Which reader sees which target otherwise than bare Spark wrote it."""
        found = []
        for name in (*HIVE, *FLAT, *BY_DAY, *([TABLE] if self._gold.has(TABLE) else [])):
            bare = self.bare(name)
            for reader, read in self._readers(name).items():
                seen = rows_of(read())
                if seen != bare:
                    only = [len(set(one) - set(other)) for one, other in ((seen, bare), (bare, seen))]
                    found.append(
                        f"{name} by {reader}: {len(seen)} rows, bare Spark has {len(bare)}; only here {only[0]}, only "
                        f"there {only[1]}, such as {sorted(set(seen) ^ set(bare))[:2]}"
                    )
        return found

    def bare(self, name: str) -> Rows:
        """What the plain script wrote."""
        folder = self._bare / ("fact" if name == TABLE else name)
        if name == "history":
            folder = max(folder.glob("v*"))
        if not any(folder.rglob("*.parquet")):
            return []
        return rows_of(self._rows(self._spark.read.option("mergeSchema", True).parquet(f"file:{folder}")))

    def _readers(self, name: str) -> dict[str, Callable[[], list[Row]]]:
        if self._tables is not None and name in TARGETS:
            return {
                "Spark": partial(self._tables.rows_by_spark, self._spark, name),
                self._tables.reader: partial(self._tables.rows, name),
                "duckdb": partial(self._tables.rows_by_duckdb, name),
            }
        if name == TABLE:
            # The catalog of a session without Hive ends with it; what the table's location holds does not.
            return {"read_newest": lambda: self._newest(name)}
        targets = {"": name}
        if name in BY_DAY:
            targets = {day.removeprefix("day="): f"{name}/{day}" for day in self._gold.folders(name)}
        by_target: dict[str, Read] = self._by_path() if self._gold.server is None else self._by_list()
        if all(self._gold.is_versioned(target) for target in targets.values()):
            by_target["read_newest"] = self._newest
        return {reader: partial(_below, targets, read) for reader, read in by_target.items()}

    def _newest(self, name: str) -> list[Row]:
        return self._rows(rk.read_newest(self._spark, f"{self._gold.root}/{name}", self._gold.storage))

    def _by_path(self) -> dict[str, Read]:
        """Readers of a disk, who know no pointers."""

        def whole(name: str) -> Path:
            """The newest version of files, or a directory as it is."""
            folder = Path(self._gold.root, name)
            return folder / "current" if (folder / "current").exists() else folder

        return {
            "spark.read": lambda name: self._rows(
                self._spark.read.option("mergeSchema", True).parquet(f"file:{whole(name)}")
            ),
            "pyarrow": lambda name: list(_table(whole(name)).to_pylist()),
            "pandas": lambda name: _by_pandas(_table(whole(name))),
            "duckdb": lambda name: by_duckdb(whole(name)),
        }

    def _by_list(self) -> dict[str, Read]:
        """Readers of an object store without `rk.read_newest`: they take the files that the newest pointer names, or a
        directory when it has its `_SUCCESS`."""
        return {
            "spark.read": self._spark_by_list,
            "pyarrow": lambda name: list(self._listed(name).to_pylist()),
            "pandas": lambda name: _by_pandas(self._listed(name)),
            "duckdb": self._duckdb_by_list,
        }

    def _files(self, name: str) -> list[tuple[str, str]]:
        if self._gold.is_versioned(name):
            return list(self._gold.named(name))
        store = self._gold.store(name)
        assert store.get("_SUCCESS") is not None, f"{name} is complete"
        return [(self._gold.url(name), file) for file in store.list_after("") if file.endswith(".parquet")]

    def _spark_by_list(self, name: str) -> list[Row]:
        rows: list[Row] = []
        for folder, files in groupby(sorted(self._files(name)), key=lambda one: one[0]):
            read = self._spark.read.option("mergeSchema", True).option("basePath", folder)
            rows += self._rows(read.parquet(*(f"{folder}/{file}" for _, file in files)))
        return rows

    def _listed(self, name: str) -> pa.Table:
        paths = [self._gold.path(f"{folder}/{file}") for folder, file in self._files(name)]
        if not paths:
            return pa.table({})
        filesystem = self._gold.filesystem
        found = ds.dataset(paths, filesystem=filesystem, partitioning="hive", format="parquet")
        schemas = (pq.read_schema(path, filesystem=filesystem) for path in paths)
        schema = pa.unify_schemas([found.schema, *schemas])
        return ds.dataset(paths, schema, "parquet", filesystem, partitioning="hive").to_table()

    def _duckdb_by_list(self, name: str) -> list[Row]:
        table = self._listed(name)
        if not table.num_columns:
            return []
        with duckdb.connect() as connection:
            found = connection.from_arrow(table)
            return [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]

    def _rows(self, frame: DataFrame) -> list[Row]:
        return [row.asDict() for row in frame.collect()]


def _below(targets: Mapping[str, str], read: Read) -> list[Row]:
    """What lies in several targets, each with its day where there is one for each."""
    return [row | ({"day": day} if day else {}) for day, name in targets.items() for row in read(name)]


def _by_pandas(table: pa.Table) -> list[Row]:
    """Whole numbers stay whole beside missing values."""
    found = table.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)
    return list(found.astype(object).where(found.notna(), None).to_dict("records"))


def _table(path: Path) -> pa.Table:
    """With the columns of all files, as somebody asks for who knows that one was added."""
    found = ds.dataset(path, partitioning="hive", exclude_invalid_files=True)
    schema = pa.unify_schemas([found.schema, *(pq.read_schema(file) for file in found.files)])
    return ds.dataset(path, schema=schema, partitioning="hive", exclude_invalid_files=True).to_table()


def by_duckdb(path: Path) -> list[Row]:
    with duckdb.connect() as connection:
        options = "hive_partitioning = true, union_by_name = true, hive_types_autocast = false"
        found = connection.sql(f"select * from read_parquet('{path}/**/*.parquet', {options})")
        return [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]
