"""From declared steps to groups: each step is built once over stand-ins, Spark's plan of it is read, the rules decide.

What is learned may not depend on sizes: stand-ins have no files, so a join counts as one that moves rows unless both
sides lie together or the user asked for a broadcast. Adaptive execution is off here: nothing is executed, and an action
in a step is one Spark job that can be stopped before it does anything.

A kept step for which nobody asked for a number of partitions has that of `spark.sql.shuffle.partitions` where the user
set it. Where not, the number follows the bytes of the pinned sources, never the cores: adaptive execution, which would
merge small partitions, does so by sizes that another driver may not see again. It is pinned with the run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from rekindle.engine.check import CACHING, MEMORY
from rekindle.engine.constants import Known
from rekindle.engine.declared import Declared, Role
from rekindle.engine.grouping import Fate, Look, alone, decide, members_of
from rekindle.engine.near import did_you_mean
from rekindle.engine.signature import line_of
from rekindle.engine.spark import plans, results
from rekindle.engine.spark.describe import describe
from rekindle.engine.spark.engine import GroupSpec
from rekindle.engine.spark.failures import first_line
from rekindle.engine.spark.layout import POINTWISE, choose, verdict_of
from rekindle.engine.spark.session import clone, group_session, in_session
from rekindle.engine.spark.sources import Pin, pin
from rekindle.engine.targets import Target
from rekindle.errors import GraphRefused, RekindleError
from rekindle.model.kinds import Determinism, DigestPolicy, ResultKind

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
BYTES_PER_PARTITION, PARTITIONS_MIN = 32 << 20, 8
DESCRIBING = {**POINTWISE, "spark.sql.adaptive.enabled": "false"}
KINDS = {CACHING: ResultKind.CACHING, MEMORY: ResultKind.MEMORY}
PYTHON = re.compile(r"Python|InPandas|InArrow")

Build = Callable[[SparkSession, Mapping[str, DataFrame]], DataFrame]


@dataclass(frozen=True, slots=True)
class Compiled:
    """The groups of a pipeline, producers first, by the kept step each ends in. `members` are the steps fused into it,
    itself last. `why` tells what became of every declared step. `sinks` are the kept steps that are published,
    `targets` says in words which sink each is and where it goes, `named` gives the kept step of a sink. `settings` are
    those it was compiled with, the number of partitions among them."""

    groups: dict[str, GroupSpec]
    members: dict[str, tuple[str, ...]]
    why: dict[str, str]
    sinks: dict[str, Target]
    targets: dict[str, str]
    named: dict[str, str]
    settings: dict[str, str]


def compile_pipeline(
    spark: SparkSession,
    declared: Sequence[Declared],
    parameters: Mapping[str, Any],
    constants: Known,
    settings: Mapping[str, str] | None = None,
) -> Compiled:
    """`declared` is checked, producers first. Starts no Spark job, except what a source needs to know its schema."""
    session = clone(group_session(spark, settings or {}), DESCRIBING)
    sources = {one.name: _built(one, session, {}, parameters, constants) for one in declared if one.role is Role.SOURCE}
    pins = {name: pin(frame) for name, frame in sources.items()}
    usual = int(session.conf.get(SHUFFLE_PARTITIONS) or 200)
    is_set = SHUFFLE_PARTITIONS in (settings or {})
    partitions = usual if is_set else partitions_for(list(pins.values()), usual)
    session.conf.set(SHUFFLE_PARTITIONS, str(partitions))
    looks = _look_at_all(session, declared, parameters, constants, _Read(sources, pins), partitions)
    decisions = decide(declared, looks)
    steps = {one.name: one for one in declared}
    kept = [one for one in declared if decisions[one.name].fate is Fate.KEPT]
    members = {one.name: members_of(one.name, declared, decisions) for one in kept}
    build = _Built(sources, parameters, constants)
    groups = {
        one.name: _group(one, [steps[name] for name in members[one.name]], looks, build, partitions) for one in kept
    }
    why = {name: f"{decision.fate.value}: {decision.why}" for name, decision in decisions.items()}
    pinned = {**(settings or {}), SHUFFLE_PARTITIONS: str(partitions)}
    published = {decisions[one.name].of or one.name: one for one in declared if one.target is not None}
    return Compiled(
        groups,
        members,
        why,
        {step: one.target for step, one in published.items() if one.target is not None},
        {step: one.destination for step, one in published.items()},
        {one.name: step for step, one in published.items()},
        pinned,
    )


def partitions_for(pins: Sequence[Pin], usual: int) -> int:
    """How many partitions a kept step has if nobody asked for a number. Where a source has no bytes that are known and
    stay, Spark's own number."""
    if not pins or not all(one.is_pinned and one.bytes for one in pins):
        return usual
    return min(usual, max(PARTITIONS_MIN, -(-sum(one.bytes for one in pins) // BYTES_PER_PARTITION)))


def _look_at_all(
    session: SparkSession,
    declared: Sequence[Declared],
    parameters: Mapping[str, Any],
    constants: Known,
    read: _Read,
    partitions: int,
) -> dict[str, Look]:
    """Each step over what it will read: a stand-in where its input is kept, the input's own plan where it is fused."""
    frames: dict[str, DataFrame] = {}
    looks: dict[str, Look] = {}
    fused: set[str] = set()
    for one in declared:
        frame = read.sources.get(one.name)
        if frame is None:
            frame = _built(one, session, frames, parameters, constants)
        below = [looks[name] for name in one.inputs if name in fused]
        looks[one.name] = look = _look(one, frame, frames, below, read.pins.get(one.name))
        readers = [other.name for other in declared if one.name in other.inputs]
        if alone(one, look, readers).fate is Fate.FUSED:
            fused.add(one.name)
        else:
            layout = choose(frame, one.keys, one.partitions or partitions)
            frame = results.stand_in(session, frame._jdf.schema(), layout)
        frames[one.name] = frame
    return looks


def _built(
    one: Declared,
    session: SparkSession,
    frames: Mapping[str, DataFrame],
    parameters: Mapping[str, Any],
    constants: Known,
) -> DataFrame:
    try:
        frame = describe(one, session, frames, parameters, constants)
    except RekindleError:
        raise
    except Exception as error:
        empty = "an eager step is built over inputs without rows first: it must cope with them" if one.is_eager else ""
        raise GraphRefused(
            f"{line_of(error, one.function)}: {one.name} could not be built: {first_line(error)}",
            hint=empty or "correct it and run again; nothing was started",
        ) from error
    _refuse_unknown_keys(one, frame.columns)
    return frame


def _refuse_unknown_keys(one: Declared, columns: list[str]) -> None:
    names = [column.lower() for column in columns]
    for key in one.keys:
        if names.count(key.lower()) != 1:
            what = "has no such column" if key.lower() not in names else "has several columns of that name"
            raise GraphRefused(
                f"{one.place}: {one.name} is partitioned by {key}, but {what}",
                hint=did_you_mean(key, columns) or f"its columns are {', '.join(columns)}",
            )


def _look(
    one: Declared, frame: DataFrame, frames: Mapping[str, DataFrame], below: Sequence[Look], read: Pin | None
) -> Look:
    execution = frame._jdf.queryExecution()
    plan = plans.read(frame.sparkSession, execution.executedPlan())
    shape = plans.shape(plan)
    verdict = verdict_of(frame)
    return Look(
        exchanges=shape.exchanges,
        has_python=any(PYTHON.search(node.name) for node in plan.below()),
        is_narrow=shape.is_narrow,
        determinism=_determinism(one, verdict.level, below),
        because=verdict.because,
        is_pinned=read is None or one.declared_deterministic is True or read.is_pinned,
        is_input_itself=len(one.inputs) == 1 and frame is frames[one.inputs[0]],
    )


def _determinism(one: Declared, level: Determinism, below: Sequence[Look]) -> Determinism:
    """The user's word counts for the step it was given for: what is fused below it needs its own."""
    if one.declared_deterministic is False or any(look.determinism is Determinism.INDETERMINATE for look in below):
        return Determinism.INDETERMINATE
    if one.declared_deterministic and all(look.determinism.is_repeatable for look in below):
        return Determinism.DECLARED
    return level


def _group(
    one: Declared,
    members: Sequence[Declared],
    looks: Mapping[str, Look],
    build: _Built,
    partitions: int,
) -> GroupSpec:
    names = {member.name for member in members}
    return GroupSpec(
        step=one.name,
        build=build.of(members),
        inputs=tuple(dict.fromkeys(name for member in members for name in member.inputs if name not in names)),
        keys=one.keys,
        partitions=one.partitions or partitions,
        declared=_users_word(members, looks),
        is_eager=any(member.is_eager for member in members),
        functions=tuple(member.function for member in members),
        keep=one.keep,
        digest=one.digest or DigestPolicy.AUTO,
        kind=KINDS.get(one.result, ResultKind.BLOCKING),
        replicas=one.replicas or 1,
    )


def _users_word(members: Sequence[Declared], looks: Mapping[str, Look]) -> Determinism | None:
    """What the user declared of a whole group; None where Spark's plan of it must tell."""
    *fused, root = members
    if any(member.declared_deterministic is False for member in members):
        return Determinism.INDETERMINATE
    is_declared = root.declared_deterministic and all(looks[one.name].determinism.is_repeatable for one in fused)
    return Determinism.DECLARED if is_declared else None


@dataclass(frozen=True, slots=True)
class _Read:
    """The sources as they were read: once, so that every group reads the same files. And what each read."""

    sources: Mapping[str, DataFrame]
    pins: Mapping[str, Pin]


@dataclass(frozen=True, slots=True)
class _Built:
    """How groups are built: from sources as they were read, with the parameters and constants of the run."""

    sources: Mapping[str, DataFrame]
    parameters: Mapping[str, Any]
    constants: Known

    def of(self, members: Sequence[Declared]) -> Build:
        """The group's own plan: its members' functions called in turn, in the group's session."""

        def build(session: SparkSession, inputs: Mapping[str, DataFrame]) -> DataFrame:
            frames = dict(inputs)
            for member in members:
                read = self.sources.get(member.name)
                frames[member.name] = (
                    describe(member, session, frames, self.parameters, self.constants)
                    if read is None
                    else in_session(read, session)
                )
            made = frames[members[-1].name]
            return made if made.sparkSession is session else in_session(made, session)

        return build
