"""Where the rows of a kept result lie, under numbers that are ours and hold in every driver.

With keys, partition p holds the rows with `hash(keys) mod partitions = p`. Only the last exchange is pinned to it.
Four plans are asked for, the one that moves the fewest rows is held:

1. without any exchange: the inputs are kept with the same keys and count, so the step is pointwise; what is broadcast
   moves none of their rows;
2. the step's own last exchange already lies that way (an aggregation by the keys, then perhaps Python);
3. its own join does, if adaptive execution is told to leave it there: no skewed key is split, which one task would have
   to write anyway, and rows are hashed instead of sorted where one side is small enough;
4. an exchange of our own below the write; below Python that works row by row, where that moves nothing wider, so that
   what Python made is kept partition by partition.

Adaptive execution plans again whenever an exchange is done, and may then find that it needs one less: a join that
became a broadcast leaves rows where an earlier exchange put them. So 2 and 3 are planned with our exchange on top,
which Spark leaves out as long as its own rows lie just that way, and only if that costs no exchange. What it does to
the partitions of the last exchange (merge, split, read where they lie) is switched off.

A step without keys is asked for its own: those of its last exchange or join. If it has none it is numbered:
partition p is Spark's p-th, which is the same in another driver if it is the only one, or a split of sources (cut by
pinned settings), and is bound to this application otherwise (a total order is sampled anew by each). Over kept results
that no exchange cuts anew a file is a partition and has its number, in whatever order Spark reads the files; in a union
those of one result come behind those of the one before it. So a step that only filters, changes or unites kept results
moves no row, and each of its partitions reads one of theirs. A coalesce puts files together, or splits, by their
numbers: each partition reads an interval of them. Runs that were started before this was so know nothing of it
(`EDGES`), and go on as they began.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from enum import Enum
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, DoubleType, FloatType, MapType, StructType

from rekindle.engine.spark.jvm import plan_calls, result_calls
from rekindle.engine.spark.jvm.pyspark_line import VARIANTS
from rekindle.engine.spark.plan import cuts, file_partitions, plans
from rekindle.engine.spark.plan.determinism import HIDDEN_COLUMN, DeterminismVerdict, judge
from rekindle.engine.spark.session import clone
from rekindle.model.kinds import Determinism

NOT_PLAIN = (ArrayType, DoubleType, FloatType, MapType, StructType, *VARIANTS)
POINTWISE = {"spark.sql.autoBroadcastJoinThreshold": "-1", "spark.sql.adaptive.autoBroadcastJoinThreshold": "-1"}
# Spark's rules that change the partitions of an exchange when its sizes are known: off for the last one, all of them.
UNCHANGED = {"spark.sql.adaptive.applyFinalStageShuffleOptimizations": "false"}
UNCOALESCED = {"spark.sql.adaptive.coalescePartitions.enabled": "false", **UNCHANGED}
# Pinned with a run: which edges are drawn. Without it a union is an exchange, and so is a chain over a result with keys
# that it leaves out. With `unions` a coalesce still is, and so is a join with a broadcast, and a sort at the end of a
# step is computed before the step is kept.
EDGES, UNIONS, COALESCES = "spark.rekindle.edges", "unions", "coalesces"
# What decides the partitions of a plan that nothing has to be added to.
KNOWN = {plans.PartitioningSource.ORDER, plans.PartitioningSource.ONE}
# Spark hashes the smaller side if none of its partitions is larger than this; below its advisory size it never does.
HASHED_BYTES_MAX = 64 << 20
STAYS_JOINED = {
    "spark.sql.adaptive.skewJoin.enabled": "false",
    "spark.sql.adaptive.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.localShuffleReader.enabled": "false",
    "spark.sql.adaptive.maxShuffledHashJoinLocalMapThreshold": str(HASHED_BYTES_MAX),
}


@dataclass(frozen=True, slots=True)
class Layout:
    """How a kept result lies. No keys: numbered. Bound: another application would cut it differently. `offsets`: each
    file of these kept results is a partition, and this is the number of the first one of each. Alone: all rows are in
    one partition, wherever they come from. `coalesced_from`: so many files or splits are put together; 0, if none."""

    keys: tuple[str, ...]
    partitions: int
    _: KW_ONLY
    is_bound: bool = False
    is_alone: bool = False
    offsets: tuple[tuple[str, int], ...] = ()
    coalesced_from: int = 0

    @property
    def is_by_file(self) -> bool:
        return bool(self.offsets)

    @property
    def is_coalesced(self) -> bool:
        return self.coalesced_from > 0

    @property
    def numbers_files(self) -> bool:
        """Whether each partition is one file: one without rows has none, and then no Spark task."""
        return self.is_by_file and not self.is_coalesced

    def __str__(self) -> str:
        if self.keys:
            return f"{self.partitions} by {', '.join(self.keys)}"
        if self.is_alone:
            return "1 alone"
        from_many = f" from {self.coalesced_from}" if self.is_coalesced else ""
        return (
            f"{self.partitions}{from_many} {'bound' if self.is_bound else 'by file' if self.is_by_file else 'by split'}"
        )


class ShufflePlacement(Enum):
    """How the rows come to lie by their keys; the first that fits moves the fewest."""

    POINTWISE = "no exchange: the inputs lie that way"
    AS_IT_IS = "the step's own last exchange"
    JOINED = "the step's own join"
    BELOW_PYTHON = "an exchange of ours below row-wise Python"
    EXCHANGE = "an exchange of ours"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedQuery:
    """One query execution that all attempts of a generation share: its exchanges, broadcasts and constants are one.
    `is_determinate_below`: what its last exchanges move is the same in every driver, by the determinism table."""

    session: SparkSession
    frame: DataFrame
    execution: Any
    layout: Layout
    shape: plans.Shape
    verdict: DeterminismVerdict
    way: ShufflePlacement
    is_determinate_below: bool = False
    _reached: list[Any] = field(default_factory=list, compare=False, repr=False)

    @property
    def partitions(self) -> int:
        return self.layout.partitions

    @property
    def plan(self) -> Any:
        return self.execution.executedPlan()

    @property
    def schema(self) -> Any:
        return plan_calls.schema(self.frame)

    @property
    def is_read_apart(self) -> bool:
        """Whether each partition reads its own of what lies there: no row changes its partition."""
        return (self.way is ShufflePlacement.POINTWISE or self.layout.is_by_file) and not self.shape.cuts

    @property
    def is_function_of_inputs(self) -> bool:
        """Narrow, and without a constant that each query execution makes anew: proof (a) of rule 4."""
        return self.shape.is_narrow and not self.verdict.has_query_constants

    @property
    def has_equal_exchanges(self) -> bool:
        """What the final stage reads is the same rows in each partition whenever and wherever it is made again, so that
        nobody has to look: proof (b) of rule 4, for what is below the exchanges."""
        return self.is_determinate_below and not self.verdict.has_query_constants

    def is_planned_to_the_end(self) -> bool:
        """False while adaptive execution has map stages to run, or stopped because one of them failed."""
        return plan_calls.class_name(self.plan) != "AdaptiveSparkPlanExec" or bool(self.plan.isFinalPlan())

    def is_stuck(self) -> bool:
        """Whether a broadcast, a subquery or the sample of a total order may have failed, so that all attempts on this
        plan would fail the same."""
        is_adaptive = plan_calls.class_name(self.plan) == "AdaptiveSparkPlanExec"
        return not (is_adaptive and self.is_planned_to_the_end()) and result_calls.is_stuck(self.session, self.plan)

    def rdd(self, *, is_first: bool = False) -> Any:
        """The rows by partition. After a failed map stage adaptive execution is stuck on its error; the plan it had
        reached still reads the same exchanges, so Spark runs only the map tasks that are missing. It is made once: each
        time anew, an exchange above columnar rows would be another one. So is what a coalesce of ours puts together."""
        if self.layout.is_coalesced:
            if not self._reached:
                self._reached.append(self._coalesced())
            return self._reached[0]
        if is_first or self.is_planned_to_the_end():
            return self.execution.toRdd()
        if not self._reached:
            self._reached.append(result_calls.reached(self.session, self.plan))
        return self._reached[0]

    def _coalesced(self) -> Any:
        lies = self.layout
        return file_partitions.coalesced(
            self.session, self.plan, dict(lies.offsets), lies.coalesced_from, lies.partitions
        )


def choose(
    frame: DataFrame, keys: tuple[str, ...], partitions: int, read: Mapping[str, Layout] | None = None
) -> Layout:
    """The layout of a step, from its plan over stand-ins, before anything ran. `read` are the layouts of the kept
    results that it reads. Where the user asked for no number, that of the results it reads stays, so that it is
    pointwise. A step that reads no kept result is planned by the sizes of its
    sources, which are pinned; a stand-in has no size, so that a join over one counts by its keys."""
    if keys:
        return Layout(keys, partitions)
    read = read or {}
    planned = plan_calls.in_session(frame, clone(frame.sparkSession, POINTWISE)) if read else frame
    top = plans.top_of(planned, knows_subqueries=draws_coalesces(frame))
    is_asked_for = str(partitions) != frame.sparkSession.conf.get("spark.sql.shuffle.partitions")
    match top.by:
        case plans.PartitioningSource.KEYS:
            return Layout(top.keys, partitions if is_asked_for else top.partitions or partitions)
        case plans.PartitioningSource.FILES if (by_file := _by_file(frame, top, read)) is not None:
            return by_file
        case plans.PartitioningSource.SPLITS if (by_split := _by_split(frame, top)) is not None:
            return by_split
        case plans.PartitioningSource.ORDER:
            return Layout((), top.partitions or partitions, is_bound=True)
        case plans.PartitioningSource.ONE:
            return Layout((), 1, is_alone=True)
        case _:
            if top.is_coalesced and top.partitions == 1:
                return Layout((), 1, is_alone=True)
            columns, count = _plain_columns(frame), partitions if is_asked_for else top.partitions or partitions
            return Layout(columns, count) if columns else Layout((), count, is_bound=True)


def _by_file(frame: DataFrame, top: plans.Partitioning, read: Mapping[str, Layout]) -> Layout | None:
    """A partition for each of those of the kept results in these places, or as many as these are coalesced into. None
    where one of them is read twice: nobody could tell for which partition a file is read. Nor where the plan needs no
    exchange only because a result lies by its keys: file by file it would. Nor where Spark may broadcast either side of
    a join, by sizes that are not known yet: partitions would be those of the other side."""
    steps = [place.removeprefix(cuts.NOWHERE) for place in top.places]
    if plan_calls.broadcasts_either(frame):
        return None
    if any(read[step].keys for step in steps) and plan_calls.asks_for_exchange(frame):
        return None
    if not _draws_unions(frame):
        numbered = [step for step, one in read.items() if not one.keys]
        if len(steps) != 1 or numbered != steps:
            return None
    if len(set(steps)) < len(steps):
        return None
    counts = [read[step].partitions for step in steps]
    offsets = tuple((step, sum(counts[:number])) for number, step in enumerate(steps))
    whole = Layout((), sum(counts), offsets=offsets)
    return _coalesced(frame, top, whole) if top.is_coalesced else whole


def _by_split(frame: DataFrame, top: plans.Partitioning) -> Layout | None:
    if top.is_united and not _draws_unions(frame):
        return None
    whole = Layout((), max(1, int(plans.top_rdd(frame).getNumPartitions())))
    return _coalesced(frame, top, whole) if top.is_coalesced else whole


def _coalesced(frame: DataFrame, top: plans.Partitioning, whole: Layout) -> Layout | None:
    """A coalesce of partitions with these numbers. None where another one below it puts them together first."""
    count = whole.partitions
    if 0 < top.below < count or not draws_coalesces(frame):
        return None
    return replace(whole, partitions=min(count, top.partitions), coalesced_from=count)


def _draws_unions(frame: DataFrame) -> bool:
    """Whether the run was started by a Rekindle that numbers the partitions of a union."""
    return str(frame.sparkSession.conf.get(EDGES, "")) in (UNIONS, COALESCES)


def draws_coalesces(frame: DataFrame) -> bool:
    """And of one that numbers those of a coalesce."""
    return str(frame.sparkSession.conf.get(EDGES, "")) == COALESCES


def _plain_columns(frame: DataFrame) -> tuple[str, ...]:
    """Columns by whose values rows can be told apart in any driver. A name that another column has in other cases may
    mean either."""
    names = [field.name for field in frame.schema.fields if not isinstance(field.dataType, NOT_PLAIN)]
    called = [field.name.lower() for field in frame.schema.fields]
    return tuple(name for name in names if called.count(name.lower()) == 1)


def hold(
    frame: DataFrame,
    session: SparkSession,
    layout: Layout,
    *,
    like: PlannedQuery | None = None,
    verdict: DeterminismVerdict | None = None,
) -> PlannedQuery:
    """Plan `frame`, built in `session`, so that its final partitions are ours. `like` is the plan of the same step over
    stand-ins: what was found there is not asked again. Nor is `verdict`, if the frame was judged before: that its rows
    are moved on their way to a file changes none of them."""
    verdict = like.verdict if like is not None else verdict or verdict_of(frame)
    if not layout.keys:
        return _numbered(frame, session, layout, verdict, like)
    ways = list(ShufflePlacement) if like is None else [like.way, *ShufflePlacement]
    for way in ways:
        made = _tried(frame, session, layout, way)
        if made is not None:
            return _held(made, layout, way, verdict, like)
    raise AssertionError("an exchange of our own can always be made")


def _numbered(
    frame: DataFrame,
    session: SparkSession,
    layout: Layout,
    verdict: DeterminismVerdict,
    like: PlannedQuery | None,
) -> PlannedQuery:
    if not (layout.is_bound or layout.is_alone):
        return _held(frame, layout, ShufflePlacement.AS_IT_IS, verdict, like)
    settings = _own(layout) if layout.is_bound else UNCHANGED
    planned = plan_calls.in_session(frame, clone(session, settings))
    is_known = plans.top_of(planned).by in KNOWN
    made = planned if is_known else planned.repartition(layout.partitions)
    return _held(made, layout, ShufflePlacement.AS_IT_IS, verdict, like)


def _tried(frame: DataFrame, session: SparkSession, layout: Layout, way: ShufflePlacement) -> DataFrame | None:
    """The frame planned one way, if its rows then lie as they must."""
    match way:
        case ShufflePlacement.POINTWISE:
            made = plan_calls.in_session(frame, clone(session, {**_own(layout), **POINTWISE}))
            return made if _lies(made, layout) and _stays_apart(made) else None
        case ShufflePlacement.AS_IT_IS:
            made = plan_calls.in_session(frame, clone(session, _own(layout)))
            return _held_to(made, layout) if _lies(made, layout) else None
        case ShufflePlacement.JOINED:
            made = plan_calls.in_session(frame, clone(session, {**_own(layout), **STAYS_JOINED}))
            return _held_to(made, layout, joins_stay=True) if _lies(made, layout, joins_stay=True) else None
        case ShufflePlacement.BELOW_PYTHON:
            return _below_python(plan_calls.in_session(frame, clone(session, UNCHANGED)), layout)
        case ShufflePlacement.EXCHANGE:
            named = (plan_calls.quoted(key) for key in layout.keys)
            return plan_calls.in_session(frame, clone(session, UNCHANGED)).repartition(layout.partitions, *named)


def _stays_apart(frame: DataFrame) -> bool:
    """Whether no row changes its partition, whichever side of a join turns out to be the smaller one."""
    found = _shape(frame)
    return not found.cuts and not (found.broadcasts and plan_calls.broadcasts_either(frame))


def _own(layout: Layout) -> dict[str, str]:
    return {**UNCOALESCED, "spark.sql.shuffle.partitions": str(layout.partitions)}


def _lies(frame: DataFrame, layout: Layout, *, joins_stay: bool = False) -> bool:
    return plans.lies_by(frame, layout.keys, layout.partitions, joins_stay=joins_stay)


def _held_to(frame: DataFrame, layout: Layout, *, joins_stay: bool = False) -> DataFrame | None:
    """A frame whose rows lie by the plan that Spark has before it runs, so that they do by any plan it goes on with.
    None if that would take one more exchange."""
    if _shape(frame).is_narrow:
        return frame
    found = _with_exchange("required", frame, layout)
    is_free = found is not None and _shape(found).exchanges <= _shape(frame).exchanges
    return found if found is not None and is_free and _lies(found, layout, joins_stay=joins_stay) else None


def _below_python(frame: DataFrame, layout: Layout) -> DataFrame | None:
    """Our exchange below the Python that works row by row, where that moves nothing wider, and the rows then lie as
    they must when Python is done."""
    found = _with_exchange("repartitioned", frame, layout)
    return found if found is not None and _lies(found, layout) else None


def _with_exchange(where: str, frame: DataFrame, layout: Layout) -> DataFrame | None:
    return plan_calls.with_exchange(frame, where, layout.keys, layout.partitions)


def hinted_shape(held: PlannedQuery) -> plans.Shape:
    """The shape of a plan over stand-ins, whose sizes say nothing: only what the user asked for is broadcast."""
    if held.way is ShufflePlacement.POINTWISE or not held.shape.handed:
        return held.shape
    return _shape(plan_calls.in_session(held.frame, clone(held.session, POINTWISE)))


def storable(frame: DataFrame, *, is_published: bool) -> DataFrame:
    """What is computed of a step to be kept. A sort at its end is left to its readers, which get it above the stored
    rows where they observe it; the files of a target are sorted."""
    return result_calls.storable(frame, is_published=is_published, leaves_order=draws_coalesces(frame))


def verdict_of(frame: DataFrame) -> DeterminismVerdict:
    """How determinate a frame is, by its analysed plan."""
    return _judged(plan_calls.determinism_facts(frame))


def _judged(facts: plan_calls.DeterminismFacts) -> DeterminismVerdict:
    return judge(facts.told, facts.text, facts.untold, reads_kept=facts.reads_kept, reads_pinned=facts.reads_pinned)


def _held(
    frame: DataFrame,
    layout: Layout,
    way: ShufflePlacement,
    verdict: DeterminismVerdict,
    like: PlannedQuery | None,
) -> PlannedQuery:
    shape = _shape(frame)
    execution = plan_calls.execution(frame)
    return PlannedQuery(
        session=frame.sparkSession,
        frame=frame,
        execution=execution,
        layout=layout,
        shape=shape,
        verdict=verdict,
        way=way,
        is_determinate_below=like.is_determinate_below
        if like is not None and like.way is way
        else _is_determinate_below(frame, shape, layout, verdict),
    )


def _is_determinate_below(frame: DataFrame, shape: plans.Shape, layout: Layout, verdict: DeterminismVerdict) -> bool:
    """Whether each partition of what the last exchanges move has the same rows in every driver. The optimized plans are
    judged, since only these are below an exchange or not. What the optimizer writes in another way is looked for in the
    analysed plan: a constant of the query is a plain value in an optimized one, and of Spark's hidden column there is
    only what is used."""
    is_hidden = verdict.has_query_constants or HIDDEN_COLUMN in verdict.because
    if shape.is_narrow or layout.is_bound or is_hidden:
        return False
    if verdict.level is Determinism.DETERMINATE:
        return True
    found = plan_calls.facts_below_exchanges(frame)
    return bool(found) and all(_judged(facts).level is Determinism.DETERMINATE for facts in found or [])


def _shape(frame: DataFrame) -> plans.Shape:
    return plans.shape(plans.read(frame.sparkSession, plan_calls.executed_plan(frame)))
