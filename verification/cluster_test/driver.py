"""A driver program: runs the shop, or the same without Rekindle, as the harness asks, in one Spark application."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import SparkSession

import rekindle as rk
from cluster_test.rows import digest_of
from first_light.driver import load, say
from rekindle.engine.spark.run import attempts
from rekindle.errors import Fenced, RekindleError
from rekindle.failover.backoff import FixedDelay
from rekindle.failover.restart import Strategy
from rekindle.master.facts.config import BackoffSpec, MasterConfig
from rekindle.service import running
from rekindle.storage.store import Put, Store
from rekindle.storage.stores import open_store
from stage import serve
from support.drivers import flush_events_often

NEVER = 2.0


class Order(msgspec.Struct):
    """One run, named by its parameter; or `is_bare`: the same without Rekindle."""

    name: str
    is_bare: bool = False
    accepted: list[str] = []
    replaced: list[str] = []
    strategy: str = "region"
    tries: int = 3
    delay_ms: int = 300
    stale_seconds: float = 30.0
    die_at: int = 0
    dies_after: bool = False
    is_last: bool = False
    # Commits are told every two seconds at most, so that the journal is short.
    is_terse: bool = False


class Answer(msgspec.Struct):
    """What came of an order: digests of both outputs, partitions computed by this process, steps' generations;
    `planned` is what was to be computed of each step, as the plan said it before."""

    name: str
    application: str
    phase: str = ""
    error: str = ""
    digests: dict[str, str] = {}
    computed: dict[str, int] = {}
    generations: dict[str, int] = {}
    appends: int = 0
    seconds: float = 0.0
    planned: dict[str, str] = {}


class DyingStore:
    """The journal's store, counting its appends; kill -9 of this driver before or after the one that was asked for."""

    def __init__(self, store: Store, spark: SparkSession, order: Order) -> None:
        self._store = store
        self._spark = spark
        self._order = order
        self.appends = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def put_if_absent(self, key: str, body: bytes) -> Put:
        if "/journal/" not in key:
            return self._store.put_if_absent(key, body)
        self.appends += 1
        if self.appends == self._order.die_at and not self._order.dies_after:
            self._die(key)
        answer = self._store.put_if_absent(key, body)
        if self.appends == self._order.die_at:
            self._die(key)
        return answer

    def _die(self, key: str) -> None:
        print(f"dies at {key}", flush=True)
        os.kill(self._spark.sparkContext._gateway.proc.pid, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


class Runner:
    """One application."""

    def __init__(self, location: str, root: str, options: dict[str, str], user: Path) -> None:
        self.spark = SparkSession.builder.getOrCreate()
        self.spark.sparkContext.setLogLevel("ERROR")
        flush_events_often(self.spark)
        self.location, self.storage = root, options
        self.user = load(user)

    def answer(self, order: Order) -> Answer:
        started = time.monotonic()
        answer = Answer(order.name, str(self.spark.sparkContext.applicationId))
        try:
            if order.is_bare:
                found = self.user.bare(self.spark)
                answer.phase = "bare"
            else:
                self._run(order, answer)
                found = {name: self._newest(name) for name in ("report", "ledger")}
            answer.digests = {name: digest_of(frame.toArrow()) for name, frame in found.items()}
        except Fenced as error:
            answer.phase, answer.error = "fenced", str(error)
        except RekindleError as error:
            answer.phase, answer.error = type(error).__name__, str(error)
        answer.seconds = time.monotonic() - started
        return answer

    def _run(self, order: Order, answer: Answer) -> None:
        config = MasterConfig(
            strategy=Strategy(order.strategy),
            backoff=BackoffSpec.of(FixedDelay(order.tries + 20, order.delay_ms)),
            poison_tries_max=order.tries,
        )
        options = rk.RunOptions(
            accept_change=order.accepted,
            replace=order.replaced,
            storage=self.storage,
            config=config,
            stale_seconds=order.stale_seconds,
            watcher=say,
            strategy=order.strategy,
            on_plan=lambda plan: answer.planned.update(_computed(plan)),
        )
        if order.is_terse:
            vars(attempts)["REPORT_SHARE"] = NEVER
        store = DyingStore(open_store(self.location, self.storage), self.spark, order)
        vars(running)["open_store"] = lambda url, storage=None: (
            store if url == self.location else open_store(url, storage)
        )
        summary = self.user.shop.run(self.spark, self.location, options=options, name=order.name)
        answer.appends = store.appends
        answer.phase = "done" if summary.was_done else "succeeded"
        answer.computed = {name: step.computed for name, step in summary.steps.items()}
        answer.generations = {name: step.generation for name, step in summary.steps.items()}

    def _newest(self, name: str) -> Any:
        return rk.read_newest(self.spark, f"{self.user.OUTPUT}/{name}", self.storage)


def _computed(plan: rk.Plan) -> dict[str, str]:
    return {stage.step: str(stage.computed) for stage in plan.stages if stage.computed}


if __name__ == "__main__":
    sys.exit(serve(Runner, Order, lambda order: order.name))
