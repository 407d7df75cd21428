"""`make stream-compaction`: a stream that is compacted all the time, its driver killed by kill -9, under readers.

First a driver compacts every five batches while files come in; it is killed at random moments and started again, and
three kinds of readers read on (compaction_readers.py). Then the cost of a long stream: so many batches are put into a
target, and what it takes to read their entries is measured before a compaction, after it, and after gc. Last, readers
of a target whose `current` is exchanged hundreds of times. With `--place s3` only the first part is run, on a real
server: there is no `current` there, and one reader reads by entries.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

import rekindle as rk
from local_spark import local_spark
from rekindle.engine.spark.jvm import stream_calls
from rekindle.engine.spark.publish.stream_compaction import StreamCompactor
from rekindle.engine.spark.session import attach
from rekindle.gc.audit_log import AuditLog
from rekindle.gc.collect_run import GcRules
from rekindle.gc.collect_stream import StreamTargetCollector
from rekindle.gc.policy import Retention
from rekindle.publish.stream_compactions import COMPACTIONS
from rekindle.publish.stream_entries import ENTRIES, batch_files
from rekindle.publish.stream_view import link_all, new_view
from rekindle.storage.local_disk import LocalDisk
from rekindle.storage.store import Store
from rekindle.storage.stores import open_store
from stream_compaction.compaction_driver import DriverPlace
from stream_compaction.compaction_readers import (
    READERS,
    ROWS,
    ReaderFigures,
    by_store,
    read_on,
    read_store,
    resolved,
)
from support.s3 import S3Server

WAIT_SECONDS = 300.0
# The one that reads on every place.
READER = "reader"
# Files are put no faster than they are read.
AHEAD = 3
# Of the target whose view is exchanged many times.
BATCHES = 50
RUN = "20261118T000000Z-aa"


def feed(folder: Path, number: int) -> None:
    made = folder / f".{number}"
    made.write_text("".join(f'{{"id":{one}}}\n' for one in range(number * ROWS, (number + 1) * ROWS)))
    os.utime(made, (1_700_000_000 + number,) * 2)
    made.rename(folder / "in" / f"{number:06d}.json")


class KilledDriver:
    """The driver, started again and again. It has a process group of its own: Python and Spark die together."""

    def __init__(self, folder: Path, server: S3Server | None) -> None:
        self._folder, self._log = folder, folder / "log"
        self._order = DriverPlace()
        self.store: Store = LocalDisk(folder / "out")
        if server is not None:
            url = server.url(folder.parent.name)
            self._order = DriverPlace(url=url, settings=server.spark_settings, storage=server.store_settings)
            self.store = open_store(f"{url}/out", server.store_settings)
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        order = msgspec.json.encode(self._order).decode()
        command = [sys.executable, "-m", "stream_compaction.compaction_driver", str(self._folder), order]
        with self._log.open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process = self._start()

    def end(self) -> None:
        try:
            self.process.wait(WAIT_SECONDS)
        finally:
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)

    def batches(self) -> int:
        return self._count(ENTRIES)

    def compactions(self) -> int:
        return self._count(COMPACTIONS)

    def _count(self, below: str) -> int:
        return sum(len(page) for page in self.store.walk(below))


def under_kills(folder: Path, kills: int, seed: int, server: S3Server | None) -> bool:
    """Whether every reader saw the rows of some first files, each once, at every moment."""
    (folder / "in").mkdir(parents=True)
    draw, driver, is_over = random.Random(seed), KilledDriver(folder, server), threading.Event()
    figures = {name: ReaderFigures() for name in (READERS if server is None else [READER])}
    threads = [
        threading.Thread(target=read_on, args=(read, folder / "out", is_over, figures[name]), daemon=True)
        for name, read in ({} if server is not None else READERS).items()
    ]
    if server is not None:
        threads = [threading.Thread(target=read_store, args=(driver.store, is_over, figures[READER]), daemon=True)]
    for one in threads:
        one.start()
    fed = 0
    for round_ in range(kills + 1):
        before, until = driver.compactions(), time.monotonic() + WAIT_SECONDS
        wanted = before + 1 + draw.randrange(2)
        while driver.compactions() < wanted and time.monotonic() < until:
            if fed < driver.batches() + AHEAD:
                feed(folder, fed)
                fed += 1
            time.sleep(0.1)
        time.sleep(draw.random() * 1.5)
        if round_ < kills:
            driver.kill()
    (folder / "halt").touch()
    driver.end()
    shown = resolved(folder / "out") if server is None else by_store(driver.store)
    is_over.set()
    for one in threads:
        one.join(60)
    is_whole = sorted(shown) == list(range(len(shown))) and len(shown) % ROWS == 0 and bool(shown)
    wrong = sum(one.wrong for one in figures.values())
    told = " ".join(
        f"{name}_reads={one.reads} {name}_wrong={one.wrong} {name}_shrunk={one.shrunk} {name}_errors={one.errors}"
        for name, one in figures.items()
    )
    print(
        f"RESULT stream-compaction part=kills place={'disk' if server is None else 's3'} kills={kills} "
        f"batches={len(shown) // ROWS} fed={fed} "
        f"compactions={driver.compactions()} wrong={wrong} {told} whole={is_whole}",
        flush=True,
    )
    for name, found in figures.items():
        for line in found.told[:5]:
            print(f"  {name}: {line}")
    return not wrong and is_whole and not figures["reader"].errors and not figures["reader"].shrunk


def filled(target: Path, batches: int) -> None:
    """As a stream leaves it."""
    store = LocalDisk(target)
    store.put_if_absent("owners/1", f"plain\t{RUN}".encode())
    (target / "entries/plain" / RUN).mkdir(parents=True)
    for batch in range(batches):
        directory = f"data/plain/{RUN}/{batch}-1-{uuid.UUID(int=batch)}"
        (target / directory).mkdir(parents=True)
        name = f"part-00000-{batch}-c000.snappy.parquet"
        pq.write_table(pa.table({"id": list(range(batch * ROWS, (batch + 1) * ROWS))}), target / directory / name)
        size = (target / directory / name).stat().st_size
        body = f"epoch\t1\noffsets\t{batch:064d}\ndirectory\t{directory}\n{name}\t{size}\n"
        (target / "entries/plain" / RUN / str(batch)).write_text(body)


def read_cost(target: Path) -> tuple[float, int, int]:
    """Seconds that reading the entries takes, and files and bytes that they name."""
    began = time.perf_counter()
    files = list(batch_files(LocalDisk(target)))
    return time.perf_counter() - began, len(files), sum(one.bytes for one in files)


def long_stream(folder: Path, batches: int) -> bool:
    """Whether rows are the same, and files are few."""
    target = folder / "long"
    filled(target, batches)
    before = read_cost(target)
    with local_spark({}) as spark:

        def rows() -> tuple[float, Sequence[int]]:
            began = time.perf_counter()
            total = rk.read_newest(spark, str(target)).selectExpr("count(*)", "sum(id)", "count(distinct id)").first()
            return time.perf_counter() - began, list(total or ())

        first = rows()
        compactor = StreamCompactor(
            spark=spark, base=f"file:{target}", store=LocalDisk(target), region="plain", generation=RUN
        )
        began, rounds = time.perf_counter(), 0
        while compactor.compact(1000).told:
            rounds += 1
        took = time.perf_counter() - began
        after, second = read_cost(target), rows()
        location = LocalDisk(folder / "location")
        now = location.now()
        diary = AuditLog(location, "live", round(now * 1000))
        StreamTargetCollector(GcRules(terms=Retention(0, 0)), diary, now, [RUN]).tend(
            LocalDisk(target), "live", f"file:{target}"
        )
        collected, third = read_cost(target), rows()
    is_same = first[1] == second[1] == third[1] == [batches * ROWS, sum(range(batches * ROWS)), batches * ROWS]
    print(
        f"RESULT stream-compaction part=cost batches={batches} files_before={before[1]} files_after={after[1]} "
        f"bytes_before={before[2]} bytes_after={after[2]} rows_equal={is_same} compactions={rounds} "
        f"compact_seconds={took:.1f} entries_ms_before={before[0] * 1000:.0f} entries_ms_after={after[0] * 1000:.1f} "
        f"entries_ms_after_gc={collected[0] * 1000:.1f} read_seconds_before={first[0]:.1f} "
        f"read_seconds_after={second[0]:.1f} read_seconds_after_gc={third[0]:.1f}",
        flush=True,
    )
    return is_same and after[1] < before[1] // 100


def many_swaps(folder: Path, swaps: int) -> bool:
    """Whether readers of `current` saw all rows once while it changed between files of batches and compacted ones."""
    target, is_over = folder / "swaps", threading.Event()
    filled(target, BATCHES)
    store, base, region = LocalDisk(target), f"file:{target}", ("plain", RUN)
    before = list(batch_files(store))
    figures = {name: ReaderFigures() for name in READERS}
    with local_spark({}) as spark:
        attach(spark)
        StreamCompactor(spark=spark, base=base, store=store, region="plain", generation=RUN).compact(BATCHES)
        after = list(batch_files(store))
        threads = [
            threading.Thread(target=read_on, args=(read, target, is_over, figures[name]), daemon=True)
            for name, read in READERS.items()
        ]
        for one in threads:
            one.start()
        for number in range(swaps):
            name = new_view(base, *region, number)
            link_all(base, name, after if number % 2 else before)
            stream_calls.show_view(spark, base, {region: BATCHES - 1}, name)
            time.sleep(0.02)
        is_over.set()
        for one in threads:
            one.join(60)
    wrong = sum(one.wrong + one.shrunk for one in figures.values())
    told = " ".join(f"{name}_reads={one.reads} {name}_errors={one.errors}" for name, one in figures.items())
    print(f"RESULT stream-compaction part=swaps swaps={swaps} wrong={wrong} {told}", flush=True)
    return not wrong and not figures["reader"].errors and not figures["resolved"].errors


def main() -> int:
    parser = argparse.ArgumentParser(prog="stream-compaction")
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--batches", type=int, default=2_000)
    parser.add_argument("--swaps", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--place", choices=["disk", "s3"], default="disk")
    asked = parser.parse_args()
    began, folder = time.monotonic(), Path(tempfile.mkdtemp(prefix="stream-compaction-"))
    try:
        if asked.place == "s3":
            with S3Server() as server:
                good = [under_kills(folder / "kills", asked.kills, asked.seed, server)]
        else:
            good = [
                under_kills(folder / "kills", asked.kills, asked.seed, None),
                long_stream(folder, asked.batches),
                many_swaps(folder, asked.swaps),
            ]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"stream-compaction: {sum(good)} of {len(good)} parts, {(time.monotonic() - began) / 60:.1f} minutes")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
