"""A reader that does not know Rekindle's runs: every 10 ms it asks both sinks what is published, and reads it.

Whatever it is given must be one whole, correct output: each version it saw is compared with what bare Spark computed.
"""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

import pyarrow as pa
import pyarrow.parquet as pq

from cluster_test.play import Figures, Stage, right_outputs
from cluster_test.rows import digest_of
from rekindle.publish.pointers import POINTERS, Pointer, decode
from rekindle.storage.store import Store
from rekindle.storage.stores import open_store

SINKS = ("report", "ledger")
PERIOD_SECONDS = 0.01
AGAIN_POLLS = 200


class Reader(threading.Thread):
    """Polls until it is stopped. What went wrong while reading is kept in `faults`."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(daemon=True)
        below = f"{stage.place.location}-out/{stage.folder.name}"
        self._sinks = {name: open_store(f"{below}/{name}", stage.place.options) for name in SINKS}
        self._stopped = threading.Event()
        self._newest: dict[str, str] = {}
        self.seen: dict[str, dict[str, str]] = {name: {} for name in SINKS}
        self.faults: list[str] = []
        self.polls = 0

    def run(self) -> None:
        while not self._stopped.is_set():
            started = time.monotonic()
            for name, store in self._sinks.items():
                try:
                    self._look(name, store)
                except Exception as error:
                    self.faults.append(f"{name}: {type(error).__name__}: {error}")
            self.polls += 1
            self._stopped.wait(max(0.0, PERIOD_SECONDS - (time.monotonic() - started)))

    def _look(self, name: str, store: Store) -> None:
        numbers = store.list_after(POINTERS)
        if not numbers or (numbers[-1] == self._newest.get(name) and self.polls % AGAIN_POLLS):
            return
        body = store.get(POINTERS + numbers[-1])
        assert body is not None, f"{numbers[-1]} is listed and cannot be read"
        pointer = decode(body)
        found = digest_of(_table(store, pointer))
        before = self.seen[name].setdefault(numbers[-1], found)
        assert before == found, f"version {pointer.version} was {before} and is {found}"
        self._newest[name] = numbers[-1]

    def __enter__(self) -> Reader:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stopped.set()
        self.join()


def _table(store: Store, pointer: Pointer) -> pa.Table:
    tables = []
    for name, length in pointer.files():
        data = store.get(f"versions/{pointer.version}/{name}")
        assert data is not None, f"{pointer.version}/{name} is missing"
        assert len(data) == length, f"{pointer.version}/{name} has {len(data)} bytes, not {length}"
        tables.append(pq.read_table(io.BytesIO(data)))
    return pa.concat_tables(tables)


@contextmanager
def reading(stage: Stage, figures: Figures) -> Iterator[None]:
    """A reader beside a case. Afterwards everything it read is an output that bare Spark gave in this case."""
    with Reader(stage) as reader:
        yield
    assert not reader.faults, f"{len(reader.faults)} faults while reading, first: {reader.faults[0]}"
    right = {name: {made[name] for made in right_outputs(stage)} for name in SINKS}
    for name, versions in reader.seen.items():
        wrong = {number: digest for number, digest in versions.items() if digest not in right[name]}
        assert not wrong, f"{name}: versions that are no right output were read: {wrong}; right are {right[name]}"
    figures["polls"] = reader.polls
    figures["versions_read"] = sum(map(len, reader.seen.values()))
