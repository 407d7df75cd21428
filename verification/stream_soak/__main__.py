"""`make stream-soak`: 24 regions in one driver on a real cluster, a random fault every 20 seconds: what grows?

A third of the regions calls Python, a third has state. Faults: a batch fails, an executor or a Python worker is killed.
The driver tells its heap after a collection, threads, py4j objects, temporary files and descriptors every 15 seconds. A
line through those after the first sixth of the time must not rise: the lower end of the 95 % interval of its slope is
at most 0, or all of its rise is below a hundredth of the mean. Then a while without faults: no record may come. In the
end every region has every row once. Exit 0 only if all of this holds and a restart made at most three records.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from build_jar import JAR
from rekindle.local_cluster.cluster import LocalCluster, Size
from stream_soak.soak_driver import MEASURE, REGIONS, RESTARTS, is_fragile, name_of
from support.drivers import Driver, start_driver
from support.feed import Feed
from support.signals import kill, when
from support.slopes import slope_of

ROWS, EVERY_S, FAULT_S, HEALTHY_S = 10, 2.0, 20.0, 120.0
SIZE = Size(worker_cores=8, worker_memory_mb=4096, executor_cores=4, application_cores=8)
FAULTS = ("batch", "batch", "batch", "executor", "worker")
GROWING = ("heap_mb", "jvm_threads", "python_threads", "py4j_objects", "temporary_files", "descriptors")
RECORDS_PER_RESTART_MAX = 3.0
NAMES = tuple(map(name_of, range(REGIONS)))


class SoakPlace:
    """One folder: an input, failures and a target for each region."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in NAMES:
            (folder / "in" / name).mkdir(parents=True)
            (folder / "fail" / name).mkdir(parents=True)
        (folder / "tmp").mkdir()

    def feed(self, number: int) -> None:
        rows = "".join(f'{{"id":{one}}}\n' for one in range(number * ROWS, (number + 1) * ROWS))
        for name in NAMES:
            made = self.folder / f".{name}-{number}"
            made.write_text(rows)
            made.rename(self.folder / "in" / name / f"{number:06d}.json")

    def commits(self, name: str) -> int:
        found = (one.name for one in self.folder.glob(f"state/soak/_streams/*/checkpoints/{name}/commits/*"))
        return max((int(one) for one in found if one.isdigit()), default=-1)

    def rows(self, name: str) -> Counter[int]:
        found = Counter[int]()
        for path in (self.folder / "out" / name / "current").glob("*.parquet"):
            found.update(pq.read_table(path, columns=["id"]).column("id").to_pylist())
        return found

    def records(self) -> int:
        return sum(1 for _ in self.folder.glob("state/soak/_streams/*/journal/*"))


def measures(driver: Driver) -> list[dict[str, float]]:
    lines = driver.text().splitlines()
    return [json.loads(one.removeprefix(MEASURE)) for one in lines if one.startswith(MEASURE)]


def fault(place: SoakPlace, cluster: LocalCluster, chance: random.Random, number: int) -> str:
    name = chance.choice(FAULTS)
    executors = cluster.executors()
    if name == "batch":
        fragile = [one for one in range(REGIONS) if is_fragile(one)]
        (place.folder / "fail" / name_of(chance.choice(fragile)) / str(number)).touch()
    elif name == "executor" and executors:
        kill(chance.choice(executors))
    elif name == "worker":
        found = [one for executor in executors for one in executor.descendants()]
        python = [one for one in found if "python" in Path((one.command() or [""])[0]).name]
        if python:
            chance.choice(python).send(signal.SIGKILL)
    return name


def soak(
    place: SoakPlace, cluster: LocalCluster, driver: Driver, asked: argparse.Namespace
) -> tuple[int, Counter[str]]:
    """How many files were fed, and which faults were made."""
    chance, counts = random.Random(asked.seed), Counter[str]()
    feed = Feed(place.feed, lambda: min(map(place.commits, NAMES)), EVERY_S)
    try:
        when(lambda: min(map(place.commits, NAMES)) >= 1, 300.0, every_s=0.5, sign=lambda: [*map(place.commits, NAMES)])
        until, number = time.monotonic() + asked.minutes * 60, 0
        while time.monotonic() < until:
            time.sleep(FAULT_S)
            if not driver.is_alive():
                raise RuntimeError(f"the driver ended:\n{driver.text()[-3000:]}")
            counts[fault(place, cluster, chance, number)] += 1
            number += 1
    finally:
        files = feed.end()
    return files, counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Soaked:
    """What came of it."""

    counts: Counter[str]
    measured: list[dict[str, float]]
    records: int
    healthy_records: int
    restarts: int
    wrong: tuple[str, ...]


def soaked(place: SoakPlace, cluster: LocalCluster, driver: Driver, asked: argparse.Namespace) -> Soaked:
    files, counts = soak(place, cluster, driver, asked)
    expected = Counter(range(files * ROWS))

    def lacking() -> tuple[str, ...]:
        return tuple(name for name in NAMES if place.rows(name) != expected)

    when(lambda: not lacking(), 300.0, every_s=2.0, sign=lambda: [*map(place.commits, NAMES)])
    before = place.records()
    time.sleep(HEALTHY_S)
    after, found = place.records(), measures(driver)
    (place.folder / "halt").touch()
    driver.wait()
    restarts = int(driver.text().rpartition(RESTARTS)[2].split()[0])
    return Soaked(
        counts=counts,
        measured=found,
        records=before,
        healthy_records=after - before,
        restarts=restarts,
        wrong=lacking(),
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="stream-soak")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    began, folder = time.monotonic(), Path(tempfile.mkdtemp(prefix="stream-soak-"))
    place = SoakPlace(folder)
    with LocalCluster(size=SIZE) as cluster:
        settings = {
            **cluster.app_settings(),
            "spark.scheduler.mode": "FAIR",
            "spark.sql.shuffle.partitions": "2",
            "spark.jars": str(JAR),
            "spark.driver.memory": "2g",
            "spark.task.maxFailures": "1",
            "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={folder}/tmp",
        }
        driver = start_driver(
            Path(__file__).with_name("soak_driver.py"),
            str(folder),
            folder=folder / "driver",
            settings=settings,
            env={**cluster.app_env, "TMPDIR": f"{folder}/tmp"},
        )
        try:
            one = soaked(place, cluster, driver, asked)
        finally:
            driver.end()
    shutil.rmtree(folder, ignore_errors=True)
    late = [row for row in one.measured if row["at_s"] - one.measured[0]["at_s"] >= asked.minutes * 60 / 6]
    slopes = {name: slope_of(late, name) for name in GROWING}
    for name, slope in slopes.items():
        print(
            f"{name}: {slope.mean:.1f}, {slope.per_hour:+.1f} an hour (at least {slope.low:+.1f}), flat {slope.is_flat}"
        )
    rising = [name for name, slope in slopes.items() if not slope.is_flat]
    per_restart = one.records / max(1, one.restarts)
    counts = " ".join(f"{name}={count}" for name, count in sorted(one.counts.items()))
    print(
        f"RESULT stream-soak minutes={asked.minutes:g} regions={REGIONS} {counts} restarts={one.restarts} "
        f"rising={','.join(rising) or 'none'} records_per_restart={per_restart:.2f} "
        f"healthy_records={one.healthy_records} wrong={len(one.wrong)} took={(time.monotonic() - began) / 60:.1f}"
    )
    is_bad = rising or one.wrong or one.healthy_records or per_restart > RECORDS_PER_RESTART_MAX
    return 1 if is_bad else 0


if __name__ == "__main__":
    sys.exit(main())
