"""Spark's own plans, read: exchanges, broadcasts, subqueries, barriers, and where the rows of a key lie.

One call per plan (java/PlanNodes) or RDD, never one per partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from enum import Enum
from typing import Any

import msgspec
from pyspark.sql import DataFrame, SparkSession

from rekindle.engine.spark.jvm import plan_calls
from rekindle.engine.spark.jvm.plan_calls import class_name, items

# Operators that leave every row in its partition. Their own outputPartitioning may not say so (Python evaluation).
STAYS = frozenset(
    "ProjectExec FilterExec ArrowEvalPythonExec BatchEvalPythonExec ColumnarToRowExec WholeStageCodegenExec "
    "InputAdapter SortExec".split()
)
# These too, and they may make or drop rows. Nothing is known of where a key lies above them.
ROW_LOCAL = STAYS | frozenset(
    "MapInPandasExec MapInArrowExec GenerateExec ExpandExec MapPartitionsExec MapElementsExec SerializeFromObjectExec "
    "DeserializeToObjectExec AppendColumnsExec SampleExec".split()
)
BROADCAST_JOIN = "BroadcastHashJoinExec"
KEYED_JOINS = frozenset({"SortMergeJoinExec", "ShuffledHashJoinExec"})
# Leaves besides files whose partitions follow from settings alone, so that they are the same in another driver.
SPLITS = frozenset({"RangeExec", "LocalTableScanExec"})
LEAVES = SPLITS | {"FileSourceScanExec", "ReusedExchangeExec"}
# How the file index of a kept result is called.
KEPT_INDEX = "CommittedFiles"
BROADCASTS = frozenset({"BroadcastExchangeExec", "BroadcastQueryStageExec"})
SHUFFLES = frozenset({"ShuffleExchangeExec", "ShuffleQueryStageExec"})
# Operators that move rows between partitions without a node of their own for it.
HIDDEN_EXCHANGES = frozenset(
    {"CollectLimitExec", "CollectTailExec", "TakeOrderedAndProjectExec", "AttachDistributedSequenceExec"}
)
EXCHANGES = SHUFFLES | HIDDEN_EXCHANGES
# Where an exchange comes from, as Spark says it. The number of partitions of the first is the user's, and adaptive
# execution leaves it. The others it may merge; in the sessions of `layout` that is switched off. Those of a rebalance
# it may also split, and one that is not known here may be anything.
ASKED_BY_NUMBER = "REPARTITION_BY_NUM"
LEFT_ALONE = frozenset({ASKED_BY_NUMBER, "REPARTITION_BY_COL", "ENSURE_REQUIREMENTS"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a physical plan contains that a retry must know of. `cuts` are its exchanges that are not below a broadcast.
    `direct` are the places of kept results that are read as they lie or below such an exchange; those in `handed` are
    read to be given to every task: below a broadcast, or in a subquery. `joins` are those that move rows, or find them
    as they lie: sizes may turn them into joins with a broadcast. `has_other_leaves`: some rows come from neither
    files nor the plan itself, such as cached ones, and nobody sees here what these were made from."""

    exchanges: int
    broadcasts: int
    subqueries: int
    is_barrier: bool
    cuts: int = 0
    joins: int = 0
    has_other_leaves: bool = False
    direct: frozenset[str] = frozenset()
    handed: frozenset[str] = frozenset()

    @property
    def is_narrow(self) -> bool:
        return not (self.exchanges or self.broadcasts or self.subqueries)


class HashPartitioning(msgspec.Struct, frozen=True):
    """Rows lie by `hash(keys) mod partitions`; a key that is no column is -1."""

    partitions: int
    keys: tuple[int, ...]


class _Node(msgspec.Struct, frozen=True, kw_only=True):
    """One node as the JVM tells it. Columns are named by their ids."""

    name: str
    children: int
    subqueries: int
    handed: tuple[str, ...] = ()
    is_barrier: bool
    ids: tuple[int, ...]
    names: tuple[str, ...]
    partitioning: str
    hashes: tuple[HashPartitioning, ...]
    left: tuple[int, ...] = ()
    right: tuple[int, ...] = ()
    streamed: int = 0
    is_bucketed: bool = False
    index: str = ""
    place: str = ""
    count: int = 0
    origin: str = ""
    moves: str = ""
    is_foreign: bool = False


