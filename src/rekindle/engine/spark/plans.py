"""Spark's own plans, read: exchanges, broadcasts, subqueries, barriers, and where the rows of a key lie.

One py4j call per plan node or RDD, never one per partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pyspark.sql import DataFrame

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
KEYED_JOINS = frozenset({"SortMergeJoinExec", "ShuffledHashJoinExec", "BroadcastHashJoinExec"})
# Leaves besides files whose partitions follow from settings alone, so that they are the same in another driver.
SPLITS = frozenset({"RangeExec", "LocalTableScanExec"})
BROADCASTS = frozenset({"BroadcastExchangeExec", "BroadcastQueryStageExec"})
EXCHANGES = frozenset({"ShuffleExchangeExec", "ShuffleQueryStageExec", "CollectLimitExec", "TakeOrderedAndProjectExec"})


@dataclass(frozen=True, slots=True)
class Shape:
    """What a physical plan contains that a retry must know of."""

    exchanges: int
    broadcasts: int
    subqueries: int
    is_barrier: bool

    @property
    def is_narrow(self) -> bool:
        return not (self.exchanges or self.broadcasts or self.subqueries)


def class_name(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def items(seq: Any) -> Iterator[Any]:
    iterator = seq.iterator()
    while iterator.hasNext():
        yield iterator.next()


def below(plan: Any) -> Iterator[Any]:
    """Every node of a physical plan, without the plans of its subqueries."""
    yield plan
    name = class_name(plan)
    if name == "AdaptiveSparkPlanExec":
        yield from below(plan.executedPlan())
    elif name.endswith("QueryStageExec"):
        yield from below(plan.plan())
    else:
        for child in items(plan.children()):
            yield from below(child)


def shape(plan: Any) -> Shape:
    nodes = list(below(plan))
    names = [class_name(node) for node in nodes]
    return Shape(
        exchanges=sum(name in EXCHANGES for name in names),
        broadcasts=sum(name in BROADCASTS for name in names),
        subqueries=sum(len(list(items(node.subqueries()))) for node in nodes),
        is_barrier=any(_is_barrier(node, name) for node, name in zip(nodes, names, strict=True)),
    )


def _is_barrier(node: Any, name: str) -> bool:
    return name in {"MapInPandasExec", "MapInArrowExec"} and bool(node.isBarrier())


def shuffle_ids(rdd: Any) -> tuple[int, ...]:
    """The engine-owned exchanges that one RDD reads, directly or through narrow steps, nearest first."""
    return tuple(_shuffles(rdd))


def map_sides(rdd: Any) -> list[Any]:
    """The RDDs whose partitions are the map tasks of those exchanges."""
    return list(_shuffles(rdd).values())


def _shuffles(rdd: Any) -> dict[int, Any]:
    found: dict[int, Any] = {}
    seen: set[int] = set()
    todo = [rdd]
    while todo:
        current = todo.pop()
        if current.id() in seen:
            continue
        seen.add(current.id())
        for dependency in items(current.dependencies()):
            if class_name(dependency) == "ShuffleDependency":
                found[int(dependency.shuffleId())] = dependency.rdd()
            todo.append(dependency.rdd())
    return found


def lies_by(frame: DataFrame, keys: tuple[str, ...], partitions: int) -> bool:
    """Do the rows already lie as `hash(keys) mod partitions` says, and will adaptive execution leave them there?

    True only over a bucketed read of ours, an exchange the user asked for by number, or an aggregation's exchange
    (its coalescing is switched off in the session this is asked for). Anything else gets an exchange of its own.
    """
    plan = _initial(frame)
    wanted = [_expr_id(plan, key) for key in keys]
    while class_name(plan) in STAYS and not _is_barrier(plan, class_name(plan)):
        plan = next(items(plan.children()))
    if None in wanted or not _is_left_alone(plan):
        return False
    return any(
        int(one.numPartitions()) == partitions and [_attribute_id(e) for e in items(one.expressions())] == wanted
        for one in _hash_partitionings(plan.outputPartitioning())
    )


class Top(Enum):
    """What decides the partitions of a plan: the first node below its row-local part."""

    SPLITS = "splits of a source"
    FILES = "files of one numbered result"
    KEYS = "keys of an exchange or join"
    ORDER = "a total order"
    ONE = "one partition"
    OTHER = "nothing that another driver could repeat"


ALONE = {"RangePartitioning": Top.ORDER, "SinglePartition$": Top.ONE}


@dataclass(frozen=True, slots=True)
class Decided:
    """What decides; the columns if keys do; and how many partitions that makes, 0 if it is not said."""

    by: Top
    keys: tuple[str, ...] = ()
    partitions: int = 0


def top_of(frame: DataFrame) -> Decided:
    """What decides the partitions. Asked before anything ran, so it may not depend on sizes: a join counts by its
    keys, however Spark will run it."""
    names = {int(a.exprId().id()): str(a.name()) for a in items(_initial(frame).output())}
    plan = top_node(frame)
    name = class_name(plan)
    if name in KEYED_JOINS:
        sides = [list(items(plan.leftKeys())), list(items(plan.rightKeys()))]
        count = max((int(one.numPartitions()) for one in _hash_partitionings(plan.outputPartitioning())), default=0)
        return _by_keys(sides, names, count)
    if name in SPLITS:
        return Decided(Top.SPLITS)
    partitioning = plan.outputPartitioning()
    if class_name(partitioning) in ALONE and any(class_name(node) in EXCHANGES for node in below(plan)):
        return Decided(ALONE[class_name(partitioning)])
    found = list(_hash_partitionings(partitioning))
    if found:
        return _by_keys([list(items(one.expressions())) for one in found], names, int(found[0].numPartitions()))
    return Decided(_of_scan(plan) if name == "FileSourceScanExec" else Top.OTHER)


def _of_scan(scan: Any) -> Top:
    """A keyed result that is read without its keys is cut by size: nothing to go by."""
    if scan.relation().bucketSpec().isDefined():
        return Top.OTHER
    return Top.FILES if class_name(scan.relation().location()) == "CommittedFiles" else Top.SPLITS


def top_node(frame: DataFrame) -> Any:
    """The first node below the row-local part of a plan."""
    plan = _initial(frame)
    while class_name(plan) in ROW_LOCAL and not _is_barrier(plan, class_name(plan)):
        plan = next(items(plan.children()))
    return plan


def _initial(frame: DataFrame) -> Any:
    plan = frame._jdf.queryExecution().executedPlan()
    return plan.initialPlan() if class_name(plan) == "AdaptiveSparkPlanExec" else plan


def _by_keys(sides: list[list[Any]], names: Mapping[int, str], partitions: int) -> Decided:
    """The first side whose keys all are columns of the result, under names that occur once."""
    once = {key: name for key, name in names.items() if list(names.values()).count(name) == 1}
    for side in sides:
        found = [once.get(_attribute_id(expression) or -1) for expression in side]
        if found and None not in found:
            return Decided(Top.KEYS, tuple(str(name) for name in found), partitions)
    return Decided(Top.OTHER)


def _hash_partitionings(partitioning: Any) -> Iterator[Any]:
    """A join lies by the keys of both of its sides."""
    match class_name(partitioning):
        case "HashPartitioning":
            yield partitioning
        case "PartitioningCollection":
            for one in items(partitioning.partitionings()):
                yield from _hash_partitionings(one)


def _is_left_alone(plan: Any) -> bool:
    """Down to what decided the partitioning there is no join: adaptive execution rewrites only those here."""
    name = class_name(plan)
    if name in {"FileSourceScanExec", "ShuffleExchangeExec"}:
        return True
    children = list(items(plan.children()))
    if name in STAYS or name in {"HashAggregateExec", "SortAggregateExec", "ObjectHashAggregateExec"}:
        return _is_left_alone(children[0])
    # A join of results that lie together reads no exchange at all: nothing can be rewritten.
    return bool(children) and not any(class_name(node) in EXCHANGES | BROADCASTS for node in below(plan))


def _expr_id(plan: Any, key: str) -> int | None:
    ids = [int(a.exprId().id()) for a in items(plan.output()) if str(a.name()).lower() == key.lower()]
    return ids[0] if len(ids) == 1 else None


def _attribute_id(expression: Any) -> int | None:
    return int(expression.exprId().id()) if class_name(expression) == "AttributeReference" else None
