"""Readers of a target while it is compacted: what each saw, and whether it was the rows of some first files, each once.

reader        knows entries and compactions, as `rk.read_newest` does, and opens what they name
resolved      follows `current` once, and reads the folder that it leads to
path          reads `current/*.parquet` with DuckDB, by its path: a file that is gone when it is opened is an error
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from rekindle.publish.stream_entries import batch_files
from rekindle.publish.target import PointerStore
from rekindle.storage.local_disk import LocalDisk

ROWS = 20


@dataclass(slots=True)
class ReaderFigures:
    """Of one reader. `shrunk` are reads that had fewer rows than one before."""

    reads: int = 0
    wrong: int = 0
    shrunk: int = 0
    errors: int = 0
    files: int = 0
    told: list[str] = field(default_factory=list)

    def saw(self, ids: list[int]) -> None:
        self.reads += 1
        files = len(ids) // ROWS
        if sorted(ids) != list(range(files * ROWS)):
            self.wrong += 1
            self.told.append(f"{len(ids)} rows, {len(set(ids))} of them different, up to {max(ids, default=-1)}")
        self.shrunk += files < self.files
        self.files = files


def by_entries(target: Path) -> list[int]:
    return _ids(target / one.directory / one.name for one in batch_files(LocalDisk(target)))


def by_store(store: PointerStore) -> list[int]:
    """As `by_entries`, of a target that is on no disk."""
    names = (f"{one.directory}/{one.name}" for one in batch_files(store))
    return [one for name in names for one in _of(store.get(name), name)]


def resolved(target: Path) -> list[int]:
    return _ids(sorted(Path(os.path.realpath(target / "current")).glob("*.parquet")))


def by_path(target: Path) -> list[int]:
    with duckdb.connect() as connection:
        found = connection.execute(f"select id from read_parquet('{target}/current/*.parquet')").fetchall()
    return [one for (one,) in found]


READERS: dict[str, Callable[[Path], list[int]]] = {"reader": by_entries, "resolved": resolved, "path": by_path}


def read_on(read: Callable[[Path], list[int]], target: Path, is_over: threading.Event, figures: ReaderFigures) -> None:
    """Until it is over. Before the first batch there is nothing to read."""
    while not is_over.is_set():
        if not any((target / "current").glob("*.parquet")):
            is_over.wait(0.1)
            continue
        try:
            figures.saw(read(target))
        except (OSError, duckdb.IOException):
            figures.errors += 1


def read_store(store: PointerStore, is_over: threading.Event, figures: ReaderFigures) -> None:
    """The same of a target that is on no disk."""
    while not is_over.wait(0.1):
        try:
            if found := by_store(store):
                figures.saw(found)
        except OSError:
            figures.errors += 1


def _of(body: bytes | None, name: str) -> list[int]:
    if body is None:
        raise FileNotFoundError(name)
    return list(pq.read_table(pa.BufferReader(body), columns=["id"]).column("id").to_pylist())


def _ids(files: Iterable[Path]) -> list[int]:
    return [one for path in files for one in pq.read_table(path, columns=["id"]).column("id").to_pylist()]
