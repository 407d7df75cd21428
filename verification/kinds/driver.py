"""A driver: makes the runs it is asked for, one after the other, and tells of each what was made, lost and foreseen.

A fault strikes when the last step is about to start: everything it reads has been made, and one reader of it is done.
An executor is killed by kill -9, and its loss waited for; the driver kills itself.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
from pyspark import StorageLevel, cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from kinds import shop
from kinds.shop import PARTITIONS, is_one_version, pipeline, random_price
from rekindle.engine.spark.jvm.access import Package
from rekindle.engine.spark.session import attach
from rekindle.failover.backoff import FixedDelay
from rekindle.local_cluster.processes import Process
from rekindle.master.facts.config import BackoffSpec, MasterConfig
from rekindle.master.facts.events import AttemptOpened, Event, PartitionsCommitted, PartitionsLost
from rekindle.master.state.run_state import RunState
from rekindle.results import manifest

LAST, STRUCK = "report", "priced"
CONFIG = MasterConfig(backoff=BackoffSpec.of(FixedDelay(5, 200)))
NOTICED_S_MAX = 300.0
EXECUTORS = 2


class Order(msgspec.Struct, frozen=True):
    """One run: the kind of its middle step, and what strikes it (`""`, `executor`, `driver`). `is_resumed`: it is there
    already, and planned first. The kind `persist` is the control: Spark's own, without Rekindle."""

    kind: str
    fault: str
    folder: str
    is_random: bool = False
    is_resumed: bool = False
    replicas: int = 1


class Orders(msgspec.Struct, frozen=True):
    """What a driver is asked for. `worker` is the process and the host of the worker whose executor is killed."""

    source: str
    rows: int
    test_jar: str
    worker: tuple[int, str]
    warm_up: str
    runs: list[Order]


class Answer(msgspec.Struct, frozen=True):
    """What became of a run: how often each partition was committed here, which were lost, and which lay on the executor
    that was killed; what its plan said; seconds in all, and from the moment at which a fault may strike."""

    order: Order
    made: dict[str, dict[int, int]]
    lost: dict[str, list[int]]
    on_executor: list[int]
    planned: dict[str, list[int]]
    seconds: float
    seconds_after: float
    is_one_version: bool
    changed_rows: int = 0


class Striking:
    """Notes what is decided, and strikes once."""

    def __init__(self, spark: SparkSession, orders: Orders, order: Order) -> None:
        self._spark, self._orders, self._order = spark, orders, order
        self.made: dict[str, dict[int, int]] = {}
        self.lost: dict[str, list[int]] = {}
        self.on_executor: list[int] = []
        self.moment = 0.0

    def __call__(self, events: tuple[Event, ...], state: RunState) -> None:
        for event in events:
            match event:
                case PartitionsCommitted():
                    counts = self.made.setdefault(event.attempt.step, {})
                    for number in event.partitions:
                        counts[number] = counts.get(number, 0) + 1
                case PartitionsLost():
                    self.lost.setdefault(event.step, []).extend(event.partitions)
                case AttemptOpened() if event.attempt.step == LAST and not self.moment:
                    self.moment = time.monotonic()
                    self._strike(state)
                case _:
                    pass

    def _strike(self, state: RunState) -> None:
        match self._order.fault:
            case "driver" if not self._order.is_resumed:
                os.kill(os.getpid(), signal.SIGKILL)
            case "executor":
                self.on_executor = self._lying_there(state)
                kill_executor(self._spark, self._orders.worker[0])
            case _:
                pass

    def _lying_there(self, state: RunState) -> list[int]:
        host = self._orders.worker[1]
        where = Package(self._spark, "rekindle.test").StoredBlocks.hosts
        step = state.steps.get(STRUCK)
        return sorted(
            commit.partition
            for segment in (step.segments if step else ())
            for commit in manifest.unpack(segment.manifest)
            if manifest.is_block(commit.name)
            and host in str(where(int(commit.name.rsplit(".rdd", 1)[1]), commit.task)).split(",")
        )


def executors(spark: SparkSession) -> set[str]:
    return set(str(Package(spark, "rekindle.test").StoredBlocks.executors()).split(",")) - {"driver"}


def await_executors(spark: SparkSession) -> None:
    """One on each worker: a new one takes the place of one that was killed."""
    deadline = time.monotonic() + NOTICED_S_MAX
    while len(executors(spark)) < EXECUTORS:
        assert time.monotonic() < deadline, f"{executors(spark)} are all executors there are"
        time.sleep(0.1)


def kill_executor(spark: SparkSession, worker_pid: int) -> None:
    """Kill -9 of this application's executor on one worker, and a wait until its driver knows."""
    worker = Process.of(worker_pid)
    assert worker is not None, "the worker lives"
    application = str(spark.sparkContext.applicationId)
    (executor,) = (child for child in worker.children() if application in child.command())
    before = executors(spark)
    executor.send(signal.SIGKILL)
    deadline = time.monotonic() + NOTICED_S_MAX
    while before <= executors(spark):
        assert time.monotonic() < deadline, "Spark did not notice that its executor is gone"
        time.sleep(0.1)


def persisted(spark: SparkSession, orders: Orders, order: Order) -> Answer:
    """Spark's own `persist` of the random step, read before and after its executor is killed."""
    price = F.udf(random_price, "long")
    rows = spark.read.parquet(orders.source).repartition(PARTITIONS, "customer").withColumn("price", price("id"))
    kept = rows.persist(StorageLevel.MEMORY_AND_DISK)
    first = {row.id: row.price for row in kept.collect()}
    kill_executor(spark, orders.worker[0])
    second = {row.id: row.price for row in kept.collect()}
    kept.unpersist()
    changed = sum(first[number] != second[number] for number in first)
    return Answer(order, {}, {}, [], {}, 0.0, 0.0, changed == 0, changed)


def perform(spark: SparkSession, orders: Orders, order: Order) -> Answer:
    folder = Path(order.folder)
    made = pipeline(order.kind, Path(orders.source), folder / "out", is_random=order.is_random, replicas=order.replicas)
    watcher = Striking(spark, orders, order)
    options = rk.RunOptions(config=CONFIG, watcher=watcher)
    location = str(folder / "runs")
    planned = made.plan(spark, location).computed() if order.is_resumed else {}
    began = time.monotonic()
    made.run(spark, location, options=options)
    ended = time.monotonic()
    return Answer(
        order,
        watcher.made,
        {step: sorted(set(numbers)) for step, numbers in watcher.lost.items()},
        watcher.on_executor,
        {step: list(partitions) for step, partitions in planned.items()},
        ended - began,
        ended - (watcher.moment or began),
        is_one_version(spark, folder / "out", orders.rows),
    )


def main(asked: str, answers: str) -> None:
    orders = msgspec.json.decode(Path(asked).read_bytes(), type=Orders)
    cloudpickle.register_pickle_by_value(shop)  # Executors cannot import it.
    spark: Any = SparkSession.builder.appName("kinds").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    attach(spark)
    spark.sql(f"ADD JAR '{orders.test_jar}'")
    if orders.warm_up:
        warm = Order("blocking", "", orders.warm_up)
        pipeline(warm.kind, Path(orders.source), Path(warm.folder) / "out").run(spark, f"{warm.folder}/runs")
    with Path(answers).open("ab") as file:
        for order in orders.runs:
            await_executors(spark)
            act = persisted if order.kind == "persist" else perform
            file.write(msgspec.json.encode(act(spark, orders, order)) + b"\n")
            file.flush()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
