"""What everybody reads of the gold, and what bare Spark wrote: rows as text, sorted, with the names of columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import rekindle as rk

# By path below the gold, and whether the values of directories are columns.
HIVE, FLAT, BY_DAY = ("fact", "quarantined"), ("totals", "history"), ("report",)
TABLE = "fact_table"
Row = dict[str, Any]
Rows = list[tuple[str, ...]]


def rows_of(found: Iterable[Mapping[str, Any]]) -> Rows:
    """A column without a value counts as no column: readers without `mergeSchema` see those of one file."""
    return sorted(tuple(sorted(f"{k}={v}" for k, v in row.items() if v is not None)) for row in found)


class Readers:
    """Reads with plain `spark.read`, pyarrow, pandas and DuckDB, and with `rk.read_newest`."""

    def __init__(self, spark: SparkSession, bare: Path, gold: Path) -> None:
        self._spark, self._bare, self._gold = spark, bare, gold

    def differing(self) -> list[str]:
        """Which reader sees which target otherwise than bare Spark wrote it."""
        found = []
        for name in (*HIVE, *FLAT, *BY_DAY, *([TABLE] if (self._gold / TABLE).exists() else [])):
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
        gold = self._gold / name
        if name == TABLE:
            # The catalog of a session without Hive ends with it; what the table's location holds does not.
            return {"read_newest": lambda: self._rows(rk.read_newest(self._spark, str(gold)))}
        places = {"": gold / "current"}
        if name in BY_DAY:
            places = {day.name.removeprefix("day="): _whole(day) for day in sorted(gold.glob("day=*"))}
        readers: dict[str, Callable[[], list[Row]]] = {
            reader: partial(_below, places, read) for reader, read in self._by_path().items()
        }
        if name not in BY_DAY:
            readers["read_newest"] = lambda: self._rows(rk.read_newest(self._spark, str(gold)))
        return readers

    def _by_path(self) -> dict[str, Callable[[Path], list[Row]]]:
        return {
            "spark.read": lambda path: self._rows(self._spark.read.option("mergeSchema", True).parquet(f"file:{path}")),
            "pyarrow": by_pyarrow,
            "pandas": by_pandas,
            "duckdb": by_duckdb,
        }

    def _rows(self, frame: DataFrame) -> list[Row]:
        return [row.asDict() for row in frame.collect()]


def _whole(folder: Path) -> Path:
    """The newest version of files, or a directory as it is."""
    return folder / "current" if (folder / "current").exists() else folder


def _below(places: Mapping[str, Path], read: Callable[[Path], list[Row]]) -> list[Row]:
    """What lies in several places, each with its day where there is one for each."""
    return [row | ({"day": day} if day else {}) for day, path in places.items() for row in read(path)]


def by_pyarrow(path: Path) -> list[Row]:
    return list(_table(path).to_pylist())


def by_pandas(path: Path) -> list[Row]:
    """Whole numbers stay whole beside missing values."""
    found = _table(path).to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)
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


def files_by_day(gold: Path) -> dict[str, dict[str, tuple[int, int]]]:
    """For each day the files of the fact, with inode and time of the last change."""
    found: dict[str, dict[str, tuple[int, int]]] = {}
    for path in (gold / "fact" / "current").glob("day=*/*/*.parquet"):
        known = path.stat()
        found.setdefault(path.parts[-3].removeprefix("day="), {})[path.name] = (known.st_ino, known.st_mtime_ns)
    return found
