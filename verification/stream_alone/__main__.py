"""`make stream-alone`: three disjoint regions on a real cluster; one fails three times. What do the others notice?

Judged by Spark's own event log: which queries started (run ids), and when each had progress. Runs with the failures and
runs without any are interleaved; the longest gap of the healthy regions must be at most 1.2 of that without a failure.
Controls: a script that waits for any of its three queries, and one query for all. Both end at the first failure.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq

from build_jar import JAR
from rekindle.local_cluster.cluster import LocalCluster
from stream_alone.alone_driver import FRAGILE, NAMES, ONE, OURS, SCRIPT
from support.drivers import Driver, start_driver
from support.signals import when

ROWS, EVERY_S, FAILURES, GAP_MAX = 20, 0.7, 3, 1.2
STARTED, PROGRESS = "QueryStartedEvent", "QueryProgressEvent"


@dataclass(frozen=True, slots=True)
class AloneTrial:
    """One run, as its event log tells it: how many queries each region had, and its longest gap in seconds."""

    queries: dict[str, int]
    gaps: dict[str, float]
    wrong: tuple[str, ...]
    is_dead: bool = False


def feed(place: Path, number: int) -> None:
    for name in NAMES:
        made = place / f".{name}-{number}"
        made.write_text("".join(f'{{"id":{one}}}\n' for one in range(number * ROWS, (number + 1) * ROWS)))
        made.rename(place / f"in-{name}" / f"{number:05d}.json")


def found(place: Path, name: str) -> Counter[int]:
    rows = Counter[int]()
    for path in (place / f"out-{name}" / "current").glob("*.parquet"):
        rows.update(pq.read_table(path, columns=["id"]).column("id").to_pylist())
    return rows


def events_of(folder: Path) -> list[dict[str, object]]:
    lines = [line for file in folder.iterdir() for line in file.read_text().splitlines()]
    return [json.loads(line) for line in lines if "StreamingQueryListener" in line]


def told(folder: Path) -> tuple[dict[str, int], dict[str, float]]:
    """From the event log: run ids and longest gaps between progresses with rows, by region."""
    runs: dict[str, set[str]] = {name: set() for name in NAMES}
    times: dict[str, list[float]] = {name: [] for name in NAMES}
    for event in events_of(folder):
        kind = str(event["Event"])
        if kind.endswith(STARTED) and event["name"] in runs:
            runs[str(event["name"])].add(str(event["runId"]))
        elif kind.endswith(PROGRESS):
            progress = event["progress"]
            assert isinstance(progress, dict)
            if progress["name"] in times and sum(one["numInputRows"] for one in progress["sources"]):
                took = progress["durationMs"]["triggerExecution"] / 1000
                at = datetime.fromisoformat(progress["timestamp"].replace("Z", "+00:00")).timestamp()
                times[progress["name"]].append(at + took)
    gaps = {name: max((b - a for a, b in pairwise(sorted(one))), default=0.0) for name, one in times.items()}
    return {name: len(one) for name, one in runs.items()}, gaps


def trial(cluster: LocalCluster, place: Path, how: str, files: int, *, fails: bool) -> AloneTrial:
    for name in NAMES:
        (place / f"in-{name}").mkdir(parents=True)
    (place / "failures").mkdir()
    settings = {**cluster.app_settings(place / "events"), "spark.scheduler.mode": "FAIR", "spark.jars": str(JAR)}
    settings["spark.task.maxFailures"] = "1"
    driver = start_driver(
        Path(__file__).with_name("alone_driver.py"),
        str(place),
        how,
        folder=place / "driver",
        settings=settings,
        env=cluster.app_env,
    )
    try:
        return _fed(driver, place, how, files, fails=fails)
    finally:
        driver.end()


def _fed(driver: Driver, place: Path, how: str, files: int, *, fails: bool) -> AloneTrial:
    feed(place, 0)
    outputs = [place / f"out-{name}" for name in (*NAMES, "all")]
    needed = 1 if how == ONE else len(NAMES)

    def written() -> int:
        return sum(any(one.glob("**/*.parquet")) for one in outputs)

    when(lambda: written() >= needed or not driver.is_alive(), 240.0, sign=driver.printed)
    for number in range(1, files):
        time.sleep(EVERY_S)
        feed(place, number)
        if fails and number % (files // (FAILURES + 1)) == 0 and number // (files // (FAILURES + 1)) <= FAILURES:
            (place / "failures" / str(number)).touch()
    if how != OURS:
        if fails:
            when(lambda: not driver.is_alive(), 120.0, sign=driver.printed)
        return AloneTrial({}, {}, (), is_dead=not driver.is_alive())
    expected = Counter(range(files * ROWS))
    when(
        lambda: all(found(place, name) == expected for name in NAMES),
        240.0,
        every_s=0.5,
        sign=lambda: [len(found(place, name)) for name in NAMES],
    )
    (place / "halt").touch()
    driver.wait()
    queries, gaps = told(place / "events")
    return AloneTrial(queries, gaps, tuple(name for name in NAMES if found(place, name) != expected))


def main() -> int:
    parser = argparse.ArgumentParser(prog="stream-alone")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--files", type=int, default=40)
    asked = parser.parse_args()
    began, folder = time.monotonic(), Path(tempfile.mkdtemp(prefix="stream-alone-"))
    healthy = [name for name in NAMES if name != FRAGILE]
    gaps: dict[bool, list[float]] = {True: [], False: []}
    wrong, others, restarts = 0, 0, 0
    with LocalCluster() as cluster:
        for number in range(asked.rounds):
            for fails in (True, False) if number % 2 == 0 else (False, True):
                one = trial(cluster, folder / f"{number}-{fails}", OURS, asked.files, fails=fails)
                print(f"round {number}, failures {fails}: queries {one.queries}, longest gaps {one.gaps}", flush=True)
                gaps[fails].append(max(one.gaps[name] for name in healthy))
                wrong += len(one.wrong)
                others += sum(one.queries[name] - 1 for name in healthy)
                restarts += one.queries[FRAGILE] - 1
        controls = [trial(cluster, folder / how, how, asked.files // 2, fails=True) for how in (SCRIPT, ONE)]
    shutil.rmtree(folder, ignore_errors=True)
    ratio = max(gaps[True]) / max(gaps[False])
    dead = sum(one.is_dead for one in controls)
    print(
        f"RESULT stream-alone rounds={asked.rounds} restarts={restarts} others_restarted={others} wrong={wrong} "
        f"gap_ratio={ratio:.2f} gap_s={max(gaps[True]):.1f} gap_without_s={max(gaps[False]):.1f} controls_dead={dead} "
        f"minutes={(time.monotonic() - began) / 60:.1f}"
    )
    is_alone = not wrong and not others and restarts == FAILURES * asked.rounds and dead == len(controls)
    return 0 if is_alone and ratio <= GAP_MAX else 1


if __name__ == "__main__":
    sys.exit(main())