@dataclass(frozen=True, slots=True)
class PhysicalNode:
    """A node of a physical plan, with what is below it. `number` is its place in the walk from the top."""

    number: int
    own: _Node
    children: tuple[PhysicalNode, ...]

    @property
    def name(self) -> str:
        return self.own.name

    @property
    def is_broadcast(self) -> bool:
        return self.name in BROADCASTS or self.own.moves == "all rows to all"

    @property
    def is_exchange(self) -> bool:
        """By its class, not by its name: another engine's exchange is one, too. An operator of another engine that has
        inputs may be anything, and counts as one."""
        is_unknown = self.own.is_foreign and bool(self.children)
        return self.name in EXCHANGES or self.own.moves == "rows" or (is_unknown and not self.is_broadcast)

    def below(self) -> Iterator[PhysicalNode]:
        """This node and every node below it, without the plans of subqueries."""
        todo = [self]
        while todo:
            node = todo.pop()
            yield node
            todo.extend(reversed(node.children))


def read(spark: SparkSession, plan: Any) -> PhysicalNode:
    """A physical plan, in one call."""
    told = msgspec.json.decode(plan_calls.plan_nodes(spark, plan), type=list[_Node])
    built: list[PhysicalNode] = []
    for number in range(len(told) - 1, -1, -1):
        own = told[number]
        children = tuple(built.pop() for _ in range(own.children))
        built.append(PhysicalNode(number, own, children))
    (root,) = built
    return root


def shape(root: PhysicalNode) -> Shape:
    nodes = list(root.below())
    inside = {one.number for node in nodes if node.is_broadcast for one in node.below()}
    own = [node for node in nodes if node.number not in inside]
    handed = (node.own.place for node in nodes if node.number in inside and node.own.place)
    return replace(
        shape_of(nodes),
        cuts=sum(node.is_exchange for node in own),
        joins=sum(node.name in KEYED_JOINS for node in nodes),
        has_other_leaves=any(not node.children and node.name not in LEAVES for node in nodes),
        direct=frozenset(node.own.place for node in own if node.own.place),
        handed=frozenset(handed) | {place for node in nodes for place in node.own.handed},
    )


def shape_of(nodes: list[PhysicalNode]) -> Shape:
    return Shape(
        exchanges=sum(node.is_exchange for node in nodes),
        broadcasts=sum(node.is_broadcast for node in nodes),
        subqueries=sum(node.own.subqueries for node in nodes),
        is_barrier=any(node.own.is_barrier for node in nodes),
    )


def exchanges(rdd: Any) -> dict[int, int]:
    """Every exchange under one RDD, nearest first: its shuffle id, and the number of its reduce partitions."""
    return {number: int(one.partitioner().numPartitions()) for number, one in _shuffles(rdd).items()}


def own_exchanges(rdd: Any) -> list[int]:
    """Without those that a user's cached rows were made from: they are not ours to let go."""
    return list(_shuffles(rdd, is_own=True))


def map_sides(rdd: Any) -> list[Any]:
    """The RDDs whose partitions are the map tasks of those exchanges."""
    return [one.rdd() for one in _shuffles(rdd).values()]


def _shuffles(rdd: Any, *, is_own: bool = False) -> dict[int, Any]:
    found: dict[int, Any] = {}
    seen: set[int] = set()
    todo = [rdd]
    while todo:
        current = todo.pop()
        if current.id() in seen:
            continue
        seen.add(current.id())
        if is_own and current.getStorageLevel().isValid():
            continue
        for dependency in items(current.dependencies()):
            if class_name(dependency) == "ShuffleDependency":
                found[int(dependency.shuffleId())] = dependency
            todo.append(dependency.rdd())
    return found


def map_tasks(frame: DataFrame) -> int | None:
    """How many Spark tasks the map stages of a plan have, before any ran; None where that is not known yet. All of the
    plan is looked at first: to ask for an RDD over a broadcast, a subquery or a total order would start a Spark job."""
    plan, spark = _initial_plan(frame), frame.sparkSession
    nodes = list(read(spark, plan).below())
    shuffles = [node for node in nodes if node.name == "ShuffleExchangeExec"]
    is_sampled = any(ALONE.get(node.own.partitioning) is PartitioningSource.ORDER for node in shuffles)
    found = shape_of(nodes)
    if is_sampled or found.broadcasts or found.subqueries or found.exchanges > len(shuffles):
        return None
    sides = [node.children[0].number for node in shuffles]
    return sum(int(plan_calls.node_at(spark, plan, number).execute().getNumPartitions()) for number in sides)


def lies_by(frame: DataFrame, keys: tuple[str, ...], partitions: int, *, joins_stay: bool = False) -> bool:
    """Do the rows already lie as `hash(keys) mod partitions` says, and will adaptive execution leave them there?

    True only over a bucketed read of ours, also where it is joined with a broadcast; an exchange whose partitions stay
    (coalescing is switched off in the session this is asked for), an aggregation's exchange, or a join where the
    session forbids to rewrite one. Anything else gets an exchange of its own. It is the plan before anything ran:
    `layout` makes Spark hold to it.
    """
    initial = _initial(frame)
    wanted = tuple(_expr_id(initial, key) for key in keys)
    plan, scan = _through(initial, STAYS), _through(initial, STAYS | {BROADCAST_JOIN})
    plan = scan if scan.name == "FileSourceScanExec" else plan
    if None in wanted or not _is_left_alone(plan, joins_stay=joins_stay):
        return False
    return any(one.partitions == partitions and one.keys == wanted for one in plan.own.hashes)


