"""Who reads a target while its publishers die, and what each is promised.

A reader answers with rows, or with nothing where nothing is published. Readers without a promise are only watched.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow.fs import FileSelector, FileSystem, LocalFileSystem, S3FileSystem
from pyspark.sql import SparkSession

from killed_publications.modes import COLUMNS, MODES, Rows, Seen, name_of
from rekindle.engine.spark.jvm import file_calls
from rekindle.engine.spark.publish.files import read_newest
from rekindle.errors import Refused
from rekindle.publish.pointers import newest
from rekindle.storage.schemes import is_local, plain_path
from rekindle.storage.store import Store
from rekindle.storage.stores import open_target
from support.s3 import REGION, S3Server

Read = Callable[[str], Seen]
# Readers in a loop leave the machine to the publishers.
PAUSE_S = 0.015
OLD, NEW, OTHER, ERROR, BACK = "old", "new", "other", "error", "back"


@dataclass(frozen=True, slots=True)
class Reader:
    """`is_promised` if it must see the old or the new rows after every death. While a publication is made it may also
    get an error (`has_errors`), or other rows (`has_mixtures`). `follows` if it reads what follows the chain of
    pointers: a publisher that was frozen before it brought that to its own version does so late, and looks again; one
    that dies in between leaves it there until the next publication."""

    name: str
    read: Read
    is_promised: bool = True
    has_errors: bool = False
    has_mixtures: bool = False
    follows: bool = False


@dataclass(slots=True)
class Place:
    """Where results and targets lie; `server` is None on a disk."""

    name: str
    root: str
    server: S3Server | None = None
    filesystem: FileSystem = field(init=False)

    def __post_init__(self) -> None:
        self.filesystem = LocalFileSystem()
        if self.server is not None:
            self.filesystem = S3FileSystem(
                endpoint_override=self.server.endpoint.removeprefix("http://"),
                scheme="http",
                region=REGION,
                access_key=self.server.access_key,
                secret_key=self.server.secret_key,
            )

    @property
    def settings(self) -> dict[str, str]:
        return self.server.store_settings if self.server is not None else {}

    def open(self, base: str) -> Store:
        return open_target(base, self.settings)

    def path(self, url: str) -> str:
        """As pyarrow names it."""
        return f"/{plain_path(url).strip('/')}" if is_local(url) else url.partition("://")[2]

    def below(self, url: str, format: str = "parquet") -> Seen:
        """The rows of a directory, as any reader of such files sees them; None if it is not there, or empty."""
        if self.server is None and not Path(self.path(url)).exists():
            return None
        try:
            found = ds.dataset(self.path(url), filesystem=self.filesystem, partitioning="hive", format=format)
        except FileNotFoundError:
            if self.server is not None:
                return None
            raise
        return rows_of(found.to_table()) if found.files else None

    def files(self, url: str) -> list[str]:
        """The files of one directory."""
        found = self.filesystem.get_file_info(FileSelector(self.path(url)))
        return [f"{url}/{one.base_name}" for one in found if one.is_file and not one.base_name.startswith(".")]

    def listed(self, urls: list[str], format: str = "parquet") -> Seen:
        """None if there are no files."""
        if not urls:
            return None
        paths = [self.path(url) for url in urls]
        return rows_of(ds.dataset(paths, filesystem=self.filesystem, partitioning="hive", format=format).to_table())


def rows_of(table: pa.Table) -> Rows:
    return Counter(zip(*(table.column(name).to_pylist() for name in COLUMNS), strict=True))


@dataclass(frozen=True, slots=True)
class Library:
    """The readers of one place."""

    spark: SparkSession
    place: Place

    def quick(self, mode: str) -> list[Reader]:
        """Who reads after every death, and while publishers work. The first one's word is counted."""
        kind = MODES[mode]
        if kind.is_table:
            # Partitions change one after the other.
            return [Reader("catalog", self.by_catalog, has_mixtures=kind.has_directories, follows=True)]
        if mode == "replace":
            return [Reader("pyarrow", self.place.below, is_promised=False, has_errors=True)]
        if mode == "directory":
            plain = Reader("pyarrow", self.place.below, is_promised=self.place.server is None, has_errors=True)
            return [plain] if self.place.server is None else [Reader("with _SUCCESS", self.by_success), plain]
        readers = [Reader("pointer", self.by_pointer)]
        if self.place.server is None:
            # Whoever lists several directories of `current`, one after the other, may list some before it changes and
            # others after it.
            mixes = kind.has_directories
            current = Reader("current", self.by_current, has_errors=True, has_mixtures=mixes, follows=True)
            readers = [current, Reader("resolved", self.by_resolved, follows=True), *readers]
        return readers

    def slow(self, mode: str) -> list[Reader]:
        """Who reads after some deaths."""
        kind = MODES[mode]
        if kind.is_table:
            return [Reader("spark.table", self.by_table, follows=True)]
        if not kind.has_current:
            return []
        found = [Reader("rk.read_newest", self.by_newest)]
        if self.place.server is None:
            found += [Reader("spark.read", self.by_spark, follows=True), Reader("duckdb", self.by_duckdb, follows=True)]
        return found

    def by_pointer(self, path: str) -> Seen:
        """The files that the newest pointer names."""
        top = newest(self.place.open(path)).pointer
        if top is None:
            return None
        return self.place.listed(
            [f"{path}/versions/{top.folder_of(part)}/{name}" for part in top.parts for name, _ in part.files()],
            top.files_format,
        )

    def by_current(self, path: str) -> Seen:
        return self.place.below(f"{path}/current", _format(path))

    def by_resolved(self, path: str) -> Seen:
        """Somebody who follows the link once, and then reads."""
        link = Path(self.place.path(path), "current")
        return self.place.below(f"file:{link.resolve()}", _format(path)) if link.is_symlink() else None

    def by_success(self, path: str) -> Seen:
        return self.place.below(path) if self.place.open(path).get("_SUCCESS") is not None else None

    def by_catalog(self, path: str) -> Seen:
        """Where the catalog says that the table lies, as engines other than Spark read it."""
        facts = file_calls.table_facts(self.spark, "default", name_of(path))
        if facts is None or not facts.by:
            return None if facts is None else self.place.below(facts.location)
        places = file_calls.table_partitions(self.spark, "default", name_of(path))
        return self.place.listed([file for location in places.values() for file in self.place.files(location)])

    def by_table(self, path: str) -> Seen:
        if file_calls.table_facts(self.spark, "default", name_of(path)) is None:
            return None
        self.spark.catalog.refreshTable(name_of(path))
        return _collected(self.spark.table(name_of(path)))

    def by_newest(self, path: str) -> Seen:
        try:
            return _collected(read_newest(self.spark, path, self.place.open))
        except Refused:
            return None

    def by_spark(self, path: str) -> Seen:
        if not Path(self.place.path(path), "current").exists():
            return None
        reader = self.spark.read.option("header", "true").option("inferSchema", "true").format(_format(path))
        return _collected(reader.load(f"file:{self.place.path(path)}/current"))

    def by_duckdb(self, path: str) -> Seen:
        if not Path(self.place.path(path), "current").exists():
            return None
        options = "hive_partitioning = true, union_by_name = true, hive_types_autocast = false"
        with duckdb.connect() as connection:
            files = f"{self.place.path(path)}/current/**/*.{_format(path)}"
            found = connection.sql(f"select {', '.join(COLUMNS)} from read_{_format(path)}('{files}', {options})")
            return Counter(found.fetchall())


