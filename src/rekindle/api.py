"""What a user writes: a pipeline of functions, declared by decorators, and run by one call.

- A decorator returns the function unchanged: `clean(small_df)` works in a unit test.
- Inputs are parameters: one named like a step is that step's result, `spark` is the session, all others are parameters
  of the run. Steps may be declared in any order.
- `run` is idempotent on (pipeline, parameters): it starts the run, continues one that did not finish, or says that it
  is done. Nothing is started before the whole pipeline was checked.
- pyspark is imported when the first run needs it, and not before: reading a journal or printing help must not wait a
  second for it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from datetime import datetime
from enum import Enum
from typing import Any, Literal, TypedDict, TypeVar, Unpack, cast, overload

from rekindle.config import load_config
from rekindle.engine.adapter import PreparedStream, Stores, StreamRequest, VersionRequest
from rekindle.engine.engine_adapter import spark_adapter
from rekindle.engine.reproduced import ReproducedVertex
from rekindle.errors import ConfigRefused, GraphRefused, StreamFound
from rekindle.failover.restart import Strategy
from rekindle.model.kinds import DigestPolicy, KeepUntil
from rekindle.observe.pipeline_graph import PipelineGraph
from rekindle.observe.plan import Plan
from rekindle.observe.show import RunView
from rekindle.observe.stream_graph import StreamGraph
from rekindle.observe.stream_told import StreamPlan, StreamSummary
from rekindle.observe.summary import RunSummary, StepSummary
from rekindle.observe.verified import RunVerification
from rekindle.pipeline.check import CACHING, check, check_name, check_pipeline_name, check_target, refuse_bare_sinks
from rekindle.pipeline.constants import TimeAndSeed
from rekindle.pipeline.declared import Declared, Role
from rekindle.pipeline.did_you_mean import did_you_mean
from rekindle.pipeline.run_targets import TargetFunction, completed, is_target
from rekindle.pipeline.signature import Inputs, arguments_of, name_of, place_of
from rekindle.pipeline.step_trial import RowsCompared, Trial
from rekindle.publish.targets import Target
from rekindle.service import (
    graphing,
    looking,
    mixed_pipeline,
    region_reproducing,
    rehearsing,
    reproducing,
    running,
    streaming,
    verifying,
)
from rekindle.service.options import RunOptions
from rekindle.service.parameters import Parameter, texts_of, warn_of_secrets
from rekindle.service.result_reading import ResultRequest, find_result
from rekindle.service.run_report import RunReport, to_stderr
from rekindle.service.running import RunRequest, stores_of
from rekindle.service.verifying import VerifiedRun

__all__ = [
    "Pipeline",
    "Plan",
    "ReproducedVertex",
    "RunOptions",
    "RunSummary",
    "RunVerification",
    "StepOptions",
    "StepSummary",
    "StreamPlan",
    "StreamSummary",
    "previous",
    "read_newest",
    "read_result",
    "verify_files",
]

Function = TypeVar("Function", bound=Callable[..., Any])
Result = Literal["auto", "pipelined", "blocking", "caching", "memory"]
Until = Literal["consumed", "run end", "forever"]
Digest = Literal["auto", "always", "never"]
Failover = Literal["region", "individual"]
OutputMode = Literal["append", "update", "complete"]


class StepOptions(TypedDict, total=False):
    """Options of a source, a step or a sink.

    name            the name by which other steps read it; default: the name of the function
    result          `auto` keeps results that are expensive to lose; `blocking` keeps the result in files; `caching` in
                    the memory of executors and on their disks; `memory` only in their memory; `pipelined` nowhere
    replicas        the number of executors that store a `caching` or `memory` result; default: 1
    partitions      the number of result partitions; default: `spark.sql.shuffle.partitions`, or by the sources' size
    partition_by    the column or columns by which the rows are partitioned
    deterministic   True if the same inputs always give the same rows, False if they do not
    eager           True if the function starts Spark jobs while it is built
    keep_until      when the result may be deleted: `consumed`, `run end` or `forever`
    reuse           True if runs of other parameters may take the result although it is not proved to be determinate
    failover        the strategy of this step, `region` or `individual`; default: that of the run
    digest          whether each partition gets a digest: `auto` (if the step is not proved to be determinate),
                    `always` or `never`; default: that of the run
    trigger         of a sink of a stream, when a batch begins: an interval such as `10 seconds`, or `available now`
                    to end when all input was read; default: as soon as there is input
    output_mode     of a sink of a stream, as Spark names it: `append`, `update` or `complete`; default: `append`
    quarantine      of a sink of a stream, how many records it may go on without if they fail every time; default: none
    shards          of a source that is a stream, in how many parts it is read, each by regions of its own; files are
                    told by a hash of their names, topics by their partitions, and a function with a parameter `shard`
                    reads its part itself; default: 1
    """

    name: str
    result: Result | Target
    replicas: int
    partitions: int
    partition_by: str | Sequence[str]
    deterministic: bool
    eager: bool
    keep_until: Until
    reuse: bool
    failover: Failover
    digest: Digest
    trigger: str
    output_mode: OutputMode
    quarantine: int
    shards: int


class Pipeline:
    """A named set of sources, steps and sinks, declared by decorators and run by `run`."""

    def __init__(self, name: str) -> None:
        check_pipeline_name(name, "a pipeline", 'rk.Pipeline("daily_orders")')
        self.name = name
        self._declared: list[Declared] = []
        self._bare_sinks: list[TargetFunction] = []
        self._rehearsed_in = ""

    @overload
    def source(self, function: Function, /) -> Function: ...
    @overload
    def source(self, /, **options: Unpack[StepOptions]) -> Callable[[Function], Function]: ...
    def source(self, function: Any = None, /, **options: Unpack[StepOptions]) -> Any:
        """Declare a function that reads data from outside. Its parameters are `spark` and parameters of the run."""
        return self._decorator(Role.SOURCE, options, function)

    @overload
    def step(self, function: Function, /) -> Function: ...
    @overload
    def step(self, /, **options: Unpack[StepOptions]) -> Callable[[Function], Function]: ...
    def step(self, function: Any = None, /, **options: Unpack[StepOptions]) -> Any:
        """Declare a function from DataFrames to a DataFrame. It must not start a Spark job."""
        return self._decorator(Role.STEP, options, function)

    def sink(
        self, target: Target | TargetFunction, /, **options: Unpack[StepOptions]
    ) -> Callable[[Function], Function]:
        """Declare a function whose result is published to `target`. Without a body, it publishes its input. A target
        may name parameters of the run in braces, `rk.files("s3a://lake/gold/day={day}")`, or be a function of them."""
        check_target(target)
        if not is_target(target):
            self._bare_sinks.append(cast(TargetFunction, target))

        def declare(function: Function) -> Function:
            self._add(Role.SINK, function, None, target, options)
            self._bare_sinks = [one for one in self._bare_sinks if one is not target]
            return function

        return declare

    def add_source(self, function: Callable[..., Any], **options: Unpack[StepOptions]) -> None:
        """Declare a source without a decorator, for loops and generated graphs."""
        self._add(Role.SOURCE, function, None, None, options)

    def add_step(
        self, function: Callable[..., Any], inputs: Inputs | None = None, **options: Unpack[StepOptions]
    ) -> None:
        """Declare a step without a decorator. `inputs` names the steps to read, by parameter or in order."""
        self._add(Role.STEP, function, inputs, None, options)

    def add_sink(
        self,
        function: Callable[..., Any],
        target: Target | TargetFunction,
        inputs: Inputs | None = None,
        **options: Unpack[StepOptions],
    ) -> None:
        """Declare a sink without a decorator. `inputs` names the steps to read, by parameter or in order."""
        check_target(target)
        self._add(Role.SINK, function, inputs, target, options)

    def check(self, **parameters: Parameter) -> tuple[str, ...]:
        """Return the names of all steps, producers first. Raises what `run` would refuse before it uses Spark."""
        return tuple(one.name for one in self._checked(parameters))

    def run(
        self, spark: Any, location: str, *, options: RunOptions | None = None, **parameters: Parameter
    ) -> RunSummary:
        """Start or resume the run of these parameters, and return its summary when all sinks are published. `location`
        is a path, or a URL that Spark can write to. `spark` is a session, or a function that returns one: Rekindle
        calls it only if there is work. The plan, the progress and the summary are printed to stderr;
        `RunOptions(quiet=True)` prints nothing.

        With a source that is a stream, this is a stream: each sink is a region, a streaming query that fails and
        restarts alone. It runs until `options.is_asked_to_stop`, or until all input was read with
        `options.available_now`, and returns a `StreamSummary`; the next call goes on from there."""
        warn_of_secrets(parameters)
        wish = self._wish(spark, location, options, parameters)
        if wish.options.quiet:
            return _run(wish, wish.options.say or (lambda line: None))
        told = RunReport(to_stderr)
        with told.interruptible():
            options_told = told.options(wish.options)
            summary = _run(replace(wish, options=options_told), wish.options.say or told.lines)
        told.lines(str(summary))
        return summary

    def plan(self, spark: Any, location: str, *, options: RunOptions | None = None, **parameters: Parameter) -> Plan:
        """Return what `run` with the same arguments would do now. Nothing is written or computed."""
        return running.plan(self._wish(spark, location, options, parameters), spark_adapter)

    def plan_stream(
        self, spark: Any, location: str, *, options: RunOptions | None = None, **parameters: Parameter
    ) -> StreamPlan:
        """Return what `run` would do now with a pipeline whose sources are streams. Nothing is written or started."""
        return mixed_pipeline.plan(self._wish(spark, location, options, parameters), spark_adapter, _prepare)

    def reproduce(
        self, spark: Any, location: str, vertex: str, *, options: RunOptions | None = None, **parameters: Parameter
    ) -> ReproducedVertex:
        """Return the inputs and the recomputed rows of one partition, such as `"enriched[173]"`, as DataFrames of this
        session. Nothing is written. The run is that of these parameters, or `options.run`. Of a stream it is a batch of
        a region, such as `"priced[2]"`."""
        wish = self._wish(spark, location, options, parameters)
        stream = region_reproducing.stream_of(wish)
        if stream:
            return region_reproducing.reproduce_region(wish, spark_adapter, stream, vertex)
        return reproducing.reproduce(wish, spark_adapter, vertex)

    def verify(
        self,
        spark: Any,
        location: str,
        step: str | None = None,
        *,
        sample: int | float | None = None,
        options: RunOptions | None = None,
        **parameters: Parameter,
    ) -> RunVerification:
        """Compare the kept and published files of a run, and recomputed partitions, with the journal; for one step or
        for all. `sample` is the number or share of partitions of each step to recompute; the default is all. Nothing is
        written. The run is that of these parameters, or `options.run`."""
        return verifying.verify(self._wish(spark, location, options, parameters), spark_adapter, step, sample)

    def try_steps(self, spark: Any, *, rows: int = 1000, **parameters: Parameter) -> Iterator[Trial]:
        """Run each step twice on a sample of `rows` rows of each source; the second time in another order and other
        partitions. Nothing is written. A step whose rows differ the second time is not determinate."""
        wish = self._wish(spark, "", None, parameters)
        session = spark() if callable(spark) else spark
        constants = TimeAndSeed(time.time_ns() // 1_000_000, random.getrandbits(63))
        return spark_adapter().try_steps(session, wish.steps, parameters, constants, rows)

    def graph(
        self, spark: Any, location: str, *, options: RunOptions | None = None, **parameters: Parameter
    ) -> PipelineGraph | StreamGraph:
        """Return the graph that a new run would have: sources, fused and kept steps, sinks, edges. Notebooks draw it.
        Its `what_if("totals[2]")` tells what would run again after this failure; nothing is run or written. Of a stream
        it is the graph of its regions, with the positions that they have."""
        wish = self._wish(spark, location, options, parameters)
        try:
            return graphing.graph(wish, spark_adapter)
        except StreamFound as found:
            return graphing.stream_graph(wish, spark_adapter, _prepare, found.source)

    def show(self, location: str, *, options: RunOptions | None = None, **parameters: Parameter) -> RunView:
        """Return a view of the run of these parameters, read from its journal without a session. Notebooks display the
        view and its `graph`."""
        return looking.show(self._wish(None, location, options, parameters))

    def _wish(
        self, spark: Any, location: str, options: RunOptions | None, parameters: Mapping[str, Parameter]
    ) -> RunRequest:
        texts = texts_of(parameters)
        chosen = options or RunOptions()
        usual = _policy("RunOptions", chosen.digest)
        steps = tuple(replace(one, digest=one.digest or usual) for one in self._checked(parameters))
        if self._rehearsed_in:
            steps = rehearsing.publishing_below(steps, self._rehearsed_in)
        return RunRequest(
            pipeline=self.name,
            steps=steps,
            session=spark,
            location=location,
            options=chosen,
            parameters=parameters,
            key=texts,
        )

    def _checked(self, parameters: Mapping[str, Parameter]) -> tuple[Declared, ...]:
        refuse_bare_sinks(self._bare_sinks)
        return completed(check(self._declared, texts_of(parameters)), parameters, texts_of)

    def _decorator(self, role: Role, options: StepOptions, function: Any) -> Any:
        def declare(function: Function) -> Function:
            self._add(role, function, None, None, options)
            return function

        return declare if function is None else declare(function)

    def _add(
        self,
        role: Role,
        function: Callable[..., Any],
        inputs: Inputs | None,
        target: Target | TargetFunction | None,
        options: StepOptions,
    ) -> None:
        place = place_of(function) if callable(function) else "?"
        if not callable(function):
            raise GraphRefused(f"{function!r} is not a function", hint="@pipeline.step stands above a function")
        _refuse_unknown_options(place, options)
        keys, result = options.get("partition_by", ()), options.get("result", "auto")
        one = Declared(
            name=options.get("name") or name_of(function),
            role=role,
            function=function,
            arguments=arguments_of(function, inputs),
            place=place,
            result=CACHING if is_target(result) else cast(str, result),
            topic=cast(Target, result) if is_target(result) else None,
            replicas=options.get("replicas"),
            partitions=options.get("partitions"),
            keys=(keys,) if isinstance(keys, str) else tuple(keys),
            declared_deterministic=options.get("deterministic"),
            is_eager=options.get("eager", False),
            keep=KeepUntil(_one_of(place, "keep_until", options.get("keep_until", KeepUntil.RUN_END.value), KeepUntil)),
            is_reusable=options.get("reuse", False),
            is_pessimistic=_pessimism(place, options.get("failover")),
            target=cast(Target, target) if is_target(target) else None,
            choose_target=None if target is None or is_target(target) else cast(TargetFunction, target),
            digest=_policy(place, options["digest"]) if "digest" in options else None,
            trigger=options.get("trigger", ""),
            output_mode=options.get("output_mode", ""),
            quarantine=_quarantine(place, options.get("quarantine", 0)),
            shards=options.get("shards", 0),
        )
        check_name(one, self._declared)
        self._declared.append(one)


def _run(wish: RunRequest, say: Callable[[str], None]) -> RunSummary:
    """A batch, unless a source turns out to be a stream while it is prepared."""
    named = wish.options.run
    if named and not wish.options.new and streaming.is_stream(wish.store, wish.pipeline, named):
        return mixed_pipeline.run(wish, spark_adapter, _prepare, say)
    try:
        return running.run(wish, spark_adapter)
    except StreamFound as found:
        return mixed_pipeline.run(wish, spark_adapter, _prepare, say, found.source)


def _prepare(session: Any, wanted: StreamRequest) -> PreparedStream:
    return spark_adapter().prepare_stream(session, wanted)


def read_newest(
    spark: Any,
    path: str,
    storage: Mapping[str, str] | None = None,
    *,
    version: str | int | None = None,
    as_of: datetime | str | None = None,
) -> Any:
    """Return the newest version of `rk.files(path)` as a DataFrame. Later publications do not change it.

    version    another version, by its name or by the number of its publication
    as_of      the version that was the newest at this time, such as "2026-11-01T06:00:00+00:00"
    storage    options of the storage client; by default those of the run in whose step this is called, and outside
               of a run those of the settings (storage.*)

    gc keeps replaced versions for gc.versions_hours.
    """
    wanted = VersionRequest(version, as_of)
    return spark_adapter().read_newest(spark, path, _stores(spark, storage), wanted)


def read_kafka(spark: Any, topic: str, brokers: str, *, options: Mapping[str, str] | None = None) -> Any:
    """Return the records of `rk.kafka(topic, brokers)` as a DataFrame of a batch, without those that were sent twice.

    The columns are those of Spark's own Kafka reader, with `headers`. Records that no stream of Rekindle sent are all
    there. A record counts as sent twice only if another query sent one of the same batch with the same key, value and
    headers: none that is needed is dropped, but a batch whose rows came out otherwise when it was computed again has
    both (`rekindle plan` says where that can be).

    options    of Spark's Kafka reader, such as `{"startingTimestamp": "1780000000000"}`
    """
    return spark_adapter().read_kafka(spark, topic, brokers, options or {})


def read_result(
    spark: Any,
    pipeline: str,
    step: str,
    *,
    after: int | None = None,
    up_to: int | None = None,
    location: str = "",
    storage: Mapping[str, str] | None = None,
    pin_hours: float = 24.0,
    brokers: str = "",
    options: Mapping[str, str] | None = None,
) -> Any:
    """Return batches of the result of a step of a stream as a DataFrame. Later batches do not change it.

    The result is a caching one, or is in a topic. Of a topic just those records are read that are in the result, each
    once, with the columns of the step.

    They are those of the newest stream of the pipeline that are there: batches that every reader of the stream has
    passed are released (`rekindle results ls`).

    after       the batches after this one; refused if the first of them was released. By default all that are there
    up_to       the last batch; by default the newest one
    location    that of the stream; by default, as `storage`, that of the settings
    pin_hours  the stream releases none of these batches in so many hours: a run that reads them can be resumed. A
               topic keeps records as long as its own setting says
    brokers     where the result is in a topic: `"host:9092"`, or several with commas
    options     of the Kafka client then, such as `{"kafka.security.protocol": "SSL"}`
    """
    config = load_config(spark=spark_adapter().properties(spark))
    if not (location or config.location):
        raise ConfigRefused(
            "no location is set: Rekindle does not know where the stream is",
            f'rk.read_result(spark, "{pipeline}", "{step}", location="s3a://bucket/rekindle")',
        )
    wanted = ResultRequest(
        pipeline=pipeline,
        step=step,
        location=location or config.location,
        storage=dict(config.storage if storage is None else storage),
        after=after,
        up_to=up_to,
        pin_hours=pin_hours,
    )
    return spark_adapter().read_result(spark, find_result(wanted), brokers, options or {})


def previous(spark: Any, path: str, schema: Any, storage: Mapping[str, str] | None = None) -> Any:
    """In a step: return the version of `rk.files(path)` that was published before the parameters of this run.

    For a target that is made from itself, such as a slowly changing dimension. A run with the same parameters as an
    earlier one does not read what it, or anybody after it, published. Before the first publication the DataFrame has
    the columns of `schema` (a DDL string or a StructType) and no rows.
    """
    return spark_adapter().read_previous(spark, path, _stores(spark, storage), schema)


def _stores(spark: Any, storage: Mapping[str, str] | None) -> Stores:
    """Options that were not given are those of the run in whose step this is, else those of the settings."""
    if storage is not None:
        return stores_of(storage)
    adapter = spark_adapter()
    return adapter.run_stores() or stores_of(load_config(spark=adapter.properties(spark)).storage)


def verify_files(place: VerifiedRun, step: str | None = None) -> RunVerification:
    """Compare the stored files of a run with its journal, without the code of its pipeline."""
    return verifying.verify_files(place, spark_adapter, step)


def _refuse_unknown_options(place: str, options: Mapping[str, Any]) -> None:
    known = StepOptions.__annotations__
    for name in options:
        if name not in known:
            near = did_you_mean(name, known)
            raise GraphRefused(f"{place}: there is no option {name}", near or f"the options are {', '.join(known)}")


def _one_of(place: str, option: str, text: str, words: Iterable[Enum]) -> str:
    """The text, which must be one of these words."""
    known = [word.value for word in words]
    if text not in known:
        raise GraphRefused(f"{place}: {option}={text!r} is not known", f"one of {', '.join(map(repr, known))}")
    return text


def _quarantine(place: str, given: object) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or given < 0:
        raise GraphRefused(f"{place}: quarantine={given!r} is no number of records", hint="such as quarantine=10")
    return given


def _policy(place: str, text: str) -> DigestPolicy:
    return DigestPolicy(_one_of(place, "digest", text, DigestPolicy))


def _pessimism(place: str, text: str | None) -> bool | None:
    if text is None:
        return None
    return _one_of(place, "failover", text, (Strategy.REGION, Strategy.INDIVIDUAL)) == Strategy.REGION.value


def rehearsal(pipeline: Pipeline, folder: str) -> Pipeline:
    """The same pipeline, publishing below a folder: no target of its sinks is touched."""
    made = copy(pipeline)
    made._rehearsed_in = folder
    return made


def compare_with_plain(
    rehearsed: Pipeline, spark: Any, location: str, *, options: RunOptions | None = None, **parameters: Parameter
) -> dict[str, RowsCompared]:
    """Of a rehearsed run that is done, the rows that each sink published, compared with those of plain Spark."""
    wish = rehearsed._wish(spark, location, options, parameters)
    return rehearsing.compare(wish, rehearsed._rehearsed_in, spark_adapter())