class PartitioningSource(Enum):
    """What decides the partitions of a plan: the first node below its row-local part."""

    SPLITS = "splits of a source"
    FILES = "files of kept results, one result after the other"
    KEYS = "keys of an exchange or join"
    ORDER = "a total order"
    ONE = "one partition"
    OTHER = "nothing that another driver could repeat"


ALONE = {"RangePartitioning": PartitioningSource.ORDER, "SinglePartition$": PartitioningSource.ONE}


@dataclass(frozen=True, slots=True)
class Partitioning:
    """What decides; the columns if keys do; how many partitions that makes, 0 if it is not said; and where the
    stand-ins of kept results say that their files are, in the order of a union. `is_united`: there is one.
    `is_coalesced`: these are put together without an exchange, and so many partitions are asked for; `below` is what
    another coalesce further down asks for, 0 if there is none."""

    by: PartitioningSource
    keys: tuple[str, ...] = ()
    partitions: int = 0
    _: KW_ONLY
    places: tuple[str, ...] = ()
    is_united: bool = False
    is_coalesced: bool = False
    below: int = 0


def top_of(frame: DataFrame, *, knows_subqueries: bool = True) -> Partitioning:
    """What decides the partitions. Asked before anything ran, so it may not depend on sizes that another driver could
    find different: `frame` must be planned accordingly (see `layout.choose`). `knows_subqueries`: one that filters a
    kept result changes nothing of how it is cut."""
    initial = _initial(frame)
    names = dict(zip(initial.own.ids, initial.own.names, strict=True))
    plan = _top(initial)
    own = plan.own
    if plan.name in KEYED_JOINS:
        return _by_keys([own.left, own.right], names, max((one.partitions for one in own.hashes), default=0))
    asked = _asked_for(plan)
    has_exchange = any(node.is_exchange for node in plan.below())
    if plan.name == "CoalesceExec":
        below = _top(plan.children[0])
        found = _by_leaves(_below_coalesce(plan), knows_subqueries) if shape(initial).is_narrow else None
        if found is not None and (asked > 1 or found.by is PartitioningSource.FILES):
            inner = below.own.count if below.name == "CoalesceExec" else 0
            return replace(found, partitions=asked, is_coalesced=True, below=inner)
        is_sorted = has_exchange and ALONE.get(below.own.partitioning) is PartitioningSource.ORDER
        return Partitioning(
            PartitioningSource.ONE
            if asked == 1
            else PartitioningSource.ORDER
            if is_sorted
            else PartitioningSource.OTHER,
            partitions=asked,
        )
    if own.partitioning in ALONE and has_exchange:
        return Partitioning(ALONE[own.partitioning], partitions=asked)
    scans = _scans(plan, knows_subqueries)
    if own.hashes and (plan.name != "FileSourceScanExec" or scans):
        by_keys = _by_keys([one.keys for one in own.hashes], names, own.hashes[0].partitions)
        if by_keys.by is PartitioningSource.KEYS or not scans:
            return by_keys
    return _by_leaves(plan, knows_subqueries) or Partitioning(PartitioningSource.OTHER, partitions=asked)


def _by_leaves(plan: PhysicalNode, knows_subqueries: bool) -> Partitioning | None:
    """The files of kept results, or the splits of sources, if these decide."""
    if plan.name in SPLITS:
        return Partitioning(PartitioningSource.SPLITS)
    scans = _scans(plan, knows_subqueries)
    if scans and all(scan.index == KEPT_INDEX for scan in scans):
        return Partitioning(PartitioningSource.FILES, places=tuple(scan.place for scan in scans))
    if scans and not any(scan.index == KEPT_INDEX or scan.is_bucketed for scan in scans):
        return Partitioning(PartitioningSource.SPLITS, is_united=len(scans) > 1)
    return None


def _asked_for(plan: PhysicalNode) -> int:
    """The number of partitions that the user asked for where they are decided; 0 if Spark chose it."""
    if plan.name == "CoalesceExec":
        return plan.own.count
    while plan.children and not plan.is_exchange:
        plan = plan.children[0]
    return plan.own.count if plan.own.origin == ASKED_BY_NUMBER else 0


