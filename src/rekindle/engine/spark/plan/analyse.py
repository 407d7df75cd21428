"""The execution graph, from Spark's own plans, before anything runs.

Each group is planned over empty stand-ins for the kept results it reads: same schema, same layout, no files. What is
learned does not depend on sizes: whether the group is pointwise, what is inside it, how determinate it is.
"""

from __future__ import annotations

from collections import abc
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession

from rekindle.engine.spark.jvm import plan_calls, result_calls
from rekindle.engine.spark.plan import cuts, kept_frames, plans
from rekindle.engine.spark.plan.building import UNSEEN
from rekindle.engine.spark.plan.describe import or_refused
from rekindle.engine.spark.plan.group import BuiltGroup, GroupSpec
from rekindle.engine.spark.plan.layout import (
    Layout,
    PlannedQuery,
    choose,
    draws_coalesces,
    hinted_shape,
    hold,
    storable,
    verdict_of,
)
from rekindle.engine.spark.plan.sources import pin
from rekindle.engine.spark.session import attach, group_session
from rekindle.master.facts.graph_spec import GraphSpec
from rekindle.model.edges import ALL, BROADCAST, IDENTITY, INTERVAL, Interval, Mapping, Offset
from rekindle.model.graph import Edge, Graph, Step
from rekindle.model.kinds import Determinism, DigestPolicy, ResultKind
from rekindle.pipeline.identity.fingerprint import is_task_bound

# Numbers that Spark makes of the place of a task among the others: where each task reads a file, it has another one if
# fewer are read.
PLACES = frozenset({"MonotonicallyIncreasingID", "SparkPartitionID"})


@dataclass(frozen=True, slots=True)
class Analysis:
    """The graph of kept steps, the groups with their layouts, and for each group what its plan over stand-ins told, and
    what it observes of the kept steps that it reads."""

    drawn: GraphSpec
    groups: dict[str, GroupSpec]
    held: dict[str, PlannedQuery]
    observed: dict[str, list[cuts.Observation]]

    def splits(self, step: str) -> str:
        """A digest of how the one scan that numbers a result is cut; empty where nothing is numbered by it."""
        held = self.held[step]
        layout = held.layout
        if layout.keys or layout.is_bound or layout.is_by_file or layout.is_alone:
            return ""
        return kept_frames.splits(held.session, plans.top_rdd(held.frame))


def analyse(
    spark: SparkSession, groups: abc.Mapping[str, GroupSpec], settings: abc.Mapping[str, str] | None = None
) -> Analysis:
    """Kept steps, in the order given (producers first), and how they read each other."""
    attach(spark)
    held: dict[str, PlannedQuery] = {}
    found: dict[str, BuiltGroup] = {}
    observed: dict[str, list[cuts.Observation]] = {}
    for name, group in groups.items():
        is_same = all(_is_same(groups[one].built, found[one]) for one in group.inputs)
        built = group.built if is_same else None
        if built is None:
            built = _built(spark, group, settings or {}, found)
        elif built.is_published != group.is_published:
            built = _published(built)
        found[name] = built = built if built.layout is not None else _with_layout(group, built, found)
        assert built.layout is not None
        observed[name] = cuts.observations(built.frame, is_published=group.is_published)
        held[name] = hold(built.stored, built.stored.sparkSession, built.layout, verdict=built.verdict)
    resolved = {
        name: replace(
            group,
            keys=held[name].layout.keys,
            partitions=held[name].partitions,
            layout=held[name].layout,
            outline=found[name].outline,
            built=found[name],
        )
        for name, group in groups.items()
    }
    steps = {name: _step(group, held[name]) for name, group in resolved.items()}
    graph = Graph.of(
        steps.values(),
        (
            Edge(one, name, mapping, is_open=mapping is ALL and shape.joins > 0)
            for name, group in resolved.items()
            for shape in [hinted_shape(held[name])]
            for one in group.inputs
            for mapping in [_mapping(group, held[name], shape, one, held[one].layout)]
        ),
    )
    digested = {
        name: replace(
            group,
            is_digested=_is_digested(group, held[name], steps[name]),
            has_equal_exchanges=steps[name].below is Determinism.DETERMINATE,
        )
        for name, group in resolved.items()
    }
    return Analysis(GraphSpec.of(graph), digested, held, observed)


def _built(
    spark: SparkSession, group: GroupSpec, settings: abc.Mapping[str, str], read: abc.Mapping[str, BuiltGroup]
) -> BuiltGroup:
    """In a session of its own: what other steps left in theirs is not there."""
    session = group_session(spark, settings)
    inputs: dict[str, DataFrame] = {}
    for one in group.inputs:
        below = read[one]
        assert below.layout is not None, f"{one} comes before its readers"
        schema = plan_calls.schema(below.stored)
        inputs[one] = kept_frames.stand_in(session, one, schema, below.layout, below.outline)
    before = result_calls.traces(session)
    with or_refused(group.step, group.functions[-1] if group.functions else None, UNSEEN):
        frame = group.build(session, inputs)
    needs_files = result_calls.traces(session) != before
    stored = storable(frame, is_published=group.is_published)
    return BuiltGroup(
        frame=frame,
        stored=stored,
        outline=result_calls.outline_of(frame),
        verdict=verdict_of(stored),
        reads=frozenset(group.inputs),
        needs_files=needs_files,
        is_published=group.is_published,
    )


