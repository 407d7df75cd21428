"""What tells the rows of a plan apart: its columns, and keys of which no two rows have the same.

Columns are the numbers by which Spark's expressions refer to them. None where they are not known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rekindle.engine.spark.plan.known import LIMITS, SAME_COLUMNS
from rekindle.engine.spark.plan.plan_tree import LogicalNode

Columns = frozenset[int]
BOTH_SIDES = ("Inner", "Cross", "LeftOuter", "RightOuter", "FullOuter")
LEFT_SIDE = ("LeftSemi", "LeftAnti")

# Whether values of a column that compare equal are the same.
IsToldApart = Callable[[LogicalNode], bool]


def keeps_whole_rows(deduplicate: LogicalNode) -> bool:
    """Rows that are duplicates are equal in all columns, so it does not matter which one stays."""
    columns = _columns(deduplicate.children[0])
    keys = _ids(deduplicate.trees("keys"))
    return columns is not None and keys is not None and columns <= keys


def is_cut_in_total_order(limit: LogicalNode, is_told_apart: IsToldApart) -> bool:
    """Below the limit is a sort whose keys have all columns of a row, or a key of which no two rows have the same."""
    node = limit
    while node.name in LIMITS or node.name == "Project":
        (node,) = node.children
    if node.name != "Sort" or node.fields.get("global") is not True:
        return False
    return _are_enough([one.children[0] for one in node.trees("order")], node, is_told_apart)


def made_in_total_order(windows: Sequence[LogicalNode], is_told_apart: IsToldApart) -> Columns:
    """The columns that windows make of rows among which no two are peers, or which are the same in all columns if they
    are. A number that stands in several windows must be such a column in each."""
    made: dict[bool, set[int | None]] = {True: set(), False: set()}
    for window in windows:
        keys = [*window.trees("partitionSpec"), *(one.children[0] for one in window.trees("orderSpec"))]
        is_total = _are_enough(keys, window.children[0], is_told_apart)
        made[is_total].update(one.expression_id for one in window.trees("windowExpressions"))
    return frozenset(one for one in made[True] - made[False] if one is not None)


def _are_enough(keys: Sequence[LogicalNode], rows: LogicalNode, is_told_apart: IsToldApart) -> bool:
    """Among these keys are all columns of the rows, or a key of which no two rows have the same."""
    told = _ids([key for key in keys if key.name == "AttributeReference" and is_told_apart(key)])
    columns = _columns(rows)
    return told is not None and ((columns is not None and columns <= told) or _has_key(rows, told))


def _has_key(node: LogicalNode, told: Columns) -> bool:
    """Among these columns is a key of which no two rows have the same."""
    while node.name in SAME_COLUMNS - {"Distinct", "Deduplicate"} or node.name in ("Project", "Window"):
        told |= _renamed(node.trees("projectList"), told)
        node = node.children[0]
    match node.name:
        case "Aggregate":
            told |= _renamed(node.trees("aggregateExpressions"), told)
            keys = node.trees("groupingExpressions")
            found = _ids(keys) if all(key.name == "AttributeReference" for key in keys) else None
        case "Deduplicate":
            found = _ids(node.trees("keys"))
        case "Distinct":
            found = _columns(node)
        case _:
            found = None
    return found is not None and found <= told


def _renamed(expressions: list[LogicalNode], told: Columns) -> Columns:
    """The columns of which some of these are other names."""
    renamed = [one.children[0] for one in expressions if one.name == "Alias" and one.expression_id in told]
    return _ids([one for one in renamed if one.name == "AttributeReference"]) or frozenset()


def _columns(node: LogicalNode) -> Columns | None:
    while node.name in SAME_COLUMNS:
        (node,) = node.children
    match node.name:
        case "Project":
            return _ids(node.trees("projectList"))
        case "Aggregate":
            return _ids(node.trees("aggregateExpressions"))
        case "Range" | "LocalRelation" | "LogicalRelation" | "Expand":
            return _ids(node.trees("output"))
        case "Window":
            return _both(_columns(node.children[0]), _ids(node.trees("windowExpressions")))
        case "Generate":
            return _both(_columns(node.children[0]), _ids(node.trees("generatorOutput")))
        case "Union":
            return _columns(node.children[0])
        case "Join":
            return _joined(node)
        case _:
            return None


def _joined(join: LogicalNode) -> Columns | None:
    kind = join.fields.get("joinType")
    name = str(kind.get("object", "")).rsplit(".", 1)[-1].rstrip("$") if isinstance(kind, dict) else ""
    left, right = join.children
    if name in LEFT_SIDE:
        return _columns(left)
    return _both(_columns(left), _columns(right)) if name in BOTH_SIDES else None


def _both(one: Columns | None, other: Columns | None) -> Columns | None:
    return None if one is None or other is None else one | other


def _ids(expressions: list[LogicalNode]) -> Columns | None:
    found = [one.expression_id for one in expressions]
    return None if None in found else frozenset(one for one in found if one is not None)