def _scans(plan: PhysicalNode, knows_subqueries: bool) -> tuple[_Node, ...]:
    """The scans of files whose partitions are those of a plan, one scan after the other; none if others decide, or if a
    subquery tells which files of a source are read."""
    if plan.name == "FileSourceScanExec":
        is_known = not plan.own.subqueries or (knows_subqueries and plan.own.index == KEPT_INDEX)
        return (plan.own,) if is_known else ()
    if plan.name != "UnionExec":
        return ()
    sides = [_scans(_top(side), knows_subqueries) for side in plan.children]
    return tuple(scan for side in sides for scan in side) if all(sides) else ()


def top_rdd(frame: DataFrame) -> Any:
    """The RDD of the first node below the row-local part of a plan, and below a coalesce on top of that."""
    plan = _initial_plan(frame)
    spark = frame.sparkSession
    return node_at(spark, plan, _below_coalesce(_top(read(spark, plan)))).execute()


def _below_coalesce(top: PhysicalNode) -> PhysicalNode:
    """What decides the partitions that are put together: below a coalesce, and below another one further down."""
    for _ in range(2):
        top = _top(top.children[0]) if top.name == "CoalesceExec" else top
    return top


def stage_leaves(node: PhysicalNode) -> Iterator[PhysicalNode]:
    """What the tasks of the final stage of a plan read that is no kept result: leaves and exchanges, and a columnar
    leaf as the node that makes rows of it."""
    if node.name == "ShuffleExchangeExec" or (not node.children and node.own.index != KEPT_INDEX):
        yield node
    elif node.name == "ColumnarToRowExec" and _only_leaf(node) is not None:
        if _only_leaf(node) != KEPT_INDEX:
            yield node
    elif node.name not in BROADCASTS:
        for child in node.children:
            yield from stage_leaves(child)


def _only_leaf(node: PhysicalNode) -> str | None:
    """The index of the one scan below a node, if there is nothing else below it."""
    below = [one for one in node.below() if one.name != "InputAdapter"][1:]
    return below[0].own.index if len(below) == 1 else None


def node_at(spark: SparkSession, plan: Any, node: PhysicalNode) -> Any:
    """A node of a plan that was read, as the JVM has it."""
    return plan_calls.node_at(spark, plan, node.number)


def _top(plan: PhysicalNode) -> PhysicalNode:
    """A join with a broadcast leaves each row of its other side where it was."""
    return _through(plan, ROW_LOCAL | {BROADCAST_JOIN})


def _through(plan: PhysicalNode, names: frozenset[str]) -> PhysicalNode:
    """The first node below those with such a name, on the side whose rows stay."""
    while plan.name in names and not plan.own.is_barrier:
        plan = plan.children[plan.own.streamed]
    return plan


def _initial(frame: DataFrame) -> PhysicalNode:
    return read(frame.sparkSession, _initial_plan(frame))


def _initial_plan(frame: DataFrame) -> Any:
    plan = plan_calls.executed_plan(frame)
    return plan.initialPlan() if class_name(plan) == "AdaptiveSparkPlanExec" else plan


def _by_keys(sides: list[tuple[int, ...]], names: Mapping[int, str], partitions: int) -> Partitioning:
    """The first side whose keys all are columns of the result, under names that occur once."""
    once = {key: name for key, name in names.items() if list(names.values()).count(name) == 1}
    for side in sides:
        found = [once.get(key) for key in side]
        if found and None not in found:
            return Partitioning(PartitioningSource.KEYS, tuple(str(name) for name in found), partitions)
    return Partitioning(PartitioningSource.OTHER)


def _is_left_alone(plan: PhysicalNode, *, joins_stay: bool) -> bool:
    """Down to what decided the partitioning there is no join, which adaptive execution rewrites, and no exchange whose
    partitions it may split or merge."""
    if plan.name == "FileSourceScanExec":
        return True
    if plan.name == "ShuffleExchangeExec":
        return plan.own.origin in LEFT_ALONE
    if plan.name in STAYS or plan.name in {"HashAggregateExec", "SortAggregateExec", "ObjectHashAggregateExec"}:
        return _is_left_alone(plan.children[0], joins_stay=joins_stay)
    if joins_stay and plan.name in KEYED_JOINS:
        return all(_is_left_alone(side, joins_stay=True) for side in plan.children)
    # A join of results that lie together reads no exchange at all: nothing can be rewritten.
    return bool(plan.children) and not any(node.is_exchange or node.is_broadcast for node in plan.below())


def _expr_id(plan: PhysicalNode, key: str) -> int | None:
    """The one column of that name: as it is written, or else in other cases."""
    pairs = list(zip(plan.own.ids, plan.own.names, strict=True))
    ids = [number for number, name in pairs if name == key]
    ids = ids or [number for number, name in pairs if name.lower() == key.lower()]
    return ids[0] if len(ids) == 1 else None
