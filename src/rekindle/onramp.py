"""The on-ramp for a script that is there already: keep what it makes, and change nothing else in it.

    with rk.run("daily", spark, day=day) as run:
        enriched = run.keep(orders.join(customers, "customer_id"), "enriched", partition_by="customer_id")

- What is kept is in files when `keep` returns, and the frame it returns reads these. A script that is started again
  with the same name and parameters finds it there; what is not complete is completed, what changed is made anew.
- Each kept result is a run of its own, of a pipeline called `daily.enriched`: `rekindle runs`, `show` and `explain`
  know it. The rules are those of every run.
- The code of a frame is what its plan holds of Python, and its identity is its plan, what it reads, that code, the
  settings that change values and the versions. Everything else a script does is its own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, cast

from rekindle.config import load_config
from rekindle.engine.adapter import GivenWriter, PreparedStream, StreamRequest
from rekindle.engine.engine_adapter import spark_adapter
from rekindle.errors import ConfigRefused, GraphRefused, Refused, visible
from rekindle.observe.script import KeptResult, ScriptPlan, ScriptSummary
from rekindle.pipeline.check import BLOCKING, NAME, check, check_pipeline_name, check_target, refuse, target_faults
from rekindle.pipeline.declared import SESSION, Argument, Binding, Declared, Role
from rekindle.pipeline.run_targets import TargetFunction, asked_by, completed, is_target
from rekindle.publish.targets import Target
from rekindle.service import keeping, streaming
from rekindle.service.options import RunOptions, as_settings_say
from rekindle.service.parameters import Parameter, texts_of, warn_of_secrets
from rekindle.service.running import PUBLISHED_TO, RunRequest
from rekindle.service.stop_signal import StopSignal
from rekindle.storage.stores import open_store

Tell = Callable[[str], None]
Columns = str | Sequence[str]


def run(
    name: str,
    spark: Any,
    location: str = "",
    *,
    options: RunOptions | None = None,
    tell: Tell = print,
    **parameters: Parameter,
) -> ScriptRun:
    """Open a run of a script: `with rk.run(…) as run:`. Its name and parameters identify the kept results. Without
    `location`, Rekindle reads it, the backoff and the storage options from the same places as the command line:
    `rekindle.toml`, the environment, `spark.rekindle.*`. `options` override all of these except the location. `tell` is
    called with each line of output."""
    check_pipeline_name(name, "a run", 'rk.run("daily_orders", spark)', place=_place())
    if options is not None and (options.run or options.without):
        raise Refused(
            f"{_place()}: run= and without= work only for pipelines; a script resumes the run of its parameters",
            hint="leave them out; new=True starts over",
        )
    config = load_config(spark=spark_adapter().properties(spark))
    if not (location or config.location):
        raise ConfigRefused(
            "no location is set: Rekindle does not know where to store results",
            f'rk.run("{name}", spark, "s3a://bucket/rekindle"), or `location = …` in rekindle.toml',
        )
    warn_of_secrets(parameters)
    if config.is_file_above:
        tell(f"settings: {config.file}, found above the current folder")
    return ScriptRun(name, spark, location or config.location, options or as_settings_say(config), tell, parameters)


class ScriptRun:
    """One start of a script. `summary` is what it has kept so far."""

    def __init__(
        self,
        name: str,
        session: Any,
        location: str,
        options: RunOptions,
        tell: Tell,
        parameters: Mapping[str, Parameter],
    ) -> None:
        self.name = name
        self._session = session
        self._location = location
        self._options = options
        self._tell_user = tell
        self._parameters = parameters
        self._key = texts_of(parameters)
        self._results: list[KeptResult] = []
        self._places: dict[str, str] = {}
        self._writers: list[GivenWriter] = []
        self._is_open = False
        self._is_complete = False

    def keep(
        self,
        frame: Any,
        name: str,
        *,
        partition_by: Columns = (),
        partitions: int | None = None,
        deterministic: bool | None = None,
    ) -> Any:
        """Compute `frame`, store it in files, and return a DataFrame over them. Partitions of an earlier start are
        reused if they are proved to be valid. `partition_by`, `partitions` and `deterministic` are those of a step."""
        place = _place()
        step = self._declared(frame, name, place, partition_by, partitions, deterministic)
        spark_adapter().refuse_hidden_order(frame, name, place, is_keyed=step.has_layout)
        return self._kept(frame, check((step,)), self._key)

    def publish(
        self,
        frame: Any,
        target: Target | TargetFunction,
        *,
        name: str,
        partition_by: Columns = (),
        partitions: int | None = None,
        deterministic: bool | None = None,
    ) -> None:
        """Publish the rows to a target: `rk.table`, `rk.files` or `rk.directory`. A target may name parameters of the
        run in braces, or be a function of them. Rows are published once, and again if they changed. Intermediate files
        are deleted after the publication."""
        place = _place()
        check_target(target)
        step = self._declared(frame, name, place, partition_by, partitions, deterministic)
        read = Argument("rows", Binding.INPUT, name)
        sink = Declared(
            name=f"{name}_published",
            role=Role.SINK,
            function=_as_it_is,
            arguments=(read,),
            place=place,
            target=cast(Target, target) if is_target(target) else None,
            choose_target=None if is_target(target) else cast(TargetFunction, target),
        )
        refuse([*target_faults(sink, (step, sink), self._parameters)])
        asked = {one: value for one, value in self._parameters.items() if one in asked_by(sink)}
        kept, published = completed(check((step, sink), asked), asked, texts_of)
        self._kept(frame, (kept, published), self._key | {PUBLISHED_TO: published.shown_target})

    def stream(self, writer: Any, name: str, *, checkpoint: str = "", table: str = "") -> None:
        """Supervise a streaming query of the script. Give its writer before it is started: `df.writeStream.format(…)`.
        All queries start when the `with` block ends, which then takes until they are stopped: by SIGTERM, by
        `options.is_asked_to_stop`, or with `available_now` when all input was read. One that fails restarts alone, from
        its checkpoint. `checkpoint` is one that the query has already: it goes on from its position. `table` is what
        the script gave to `toTable`."""
        place = _place()
        self._refuse(name, place)
        self._places[name] = place
        self._writers.append(GivenWriter(writer=writer, name=name, place=place, checkpoint=checkpoint, table=table))

    def plan(self) -> ScriptPlan:
        """Return what earlier starts with the same name and parameters kept, read from their journals without a Spark
        job. `keep` decides whether it is still valid."""
        store = open_store(self._location, self._options.storage)
        names = [folder.partition(".") for folder in store.list_folders("")]
        mine = [name for run, dot, name in names if dot and run == self.name]
        found = (keeping.find(store, f"{self.name}.{name}", name, self._key) for name in mine)
        return ScriptPlan(self.name, self._key, tuple(one for one in found if one is not None))

    @property
    def summary(self) -> ScriptSummary:
        return ScriptSummary(self.name, self._key, tuple(self._results), self._is_complete)

    def __enter__(self) -> ScriptRun:
        self._is_open = True
        plan = self.plan()
        if plan.found:
            self._say(plan)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._is_open = False
        if error is None and self._writers:
            self._supervise(tuple(self._writers))
        self._is_complete = error is None
        self._say(self.summary)

    def _supervise(self, writers: tuple[GivenWriter, ...]) -> None:
        """Until its queries are stopped, have read all, or gave up."""
        asked = self._options.is_asked_to_stop
        is_told = asked is not RunOptions().is_asked_to_stop
        options = replace(self._options, is_asked_to_stop=asked if is_told else StopSignal())

        def prepare(session: Any, wanted: StreamRequest) -> PreparedStream:
            return spark_adapter().prepare_writers(session, wanted, writers)

        wish = RunRequest(
            pipeline=self.name,
            steps=(),
            session=self._session,
            location=self._location,
            options=options,
            parameters={},
            key=self._key,
        )
        self._tell(str(streaming.run(streaming.claimed(wish), prepare, self._tell)))

    def _kept(self, frame: Any, steps: tuple[Declared, ...], key: Mapping[str, str]) -> Any:
        name = steps[0].name
        mine = tuple(one for one in self._options.accept_change if one == name)
        options = replace(self._options, accept_change=mine, replace=(name,))
        wish = RunRequest(
            pipeline=f"{self.name}.{name}",
            steps=steps,
            session=frame.sparkSession,
            location=self._location,
            options=options,
            parameters={},
            key=key,
        )
        kept = keeping.keep(wish, spark_adapter, spark_adapter().opened, self._tell)
        self._results.append(kept.result)
        self._tell(str(kept.result))
        return kept.frame

    def _declared(
        self,
        frame: Any,
        name: str,
        place: str,
        partition_by: Columns,
        partitions: int | None,
        deterministic: bool | None,
    ) -> Declared:
        self._refuse(name, place)
        step = Declared(
            name=name,
            role=Role.SOURCE,
            function=spark_adapter().given(frame, name, place),
            arguments=(Argument(SESSION, Binding.SESSION),),
            place=place,
            result=BLOCKING,
            partitions=partitions,
            keys=(partition_by,) if isinstance(partition_by, str) else tuple(partition_by),
            declared_deterministic=deterministic,
        )
        self._places[name] = place
        return step

    def _refuse(self, name: str, place: str) -> None:
        """A name is the name of a folder, and is taken once."""
        if not self._is_open:
            raise GraphRefused(
                f"{place}: {name} is kept outside of the `with` block of the run",
                hint=f'with rk.run("{self.name}", …) as run: …',
            )
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise GraphRefused(
                f"{place}: {name!r} is not a valid result name: use letters, digits and _, and no digit first",
                hint='run.keep(df, "enriched")',
            )
        if name in self._places:
            raise GraphRefused(
                f"{place}: {name} is kept twice in this run, first at {self._places[name]}",
                hint=f'run.keep(df, "{name}_2"), or remove one of them',
            )

    def _tell(self, line: str) -> None:
        self._tell_user(visible(line))

    def _say(self, what: ScriptPlan | ScriptSummary) -> None:
        for line in what.lines():
            self._tell(line)


def _as_it_is(rows: Any) -> Any:
    return rows


def _place() -> str:
    """The line of the script that called what called this."""
    frame = sys._getframe(2)
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
