"""A driver program: runs orders one after the other in one Spark application, as the harness asks for them.

Orders arrive as JSON lines in a file that may grow while the driver runs; answers go to a file, one line each. An
order names a pipeline of the user's file and a run; a missing run is started, an unfinished one resumed.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from pathlib import Path
from types import ModuleType

import msgspec
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rekindle.engine.spark import session
from rekindle.engine.spark.plan.analyse import analyse
from rekindle.engine.spark.run import attempts
from rekindle.engine.spark.run.engine import SparkEngine
from rekindle.errors import Fenced, RekindleError
from rekindle.failover.backoff import FixedDelay
from rekindle.master.facts.config import BackoffSpec, MasterConfig
from rekindle.master.facts.events import (
    AttemptOpened,
    CodeReplaced,
    EpochOpened,
    Event,
    FailureHandled,
    GenerationOpened,
    PartitionsCommitted,
)
from rekindle.master.facts.run_spec import RunSpec, UserDecisions
from rekindle.master.state.commands import Input
from rekindle.master.state.run_state import Phase, RunState
from rekindle.pipeline.identity.fingerprint import parts
from rekindle.runtime.opening import RunIntent, execute
from rekindle.storage.probe import probe
from rekindle.storage.stores import open_store
from stage import serve
from support.drivers import flush_events_often


class Order(msgspec.Struct):
    """One run to make, or to resume; or `bare`: the same without Rekindle."""

    pipeline: str
    run: str
    is_bare: bool = False
    write_bare_to: str = ""
    accepted: list[str] = []
    tries: int = 3
    delay_ms: int = 1500
    stale_seconds: float = 30.0
    is_exchange_checked: bool = True
    protocol: str = session.PROTOCOL
    is_reread: bool = False
    is_last: bool = False


class Answer(msgspec.Struct):
    """What came of an order."""

    pipeline: str
    run: str
    application: str
    phase: str = ""
    error: str = ""
    rows: int = 0
    digest: str = ""
    ids: int = 0
    versions: int = 0
    misplaced: int = 0
    generations: dict[str, int] = {}
    exchanges_of_last: int = -1
    seconds: float = 0.0


def digest_of(frame: DataFrame) -> tuple[int, str]:
    """Rows, and an order-insensitive digest: two sums of differently seeded hashes of every row."""
    columns = [F.col(name) for name in sorted(frame.columns)]
    sums = [F.sum(F.xxhash64(F.lit(seed), *columns).cast("decimal(38,0)")) for seed in (1, 2)]
    row = frame.agg(F.count("*"), *sums).collect()[0]
    return int(row[0]), f"{row[1]}:{row[2]}"


class Runner:
    """The application: one session, one user file, orders in turn."""

    def __init__(self, location: str, root: str, options: dict[str, str], user: Path) -> None:
        self.spark = SparkSession.builder.getOrCreate()
        self.spark.sparkContext.setLogLevel("ERROR")
        flush_events_often(self.spark)
        self.store = open_store(location, options)
        probe(self.store)
        self.root = root
        self.user = load(user)
        self.output: DataFrame = self.spark.range(0).toDF("id")

    def answer(self, order: Order) -> Answer:
        started = time.monotonic()
        answer = Answer(order.pipeline, order.run, str(self.spark.sparkContext.applicationId))
        try:
            if order.is_bare:
                self._bare(order, answer)
            elif order.is_reread:
                self._look_at_output(answer)
            else:
                self._run(order, answer)
        except Fenced as error:
            answer.phase, answer.error = "fenced", str(error)
        except RekindleError as error:
            answer.phase, answer.error = "refused", str(error)
        answer.seconds = time.monotonic() - started
        return answer

    def _bare(self, order: Order, answer: Answer) -> None:
        frame = self.user.bare(self.spark, order.pipeline)
        if order.write_bare_to:
            try:
                frame.write.parquet(order.write_bare_to)
                answer.phase = "succeeded"
            except Exception as error:
                answer.phase, answer.error = "failed", type(error).__name__
            return
        answer.rows, answer.digest = digest_of(frame)

    def _run(self, order: Order, answer: Answer) -> None:
        groups = {group.step: group for group in self.user.PIPELINES[order.pipeline]}
        attempts.HeldPlan.look = _LOOK if order.is_exchange_checked else _no_look  # type: ignore[method-assign]
        session.GROUP_SETTINGS["spark.sql.sources.commitProtocolClass"] = order.protocol
        analysis = analyse(self.spark, groups)
        engine = SparkEngine(self.spark, f"{self.root}/{order.pipeline}/{order.run}", analysis.groups)
        intent = RunIntent(
            pipeline=order.pipeline,
            run=order.run,
            spec=RunSpec(
                graph=analysis.drawn,
                fingerprints={name: parts(group.build) for name, group in groups.items()},
            ),
            config=MasterConfig(
                backoff=BackoffSpec.of(FixedDelay(order.tries, order.delay_ms)), poison_tries_max=order.tries
            ),
            decisions=UserDecisions(accepted=frozenset(order.accepted)),
        )
        state = execute(self.store, intent, engine, stale_seconds=order.stale_seconds, watcher=say)
        answer.phase = state.phase.value
        answer.error = str(state.failing.failures[0].cause.text) if state.failing and state.failing.failures else ""
        answer.generations = {name: step.generation for name, step in state.steps.items()}
        answer.exchanges_of_last = engine.exchanges(list(groups)[-1])
        if state.phase is Phase.SUCCEEDED:
            last = list(groups)[-1]
            self.output = engine.read(Input(last, state.steps[last].segments), self.spark)
            self._look_at_output(answer)
            if order.pipeline == "task_context":
                number = F.expr(f"pmod(hash(k), {groups[last].partitions})")
                answer.misplaced = self.output.where(F.col("version") != number).count()

    def _look_at_output(self, answer: Answer) -> None:
        frame = self.output
        answer.rows, answer.digest = digest_of(frame)
        if "version" in frame.columns:
            answer.versions = frame.select("version").distinct().count()
        if "id" in frame.columns:
            answer.ids = frame.select("id").distinct().count()


_LOOK = attempts.HeldPlan.look


def _no_look(self: attempts.HeldPlan) -> None:
    """The protection switched off, for the control."""


def say(events: tuple[Event, ...], state: RunState) -> None:
    for event in events:
        match event:
            case AttemptOpened():
                print(f"opened {event.attempt} {event.partitions}", flush=True)
            case PartitionsCommitted():
                print(f"committed {event.attempt} {event.partitions}", flush=True)
            case FailureHandled():
                print(f"failed {event.failures[0].partitions} {event.failures[0].cause.text}", flush=True)
            case EpochOpened():
                print(f"run {state.run}", flush=True)
            case CodeReplaced():
                print(f"changed {event.step} {', '.join(event.parts)}", flush=True)
            case GenerationOpened():
                print(f"generation {event.step} {event.generation} {event.because}", flush=True)
            case _:
                pass


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("first_light_user_code", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    # Python workers cannot import a file that only the driver knows.
    cloudpickle.register_pickle_by_value(module)
    return module


if __name__ == "__main__":
    sys.exit(serve(Runner, Order, lambda order: f"{order.pipeline} {order.run}"))
