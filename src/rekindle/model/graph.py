"""The graph of a run: steps with their partitions, edges, and what the engine owns between them.

Rules
- A graph is checked when it is made and never changes. Steps stand in topological order.
- The kind belongs to the step: all its consumers read the same stored result, or are all fused with it.
- A pipelined step is computed once per reader. With two readers it must be repeatable, else they would see
  two versions: such a graph is refused, and `promoted` says which steps to keep instead.
- An `All` or `Broadcast` edge goes through an exchange that the engine owns: a caching result, one part per
  producer partition, alive as long as the Spark application. A step with query constants owns one more, of
  one part and without a producer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

from rekindle.errors import Refused
from rekindle.model.edges import IDENTITY, All, Mapping
from rekindle.model.ids import ExchangeId
from rekindle.model.kinds import Determinism, KeepUntil, ResultKind
from rekindle.model.partitions import Partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One user function, with as many vertices as it has partitions. `is_pessimistic`: what is computed again counts as
    different from the start, unless it is proved to be repeatable; None leaves that to the strategy of the run.
    `below` is the determinism of the work below its exchanges, where that is known apart from the step's own."""

    name: str
    partitions: int
    kind: ResultKind = ResultKind.BLOCKING
    determinism: Determinism = Determinism.UNKNOWN
    keep: KeepUntil = KeepUntil.CONSUMED
    is_order_sensitive: bool = True
    has_query_constants: bool = False
    restarts_whole: bool = False
    is_pessimistic: bool | None = None
    below: Determinism | None = None


@dataclass(frozen=True, slots=True)
class Edge:
    """`consumer` reads `producer`. `determinism` is that of the work below the exchange, where there is one;
    left out, the consumer's counts. `is_open`: the engine may read less when it runs, and nobody can say so before."""

    producer: str
    consumer: str
    mapping: Mapping = IDENTITY
    determinism: Determinism | None = None
    is_open: bool = False

    @property
    def has_exchange(self) -> bool:
        return isinstance(self.mapping, All)

    def __str__(self) -> str:
        return f"{self.producer} -> {self.consumer}"


@dataclass(frozen=True, slots=True)
class Exchange:
    """An engine-owned caching result. `partitions` counts its map side."""

    id: ExchangeId
    partitions: int
    determinism: Determinism


@dataclass(frozen=True, slots=True)
class Group:
    """A kept step with everything pipelined into it: one Spark plan."""

    root: str
    members: frozenset[str]
    exchanges: tuple[ExchangeId, ...]

    @property
    def is_narrow(self) -> bool:
        return not self.exchanges


@dataclass(frozen=True, kw_only=True)
class Graph:
    """Steps by name in topological order, and their edges."""

    steps: dict[str, Step]
    edges: tuple[Edge, ...]
    inputs: dict[str, tuple[Edge, ...]] = field(repr=False, compare=False)
    outputs: dict[str, tuple[Edge, ...]] = field(repr=False, compare=False)
    whole: dict[str, Partitions] = field(repr=False, compare=False)
    exchanges: dict[ExchangeId, Exchange] = field(repr=False, compare=False)

    @classmethod
    def of(cls, steps: Iterable[Step], edges: Iterable[Edge]) -> Graph:
        """Check and build. Raises `Refused`, naming the step or edge."""
        named, kept_edges = _named(steps), tuple(edges)
        _check_edges(named, kept_edges)
        inputs: dict[str, tuple[Edge, ...]] = dict.fromkeys(named, ())
        outputs: dict[str, tuple[Edge, ...]] = dict.fromkeys(named, ())
        for edge in kept_edges:
            inputs[edge.consumer] += (edge,)
            outputs[edge.producer] += (edge,)
        ordered = {name: named[name] for name in _topological(inputs, outputs)}
        graph = cls(
            steps=ordered,
            edges=kept_edges,
            inputs=inputs,
            outputs=outputs,
            whole={name: Partitions.first(step.partitions) for name, step in ordered.items()},
            exchanges={x.id: x for x in _exchanges(ordered, kept_edges)},
        )
        torn = graph.two_versions
        if torn:
            readers = ", ".join(str(edge) for edge in graph.outputs[torn[0]])
            raise Refused(
                f"{torn[0]} is pipelined into several consumers ({readers}) and is not determinate: "
                "they would read different rows",
                hint=f"keep it: result='caching' or result='blocking' for {torn[0]}",
            )
        return graph

    @property
    def vertices(self) -> int:
        return sum(step.partitions for step in self.steps.values())

    def has_output_duty(self, name: str) -> bool:
        """Somebody outside the graph wants this result: it is a sink, or kept for ever."""
        return not self.outputs[name] or self.steps[name].keep is KeepUntil.FOREVER

    @cached_property
    def two_versions(self) -> tuple[str, ...]:
        """Pipelined steps with several readers that could give each another version."""
        return tuple(name for name in self.steps if _is_torn(self, name))

    @cached_property
    def groups(self) -> dict[str, Group]:
        """The Spark plans of the run, by the kept step each ends in."""
        return {name: self._group(name) for name, step in self.steps.items() if step.kind.is_kept}

    def _group(self, root: str) -> Group:
        members, todo = {root}, [root]
        while todo:
            for edge in self.inputs[todo.pop()]:
                if self.steps[edge.producer].kind.joins_region and edge.producer not in members:
                    members.add(edge.producer)
                    todo.append(edge.producer)
        return Group(root, frozenset(members), tuple(x for x in self.exchanges if x.consumer in members))


