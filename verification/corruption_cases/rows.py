"""What both sides share: rows without an order, readers that take their time, and the moment to strike."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pandas as pd
from pyspark.sql import SparkSession

ROWS, MAPS, REDUCES = 4_000, 6, 8
SLOW_SECONDS = 0.25
STRIKE_AFTER = 2
WAIT_SECONDS = 20.0


def unordered(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    for frame in frames:
        yield frame.sample(frac=1)


def slowly(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    time.sleep(SLOW_SECONDS)
    for frame in frames:
        yield frame[["id"]]


class Strike:
    """Asks for the death of an executor, once: when a few tasks of a final stage, which has so many, are done and
    others are not, or now. Whoever started this driver reads its output and sends the signal."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self.tasks = REDUCES
        self._over = threading.Event()
        self._watch: threading.Thread | None = None
        self.has_struck = False

    def __enter__(self) -> Strike:
        self._over.clear()
        self._watch = threading.Thread(target=self._wait, daemon=True)
        self._watch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        assert self._watch is not None
        self._watch.join()

    def now(self) -> None:
        """And wait until Spark has seen it."""
        before = self._executors()
        self._ask()
        deadline = time.monotonic() + WAIT_SECONDS
        while self._executors() >= before and time.monotonic() < deadline:
            time.sleep(0.05)

    def _wait(self) -> None:
        tracker = self._spark.sparkContext.statusTracker()
        while not self.has_struck and not self._over.wait(0.02):
            for stage in tracker.getActiveStageIds():
                info = tracker.getStageInfo(stage)
                is_last = info is not None and info.numTasks == self.tasks
                if info is not None and is_last and STRIKE_AFTER <= info.numCompletedTasks < self.tasks - 2:
                    self._ask()
                    break

    def _ask(self) -> None:
        self.has_struck = True
        print("STRIKE", flush=True)

    def _executors(self) -> int:
        return len(self._spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos())
