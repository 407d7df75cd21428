"""The driver program: one Spark application that takes one order and answers it.

Sides are interleaved in one application and change places from round to round. What warms up is not counted. The clock
of a side stands while its output is looked at and removed.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import SparkSession

import rekindle as rk
from bench_batch import pipelines as p
from bench_batch.data import WARM
from bench_batch.meter import Measured, Meter, output
from bench_batch.sampling import Profile, Sampler
from rekindle.failover.backoff import FixedDelay
from rekindle.master.facts.config import BackoffSpec, MasterConfig
from support.drivers import flush_events_often
from support.signals import when

BARE, OURS = "bare", "rekindle"


class Order(msgspec.Struct):
    """What one application is to measure, on which data, in which folder."""

    what: str
    data: str
    folder: str
    answer: str
    workers: list[int]
    started: float
    partitions: int
    rounds: int = 1
    effort: int = 0
    keys: str = ""
    has_join: bool = False
    die_after_tasks: int = 0
    is_profiled: bool = False


class Answer(msgspec.Struct):
    """`start_s` is from the start of the process until executors were there and had run a first, trivial Spark job. It
    is the same for both sides and in no other figure."""

    start_s: float
    sides: list[Measured] = []
    profile: Profile | None = None
    computed: dict[str, int] = {}


class Runner:
    """One application and its order."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.spark = SparkSession.builder.getOrCreate()
        self.spark.sparkContext.setLogLevel("ERROR")
        self.folder = Path(order.folder)
        self.meter = Meter(order.workers)
        scala = self._scala()
        when(lambda: len(scala.statusTracker().getExecutorInfos()) > 1)
        self.spark.range(1).count()
        self.answer = Answer(time.time() - order.started)
        self._sampler = Sampler() if order.is_profiled else None

    def run(self) -> Answer:
        getattr(self, self.order.what)()
        self.answer.profile = self._sampler.profile if self._sampler else None
        return self.answer

    def kept(self) -> None:
        """P4."""
        count = self.order.partitions

        def bare(source: str, place: Path) -> None:
            p.two_results_bare(self.spark, source, str(place), count)

        def ours(source: str, place: Path) -> None:
            p.with_two_results(count).run(self.spark, str(place), source=source)

        self._pairs(bare, ours, ("clean", "enriched"))

    def fused(self) -> None:
        """P5."""
        has_join = self.order.has_join

        def bare(source: str, place: Path) -> None:
            p.one_sink_bare(self.spark, source, f"{place}/out", has_join=has_join)

        def ours(source: str, place: Path) -> None:
            made = p.into_one_sink(f"{place}/out", has_join=has_join)
            made.run(self.spark, f"{place}/lake", source=source)

        self._pairs(bare, ours, ("out",))

    def skew(self) -> None:
        keys, count = self.order.keys, self.order.partitions

        def bare(source: str, place: Path) -> None:
            p.skew_bare(self.spark, source, str(place), keys, count)

        def ours(source: str, place: Path) -> None:
            p.with_skew(keys, count).run(self.spark, str(place), source=source)

        self._pairs(bare, ours, ("joined",))

    def scratch(self) -> None:
        """P3: bare Spark from the beginning."""
        order = self.order

        def act() -> None:
            p.python_bare(self.spark, order.data, f"{self.folder}/bare", order.partitions, order.effort)

        self.answer.sides.append(self.meter.measure(BARE, 0, act))

    def resume(self) -> None:
        """P3: Rekindle, from wherever the run stands; killed on the way if that was asked for."""
        order = self.order
        if order.die_after_tasks:
            flush_events_often(self.spark)
            threading.Thread(target=self._die, daemon=True).start()

        def act() -> None:
            made = p.with_python(order.partitions)
            summary = made.run(self.spark, f"{self.folder}/lake", source=order.data, rates="", effort=order.effort)
            self.answer.computed = {name: step.computed for name, step in summary.steps.items()}

        with self._sampler or nullcontext():
            self.answer.sides.append(self.meter.measure(OURS, 0, act))

    def recover(self) -> None:
        """P1: the run fails for good, what was missing appears, and the run is resumed: from copies of what is left of
        it, so that one failure can be recovered from many times."""
        order, rates = self.order, self.folder / "rates"
        failed = self._failed_run(str(rates))
        (number,) = {int(found) for found in re.findall(r"scored\[(\d+)\]", failed)}
        rates.touch()
        (file,) = (self.folder / "lake").glob(f"scores/*/results/clean/*/*/part-*_{number:05d}.*parquet")

        schema = p.clean(p.orders(self.spark, order.data)).schema

        def bare(source: str, place: Path) -> None:
            part = self.spark.read.schema(schema).parquet(str(file))
            p.one_partition_bare(part, f"{place}/scored", str(rates), order.effort)

        def ours(source: str, place: Path) -> None:
            made = p.with_python(order.partitions)
            summary = made.run(self.spark, str(place), source=source, rates=str(rates), effort=order.effort)
            computed = {name: step.computed for name, step in summary.steps.items()}
            assert computed == {"clean": 0, "scored": 1}, computed

        for count in range(order.rounds + 1):
            shutil.copytree(self.folder / "lake", self._place(OURS, count), copy_function=_link)
            sides = self._round(count, {BARE: bare, OURS: ours}, order.data, is_counted=count > 0)
            self._remove(count)
            self.answer.sides += sides if count else []

    def _failed_run(self, rates: str) -> str:
        limits = MasterConfig(backoff=BackoffSpec.of(FixedDelay(20, 100)), poison_tries_max=1)
        made = p.with_python(self.order.partitions)
        try:
            made.run(
                self.spark,
                f"{self.folder}/lake",
                options=rk.RunOptions(config=limits),
                source=self.order.data,
                rates=rates,
                effort=self.order.effort,
            )
        except rk.RunFailed as error:
            return str(error)
        raise AssertionError("the run did not fail")

    def _pairs(self, bare: Act, ours: Act, results: tuple[str, ...]) -> None:
        acts = {BARE: bare, OURS: ours}
        for count in range(2):
            self._round(count, acts, f"{self.order.data}/{WARM}", is_counted=False)
            self._remove(count)
        for count in range(self.order.rounds):
            sides = self._round(count, acts, self.order.data, is_counted=True)
            for side in sides:
                side.outputs = {name: output(self._result(side.side, count, name)) for name in results}
            self._remove(count)
            self.answer.sides += sides

    def _round(self, number: int, acts: dict[str, Act], source: str, *, is_counted: bool) -> list[Measured]:
        found = []
        for name in (BARE, OURS) if number % 2 else (OURS, BARE):
            act = _bound(acts[name], source, self._place(name, number))
            with (self._sampler if is_counted and name == OURS else None) or nullcontext():
                found.append(self.meter.measure(name, number, act))
        return found

    def _place(self, side: str, number: int) -> Path:
        return self.folder / f"{side}-{number}"

    def _result(self, side: str, number: int, name: str) -> Path:
        """Where the files of a result lie: a run keeps them by step."""
        place = self._place(side, number)
        runs = [found for found in place.glob(f"*/*/results/{name}") if side == OURS]
        return runs[0] if runs else place / name

    def _remove(self, number: int) -> None:
        for side in (BARE, OURS):
            shutil.rmtree(self._place(side, number))

    def _die(self) -> None:
        """kill -9 of both processes of this driver as soon as so many tasks have ended."""
        store = self._scala().statusStore()
        while _tasks(store) < self.order.die_after_tasks:
            time.sleep(0.02)
        os.kill(self.spark.sparkContext._gateway.proc.pid, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    def _scala(self) -> Any:
        return self.spark.sparkContext._jsc.sc()


Act = Callable[[str, Path], None]


def _bound(act: Act, source: str, place: Path) -> Callable[[], None]:
    return lambda: act(source, place)


def _tasks(store: Any) -> int:
    found = store.executorList(True)
    return sum(int(found.apply(number).completedTasks()) for number in range(found.size()))


def _link(source: str, target: str) -> None:
    """Results are never changed in place; the journal's heartbeat is."""
    if "/results/" in source:
        os.link(source, target)
    else:
        shutil.copy2(source, target)


if __name__ == "__main__":
    asked = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Order)
    runner = Runner(asked)
    Path(asked.answer).write_bytes(msgspec.json.encode(runner.run()))
    runner.spark.stop()
