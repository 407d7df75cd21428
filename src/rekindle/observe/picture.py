"""A graph of steps as something to draw: nodes with shares of their partitions, links, and where each of them goes.

- One node per step, whatever its partitions: a node's bar shows their shares.
- Layers go from left to right: a step stands behind everything it reads. Inside a layer steps stand near what they read
  (a few sweeps over the mean of the neighbours), and a link over several layers gets a lane of its own in each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import pairwise

import msgspec

NODE_WIDTH, NODE_HEIGHT = 190, 58
LANE_HEIGHT = 14
# A step that is pipelined into another one is a line in its box; so many are shown at most.
INSIDE_HEIGHT, INSIDE_MAX = 15, 6
COLUMN_GAP, ROW_GAP = 70, 22
MARGIN = 16
SWEEPS = 6
# A picture that is higher than a screen begins at its top, so that its beginning is seen.
CENTRED_MAX = 700

Point = tuple[float, float]


class Share(msgspec.Struct, frozen=True):
    """How many partitions of a step are in one state; `state` names a colour."""

    state: str
    count: int


class PictureNode(msgspec.Struct, frozen=True, kw_only=True):
    """One step. `note` is a second line, `title` what a pointer over it shows; `is_marked` draws a border. `inside` are
    the steps that are pipelined into it, in their order: the box is their region."""

    name: str
    note: str
    shares: tuple[Share, ...] = ()
    title: str = ""
    is_marked: bool = False
    inside: tuple[str, ...] = ()

    @property
    def inside_lines(self) -> list[str]:
        """The steps inside as they are shown: a long list is cut, and its end counted."""
        if len(self.inside) <= INSIDE_MAX:
            return list(self.inside)
        rest = len(self.inside) - INSIDE_MAX + 1
        return [*self.inside[: INSIDE_MAX - 1], f"… and {rest} more"]

    @property
    def height(self) -> int:
        return NODE_HEIGHT + INSIDE_HEIGHT * len(self.inside_lines)


class Link(msgspec.Struct, frozen=True):
    """`consumer` reads `producer`, in the words of the journaled graph. `is_open`: the engine may read less."""

    producer: str
    consumer: str
    mapping: str = "identity"
    is_open: bool = False

    @property
    def is_wide(self) -> bool:
        """Each partition reads all of it."""
        return self.mapping in ("all", "broadcast")

    @property
    def how(self) -> str:
        """For a person; empty where it is read partition by partition."""
        if self.mapping == "all":
            return "all, or less at run time" if self.is_open else "all"
        return {"broadcast": "broadcast", "interval": "coalesced"}.get(self.mapping, "")


class Picture(msgspec.Struct, frozen=True):
    """Nodes, producers first, and links."""

    nodes: tuple[PictureNode, ...]
    links: tuple[Link, ...]

    def layers(self) -> dict[str, int]:
        """The column of each node: one behind the last of what it reads."""
        found: dict[str, int] = {}
        for node in self.nodes:
            read = (found.get(link.producer, -1) for link in self.links if link.consumer == node.name)
            found[node.name] = max(read, default=-1) + 1
        return found


class PictureLayout:
    """The picture with a place for everything. Positions are the left upper corners of nodes."""

    def __init__(self, picture: Picture) -> None:
        self.picture = picture
        self._layer = picture.layers()
        self._heights = {node.name: node.height for node in picture.nodes}
        self._chains = {(link.producer, link.consumer): list(self._lanes(link)) for link in picture.links}
        self._columns = self._ordered()

    @property
    def width(self) -> float:
        columns = len(self._columns)
        return 2 * MARGIN + columns * NODE_WIDTH + max(0, columns - 1) * COLUMN_GAP

    @property
    def height(self) -> float:
        return 2 * MARGIN + max((self._column_height(column) for column in self._columns), default=0)

    def at(self, node: str) -> Point:
        return self._at[node]

    def path(self, link: Link) -> list[Point]:
        """The points a link runs through, from the right side of its producer to the left side of its consumer."""
        points: list[Point] = []
        for name in self._chains[link.producer, link.consumer]:
            x, y = self._at[name]
            middle = y + self._tall(name) / 2
            is_start, is_end = name == link.producer, name == link.consumer
            points += [(x, middle)] * (not is_start) + [(x + NODE_WIDTH, middle)] * (not is_end)
        return points

    @cached_property
    def _at(self) -> Mapping[str, Point]:
        found: dict[str, Point] = {}
        for index, column in enumerate(self._columns):
            x = MARGIN + index * (NODE_WIDTH + COLUMN_GAP)
            room = self.height - 2 * MARGIN - self._column_height(column)
            y = MARGIN + (room / 2 if self.height <= CENTRED_MAX else 0)
            for name in column:
                found[name] = (x, y)
                y += self._tall(name) + ROW_GAP
        return found

    def _lanes(self, link: Link) -> Iterable[str]:
        yield link.producer
        for layer in range(self._layer[link.producer] + 1, self._layer[link.consumer]):
            yield f"{link.producer}\0{link.consumer}\0{layer}"
        yield link.consumer

    def _ordered(self) -> list[list[str]]:
        columns: list[list[str]] = [[] for _ in range(max(self._layer.values(), default=-1) + 1)]
        for node in self.picture.nodes:
            columns[self._layer[node.name]].append(node.name)
        before: dict[str, list[str]] = {}
        after: dict[str, list[str]] = {}
        for chain in self._chains.values():
            for left, right in pairwise(chain):
                after.setdefault(left, []).append(right)
                before.setdefault(right, []).append(left)
            for index, lane in enumerate(chain[1:-1], start=self._layer[chain[0]] + 1):
                columns[index].append(lane)
        for sweep in range(SWEEPS):
            order = list(pairwise(columns)) if sweep % 2 == 0 else [(r, c) for c, r in pairwise(columns)][::-1]
            near = before if sweep % 2 == 0 else after
            for fixed, moved in order:
                _sort(moved, fixed, near)
        return columns

    def _tall(self, name: str) -> int:
        return self._heights.get(name, LANE_HEIGHT)

    def _column_height(self, column: list[str]) -> float:
        return sum(map(self._tall, column)) + max(0, len(column) - 1) * ROW_GAP


def _sort(moved: list[str], fixed: list[str], near: Mapping[str, list[str]]) -> None:
    """Order a column by the mean place of its neighbours in the fixed one; what has none keeps its place."""
    place = {name: index for index, name in enumerate(fixed)}
    own = {name: index for index, name in enumerate(moved)}

    def mean(name: str) -> float:
        found = [place[other] for other in near.get(name, ()) if other in place]
        return sum(found) / len(found) if found else float(own[name])

    moved.sort(key=mean)
