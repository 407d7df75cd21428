"""`make year`: 365 nights are added to a target, and one more costs what the second one cost.

Nights are published with the publisher of production, from committed Parquet files, on a disk and on a real S3 server.
At the end a night is added to the target of a year and to targets of one night, by turns in one process: CPU seconds of
driver and executors (one JVM), and requests as the server's own access log counts them. Reading is `rk.read_newest` of
one day. The control is the second night against another second night.
"""

from __future__ import annotations

import argparse
import io
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from local_spark import local_spark
from rekindle.engine.spark.publish.files import read_newest
from rekindle.engine.spark.publish.publication import Publication
from rekindle.engine.spark.publish.sinks import publish
from rekindle.engine.spark.session import attach
from rekindle.gc.audit_log import AuditLog
from rekindle.gc.collect_run import GcRules
from rekindle.gc.collect_target import GcTarget, TargetCollector
from rekindle.gc.policy import Retention
from rekindle.master.facts.events import Fence
from rekindle.master.facts.stimuli import SinkDone
from rekindle.publish.pointers import POINTERS, top_of
from rekindle.publish.targets import Files, files
from rekindle.storage.store import Store
from rekindle.storage.stores import open_target
from support.s3 import S3Server

PLACE = "abc"
FILES_OF_A_NIGHT, ROWS = 2, 200
RATIO_MAX = 1.2
TARGETS: Mapping[str, Callable[[str], Files]] = {
    "append": lambda path: files(path, mode="append"),
    "append_hive": lambda path: files(path, mode="append", hive_partition_by="day"),
    "partition": lambda path: files(path, mode="partition", hive_partition_by="day", partition={"day": "{day}"}),
}


@dataclass(slots=True)
class Cost:
    """What was measured of one thing, several times."""

    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    requests: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Place:
    """Where results and targets lie; `server` is None on a disk."""

    root: str
    settings: Mapping[str, str]
    server: S3Server | None = None

    def open(self, base: str) -> Store:
        return open_target(base, self.settings)

    def requests(self, since: int) -> int:
        return sum(self.server.requests(since).values()) if self.server is not None else 0

    def mark(self) -> int:
        return self.server.mark() if self.server is not None else 0


@dataclass(slots=True)
class Year:
    """One kind of target at one place."""

    spark: SparkSession
    place: Place
    mode: str
    schema: str = ""

    def target(self, name: str, night: int) -> Files:
        made = TARGETS[self.mode](f"{self.place.root}/{self.mode}/{name}")
        return (
            made
            if not made.partition
            else files(made.path, mode="partition", hive_partition_by="day", partition={"day": day_of(night)})
        )

    def results(self, night: int) -> tuple[tuple[str, int], ...]:
        """The committed files of a night: written as a task would, once."""
        store, found = self.place.open(self.place.root), []
        for number in range(FILES_OF_A_NIGHT):
            name = f"results/{night:04d}/part-1_{number:05d}.parquet"
            table = pa.table({"id": range(ROWS), "amount": [night] * ROWS, "day": [day_of(night)] * ROWS})
            body = io.BytesIO()
            pq.write_table(table, body)
            store.put(name, body.getvalue())
            found.append((f"{self.place.root}/{name}", len(body.getvalue())))
        return tuple(found)

    def publish(self, name: str, night: int, cost: Cost | None = None) -> None:
        what = Publication(
            sink="out",
            owner="daily",
            target=self.target(name, night),
            fence=Fence(night, 1, 1),
            files=self.results(night),
            schema=SCHEMA,
            place=PLACE,
            key=day_of(night),
        )
        with measured(self, cost):
            answer = publish(self.spark, what, self.place.open)
        assert isinstance(answer, SinkDone), answer

    def read(self, name: str, night: int, cost: Cost | None = None) -> None:
        with measured(self, cost):
            rows = read_newest(self.spark, self.target(name, night).path, self.place.open)
            count = rows.where(f"day = '{day_of(night)}'").count()
        assert count == ROWS * FILES_OF_A_NIGHT, f"{name} has {count} rows of night {night}"


SCHEMA = (
    '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},'
    '{"name":"amount","type":"long","nullable":true,"metadata":{}},'
    '{"name":"day","type":"string","nullable":true,"metadata":{}}]}'
)


def day_of(night: int) -> str:
    return f"night-{night:04d}"


def cpu_s() -> float:
    """Of Python and of the JVM."""
    here = psutil.Process()
    times = [one.cpu_times() for one in (here, *(one for one in here.children() if "java" in one.name()))]
    return float(sum(one.user + one.system for one in times))


