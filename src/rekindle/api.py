"""What a user writes: a pipeline of functions, declared by decorators, and run by one call.

- A decorator returns the function unchanged: `clean(small_df)` works in a unit test.
- Inputs are parameters: one named like a step is that step's result, `spark` is the session, all others are parameters
  of the run. Steps may be declared in any order.
- `run` is idempotent on (pipeline, parameters): it starts the run, continues one that did not finish, or says that it
  is done. Nothing is started before the whole pipeline was checked.
- This is the only file that picks adapters. pyspark is imported when the first run needs it, and not before: reading a
  journal or printing help must not wait a second for it.
"""

from __future__ import annotations

import importlib
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Literal, TypedDict, TypeVar, Unpack, cast, get_args, overload

from rekindle.engine.adapter import Adapter, Prepared, Stores, Wanted
from rekindle.engine.check import check, check_name
from rekindle.engine.constants import Known
from rekindle.engine.declared import Declared, Role
from rekindle.engine.location import spark_root
from rekindle.engine.near import did_you_mean
from rekindle.engine.signature import Inputs, arguments_of, name_of, place_of
from rekindle.engine.targets import Target
from rekindle.errors import GraphRefused, ParameterRefused, Refused, RunFailed
from rekindle.journal.keys import claim, enlist
from rekindle.journal.lease import STALE_SECONDS
from rekindle.journal.stores import open_store
from rekindle.master.config import MasterConfig
from rekindle.master.events import Event, PartitionsCommitted
from rekindle.master.state import Phase, RunState
from rekindle.model.kinds import KeepUntil
from rekindle.runtime.loop import Watcher, ignore
from rekindle.runtime.opening import Constants, Intent, execute, peek

SPARK = "rekindle.engine.spark.prepare"

Function = TypeVar("Function", bound=Callable[..., Any])
Parameter = str | int | float | bool | date | datetime | Decimal | None
Result = Literal["auto", "pipelined", "blocking", "caching", "memory"]
Until = Literal["consumed", "run end", "forever"]


class StepOptions(TypedDict, total=False):
    """What can be said of a source, a step or a sink.

    name            under which others read it; the function's own if left out
    result          `auto` keeps what would be expensive to lose; `blocking` keeps it in files; `pipelined` does not
    partitions      how many result partitions; those of Spark's shuffle if left out
    partition_by    the column or columns by which rows are put together
    deterministic   your word that the same inputs give the same rows, or that they do not
    eager           it starts Spark jobs while it is built
    keep_until      when a result that nobody reads any more may go
    """

    name: str
    result: Result
    partitions: int
    partition_by: str | Sequence[str]
    deterministic: bool
    eager: bool
    keep_until: Until


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How a run is made; none of it is part of its key.

    new             start a new run although one of these parameters exists
    accept_change   steps whose committed partitions count although their code or input changed
    replace         sources that are read again although they changed
    force           take the run over from a master that still shows life
    storage         how to reach the store, in obstore's words: endpoint, access_key_id, secret_access_key, region …
    config          failover strategy, restart backoff and limits
    """

    new: bool = False
    accept_change: Sequence[str] = ()
    replace: Sequence[str] = ()
    force: bool = False
    storage: Mapping[str, str] = field(default_factory=dict)
    config: MasterConfig = field(default_factory=MasterConfig)
    stale_seconds: float = STALE_SECONDS
    watcher: Watcher = ignore


@dataclass(frozen=True, slots=True)
class StepSummary:
    """One kept step of a run: how many result partitions it has, and how many of them this process computed."""

    partitions: int
    computed: int
    generation: int

    @property
    def reused(self) -> int:
        return max(0, self.partitions - self.computed)


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What a run came to. `was_done` if it had succeeded before, and nothing was started."""

    pipeline: str
    run: str
    was_done: bool
    was_resumed: bool
    steps: Mapping[str, StepSummary]