def _format(path: str) -> str:
    """Of the files of a target, whose path names its mode."""
    return MODES[path.split("/")[-2]].format


def _collected(frame: Any) -> Rows:
    return Counter(tuple(row) for row in frame.select(*COLUMNS).collect())


def kind_of(seen: Seen, old: Seen, new: Rows) -> str:
    """New before old: they are one where the same rows were published again."""
    return NEW if seen == new else OLD if seen == old else OTHER


class Watch:
    """Reads in a loop while publishers work, and counts what each reader saw."""

    def __init__(self, readers: list[Reader], path: str, old: Seen, new: Rows) -> None:
        self._readers, self._path, self._old, self._new = readers, path, old, new
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="watch")
        self.seen: dict[str, Counter[str]] = {reader.name: Counter() for reader in readers}
        self.errors: Counter[str] = Counter()

    def _look(self) -> None:
        had_new: set[str] = set()
        while not self._is_over.is_set():
            for reader in self._readers:
                found = self._one(reader)
                self.seen[reader.name][found] += 1
                if found == NEW:
                    had_new.add(reader.name)
                elif found == OLD and reader.name in had_new:
                    self.seen[reader.name][BACK] += 1
            time.sleep(PAUSE_S)

    def _one(self, reader: Reader) -> str:
        try:
            return kind_of(reader.read(self._path), self._old, self._new)
        except Exception as error:
            self.errors[f"{reader.name}: {type(error).__name__}"] += 1
            return ERROR

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join()


def broken_promises(readers: list[Reader], seen: Mapping[str, Counter[str]]) -> int:
    """How often readers that are promised the old or the new rows saw something else."""
    found = 0
    for reader in readers:
        if not reader.is_promised:
            continue
        counts = seen[reader.name]
        found += 0 if reader.has_mixtures else counts[OTHER]
        found += 0 if reader.has_errors else counts[ERROR]
        found += 0 if reader.follows else counts[BACK]
    return found
