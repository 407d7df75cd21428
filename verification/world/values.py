"""What results consist of here: labels. A label says which vertex, made by which code and draw, from which labels.

Two values are equal exactly if their labels are. So an output shows by itself whether a run without faults
could have produced it: below all that was published, every vertex and every exchange part must have one label only.
"""

from __future__ import annotations

from collections.abc import Iterable

Label = int
HOLE = -1
Node = tuple[str, int, int, int, tuple[Label, ...]]


class Values:
    """All labels of one world, each made once: (name, partition, code, draw, inputs)."""

    def __init__(self) -> None:
        self._known: dict[Node, Label] = {}
        self._nodes: list[Node] = []
        self._draws = 0

    def make(self, name: str, partition: int, code: int, draw: int, inputs: Iterable[Label]) -> Label:
        node = (name, partition, code, draw, tuple(inputs))
        label = self._known.get(node)
        if label is None:
            label = self._known[node] = len(self._nodes)
            self._nodes.append(node)
        return label

    def hole(self, name: str, partition: int) -> Label:
        """A partition that was left out, as its readers see it: something else than any version with rows."""
        return self.make(name, partition, HOLE, 0, ())

    def holes(self, labels: Iterable[Label]) -> set[tuple[str, int]]:
        """Every vertex that was left out below these."""
        nodes = (self._nodes[label] for label in self.below(labels))
        return {(name, partition) for name, partition, code, *_ in nodes if code == HOLE}

    def fresh_draw(self) -> int:
        """A draw that no other value has: what a random function gives."""
        self._draws += 1
        return self._draws + 1

    def node(self, label: Label) -> Node:
        return self._nodes[label]

    def below(self, labels: Iterable[Label]) -> set[Label]:
        """These labels and all they were made from."""
        found: set[Label] = set()
        todo = list(labels)
        while todo:
            label = todo.pop()
            if label not in found:
                found.add(label)
                todo.extend(self._nodes[label][4])
        return found

    def mixed(self, labels: Iterable[Label]) -> list[str]:
        """Every vertex that stands below these with more than one label."""
        seen: dict[tuple[str, int], Label] = {}
        twice: list[str] = []
        for label in sorted(self.below(labels)):
            name, partition, *_ = self._nodes[label]
            if seen.setdefault((name, partition), label) != label:
                twice.append(f"{name}[{partition}]")
        return twice