@contextmanager
def measured(year: Year, cost: Cost | None) -> Iterator[None]:
    mark, before, began = year.place.mark(), cpu_s(), time.monotonic()
    yield
    if cost is not None:
        cost.cpu.append(cpu_s() - before)
        cost.wall.append(time.monotonic() - began)
        cost.requests.append(year.place.requests(mark))


def ratio(late: list[float] | list[int], early: list[float] | list[int]) -> float:
    """Of the means: the system counts CPU in hundredths of a second. Requests of a disk are none."""
    usual = statistics.mean(early)
    return statistics.mean(late) / usual if usual else 0.0


def measure(year: Year, nights: int, rounds: int) -> tuple[dict[str, float], list[str]]:
    """The ratios, and those that are too high."""
    for night in range(1, nights - rounds + 1):
        year.publish("year", night)
    found: dict[str, Cost] = {
        f"{what}_{who}": Cost() for what in ("publish", "read") for who in ("late", "early", "aa")
    }
    for number in range(rounds):
        last = nights - rounds + 1 + number
        for who in ("early", "late", "aa") if number % 2 else ("aa", "late", "early"):
            name, night = ("year", last) if who == "late" else (f"{who}-{number}", 2)
            if who != "late":
                year.publish(name, 1)
            year.publish(name, night, found[f"publish_{who}"])
            year.read(name, night, found[f"read_{who}"])
    figures: dict[str, float] = {}
    for what in ("publish", "read"):
        late, early, again = (found[f"{what}_{who}"] for who in ("late", "early", "aa"))
        figures |= {
            f"{what}_cpu": ratio(late.cpu, early.cpu),
            f"{what}_cpu_aa": ratio(again.cpu, early.cpu),
            f"{what}_wall": ratio(late.wall, early.wall),
            f"{what}_cpu_s": statistics.mean(late.cpu),
            f"{what}_requests": ratio(late.requests, early.requests),
            f"{what}_requests_late": statistics.median(late.requests),
        }
    judged = ["publish_cpu", "publish_requests"]
    if year.mode != "append":
        # Without directories of values every reader of one day, bare Spark too, opens all files.
        judged += ["read_cpu", "read_requests"]
    return figures, [name for name in judged if figures[name] > RATIO_MAX]


def tidied(year: Year) -> str:
    """What is there after a year, and after a gc that keeps no replaced version."""
    base = year.target("year", 1).path
    store = year.place.open(base)
    names = [entry.name for folder in ("versions/", "views/") for page in store.walk(folder) for entry in page]
    before = len(store.list_after(POINTERS))
    listed = len(top_of(store).files())
    with tempfile.TemporaryDirectory() as folder:
        log = AuditLog(open_target(folder, {}), "daily", round(time.time() * 1000))
        rules = GcRules(terms=Retention(0, 0, 0))
        report = TargetCollector(rules, log, time.time() + 10, lambda order: True).tend(
            store, GcTarget(pipeline="daily", place=PLACE, base=base)
        )
    after = [entry.name for page in store.walk("versions/") for entry in page]
    year.read("year", 2)
    return (
        f"versions={before} files_of_the_newest={listed} objects={len(names)} "
        f"gc_deleted={sum(item.files for item in report.findings)} "
        f"versions_after={len(store.list_after(POINTERS))} objects_after={len(after)}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nights", type=int, default=365)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--only", choices=sorted(TARGETS), action="append")
    parser.add_argument("--on", choices=["disk", "s3"], action="append")
    asked = parser.parse_args()
    folder, missed, began = Path(tempfile.mkdtemp(prefix="rekindle-year-")), [], time.monotonic()
    with S3Server() as server:
        spark = local_spark(server.spark_settings)
        attach(spark)
        places = {
            "disk": Place(f"file:{folder}", {}),
            "s3": Place(server.url("year"), server.store_settings, server),
        }
        for where in asked.on or places:
            for mode in asked.only or TARGETS:
                year = Year(spark, places[where], mode)
                figures, high = measure(year, asked.nights, asked.rounds)
                missed += [f"{where}.{mode}.{name}" for name in high]
                told = " ".join(f"{name}={value:.3f}" for name, value in figures.items())
                print(f"{where} {mode} nights={asked.nights} {told}", flush=True)
                print(f"{where} {mode} {tidied(year)}", flush=True)
        spark.stop()
    shutil.rmtree(folder)
    print(
        f"RESULT year nights={asked.nights} rounds={asked.rounds} ratio_max={RATIO_MAX} "
        f"minutes={(time.monotonic() - began) / 60:.1f} missed={','.join(missed) or 'none'}"
    )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