class Pipeline:
    """Sources, steps and sinks under one name."""

    def __init__(self, name: str) -> None:
        if not name.isidentifier() or not name.isascii() or name.startswith("_"):
            raise GraphRefused(
                f"{name!r} cannot be the name of a pipeline: letters, digits and _ only, a letter first",
                hint='rk.Pipeline("daily_orders")',
            )
        self.name = name
        self._declared: list[Declared] = []

    @overload
    def source(self, function: Function, /) -> Function: ...
    @overload
    def source(self, /, **options: Unpack[StepOptions]) -> Callable[[Function], Function]: ...
    def source(self, function: Any = None, /, **options: Unpack[StepOptions]) -> Any:
        """Declare a function that reads from outside: it may ask for `spark` and for parameters of the run."""
        return self._decorator(Role.SOURCE, options, function)

    @overload
    def step(self, function: Function, /) -> Function: ...
    @overload
    def step(self, /, **options: Unpack[StepOptions]) -> Callable[[Function], Function]: ...
    def step(self, function: Any = None, /, **options: Unpack[StepOptions]) -> Any:
        """Declare a function of DataFrames. It describes its result and starts no Spark job."""
        return self._decorator(Role.STEP, options, function)

    def sink(self, target: Target, /, **options: Unpack[StepOptions]) -> Callable[[Function], Function]:
        """Declare what is published to a target. A function without a body publishes its input as it is."""
        _refuse_no_target(target)
        return cast(Callable[[Function], Function], self._decorator(Role.SINK, options, None, target))

    def add_source(self, function: Callable[..., Any], **options: Unpack[StepOptions]) -> None:
        """As `source`, for loops and generated graphs."""
        self._add(Role.SOURCE, function, None, None, options)

    def add_step(
        self, function: Callable[..., Any], inputs: Inputs | None = None, **options: Unpack[StepOptions]
    ) -> None:
        """As `step`. `inputs` names the steps to read, by parameter or in order."""
        self._add(Role.STEP, function, inputs, None, options)

    def add_sink(
        self,
        function: Callable[..., Any],
        target: Target,
        inputs: Inputs | None = None,
        **options: Unpack[StepOptions],
    ) -> None:
        """As `sink`. `inputs` names the steps to read, by parameter or in order."""
        _refuse_no_target(target)
        self._add(Role.SINK, function, inputs, target, options)

    def check(self, **parameters: Parameter) -> tuple[str, ...]:
        """The names of all steps, producers first; raises what `run` would refuse before it asks Spark anything."""
        return tuple(one.name for one in check(self._declared, _texts(parameters)))

    def run(
        self, spark: Any, location: str, *, options: RunOptions | None = None, **parameters: Parameter
    ) -> RunSummary:
        """Run or resume until everything is published. `location` is a path, or a URL that Spark can write to."""
        return _run(self.name, check(self._declared, _texts(parameters)), spark, location, options, parameters)

    def _decorator(self, role: Role, options: StepOptions, function: Any, target: Target | None = None) -> Any:
        def declare(function: Function) -> Function:
            self._add(role, function, None, target, options)
            return function

        return declare if function is None else declare(function)

    def _add(
        self,
        role: Role,
        function: Callable[..., Any],
        inputs: Inputs | None,
        target: Target | None,
        options: StepOptions,
    ) -> None:
        place = place_of(function) if callable(function) else "?"
        if not callable(function):
            raise GraphRefused(f"{function!r} is no function", hint="@pipeline.step stands above a function")
        _refuse_unknown_options(place, options)
        keys = options.get("partition_by", ())
        one = Declared(
            name=options.get("name") or name_of(function),
            role=role,
            function=function,
            arguments=arguments_of(function, inputs),
            place=place,
            result=options.get("result", "auto"),
            partitions=options.get("partitions"),
            keys=(keys,) if isinstance(keys, str) else tuple(keys),
            declared_deterministic=options.get("deterministic"),
            is_eager=options.get("eager", False),
            keep=_until(place, options.get("keep_until", KeepUntil.RUN_END.value)),
            target=target,
        )
        check_name(one, self._declared)
        self._declared.append(one)


def read_newest(spark: Any, path: str, storage: Mapping[str, str] | None = None) -> Any:
    """The newest version of `rk.files(path)` as a DataFrame, which stays on it whatever is published later."""
    return _spark().read_newest(spark, path, _stores(storage or {}))


def _run(
    pipeline: str,
    steps: Sequence[Declared],
    spark: Any,
    location: str,
    options: RunOptions | None,
    parameters: Mapping[str, Parameter],
) -> RunSummary:
    options = options or RunOptions()
    store, root = open_store(location, options.storage), spark_root(location)
    run = claim(store, pipeline, _texts(parameters), _fresh_name(), is_new=options.new).run
    known = peek(store, pipeline, run)
    if known is not None and known.phase is Phase.SUCCEEDED:
        return _summary(known, {}, was_done=True, was_resumed=False)
    adapter = _spark()
    constants = Constants.of(known) if known else Constants.fresh(adapter.pinned_settings(spark))
    order = known.order if known else enlist(store, pipeline, run)
    prepared = adapter.prepare(
        spark,
        Wanted(
            pipeline,
            order,
            steps,
            parameters,
            Known(constants.run_time_ms, constants.seed),
            constants.settings,
            f"{root}/{pipeline}/{run}",
            _stores(options.storage),
        ),
    )
    intent = Intent(
        pipeline,
        run,
        prepared.graph,
        prepared.fingerprints,
        prepared.sinks,
        order,
        options.config,
        _kept("accept_change", options.accept_change, prepared),
        _kept("replace", options.replace, prepared),
        constants,
    )
    count = _Count(options.watcher)
    state = execute(
        store, intent, prepared.engine, force=options.force, stale_seconds=options.stale_seconds, watcher=count
    )
    if state.phase is not Phase.SUCCEEDED:
        raise _failed(state)
    return _summary(state, count.computed, was_done=False, was_resumed=known is not None)


