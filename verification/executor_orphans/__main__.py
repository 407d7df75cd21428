"""`make executor-orphans ROUNDS=50`: what executors keep of a run that was taken over, and of a killed executor.

A driver holds a result in blocks and lives on, as a notebook does; in every other round it is frozen by SIGSTOP first.
Another driver takes the run over and ends it. Spark's own listing of the first application must show no block of the
run any more, within the stated time. Then an executor of it is killed with kill -9, and the folders of its blocks must
be gone from its host, within the same time after a task of ours ran there. Nobody types anything. With --control the
lease of executors is switched off: blocks and folders must be seen then, or the campaign could see none.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from build_jar import TEST_JAR
from executor_orphans.driver import BLOCKS
from rekindle.local_cluster.cluster import LocalCluster, Size
from rekindle.local_cluster.processes import Process
from support.drivers import Driver, cont_driver, start_driver, stop_driver
from support.signals import kill, when

SIZE = Size(worker_cores=2, executor_cores=1, executor_memory_mb=512, application_cores=2)
SILENT_S, STATED_S, OFF = 4, 30.0, 0
MARKER = "_rekindle.json"
EXECUTORS = range(2)


@dataclass(frozen=True)
class Told:
    """A driver that takes orders."""

    name: str
    folder: Path
    driver: Driver

    def order(self, order: str) -> None:
        (self.folder / self.name / f"{order}.order").touch()

    def answer(self, order: str) -> str:
        file = self.folder / self.name / f"{order}.answer"
        when(lambda: file.exists() or not self.driver.is_alive(), sign=self.driver.printed)
        assert file.exists(), self.driver.text()[-3000:]
        return file.read_text()

    def ask(self, order: str) -> str:
        self.order(order)
        return self.answer(order)


def start(cluster: LocalCluster, folder: Path, name: str, silent_s: int) -> Told:
    (folder / name).mkdir()
    settings = cluster.app_settings() | {
        "spark.executor.rekindle.silentSeconds": str(silent_s),
        "spark.locality.wait": "0s",
        "spark.shuffle.reduceLocality.enabled": "false",
    }
    script = Path(__file__).parent / "driver.py"
    arguments = name, str(folder), str(TEST_JAR)
    driver = start_driver(script, *arguments, folder=folder / name, settings=settings, env=cluster.app_env)
    told = Told(name, folder, driver)
    told.answer("started")
    return told


def taken_over(first: Told, second: Told, number: int, is_frozen: bool) -> tuple[float, int]:
    """Seconds until Spark lists no block of the run in the first application, and how many are left after the stated
    time."""
    first.order(f"hold-{number}")
    counted = iter(range(10_000))

    def ask() -> int:
        return int(first.ask(f"count-{number * 10_000 + next(counted)}"))

    when(lambda: ask() >= BLOCKS, sign=lambda: time.monotonic() // 20, every_s=0.3)
    if is_frozen:
        stop_driver(first.driver)
    second.order(f"take-{number}")
    beats = first.folder / "runs" / "orphans"
    when(lambda: len(list(beats.glob("*/heartbeat/*2"))) > number, sign=second.driver.printed)
    (first.folder / f"go-{number}").touch()
    ended = second.answer(f"take-{number}")
    assert ended == "done", ended
    begun = time.monotonic()
    if is_frozen:
        time.sleep(SILENT_S)
        cont_driver(first.driver)
    left = ask()
    while left and time.monotonic() - begun < STATED_S:
        time.sleep(0.5)
        left = ask()
    return time.monotonic() - begun, left


def owners(cluster: LocalCluster) -> Iterator[tuple[Path, Process | None]]:
    """Folders of blocks with our marker on the workers, each with its process; None if that is gone."""
    for marker in sorted(cluster.folder.glob(f"worker-*/**/blockmgr-*/{MARKER}")):
        try:
            owner = json.loads(marker.read_bytes())
        except FileNotFoundError:
            continue
        process = Process.of(owner["pid"])
        yield marker.parent, process if process is not None and process.is_alive() else None


def dead_folders(cluster: LocalCluster) -> list[Path]:
    return [folder for folder, process in owners(cluster) if process is None]


def holders(cluster: LocalCluster) -> list[Process]:
    """Executors that have blocks of ours; those of an application that had none are of no interest."""
    return [process for _, process in owners(cluster) if process is not None]


def executor_killed(cluster: LocalCluster, first: Told, number: int) -> tuple[float, int, int]:
    """Seconds until what a killed executor left is gone, how many folders were there, and are left after the time."""
    (first.folder / f"go-{number}").touch()
    first.ask(f"hold-{number}")  # Each executor has blocks of ours then.
    before = {process.pid for process in cluster.executors()}
    found = holders(cluster)
    kill(found[number // 2 % len(found)])
    there = len(dead_folders(cluster))  # The next executor of that host removes them when it starts.
    when(lambda: {process.pid for process in cluster.executors()} - before, sign=lambda: time.monotonic() // 20)
    asked = iter(range(10_000))
    when(
        lambda: int(first.ask(f"executors-{number * 10_000 + next(asked)}")) == len(EXECUTORS),
        sign=lambda: time.monotonic() // 20,
        every_s=0.5,
    )
    (first.folder / f"go-{number + 1}").touch()
    first.ask(f"hold-{number + 1}")
    begun = time.monotonic()
    while (left := len(dead_folders(cluster))) and time.monotonic() - begun < STATED_S:
        time.sleep(0.5)
    return time.monotonic() - begun, there, left


def main() -> int:
    parser = argparse.ArgumentParser(prog="executor_orphans")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--control", action="store_true")
    parser.add_argument("--part", choices=("both", "taken", "killed"), default="both")
    asked = parser.parse_args()
    silent_s = OFF if asked.control else SILENT_S
    began, orphans, folders, found, longest = time.monotonic(), 0, 0, 0, 0.0
    with tempfile.TemporaryDirectory() as held, LocalCluster(workers=2, size=SIZE) as cluster:
        folder = Path(held)
        (folder / "numbers").mkdir()
        pq.write_table(pa.table({"id": pa.array(range(5_000), pa.int64())}), folder / "numbers" / "part-0.parquet")
        first, second = (start(cluster, folder, name, silent_s) for name in ("first", "second"))
        try:
            for number in range(asked.rounds if asked.part != "killed" else 0):
                seconds, left = taken_over(first, second, number, is_frozen=number % 2 == 1)
                orphans, longest = orphans + left, max(longest, seconds)
                print(f"taken over {number}: {left} blocks left after {seconds:.1f} s", flush=True)
            for number in range(asked.rounds if asked.part != "taken" else 0):
                seconds, there, left = executor_killed(cluster, first, 100_000 + 2 * number)
                folders, found, longest = folders + left, found + there, max(longest, seconds)
                print(f"executor killed {number}: {left} of {there} folders left after {seconds:.1f} s", flush=True)
        finally:
            first.driver.end()
            second.driver.end()
    print(
        f"RESULT executor-orphans part={asked.part} rounds={asked.rounds} blocks_left={orphans} folders_found={found} "
        f"folders_left={folders} longest_s={longest:.1f} stated_s={STATED_S:.0f} "
        f"minutes={(time.monotonic() - began) / 60:.1f}"
    )
    return (
        int(not (orphans and folders))
        if asked.control
        else int(bool(orphans or folders) or not (found or asked.part == "taken"))
    )


if __name__ == "__main__":
    sys.exit(main())