def promoted(steps: Iterable[Step], edges: Iterable[Edge], kind: ResultKind) -> tuple[list[Step], tuple[str, ...]]:
    """The steps with every torn pipelined one kept as `kind`, and the names of those that changed."""
    listed, wires = {step.name: step for step in steps}, tuple(edges)
    inputs = {name: tuple(edge for edge in wires if edge.consumer == name) for name in listed}
    names: list[str] = []
    for name, step in listed.items():
        if sum(edge.producer == name for edge in wires) > 1 and _is_doubtful(name, listed, inputs):
            listed[name] = replace(step, kind=kind)
            names.append(name)
    return list(listed.values()), tuple(names)


def _named(steps: Iterable[Step]) -> dict[str, Step]:
    named: dict[str, Step] = {}
    for step in steps:
        if step.name in named:
            raise Refused(f"two steps are named {step.name}")
        if step.partitions < 1:
            raise Refused(f"{step.name} has {step.partitions} partitions")
        named[step.name] = step
    return named


def _check_edges(steps: dict[str, Step], edges: tuple[Edge, ...]) -> None:
    seen: set[tuple[str, str]] = set()
    for edge in edges:
        for name in (edge.producer, edge.consumer):
            if name not in steps:
                raise Refused(f"{edge}: there is no step {name}")
        if (edge.producer, edge.consumer) in seen:
            raise Refused(f"{edge} is drawn twice; an edge that reads everything covers the other")
        seen.add((edge.producer, edge.consumer))
        wrong = edge.mapping.mismatch(steps[edge.producer].partitions, steps[edge.consumer].partitions)
        if wrong:
            raise Refused(f"{edge}: {wrong}")
    read = {edge.producer for edge in edges}
    for name, step in steps.items():
        if step.kind.joins_region and name not in read:
            raise Refused(f"{name} is pipelined, but no step reads it", hint=f"keep it: result='blocking' for {name}")
        if step.kind.joins_region and step.keep is KeepUntil.FOREVER:
            raise Refused(
                f"{name} is pipelined, so it has no result to keep forever",
                hint=f"keep it: result='blocking' for {name}",
            )


def _topological(inputs: dict[str, tuple[Edge, ...]], outputs: dict[str, tuple[Edge, ...]]) -> list[str]:
    waiting = {name: len(edges) for name, edges in inputs.items()}
    ordered = [name for name, count in waiting.items() if count == 0]
    for name in ordered:
        for edge in outputs[name]:
            waiting[edge.consumer] -= 1
            if waiting[edge.consumer] == 0:
                ordered.append(edge.consumer)
    if len(ordered) < len(waiting):
        circle = ", ".join(sorted(set(waiting) - set(ordered)))
        raise Refused(f"these steps form a cycle: {circle}")
    return ordered


def _exchanges(steps: dict[str, Step], edges: tuple[Edge, ...]) -> list[Exchange]:
    found = [
        Exchange(
            ExchangeId(edge.consumer, edge.producer),
            steps[edge.producer].partitions,
            edge.determinism or steps[edge.consumer].below or steps[edge.consumer].determinism,
        )
        for edge in edges
        if edge.has_exchange
    ]
    constants = [
        Exchange(ExchangeId(name), 1, step.below or step.determinism)
        for name, step in steps.items()
        if step.has_query_constants
    ]
    return found + constants


def _is_torn(graph: Graph, name: str) -> bool:
    return len(graph.outputs[name]) > 1 and _is_doubtful(name, graph.steps, graph.inputs)


def _is_doubtful(name: str, steps: dict[str, Step], inputs: dict[str, tuple[Edge, ...]]) -> bool:
    """A pipelined step whose value, with all that is fused below it, may differ from reader to reader."""
    if not steps[name].kind.joins_region:
        return False
    seen, todo = {name}, [name]
    while todo:
        step = steps[todo.pop()]
        if not step.determinism.is_repeatable:
            return True
        for edge in inputs[step.name]:
            if edge.has_exchange and edge.determinism and not edge.determinism.is_repeatable:
                return True
            if steps[edge.producer].kind.joins_region and edge.producer not in seen:
                seen.add(edge.producer)
                todo.append(edge.producer)
    return False
