"""Compaction of the targets of a stream while it runs: one thread, one compaction at a time.

Rules
- No region waits for it, and none fails with it. What it did, and why it could not, is told as a note.
- It looks at the numbers of batches that the driver knows anyway. A target is looked at when a region has as many new
  batches as the setting says, and once when there may be as many at the start. One whose region had checkpoints before
  is looked at from the start on, until nothing of those is left to do.
- Its jobs have a pool of their own. When the stream ends they are cancelled: what they wrote counts for nothing.
- After a failure the region is left alone for a while.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from pyspark.sql import SparkSession

from rekindle.engine.spark.failures import first_line
from rekindle.engine.spark.jvm import driver_calls
from rekindle.engine.spark.jvm.access import CallFailed, JavaObject
from rekindle.engine.spark.publish.stream_target import CompactionReport

POOL = "spark.scheduler.pool"
OWN_POOL = "rekindle compaction"
TICK_SECONDS = 1.0
RETRY_SECONDS = 600.0
# Until a target is looked at again that had nothing to do.
NOTHING_SECONDS = 30.0
END_SECONDS = 5.0


class CompactRegion(Protocol):
    """Compacts the target of one region; None where it has no files."""

    def __call__(self, spark: SparkSession, *, every: int) -> CompactionReport | None: ...


class BackgroundCompactor:
    """`batch_of` tells the last batch of a region that this driver knows of, -1 for none; those with `older`
    checkpoints had some before."""

    def __init__(
        self,
        spark: SparkSession,
        regions: Mapping[str, CompactRegion],
        every: int,
        batch_of: Callable[[str], int],
        older: Iterable[str] = (),
    ) -> None:
        self._older = set(older)
        self._spark, self._regions, self._every, self._batch_of = spark, dict(regions), every, batch_of
        self._group = f"compaction {uuid.uuid4().hex}"
        self._through = dict.fromkeys(regions, -1)
        self._rests_until = dict.fromkeys(regions, 0.0)
        self._notes: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._is_closed = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, loader: JavaObject) -> None:
        """Once; `loader` has our classes."""
        if self._every and self._thread is None and not self._is_closed.is_set():
            self._thread = threading.Thread(target=self._work, args=(loader,), name="rekindle compaction", daemon=True)
            self._thread.start()

    def notes(self) -> list[str]:
        found = []
        while not self._notes.empty():
            found.append(self._notes.get())
        return found

    def close(self) -> None:
        self._is_closed.set()
        if self._thread is not None:
            with contextlib.suppress(CallFailed, ConnectionError):
                self._spark.sparkContext.cancelJobGroup(self._group)
            self._thread.join(END_SECONDS)

    def _work(self, loader: JavaObject) -> None:
        with contextlib.suppress(CallFailed, ConnectionError):
            driver_calls.enter_thread(self._spark, loader)
            self._spark.sparkContext.setJobGroup(self._group, "compaction of targets", True)
            self._spark.sparkContext.setLocalProperty(POOL, OWN_POOL)
            while not self._is_closed.wait(TICK_SECONDS):
                for name in [one for one in self._regions if self._is_due(one)]:
                    self._compact(name)

    def _is_due(self, name: str) -> bool:
        is_rested = time.monotonic() >= self._rests_until[name]
        is_new = self._batch_of(name) - self._through[name] >= self._every
        return is_rested and (is_new or name in self._older)

    def _compact(self, name: str) -> None:
        if self._is_closed.is_set():
            return
        try:
            report = self._regions[name](self._spark, every=self._every)
        except Exception as error:
            self._rests_until[name] = time.monotonic() + RETRY_SECONDS
            if not self._is_closed.is_set():
                self._notes.put(f"{name}: its batches were not compacted, and stay as they are: {first_line(error)}")
            return
        if report is None:
            del self._regions[name]
            return
        self._through[name] = report.through
        if report.told:
            self._notes.put(f"{name}: {report.told}")
        else:
            self._older.discard(name)
            self._rests_until[name] = time.monotonic() + NOTHING_SECONDS
