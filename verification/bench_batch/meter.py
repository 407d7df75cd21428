"""One side of a pair, measured in the driver: seconds, and CPU seconds of driver (Python and JVM) and of executors.

CPU is read from the system for exactly the processes that were started for this: the driver's own tree, and what runs
below the workers (executors and their Python workers). What a finished child used is counted with its parent.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
import psutil
import pyarrow.parquet as pq

from support.cpu import cpu_s, cpu_s_below


class Output(msgspec.Struct, frozen=True):
    """What one side wrote of one result: equal rows are what makes two sides comparable."""

    rows: int
    bytes: int
    files: int


class Measured(msgspec.Struct):
    """One side of one round; the window in milliseconds is that of Spark's event log."""

    side: str
    number: int
    began_ms: int
    ended_ms: int
    wall_s: float
    driver_cpu_s: float
    executor_cpu_s: float
    outputs: dict[str, Output] = {}

    @property
    def cpu_s(self) -> float:
        return self.driver_cpu_s + self.executor_cpu_s


class Meter:
    """Knows which processes count."""

    def __init__(self, workers: Iterable[int]) -> None:
        self._driver = psutil.Process()
        self._workers = [psutil.Process(pid) for pid in workers]

    def measure(self, side: str, number: int, act: Callable[[], None]) -> Measured:
        os.sync()
        driver, executors = self._cpu()
        began_ms, began = time.time_ns() // 1_000_000, time.monotonic()
        act()
        wall = time.monotonic() - began
        ended_ms = time.time_ns() // 1_000_000
        driver_after, executors_after = self._cpu()
        return Measured(side, number, began_ms, ended_ms, wall, driver_after - driver, executors_after - executors)

    def _cpu(self) -> tuple[float, float]:
        below = [child for worker in self._workers for child in worker.children(recursive=True)]
        return cpu_s_below(self._driver.pid), cpu_s(below)


def output(folder: Path) -> Output:
    """Everything below a folder, by the footers of its Parquet files."""
    files = [file for file in folder.rglob("part-*.parquet") if file.is_file()]
    rows = sum(pq.read_metadata(file).num_rows for file in files)
    return Output(rows, sum(file.stat().st_size for file in files), len(files))
