"""A user with a folder, a pipeline and a terminal. Processes are ended by their own handle.

The gate: as long as the folder `gate` is there, only so many Spark tasks of `priced` go on as it says, and the others
wait. What runs is then held in the middle of a step for as long as a campaign likes, and nothing depends on how fast
the machine is. No code of the pipeline changes when the gate is put up or taken away.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rekindle.journal.history import Record, read
from rekindle.journal.keys import listed
from rekindle.local_cluster.cluster import LocalCluster
from rekindle.local_cluster.processes import Process, end
from rekindle.master.facts.events import Event, PartitionsCommitted, SinkPublished
from rekindle.runtime.opening import codec
from rekindle.storage.stores import open_store
from stage import SHORT_LIVED

ROWS, CUSTOMERS, PARTITIONS = 4_000, 64, 8
MAIN = "from rekindle.cli.main import main; main()"
NAME = "shop"
# The package of this checkout, wherever a command is typed, and JVMs for a short life.
OURS = {
    "PYSPARK_PYTHON": sys.executable,
    "PYTHONPATH": str(Path(__file__).parents[2] / "src"),
    "JDK_JAVA_OPTIONS": SHORT_LIVED,
}
WAIT_SECONDS_MAX = 600.0
PIPELINE = """
import os
import time

import pandas as pd
import rekindle as rk
from pyspark.sql import functions as f

pipeline = rk.Pipeline("shop")


@pipeline.source
def orders(spark, day="monday"):
    return spark.read.schema("id long, customer long").parquet("{folder}/orders")


@pipeline.step(partition_by="customer", partitions={partitions})
def by_customer(orders):
    return orders.where("id >= 0")


def scaled(ids):
    return ids * {factor}


def pass_the_gate(gate="{folder}/gate"):
    number = 0
    try:
        while os.path.exists(f"{{gate}}/{{number}}"):
            number += 1
        os.close(os.open(f"{{gate}}/{{number}}", os.O_CREAT | os.O_EXCL))
        while number >= int(open(f"{{gate}}/open").read()):
            time.sleep(0.05)
    except FileExistsError:
        pass_the_gate(gate)
    except FileNotFoundError:
        pass


@f.pandas_udf("long")
def price(ids: pd.Series) -> pd.Series:
    if {poison} in ids.tolist():
        raise ValueError("cannot be priced")
    time.sleep({pause})
    pass_the_gate()
    return scaled(ids)


@pipeline.step(partition_by="customer", partitions={partitions})
def priced(by_customer):
    return by_customer.withColumn("price", price("id") + {plus})


@pipeline.step(partition_by="day", partitions=4)
def totals(priced):
    days = priced.withColumn("day", f.col("id") % 7)
    return days.groupBy("day").agg(f.sum("price").alias("total"), f.lit({mark}).alias("mark"))


