"""What a case works with: the warm session, a folder of its own, and a program run both ways.

Rules
- The same functions are composed by bare Spark and declared as the steps of a pipeline.
- Settings, views and caches of one side do not reach the other side or the next case.
- The watcher of each run counts attempts, so that an error can be told to be a refusal.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import rekindle as rk
from cases.case import Finding, Outcome
from cases.session import MODULES
from cases.tables import Tables
from rekindle.failover.backoff import Backoff, FixedDelay, NoRestart
from rekindle.master.facts.config import BackoffSpec, MasterConfig
from rekindle.master.facts.events import AttemptOpened, Event, PartitionsCommitted
from rekindle.master.state.run_state import RunState
from rekindle.onramp import ScriptRun
from rekindle.publish.targets import Target

RETRIES = FixedDelay(6, 200)
# Of the small table kept by k in four partitions this row is in the last one: the others are done when it fails.
LATE_X = 199

Function = Callable[..., Any]
Step = Function | tuple[Function, Mapping[str, Any]]


def kept(function: Function, **options: Any) -> Step:
    """A step with options."""
    return function, options


def by_k(function: Function, partitions: int = 4) -> Step:
    """A step that is kept by the column k."""
    return function, {"partition_by": "k", "partitions": partitions}


class Context:
    """One play of one case."""

    def __init__(self, spark: SparkSession, folder: Path, tables: Tables) -> None:
        self.spark = spark
        self.folder = folder
        self.tables = tables
        self.has_started = False
        self._committed = 0
        folder.mkdir(parents=True)

    @property
    def location(self) -> str:
        return str(self.folder / "state")

    @property
    def modules(self) -> Path:
        """A folder from which Python workers import, shared by all cases."""
        return self.folder.parent / MODULES

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def options(self, backoff: Backoff = RETRIES, **others: Any) -> rk.RunOptions:
        config = MasterConfig(backoff=BackoffSpec.of(backoff))
        return rk.RunOptions(config=config, sweep=None, watcher=self._watch, **others)

    def run(self, pipeline: rk.Pipeline, options: rk.RunOptions | None = None, **parameters: Any) -> rk.RunSummary:
        """Run a pipeline; from here on an error counts as a refusal until an attempt is opened."""
        self.has_started = False
        return pipeline.run(self.spark, self.location, options=options or self.options(), **parameters)

    def fail(self, pipeline: rk.Pipeline, **parameters: Any) -> None:
        """Run a pipeline that must fail after it started; nothing is tried again."""
        try:
            self.run(pipeline, self.options(NoRestart()), **parameters)
        except rk.RunFailed:
            return
        raise AssertionError("the first run of this case must fail, and it did not")

    def fail_late(self, pipeline: rk.Pipeline) -> None:
        """Run a pipeline that must fail after other partitions of it were kept."""
        self._committed = 0
        self.fail(pipeline)
        assert self._committed, "the first run of this case must keep something"

    def script(self, name: str, said: list[str] | None = None, **parameters: Any) -> ScriptRun:
        """A run of the on-ramp; what it says is collected."""
        self.has_started = False
        lines: list[str] = [] if said is None else said
        return rk.run(name, self.spark, self.location, options=self.options(), tell=lines.append, **parameters)

    def published(self, name: str = "out") -> DataFrame:
        return rk.read_newest(self.spark, self.path(name))

    def pipeline(
        self,
        steps: Sequence[Step],
        source: str,
        name: str = "compared",
        target: Target | None = None,
        **options: Any,
    ) -> rk.Pipeline:
        """The steps between a source called `orders` and a sink that publishes the last of them to `out`."""
        pipeline = rk.Pipeline(name)
        pipeline.add_source(_reader(source))
        for step in steps:
            function, said = step if isinstance(step, tuple) else (step, {})
            pipeline.add_step(function, **said)
        pipeline.add_sink(out, target or rk.files(self.path("out")), inputs=[_name(steps[-1])], **options)
        return pipeline

    def bare(self, steps: Sequence[Step], source: str) -> DataFrame:
        """The same functions composed, without any cut."""
        known: dict[str, Any] = {"spark": self.spark, "orders": _reader(source)(self.spark)}
        for step in steps:
            function = step[0] if isinstance(step, tuple) else step
            known[_name(step)] = function(*(known[one] for one in inspect.signature(function).parameters))
        found: DataFrame = known[_name(steps[-1])]
        return found

    def compare(self, *steps: Step, source: str = "", settings: Mapping[str, str] | None = None) -> Finding:
        """The published rows and columns of the pipeline beside those that bare Spark collects."""
        source = source or self.tables.small
        with self.settings(settings or {}):
            frame = self.bare(steps, source)
            expected, columns = rows(frame), _columns(frame)
        self.spark.catalog.clearCache()
        with self.settings(settings or {}):
            self.run(self.pipeline(steps, source))
            found = self.published()
            if _columns(found) != columns:
                return Finding(Outcome.DIFFERENT, f"expected the columns {columns}, got {_columns(found)}")
            return same(expected, rows(found))

    @contextlib.contextmanager
    def settings(self, settings: Mapping[str, str]) -> Iterator[None]:
        """Settings that hold inside; whatever else is set inside ends there, too."""
        before = self.spark.conf.getAll
        for key, value in settings.items():
            self.spark.conf.set(key, value)
        try:
            yield
        finally:
            for key, value in self.spark.conf.getAll.items():
                if key not in before:
                    self.spark.conf.unset(key)
                elif before[key] != value:
                    self.spark.conf.set(key, before[key])

    def _watch(self, events: tuple[Event, ...], state: RunState) -> None:
        self.has_started |= any(isinstance(event, AttemptOpened) for event in events)
        self._committed += sum(isinstance(event, PartitionsCommitted) for event in events)


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    """All rows, in an order that does not depend on the plan."""
    return sorted(map(tuple, frame.collect()), key=repr)


def same(expected: Any, found: Any, note: str = "") -> Finding:
    """Equal, or different with the beginning of both."""
    if expected == found:
        return Finding(Outcome.EQUAL, note)
    if isinstance(expected, list) and isinstance(found, list):
        differ = [pair for pair in zip(expected, found, strict=False) if pair[0] != pair[1]][:1]
        where = f"; the first that differs is {differ[0][1]}, not {differ[0][0]}" if differ else ""
        return Finding(Outcome.DIFFERENT, f"got {len(found)} rows, not {len(expected)}{where} {note}")
    return Finding(Outcome.DIFFERENT, f"got {found!r}, not {expected!r} {note}")


def _name(step: Step) -> str:
    function = step[0] if isinstance(step, tuple) else step
    return function.__name__


def _columns(frame: DataFrame) -> list[str]:
    return [f"{field.name} {field.dataType.simpleString()}" for field in frame.schema.fields]


def _reader(path: str) -> Function:
    def orders(spark: SparkSession) -> DataFrame:
        return spark.read.parquet(path)

    return orders


def out(rows: DataFrame) -> DataFrame:
    return rows
