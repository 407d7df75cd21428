"""Declared steps, each built once: its function is called over what it reads, in a session of its own.

Rules
- A function is called once for the same inputs, however often its pipeline is compiled: over the frame of an input that
  is pipelined into it, and over a stand-in of one that is kept.
- Each step sees the views and functions that were there before the run, those that it makes itself, and those of a step
  that is pipelined into it. A view of any other step is refused, also where the session has an older one of that name.
- A function is called with the settings that its group is planned with, those of the user among them: Spark drops
  some of what is described (a `rebalance` hint) where a setting says so. Settings to look at plans come after the call.
- A function that asks an input for its files or its size while it is built would get another answer over real files,
  and a view that it leaves for the whole application would have no rows. It is noticed (java/StandIn), and such a step
  is built again when it runs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from rekindle.engine.spark.jvm import plan_calls, result_calls
from rekindle.engine.spark.plan import cuts, kept_frames
from rekindle.engine.spark.plan.describe import describe, or_refused
from rekindle.engine.spark.plan.group import BuiltGroup
from rekindle.engine.spark.plan.layout import Layout
from rekindle.engine.spark.plan.versions_read import VersionsRead
from rekindle.engine.spark.session import clone
from rekindle.errors import GraphRefused
from rekindle.pipeline.check import refuse_topic
from rekindle.pipeline.constants import TimeAndSeed
from rekindle.pipeline.declared import Declared
from rekindle.pipeline.did_you_mean import did_you_mean

UNSEEN = (
    "a step sees no views, functions or settings that another step made: make them in the step that uses "
    "them, or before the run starts"
)
VIEW_NOT_FOUND = re.compile(r"TABLE_OR_VIEW_NOT_FOUND\D+?[`'](\w+)[`']")


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltStep:
    """A step as its function built it. `is_input_itself`: it handed on its only input. `needs_files`: it must be built
    again over real files (see `result_calls.traces`). `made` are the temporary views and functions of its session that
    were not there before the run, as `Sources.temporaries` tells them."""

    frame: DataFrame
    is_input_itself: bool = False
    needs_files: bool = False
    made: frozenset[str] = frozenset()


class StepBuilder:
    """Builds the steps of one pipeline, with the parameters and constants of the run."""

    def __init__(
        self, parameters: Mapping[str, Any], constants: TimeAndSeed, settings: Mapping[str, str] | None = None
    ) -> None:
        self.parameters, self.constants = parameters, constants
        self.versions = VersionsRead(settings or {})
        self._built: dict[tuple[str, tuple[int, ...]], BuiltStep] = {}
        # What each of these was given: as long as a frame is known here, no other one has its identity.
        self._given: list[Mapping[str, DataFrame]] = []
        self._stands: dict[tuple[str, int, Layout], DataFrame] = {}
        self._makers: dict[str, str] = {}
        self._before: frozenset[str] | None = None

    def source(self, one: Declared, session: SparkSession) -> DataFrame:
        """The frame of a source, read once, so that every group reads the same files."""
        key = one.name, ()
        if key not in self._built:
            frame = self._called(one, clone(session, {}), {})
            self._built[key] = BuiltStep(frame=self.versions.pinned(one.name, frame))
            if one.shards > 1:
                raise GraphRefused(
                    f"{one.place}: {one.name} has shards={one.shards}, and is no stream", "leave out shards"
                )
        return self._built[key].frame

    def step(
        self, one: Declared, session: SparkSession, inputs: Mapping[str, DataFrame], inside: Sequence[BuiltStep]
    ) -> BuiltStep:
        """The step over these inputs; `inside` are those that are pipelined into it. `session` has the settings that
        groups are planned with."""
        key = one.name, tuple(id(frame) for frame in inputs.values())
        if key not in self._built:
            self._given.append(inputs)
            self._built[key] = self._new(one, session, inputs, inside)
        return self._built[key]

    def stand_in(self, step: str, session: SparkSession, built: BuiltGroup) -> DataFrame:
        """What the readers of a kept step are built over: the same as long as the step is built and lies as before."""
        assert built.layout is not None, f"{step} is not kept"
        key = step, id(built.frame), built.layout
        if key not in self._stands:
            schema = plan_calls.schema(built.stored)
            self._stands[key] = kept_frames.stand_in(session, step, schema, built.layout, built.outline)
        return self._stands[key]

    def _new(
        self, one: Declared, session: SparkSession, inputs: Mapping[str, DataFrame], inside: Sequence[BuiltStep]
    ) -> BuiltStep:
        if self._before is None:
            self._before = plan_calls.temporaries(session)
        leaving = [below for below in inside if below.made]
        inherited = leaving[-1].made if leaving else frozenset[str]()
        home = leaving[-1].frame.sparkSession if leaving else session
        own = clone(home, {})
        given = {name: plan_calls.in_session(frame, own) for name, frame in inputs.items()}
        for frame in given.values():
            plan_calls.forget_sizes(frame)
        before = result_calls.traces(own)
        frame = self._called(one, own, given)
        refuse_topic(one)
        needs_files = result_calls.traces(own) != before
        made = plan_calls.temporaries(own) - self._before
        self._makers |= dict.fromkeys(_views(made - inherited), one.name)
        if self._makers:
            for view in sorted(plan_calls.views_read(frame).difference(*map(plan_calls.views_read, given.values()))):
                self._refuse_view(one, view)
        is_input_itself = len(given) == 1 and frame is next(iter(given.values()))
        return BuiltStep(frame=frame, is_input_itself=is_input_itself, needs_files=needs_files, made=made)

    def _called(self, one: Declared, session: SparkSession, frames: Mapping[str, DataFrame]) -> DataFrame:
        hint = "correct it and run again; nothing was started"
        if one.is_eager:
            hint = "an eager step is built over inputs without rows first: it must cope with them"
        elif any(step.made for step in self._built.values()):
            hint = UNSEEN
        try:
            with or_refused(one.name, one.function, hint):
                frame = describe(one, session, frames, self.parameters, self.constants)
        except GraphRefused as refused:
            if missing := VIEW_NOT_FOUND.search(str(refused)):
                self._refuse_view(one, missing[1])
            raise
        _refuse_unknown_keys(one, frame.columns, is_exact=cuts.is_case_sensitive(session))
        return frame

    def _refuse_view(self, one: Declared, view: str) -> None:
        """Unless it is the step's own, or nobody's here."""
        maker = self._makers.get(view, one.name)
        if maker != one.name:
            raise GraphRefused(
                f"{one.place}: {one.name} reads the view {view} of step {maker}; a step cannot read the "
                "views of another step",
                hint=f"name {maker} as a parameter of {one.name}, or make the view in {one.name}",
            )


def _views(made: frozenset[str]) -> list[str]:
    words = (line.split("\t") for line in made)
    return [name for kind, name, _ in words if kind == "view"]


def _refuse_unknown_keys(one: Declared, columns: list[str], *, is_exact: bool) -> None:
    def folded(name: str) -> str:
        return name if is_exact else name.lower()

    names = [folded(column) for column in columns]
    for key in one.keys:
        if names.count(folded(key)) != 1:
            what = "has no such column" if folded(key) not in names else "has several columns of that name"
            raise GraphRefused(
                f"{one.place}: {one.name} is partitioned by {key}, but {what}",
                hint=did_you_mean(key, columns) or f"its columns are {', '.join(columns)}",
            )