@pipeline.sink(rk.files("{folder}/out"))
def daily(totals): ...
"""


@dataclass(frozen=True, slots=True)
class Typed:
    """What became of a command."""

    code: int
    out: str
    err: str
    seconds: float


class User:
    """One folder; every command goes to its store."""

    def __init__(
        self, folder: Path, conf: Mapping[str, str] | None = None, cluster: LocalCluster | None = None
    ) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.store = open_store(str(folder / "store"))
        self.cluster = cluster
        self.master = cluster.master_url if cluster else "local[2]"
        self.conf = {**(cluster.app_settings() if cluster else {}), **(conf or {})}
        self._begun: list[subprocess.Popen[str]] = []
        (folder / "orders").mkdir()
        self.adds_orders("first", 0, ROWS)
        self.writes()

    def adds_orders(self, name: str, start: int, stop: int) -> None:
        ids = list(range(start, stop))
        table = pa.table({"id": ids, "customer": [one % CUSTOMERS for one in ids]})
        pq.write_table(table, self.folder / "orders" / f"{name}.parquet")

    def writes(self, *, pause: float = 0.0, poison: int = -1, factor: int = 2, plus: int = 0, mark: int = 1) -> None:
        """The pipeline's file, as the user has it from now on."""
        text = PIPELINE.format(
            folder=self.folder,
            partitions=PARTITIONS,
            pause=pause,
            poison=poison,
            factor=factor,
            plus=plus,
            mark=mark,
        )
        (self.folder / "shop_pipeline.py").write_text(text)

    def opens_gate_for(self, count: int) -> None:
        """From now on this many Spark tasks of `priced` go on, and the others wait."""
        gate = self.folder / "gate"
        gate.mkdir(exist_ok=True)
        (gate / "new").write_text(str(count))
        (gate / "new").rename(gate / "open")

    def at_gate(self) -> int:
        """How many Spark tasks came to the gate."""
        return sum(file.name.isdigit() for file in (self.folder / "gate").iterdir())

    def takes_gate_away(self) -> None:
        gone = self.folder / "gone"
        (self.folder / "gate").rename(gone)
        shutil.rmtree(gone)

    def begins(self, command: str, *words: str) -> subprocess.Popen[str]:
        conf = [word for key, value in self.conf.items() for word in ("--conf", f"{key}={value}")]
        place = ["--location", str(self.folder / "store"), "--master", self.master, *conf]
        process = subprocess.Popen(
            [sys.executable, "-c", MAIN, command, *place, "shop_pipeline.py", *words],
            cwd=self.folder,
            env={**os.environ, **OURS, **(self.cluster.app_env if self.cluster else {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._begun.append(process)
        return process

    def leaves(self) -> None:
        """Whatever this user started and did not wait for is ended."""
        for process in self._begun:
            if process.poll() is None:
                end(driver_of(process))
                process.wait()

    def types(self, command: str, *words: str) -> Typed:
        return ended(self.begins(command, *words))

    def runs(self) -> list[str]:
        """Each once, oldest first: processes that start the same run at once each number it."""
        return list(dict.fromkeys(listed(self.store, NAME).values()))

    def records(self) -> list[Record[Event]]:
        """All that the newest run has, oldest first."""
        runs = self.runs()
        return list(read(self.store, f"{NAME}/{runs[-1]}", codec()).records) if runs else []

    def events(self, epoch: int = 0) -> Iterator[Event]:
        """Of one epoch of the newest run, or of all."""
        return (event for record in self.records() if epoch in (0, record.epoch) for event in record.events)

    def epoch(self) -> int:
        return max((record.epoch for record in self.records()), default=0)

    def commits(self, step: str = "", epoch: int = 0) -> int:
        """How many partitions were recorded as committed."""
        return sum(
            len(event.partitions)
            for event in self.events(epoch)
            if isinstance(event, PartitionsCommitted) and step in ("", event.attempt.step)
        )

    def publications(self) -> tuple[int, int]:
        """How often the journals say that something was published, and how many pointers the target has."""
        facts = 0
        for run in self.runs():
            events = read(self.store, f"{NAME}/{run}", codec()).events
            facts += sum(isinstance(event, SinkPublished) for event in events)
        return facts, len(list((self.folder / "out" / "pointers").glob("*")))

    def total(self) -> int:
        """The sum over what is published, read without Spark."""
        files = sorted((self.folder / "out" / "versions").rglob("*.parquet"))
        return sum(sum(pq.read_table(file)["total"].to_pylist()) for file in files)


def driver_of(process: subprocess.Popen[str]) -> list[Process]:
    """What a driver is: Python first, and the JVM under it."""
    python = Process.of(process.pid)
    assert python is not None, "a child that was not waited for keeps its entry"
    below = [one for one in python.descendants() if Path((one.command() or [""])[0]).name == "java"]
    return [python, *below]


def ended(process: subprocess.Popen[str]) -> Typed:
    started = time.monotonic()
    out, err = process.communicate(timeout=WAIT_SECONDS_MAX)
    return Typed(process.returncode, out, err, time.monotonic() - started)


def wait_until(is_so: Callable[[], bool], what: str, process: subprocess.Popen[str] | None = None) -> None:
    """Until something is so; an error if a process ends before, or it takes too long."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not is_so():
        if process is not None and process.poll() is not None:
            raise AssertionError(f"it ended before {what}: {process.communicate()}")
        assert time.monotonic() < deadline, f"{what} did not come"
        time.sleep(0.1)


def sum_of(factor: int = 2, rows: int = ROWS, plus: int = 0) -> int:
    return factor * rows * (rows - 1) // 2 + plus * rows