def _is_same(then: BuiltGroup | None, now: BuiltGroup) -> bool:
    """Whether what was built over a stand-in of a group then is what would be built over it now."""
    return then is not None and then.frame is now.frame and then.layout == now.layout


def _published(built: BuiltGroup) -> BuiltGroup:
    """The same, with the order that a target's files have."""
    session = built.stored.sparkSession
    stored = plan_calls.in_session(storable(built.frame, is_published=True), session)
    return replace(built, stored=stored, verdict=verdict_of(stored), layout=None, is_published=True)


def _with_layout(group: GroupSpec, built: BuiltGroup, read: abc.Mapping[str, BuiltGroup]) -> BuiltGroup:
    """The same, with the layout of its result."""
    layouts = {one: layout for one in group.inputs if (layout := read[one].layout) is not None}
    return replace(built, layout=choose(built.stored, group.keys, group.partitions, layouts))


def _is_digested(group: GroupSpec, held: PlannedQuery, step: Step) -> bool:
    """A block counts with its digest: it may be lost at any time, and readers are spared if the same comes back."""
    if group.kind is not ResultKind.BLOCKING and group.digest is DigestPolicy.AUTO:
        return True
    return group.digest.is_on(_proved(group, held, step))


def _proved(group: GroupSpec, held: PlannedQuery, step: Step) -> Determinism:
    """The level of a step without the user's word that it is determinate."""
    is_word = step.determinism is Determinism.DECLARED
    return _step(replace(group, declared=None), held).determinism if is_word else step.determinism


def _mapping(group: GroupSpec, consumer: PlannedQuery, shape: plans.Shape, step: str, producer: Layout) -> Mapping:
    """Which partitions of a kept step the partitions of a group read. What an eager step looks at while it is built may
    be anything of it, and so may what was cached, or made of RDDs. What is handed to every task is read as a whole,
    whatever else of it is read as it lies."""
    layout, place = consumer.layout, kept_frames.place(step)
    if group.is_eager or layout.is_bound:
        return ALL
    if draws_coalesces(consumer.frame):
        if not shape.is_narrow and (shape.has_other_leaves or (group.built is not None and group.built.needs_files)):
            return ALL
        if place in shape.handed:
            return ALL if place in shape.direct else BROADCAST
        if shape.cuts or place not in shape.direct or not consumer.is_read_apart:
            return ALL
    elif not consumer.shape.is_narrow:
        return ALL
    if not layout.is_by_file:
        return IDENTITY if layout.keys and producer.keys else ALL
    by = dict(layout.offsets).get(step)
    if by is None:
        return ALL
    if layout.is_coalesced and layout.partitions < layout.coalesced_from:
        return Interval(by, layout.coalesced_from) if producer.partitions < layout.coalesced_from else INTERVAL
    return IDENTITY if producer.partitions == layout.partitions else Offset(by)


def level_of(group: GroupSpec, held: PlannedQuery) -> Determinism:
    """Whether the same rows come again, however they are cut into partitions."""
    return group.declared or (Determinism.INDETERMINATE if _is_loose(group, held) else held.verdict.level)


def of_its_run(group: GroupSpec, held: PlannedQuery) -> str:
    """Why the rows of a group belong to the run that made them; empty if they do not."""
    if held.verdict.has_query_constants:
        return "its rows depend on the time or the session of their run"
    return "it reads something that is not pinned" if _is_loose(group, held) else ""


def _is_loose(group: GroupSpec, held: PlannedQuery) -> bool:
    return group.declared is None and (group.is_eager or not pin(held.frame).is_pinned)


def _step(group: GroupSpec, held: PlannedQuery) -> Step:
    """A group that reads no kept result and is not narrow owns what is inside it as one part; so does one whose
    partitions another application would cut differently, and nothing can prove them equal. What an eager step found
    out while it was built is one of those parts too, and so is what it read from a place that cannot be pinned: the
    place may have moved on, unless the user's word says otherwise."""
    is_loose = _is_loose(group, held)
    is_whole = _restarts_whole(group, held)
    is_closed = group.is_eager or is_loose or (not group.inputs and not held.shape.is_narrow)
    is_bound = held.layout.is_bound
    return Step(
        name=group.step,
        partitions=group.partitions,
        kind=group.kind,
        determinism=Determinism.INDETERMINATE if is_bound else level_of(group, held),
        keep=group.keep,
        is_order_sensitive=is_bound or held.verdict.is_order_sensitive,
        has_query_constants=is_bound or is_closed or held.verdict.has_query_constants,
        restarts_whole=is_whole,
        is_pessimistic=group.is_pessimistic,
        below=Determinism.DETERMINATE
        if held.has_equal_exchanges and not (is_loose or is_whole or group.is_eager)
        else None,
    )


def _restarts_whole(group: GroupSpec, held: PlannedQuery) -> bool:
    """Whether its tasks know of each other, so that some of them cannot run again without the others."""
    return (
        held.shape.is_barrier
        or any(map(is_task_bound, group.functions or (group.build,)))
        or (held.layout.is_by_file and not PLACES.isdisjoint(held.verdict.because))
    )
