"""Compile and analyse a pipeline until no cut changes what a reader sees.

A pipeline is compiled, and each group is planned over stand-ins of the kept steps that it reads. Where a group observes
what a cut cannot keep, the cut is given up: the step is pipelined into its reader, and everything is compiled again. A
step that the user asked to keep is kept, and that reader computes it once more. Where it could give other rows then, it
is pipelined into that reader if that is its only one and only recovery depends on it, and the plan says so; else the
pipeline is refused with the reader's line. So is a step that gets the rows of another one through a view or a variable:
after a resume they would be those of a stand-in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyspark.sql import SparkSession

from rekindle.engine.adapter import PrepareRequest
from rekindle.engine.spark.plan.analyse import Analysis, analyse
from rekindle.engine.spark.plan.building import StepBuilder
from rekindle.engine.spark.plan.compile import Compiled, compile_pipeline, has_to_be_kept, is_asked_for
from rekindle.engine.spark.plan.cuts import Observation
from rekindle.errors import GraphRefused
from rekindle.pipeline.declared import Declared


def compile_and_analyse(spark: SparkSession, wanted: PrepareRequest) -> tuple[Compiled, Analysis]:
    """The groups of a pipeline and their graph. Starts no Spark job, except what is needed to read schemas."""
    steps = {one.name: one for one in wanted.steps}
    given_up: dict[str, str] = {}
    copies: dict[tuple[str, str], str] = {}
    builder = StepBuilder(wanted.parameters, wanted.constants, wanted.settings)
    while True:
        compiled = compile_pipeline(spark, wanted.steps, builder, wanted.settings, given_up=given_up, copies=copies)
        analysis = analyse(spark, compiled.groups, compiled.settings)
        found = list(_observed_too_much(analysis, compiled, steps))
        if not found:
            return compiled, analysis
        for reader, kept, why in found:
            is_asked = is_asked_for(steps[kept])
            if is_asked and kept in compiled.repeatable and not steps[kept].is_eager:
                inside = (name for name in compiled.members[reader] if kept in steps[name].inputs)
                copies |= {(name, kept): why for name in inside}
            elif not is_asked or (not has_to_be_kept(steps[kept]) and _readers(kept, compiled) == [reader]):
                given_up[kept] = why
            else:
                raise _refused(steps[reader], steps[kept], why)


def _readers(step: str, compiled: Compiled) -> list[str]:
    return [name for name, group in compiled.groups.items() if step in group.inputs]


def _observed_too_much(
    analysis: Analysis, compiled: Compiled, steps: Mapping[str, Declared]
) -> Iterator[tuple[str, str, str]]:
    """Reader, kept step, and why the reader would see something else than without the cut."""
    for name, found in analysis.observed.items():
        reader = steps[name]
        for one in found:
            if one.step not in compiled.groups[name].inputs:
                raise _hidden(reader, one.step, compiled.members[name])
            is_keyed = bool(analysis.held[one.step].layout.keys)
            why = _why(one, str(analysis.groups[one.step].outline.lost(is_keyed)), reader)
            if why:
                yield name, one.step, why


def _why(one: Observation, lost: str, reader: Declared) -> str:
    """Why the reader would see something else; empty if it would not."""
    if one.has_file_names:
        return f"{reader.name} reads the file names of its input"
    if lost and (one.has_order or one.has_partitions):
        what = "order" if one.has_order else "partitions"
        return f"{reader.name} depends on the {what} of its input rows, and {lost}"
    return ""


def _refused(reader: Declared, kept: Declared, why: str) -> GraphRefused:
    again = "it is eager, and its jobs would run a second time" if kept.is_eager else "it could give other rows"
    word = "" if kept.is_eager else f"declare {kept.name} deterministic=True if it always gives the same rows; or "
    return GraphRefused(
        f"{reader.place}: {reader.name} reads {kept.name}, which is kept ({kept.place}), and would give another result "
        f"than without Rekindle: {why}. {reader.name} cannot recompute {kept.name} either: {again}",
        hint=f"{word}leave out what asks for {kept.name} to be kept, so that it is pipelined into {reader.name}; or do "
        f"in {kept.name} what {reader.name} observes",
    )


def _hidden(reader: Declared, step: str, members: tuple[str, ...]) -> GraphRefused:
    inside = f" (or {', '.join(members[:-1])}, pipelined into it)" if len(members) > 1 else ""
    return GraphRefused(
        f"{reader.place}: {reader.name}{inside} reads {step} through a view or a variable, not as a parameter",
        hint=f"name {step} as a parameter of the function that reads it",
    )
