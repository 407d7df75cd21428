"""What tells the rows of a plan apart: its columns, and keys of which no two rows have the same.

Columns are the numbers by which Spark's expressions refer to them. None where they are not known.
"""

from __future__ import annotations

from collections.abc import Callable

from rekindle.engine.spark.plan.known import LIMITS, SAME_COLUMNS
from rekindle.engine.spark.plan.plan_tree import LogicalNode

Columns = frozenset[int]
BOTH_SIDES = ("Inner", "Cross", "LeftOuter", "RightOuter", "FullOuter")
LEFT_SIDE = ("LeftSemi", "LeftAnti")


def keeps_whole_rows(deduplicate: LogicalNode) -> bool:
    """Rows that are duplicates are equal in all columns, so it does not matter which one stays."""
    columns = _columns(deduplicate.children[0])
    keys = _ids(deduplicate.trees("keys"))
    return columns is not None and keys is not None and columns <= keys


def is_cut_in_total_order(limit: LogicalNode, is_told_apart: Callable[[LogicalNode], bool]) -> bool:
    """Below the limit is a sort whose keys have all columns of a row, or a key of which no two rows have the same."""
    node = limit
    while node.name in LIMITS or node.name == "Project":
        (node,) = node.children
    if node.name != "Sort" or node.fields.get("global") is not True:
        return False
    keys = [one.children[0] for one in node.trees("order")]
    sorted_by = _ids([key for key in keys if key.name == "AttributeReference" and is_told_apart(key)])
    enough = (_columns(node), _unique(node))
    return sorted_by is not None and any(found is not None and found <= sorted_by for found in enough)


def _unique(node: LogicalNode) -> Columns | None:
    while node.name in SAME_COLUMNS - {"Distinct", "Deduplicate"} or node.name == "Project":
        (node,) = node.children
    match node.name:
        case "Aggregate":
            keys = node.trees("groupingExpressions")
            return _ids(keys) if all(key.name == "AttributeReference" for key in keys) else None
        case "Deduplicate":
            return _ids(node.trees("keys"))
        case "Distinct":
            return _columns(node)
        case _:
            return None


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
