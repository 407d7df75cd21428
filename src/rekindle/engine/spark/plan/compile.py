"""From declared steps to groups: each step is built once over stand-ins, Spark's plan of it is read, the rules decide.

What is learned may not depend on sizes: stand-ins have no files, so a join counts as one that moves rows unless both
sides lie together or the user asked for a broadcast. Plans are looked at with adaptive execution off: it hides them.

What was built is carried on (`BuiltGroup`): the graph is made of it, and attempts run it with files in place of the
stand-ins. A group is built again where what was found later changed what it reads: a step that was pipelined when its
readers were built turned out to be kept.

A kept step for which nobody asked for a number of partitions has that of `spark.sql.shuffle.partitions` where the user
set it. Where not, the number follows the bytes of the pinned sources, never the cores: adaptive execution, which would
merge small partitions, does so by sizes that another driver may not see again. It is pinned with the run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from rekindle.engine.spark.jvm import plan_calls, result_calls
from rekindle.engine.spark.plan import cuts, plans
from rekindle.engine.spark.plan.building import BuiltStep, StepBuilder
from rekindle.engine.spark.plan.describe import describe
from rekindle.engine.spark.plan.determinism import DeterminismVerdict
from rekindle.engine.spark.plan.group import BuiltGroup, GroupSpec
from rekindle.engine.spark.plan.layout import POINTWISE, Layout, choose, storable, verdict_of
from rekindle.engine.spark.plan.sources import SourcePin, pin
from rekindle.engine.spark.session import clone, group_session
from rekindle.errors import GraphRefused
from rekindle.model.kinds import Determinism, DigestPolicy, KeepUntil, ResultKind
from rekindle.pipeline.check import BLOCKING, CACHING, IN_BLOCKS, MEMORY, PIPELINED
from rekindle.pipeline.constants import TimeAndSeed
from rekindle.pipeline.declared import Declared, Role
from rekindle.pipeline.grouping import NO_COPIES, Copies, StepPlacement, StepPlanFacts, alone, decide, members_of
from rekindle.pipeline.table_versions import TableVersion
from rekindle.publish.targets import Target

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
BYTES_PER_PARTITION, PARTITIONS_MIN = 32 << 20, 8
DESCRIBING = {**POINTWISE, "spark.sql.adaptive.enabled": "false"}
KINDS = {CACHING: ResultKind.CACHING, MEMORY: ResultKind.MEMORY}
PYTHON = re.compile(r"Python|InPandas|InArrow")

Build = Callable[[SparkSession, Mapping[str, DataFrame]], DataFrame]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """The groups of a pipeline, producers first, by the kept step each ends in. `members` are the steps fused into it,
    itself last. `why` tells what became of every declared step. `repeatable` are those that give the same rows wherever
    they are computed. `sinks` are the kept steps that are published, `destinations` say in words which sink each is
    and where it goes, `named` gives the kept step of a sink. `settings` are those it was compiled with, the number of
    partitions among them. `read` are the columns of the sources, `versions` say at which version tables are read,
    which are `tables`."""

    groups: dict[str, GroupSpec]
    members: dict[str, tuple[str, ...]]
    why: dict[str, str]
    repeatable: frozenset[str]
    sinks: dict[str, Target]
    destinations: dict[str, str]
    named: dict[str, str]
    settings: dict[str, str]
    read: dict[str, StructType]
    versions: tuple[str, ...] = ()
    tables: tuple[TableVersion, ...] = ()


def compile_pipeline(
    spark: SparkSession,
    declared: Sequence[Declared],
    builder: StepBuilder,
    settings: Mapping[str, str] | None = None,
    *,
    given_up: Mapping[str, str] | None = None,
    copies: Copies = NO_COPIES,
) -> Compiled:
    """`declared` is checked, producers first. Starts no Spark job, except what is needed to read schemas. `given_up`
    are steps that may not be kept, with the reason: a reader would see something else. `copies` tells which readers
    compute a kept step once more."""
    session = group_session(spark, settings or {})
    sources = {one.name: builder.source(one, session) for one in declared if one.role is Role.SOURCE}
    pins = {name: pin(frame) for name, frame in sources.items()}
    usual = int(session.conf.get(SHUFFLE_PARTITIONS) or 200)
    is_set = SHUFFLE_PARTITIONS in (settings or {})
    partitions = usual if is_set else partitions_for(list(pins.values()), usual)
    session.conf.set(SHUFFLE_PARTITIONS, str(partitions))
    described = _Described(
        session=session,
        looking=clone(session, DESCRIBING),
        builder=builder,
        declared=declared,
        sources=sources,
        pins=pins,
        given_up=given_up or {},
        copies=copies,
        partitions=partitions,
    )
    for one in declared:
        described.add(one)
    looks = described.looks
    decisions = decide(declared, looks, copies)
    steps = {one.name: one for one in declared}
    kept = [one for one in declared if decisions[one.name].fate is StepPlacement.KEPT]
    members = {one.name: members_of(one.name, declared, decisions, copies) for one in kept}
    build = _Built(sources, builder.parameters, builder.constants)
    published = {decisions[one.name].of or one.name: one for one in declared if one.target is not None}
    groups = {
        one.name: replace(
            _group(one, [steps[name] for name in members[one.name]], looks, build, partitions),
            is_published=one.name in published,
            built=described.group(one.name, members[one.name]),
        )
        for one in kept
    }
    why = {name: decision.sentence for name, decision in decisions.items()}
    for (reader, name), reason in copies.items():
        why[name] += f"; {reader} recomputes it: {reason}"
    pinned = {**(settings or {}), SHUFFLE_PARTITIONS: str(partitions), **builder.versions.settings}
    return Compiled(
        groups=groups,
        members=members,
        why=why,
        repeatable=frozenset(name for name, look in looks.items() if look.determinism.is_repeatable and look.is_pinned),
        sinks={step: one.target for step, one in published.items() if one.target is not None},
        destinations={step: one.destination for step, one in published.items()},
        named={one.name: step for step, one in published.items()},
        settings=pinned,
        read={name: frame.schema for name, frame in sources.items()},
        versions=builder.versions.told(),
        tables=builder.versions.tables,
    )


def partitions_for(pins: Sequence[SourcePin], usual: int) -> int:
    """How many partitions a kept step has if nobody asked for a number. Where a source has no bytes that are known and
    stay, Spark's own number."""
    if not pins or not all(one.is_pinned and one.bytes for one in pins):
        return usual
    return min(usual, max(PARTITIONS_MIN, -(-sum(one.bytes for one in pins) // BYTES_PER_PARTITION)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Described:
    """Each step over what it will read: a stand-in where its input is kept, the input's own plan where it is pipelined.
    Steps are added producers first. `session` has the settings of the run, `looking` those to look at plans."""

    session: SparkSession
    looking: SparkSession
    builder: StepBuilder
    declared: Sequence[Declared]
    sources: Mapping[str, DataFrame]
    pins: Mapping[str, SourcePin]
    given_up: Mapping[str, str]
    copies: Copies
    partitions: int
    looks: dict[str, StepPlanFacts] = field(default_factory=dict)
    _steps: dict[str, BuiltStep] = field(default_factory=dict)
    _groups: dict[str, BuiltGroup] = field(default_factory=dict)
    _stands: dict[str, DataFrame] = field(default_factory=dict)

    def add(self, one: Declared) -> None:
        """Build a step, look at its plan, and make a stand-in of it where it is kept."""
        inside = self._inside(one)
        inputs = {name: self._steps[name].frame if name in inside else self._stands[name] for name in one.inputs}
        if one.name in self.sources:
            made = BuiltStep(frame=self.sources[one.name])
        else:
            made = self.builder.step(one, self.session, inputs, [self._steps[name] for name in inside])
        self._steps[one.name] = made
        readers = [other.name for other in self.declared if one.name in other.inputs]
        is_published = one.role is Role.SINK
        stored = storable(made.frame, is_published=is_published)
        verdict = verdict_of(stored)
        # A step that only sorts is kept as one that has an exchange, though its readers sort.
        sorted_as_it_is = result_calls.storable(made.frame, is_published=is_published, leaves_order=False)
        self.looks[one.name] = look = replace(
            _look(
                one,
                plan_calls.in_session(sorted_as_it_is, self.looking),
                verdict,
                [self.looks[name] for name in inside],
                self.pins.get(one.name),
            ),
            not_kept=_why_not_kept(one, made.frame, readers, self.given_up),
            is_input_itself=made.is_input_itself,
        )
        built = self._groups[one.name] = self._built(one, stored, verdict, inside)
        if alone(one, look, readers).fate is not StepPlacement.FUSED:
            built = replace(built, layout=self._layout(one, built))
            self._groups[one.name] = built
            self._stands[one.name] = self.builder.stand_in(one.name, self.session, built)

    def group(self, root: str, members: Sequence[str]) -> BuiltGroup | None:
        """What was built of a group that ends in `root`, if each of its members was built over what it reads now."""
        steps = {one.name: one for one in self.declared}
        is_same = all(
            (name in self._inside(steps[member])) == (name in members)
            for member in members
            for name in steps[member].inputs
        )
        return self._groups[root] if is_same else None

    def _inside(self, one: Declared) -> list[str]:
        """The inputs that were pipelined into a step when it was built."""
        return [name for name in one.inputs if name not in self._stands or (one.name, name) in self.copies]

    def _built(
        self, one: Declared, stored: DataFrame, verdict: DeterminismVerdict, inside: Sequence[str]
    ) -> BuiltGroup:
        made, below = self._steps[one.name], [self._groups[name] for name in inside]
        kept = [name for name in one.inputs if name not in inside]
        return BuiltGroup(
            frame=made.frame,
            stored=plan_calls.in_session(stored, self.session),
            outline=result_calls.outline_of(made.frame),
            verdict=verdict,
            reads=frozenset(kept).union(*(group.reads for group in below)),
            needs_files=made.needs_files or any(group.needs_files for group in below),
            is_published=one.role is Role.SINK,
        )

    def _layout(self, one: Declared, built: BuiltGroup) -> Layout:
        read = {name: layout for name in built.reads if (layout := self._groups[name].layout) is not None}
        return choose(built.stored, one.keys, one.partitions or self.partitions, read)


def _why_not_kept(one: Declared, frame: DataFrame, readers: Sequence[str], given_up: Mapping[str, str]) -> str:
    """Why a step may not be kept; empty if it may. What has to be kept and cannot is refused."""
    unstorable = cuts.unstorable(frame.schema)
    if unstorable and one.result != PIPELINED and (has_to_be_kept(one) or not readers):
        raise GraphRefused(
            f"{one.place}: {one.name} cannot be kept: {unstorable}",
            hint="store a number or a day-time interval in its place"
            + (", or leave out what asks for it to be kept, so that it is pipelined" if readers else ""),
        )
    if one.role is Role.SINK and (names := result_calls.doubled_names(frame)):
        raise GraphRefused(
            f"{one.place}: {one.name} has duplicate column names ({', '.join(names)}), which cannot be stored in files",
            hint="rename or leave out columns in the sink: select(…), withColumnRenamed(…)",
        )
    reason = unstorable or given_up.get(one.name, "")
    return f"{reason}, although you asked to keep it" if reason and is_asked_for(one) else reason


def is_asked_for(one: Declared) -> bool:
    """Whether the user asked that a result be kept: the plan says so if it is not."""
    return one.result in (BLOCKING, *IN_BLOCKS) or one.has_layout or has_to_be_kept(one)


def has_to_be_kept(one: Declared) -> bool:
    """Whether more than recovery depends on a kept result: it is published, stays, or starts jobs."""
    return one.is_eager or one.role is Role.SINK or one.keep is KeepUntil.FOREVER


def _look(
    one: Declared, frame: DataFrame, verdict: DeterminismVerdict, below: Sequence[StepPlanFacts], read: SourcePin | None
) -> StepPlanFacts:
    execution = plan_calls.execution(frame)
    plan = plans.read(frame.sparkSession, execution.executedPlan())
    shape = plans.shape(plan)
    return StepPlanFacts(
        exchanges=shape.exchanges,
        has_python=any(PYTHON.search(node.name) for node in plan.below()),
        is_narrow=shape.is_narrow,
        determinism=_determinism(one, verdict.level, below),
        because=verdict.because,
        is_pinned=(read is None or one.declared_deterministic is True or read.is_pinned)
        and all(look.is_pinned for look in below),
    )


def _determinism(one: Declared, level: Determinism, below: Sequence[StepPlanFacts]) -> Determinism:
    """The user's word counts for the step it was given for: what is fused below it needs its own."""
    if one.declared_deterministic is False or any(look.determinism is Determinism.INDETERMINATE for look in below):
        return Determinism.INDETERMINATE
    if one.declared_deterministic and all(look.determinism.is_repeatable for look in below):
        return Determinism.DECLARED
    return level


def _group(
    one: Declared,
    members: Sequence[Declared],
    looks: Mapping[str, StepPlanFacts],
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
        is_pessimistic=one.is_pessimistic,
        digest=one.digest or DigestPolicy.AUTO,
        kind=KINDS.get(one.result, ResultKind.BLOCKING),
        replicas=one.replicas or 1,
    )


def _users_word(members: Sequence[Declared], looks: Mapping[str, StepPlanFacts]) -> Determinism | None:
    """What the user declared of a whole group; None where Spark's plan of it must tell."""
    *fused, root = members
    if any(member.declared_deterministic is False for member in members):
        return Determinism.INDETERMINATE
    is_declared = root.declared_deterministic and all(looks[one.name].determinism.is_repeatable for one in fused)
    return Determinism.DECLARED if is_declared else None


@dataclass(frozen=True, slots=True)
class _Built:
    """How groups are built: from sources as they were read, with the parameters and constants of the run."""

    sources: Mapping[str, DataFrame]
    parameters: Mapping[str, Any]
    constants: TimeAndSeed

    def of(self, members: Sequence[Declared]) -> Build:
        """The group's own plan: its members' functions called in turn, in the group's session."""

        def build(session: SparkSession, inputs: Mapping[str, DataFrame]) -> DataFrame:
            frames = dict(inputs)
            for member in members:
                read = self.sources.get(member.name)
                frames[member.name] = (
                    describe(member, session, frames, self.parameters, self.constants)
                    if read is None
                    else plan_calls.in_session(read, session)
                )
            made = frames[members[-1].name]
            return made if made.sparkSession is session else plan_calls.in_session(made, session)

        return build