class _Count:
    """Counts what this process made count, and tells whoever else watches."""

    def __init__(self, watcher: Watcher) -> None:
        self.computed: dict[str, int] = {}
        self._watcher = watcher

    def __call__(self, events: tuple[Event, ...], state: RunState) -> None:
        for event in events:
            if isinstance(event, PartitionsCommitted) and not event.is_adopted:
                step = event.attempt.step
                self.computed[step] = self.computed.get(step, 0) + len(event.partitions)
        self._watcher(events, state)


def _summary(state: RunState, computed: Mapping[str, int], *, was_done: bool, was_resumed: bool) -> RunSummary:
    steps = {
        name: StepSummary(state.layout.graph.steps[name].partitions, computed.get(name, 0), step.generation)
        for name, step in state.steps.items()
    }
    return RunSummary(state.pipeline, state.run, was_done, was_resumed, steps)


def _failed(state: RunState) -> RunFailed:
    failing = state.failing
    told = [f"run {state.run} of {state.pipeline} stopped{f': {failing.gave_up}' if failing else ''}"]
    for failure in failing.failures if failing else ():
        told.append(
            f"  {failure.step}[{failure.partitions}] {failure.cause.root.text or failure.cause.root.kind.value}"
        )
    for name, step in state.steps.items():
        told.append(f"  {name}: {len(step.committed)} of {state.layout.graph.steps[name].partitions} are kept")
    is_resumable = failing is None or failing.is_resumable
    again = "correct it and run the same again: what is kept is reused"
    return RunFailed("\n".join(told), again if is_resumable else "start a new run: rk.RunOptions(new=True)")


def _kept(option: str, names: Iterable[str], prepared: Prepared) -> frozenset[str]:
    """A fused step has no partitions of its own: the word is given for the kept step that it is part of."""
    for name in names:
        if name in prepared.members:
            continue
        roots = [root for root, members in prepared.members.items() if name in members]
        if roots:
            raise Refused(f"{option}: {name} is pipelined into {' and '.join(roots)}", f"{option}={roots}")
        raise Refused(f"{option}: there is no step {name}", did_you_mean(name, prepared.why))
    return frozenset(names)


def _texts(parameters: Mapping[str, Parameter]) -> dict[str, str]:
    """Parameters as they stand in the run's key: equal for a date and its text, so that a shell can give it too."""
    return {name: _text(name, value) for name, value in parameters.items()}


def _text(name: str, value: Parameter) -> str:
    match value:
        case str():
            return value
        case date():
            return value.isoformat()
        case None | bool() | int() | float() | Decimal():
            return str(value)
        case _:
            raise ParameterRefused(
                f"{name} is a {type(value).__name__}, and cannot be part of the key of a run",
                hint="give text, a number, a date or a time, and make the rest of it in a step",
            )


def _refuse_no_target(target: object) -> None:
    """Said at once: a bare `@pipeline.sink` would take the function for its target, and publish nothing."""
    if not isinstance(target, get_args(Target)):
        where, what = (place_of(target), name_of(target)) if callable(target) else ("?", repr(target))
        raise GraphRefused(
            f"{where}: a sink needs a target, and {what} is none",
            hint='@pipeline.sink(rk.table("gold.daily")), or rk.files(path), rk.directory(path)',
        )


def _refuse_unknown_options(place: str, options: Mapping[str, Any]) -> None:
    known = StepOptions.__annotations__
    for name in options:
        if name not in known:
            near = did_you_mean(name, known)
            raise GraphRefused(f"{place}: there is no option {name}", near or f"the options are {', '.join(known)}")


def _until(place: str, text: str) -> KeepUntil:
    words = [word.value for word in KeepUntil]
    if text not in words:
        raise GraphRefused(f"{place}: keep_until={text!r} is not known", f"one of {', '.join(map(repr, words))}")
    return KeepUntil(text)


def _fresh_name() -> str:
    """Sorts by time, and is used once."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"


def _stores(storage: Mapping[str, str]) -> Stores:
    """Targets may lie elsewhere; a disk takes no options."""
    return lambda url: open_store(url, storage)


def _spark() -> Adapter:
    try:
        return cast(Adapter, importlib.import_module(SPARK))
    except ModuleNotFoundError as error:
        if error.name != "pyspark":
            raise
        raise Refused("this needs pyspark, which is not installed", "pip install 'rekindle[spark]'") from error
