"""The steps of a publication, each of which can be the last one of its process.

Steps are every change that Python makes to files (before it; the one after it is the next step), every call to the
store, every call into the JVM that changes something (before and after it), and each number of files that a Spark job
can have brought, or removed, when its driver dies.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

from pyspark.sql import SparkSession
from pyspark.sql.catalog import Catalog
from pyspark.sql.readwriter import DataFrameWriter

from rekindle.engine.spark.jvm import file_calls
from rekindle.publish.target import PointerStore, StoreAnswer

CHANGES = frozenset(("os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink", "shutil.rmtree"))
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
CALLS = ("delete_directory", "put_file", "write_empty_file", "move_partitions", "point_table")
LOOKS = ("file_length", "list_files", "table_facts", "table_partitions")


class Steps:
    """Counts steps, writes each down, and sends its own process a signal at one of them; and kills it so many steps
    later, if that one only stopped it."""

    def __init__(self, at: int, number: int, then: int, notes: int) -> None:
        self._signals = {at + 1: number, at + 1 + then: signal.SIGKILL}
        self._next, self._notes = at, notes
        self._seen = 0
        self.is_on = False

    def __call__(self, name: str) -> None:
        if not self.is_on:
            return
        os.write(self._notes, f"{name}\n".encode())
        self._seen += 1
        if self._seen in self._signals:
            os.kill(os.getpid(), self._signals[self._seen])

    @property
    def is_next(self) -> bool:
        """Whether the next step is the one that it gets the first signal at."""
        return self.is_on and self._seen == self._next


class SteppedStore:
    """A store whose calls are steps."""

    def __init__(self, store: PointerStore, step: Steps) -> None:
        self._store, self._step = store, step

    def put_if_absent(self, key: str, body: bytes) -> StoreAnswer:
        self._step("before put_if_absent")
        answer = self._store.put_if_absent(key, body)
        self._step("after put_if_absent")
        return answer

    def get(self, key: str) -> bytes | None:
        self._step("before get")
        return self._store.get(key)

    def get_many(self, folder: str, names: Sequence[str]) -> Iterator[bytes | None]:
        self._step("before get_many")
        return self._store.get_many(folder, names)

    def list_after(self, folder: str, after: str = "") -> list[str]:
        self._step("before list_after")
        return self._store.list_after(folder, after)

    def list_folders(self, folder: str) -> list[str]:
        self._step("before list_folders")
        return self._store.list_folders(folder)


def install(step: Steps) -> None:
    """From here on everything that this process does to a target is a step."""

    def heard(event: str, arguments: tuple[Any, ...]) -> None:
        if event in CHANGES or (event == "open" and len(arguments) > 2 and (arguments[2] or 0) & WRITING):
            step(f"before {event}")

    sys.addaudithook(heard)
    for name in (*CALLS, *LOOKS):
        _replace(file_calls, name, _stepped(step, file_calls, name))
    for owner, name in ((SparkSession, "sql"), (Catalog, "refreshTable"), (DataFrameWriter, "save")):
        _replace(owner, name, _stepped(step, owner, name))
    _replace(file_calls, "copy_files", _copies(step, file_calls.copy_files))
    _replace(file_calls, "remove_files", _removals(step, file_calls.remove_files))


def _replace(owner: object, name: str, made: Callable[..., Any]) -> None:
    mock.patch.object(owner, name, made).start()


def _stepped(step: Steps, owner: object, name: str) -> Callable[..., Any]:
    call = getattr(owner, name)

    def stepped(*arguments: Any, **named: Any) -> Any:
        step(f"before {name}")
        answer = call(*arguments, **named)
        if name not in LOOKS:
            step(f"after {name}")
        return answer

    return stepped


def _copies(step: Steps, call: Callable[..., Any]) -> Callable[..., Any]:
    """A driver may die when some files are there. A task that died in the middle of one left it without its name."""

    def stepped(spark: SparkSession, files: str, directory: str, scratch: str) -> Any:
        lines = files.splitlines()
        step("before copy_files")
        for count in range(1, len(lines)):
            if step.is_next:
                call(spark, "\n".join(lines[:count]), directory, scratch)
            step(f"{count} files copied")
        answer = call(spark, files, directory, scratch)
        step("after copy_files")
        return answer

    return stepped


def _removals(step: Steps, call: Callable[..., Any]) -> Callable[..., Any]:
    def stepped(spark: SparkSession, directory: str, names: Any) -> None:
        listed = sorted(names)
        step("before remove_files")
        for count in range(1, len(listed)):
            if step.is_next:
                call(spark, directory, listed[:count])
            step(f"{count} files removed")
        call(spark, directory, listed)
        step("after remove_files")

    return stepped
