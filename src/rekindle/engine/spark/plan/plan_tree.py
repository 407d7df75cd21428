"""The trees in the JSON that Spark makes of a plan.

Spark writes a tree as a list in preorder, each item with its number of children. Expressions of an operator, and the
plans of its subqueries, are such lists in its fields. Nothing here recurses by depth: a plan may be thousands deep.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class LogicalNode:
    """An operator or expression. `name` is its class without package."""

    name: str
    fields: dict[str, Any]
    children: tuple[LogicalNode, ...] = ()

    def trees(self, field: str) -> list[LogicalNode]:
        """The trees in one field, such as the list of a projection."""
        return list(_trees(self.fields.get(field)))

    @property
    def expression_id(self) -> int | None:
        """The number by which other expressions refer to a column."""
        found = self.fields.get("exprId")
        return found.get("id") if isinstance(found, dict) else None


def parse(text: str) -> LogicalNode:
    return _tree(json.loads(text))


def parse_all(text: str) -> list[LogicalNode]:
    """Several trees, in a list."""
    return list(_trees(json.loads(text)))


def preorder(root: LogicalNode) -> Iterator[LogicalNode]:
    """The tree of children alone, each before its own."""
    todo = [root]
    while todo:
        node = todo.pop()
        yield node
        todo.extend(reversed(node.children))


def walk(root: LogicalNode, is_end: Callable[[LogicalNode], bool] = lambda _: False) -> Iterator[LogicalNode]:
    """Every node: children, expressions in fields, and plans of subqueries. Nothing below an end."""
    todo = [root]
    while todo:
        node = todo.pop()
        yield node
        if is_end(node):
            continue
        todo.extend(node.children)
        todo.extend(_trees(list(node.fields.values())))


def _tree(items: list[dict[str, Any]]) -> LogicalNode:
    done: list[LogicalNode] = []
    for item in reversed(items):
        children = tuple(done.pop() for _ in range(item.get("num-children", 0)))
        done.append(LogicalNode(_name(item), item, children))
    return done[-1]


def _trees(value: Any) -> Iterator[LogicalNode]:
    """A class that stands alone is a node too: what uses it is to be known by name."""
    match value:
        case [{"class": _}, *_]:
            yield _tree(value)
        case list():
            for one in value:
                yield from _trees(one)
        case {"class": _}:
            yield LogicalNode(_name(value), {})
        case dict():
            yield from _trees(list(value.values()))


def _name(item: dict[str, Any]) -> str:
    return str(item["class"]).rsplit(".", 1)[-1].rstrip("$")
