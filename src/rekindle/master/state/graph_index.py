"""The graph seen from its kept steps: what a group reads, who reads a kept step, and what may be trusted of it.

Made once per run from the journaled graph. It answers questions about sets and holds no state.
"""

from __future__ import annotations

from functools import cached_property

from rekindle.master.facts.graph_spec import GraphSpec
from rekindle.model.graph import Graph
from rekindle.model.ids import ExchangeId
from rekindle.model.kinds import Determinism, Proof
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.model.regions import readers, reads

Sets = dict[str, Partitions]


class GraphIndex:
    """Compared by its spec: two layouts of one graph are equal."""

    def __init__(self, spec: GraphSpec) -> None:
        self.spec = spec

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GraphIndex) and self.spec == other.spec

    def __hash__(self) -> int:
        return hash(self.spec)

    @cached_property
    def graph(self) -> Graph:
        return self.spec.graph()

    @cached_property
    def kept(self) -> tuple[str, ...]:
        return tuple(self.graph.groups)

    @cached_property
    def producers(self) -> dict[str, tuple[str, ...]]:
        """For each kept step the kept steps its group reads, in topological order."""
        return {root: tuple(self.read_by(root, self.graph.whole[root])) for root in self.kept}

    @cached_property
    def upstream(self) -> dict[str, frozenset[str]]:
        """For each kept step itself and every kept step that its result was made from."""
        found: dict[str, frozenset[str]] = {}
        for root in self.graph.steps:
            if root in self.producers:
                found[root] = frozenset({root}).union(*(found[one] for one in self.producers[root]))
        return found

    @cached_property
    def repeatable(self) -> dict[str, Proof | None]:
        """Why running a group again on the same inputs gives the same, if it does."""
        return {root: self._repeatable(root) for root in self.kept}

    def exchanges(self, root: str) -> dict[ExchangeId, Partitions]:
        """Every map part of every exchange in the group's plan."""
        return self._exchanges[root]

    @cached_property
    def _exchanges(self) -> dict[str, dict[ExchangeId, Partitions]]:
        whole = {x: Partitions.first(one.partitions) for x, one in self.graph.exchanges.items()}
        return {root: {x: whole[x] for x in self.graph.groups[root].exchanges} for root in self.kept}

    def is_narrow(self, root: str) -> bool:
        return self.graph.groups[root].is_narrow

    def restarts_whole(self, root: str) -> bool:
        """No attempt at the group may leave a partition out: a step that restarts whole runs in its tasks."""
        return any(self.graph.steps[name].restarts_whole for name in self.stages[root])

    @cached_property
    def stages(self) -> dict[str, frozenset[str]]:
        """For each kept step what its own tasks run: the members of the group above all exchanges."""
        return {root: self._stage(root) for root in self.kept}

    def _stage(self, root: str) -> frozenset[str]:
        found, todo = {root}, [root]
        while todo:
            for edge in self.graph.inputs[todo.pop()]:
                is_fused = self.graph.steps[edge.producer].kind.joins_region and not edge.has_exchange
                if is_fused and edge.producer not in found:
                    found.add(edge.producer)
                    todo.append(edge.producer)
        return frozenset(found)

    def members(self, root: str) -> frozenset[str]:
        return self.graph.groups[root].members

    def read_by(self, root: str, partitions: Partitions) -> Sets:
        """The partitions of kept steps that these vertices read, through everything fused into them; none of a step
        that others of the group read: a union reads one side with each of its partitions."""
        running: Sets = {root: partitions}
        found: Sets = {}
        for name in reversed(self.graph.steps):
            wanted = running.get(name)
            if wanted is None:
                continue
            for edge in self.graph.inputs[name]:
                into = running if self.graph.steps[edge.producer].kind.joins_region else found
                read = reads(self.graph, edge, wanted)
                into[edge.producer] = into.get(edge.producer, EMPTY) | read
        return {name: found[name] for name in self.graph.steps if name in found}

    def readers_of(self, step: str, partitions: Partitions) -> Sets:
        """The vertices of kept steps that read these partitions, through everything fused into them."""
        changed: Sets = {step: partitions}
        found: Sets = {}
        for name in self.graph.steps:
            read = changed.get(name)
            if not read:
                continue
            for edge in self.graph.outputs[name]:
                touched = readers(self.graph, edge, read)
                into = changed if self.graph.steps[edge.consumer].kind.joins_region else found
                into[edge.consumer] = into.get(edge.consumer, EMPTY) | touched
        return found

    def _repeatable(self, root: str) -> Proof | None:
        graph = self.graph
        seen = [graph.steps[name].determinism for name in graph.groups[root].members]
        seen += [graph.exchanges[x].determinism for x in graph.groups[root].exchanges]
        if not all(one.is_repeatable for one in seen):
            return None
        return Proof.DECLARED if Determinism.DECLARED in seen else Proof.DETERMINATE
