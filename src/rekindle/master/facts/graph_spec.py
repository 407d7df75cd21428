"""The graph as it stands in the journal: plain, closed, and independent of how `model` names its classes.

A recorded graph must be readable for ever, so every word in it is fixed here.
"""

from __future__ import annotations

from typing import assert_never

import msgspec

from rekindle.model.edges import ALL, BROADCAST, IDENTITY, Broadcast, Identity, Interval, Mapping, Offset
from rekindle.model.edges import All as AllMapping
from rekindle.model.graph import Edge, Graph, Step
from rekindle.model.kinds import Determinism, KeepUntil, ResultKind

_WORDS: dict[str, Mapping] = {"identity": IDENTITY, "all": ALL, "broadcast": BROADCAST}


class StepSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """One step. The defaults are those of the format, not those of `Step`."""

    name: str
    partitions: int
    kind: ResultKind
    determinism: Determinism
    keep: KeepUntil = KeepUntil.CONSUMED
    is_order_sensitive: bool = True
    has_query_constants: bool = False
    restarts_whole: bool = False
    is_pessimistic: bool | None = None
    below: Determinism | None = None


class EdgeSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """One edge. `mapping` is identity, offset, interval, all or broadcast; `by` belongs to offset and interval, `of`
    to interval. `is_open`: the engine may read less when it runs."""

    producer: str
    consumer: str
    mapping: str
    by: int = 0
    determinism: Determinism | None = None
    of: int = 0
    is_open: bool = False


class GraphSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Steps in topological order, and edges."""

    steps: tuple[StepSpec, ...]
    edges: tuple[EdgeSpec, ...]

    @classmethod
    def of(cls, graph: Graph) -> GraphSpec:
        return cls(
            tuple(
                StepSpec(
                    name=step.name,
                    partitions=step.partitions,
                    kind=step.kind,
                    determinism=step.determinism,
                    keep=step.keep,
                    is_order_sensitive=step.is_order_sensitive,
                    has_query_constants=step.has_query_constants,
                    restarts_whole=step.restarts_whole,
                    is_pessimistic=step.is_pessimistic,
                    below=step.below,
                )
                for step in graph.steps.values()
            ),
            tuple(
                EdgeSpec(
                    producer=edge.producer,
                    consumer=edge.consumer,
                    mapping=word,
                    by=by,
                    determinism=edge.determinism,
                    of=of,
                    is_open=edge.is_open,
                )
                for edge in graph.edges
                for word, by, of in [_mapping_words(edge.mapping)]
            ),
        )

    def step(self, name: str) -> StepSpec:
        return next(step for step in self.steps if step.name == name)

    def graph(self) -> Graph:
        return Graph.of(
            (Step(**msgspec.structs.asdict(step)) for step in self.steps),
            (Edge(edge.producer, edge.consumer, _mapping(edge), edge.determinism, edge.is_open) for edge in self.edges),
        )

    def difference(self, other: GraphSpec) -> str:
        """The first thing that differs, as a sentence; empty if nothing does. Determinism may change: it is
        a finding about the code, and code has its own fingerprint."""
        mine, theirs = ({step.name: step for step in spec.steps} for spec in (self, other))
        for name in sorted(mine.keys() ^ theirs.keys()):
            return f"step {name} is {'gone' if name in mine else 'new'}"
        for name, step in mine.items():
            new = theirs[name]
            if step.partitions != new.partitions:
                return f"step {name} had {step.partitions} partitions and now has {new.partitions}"
            if step.kind is not new.kind:
                return f"the result of {name} was {step.kind.value} and is now {new.kind.value}"
        edges, new_edges = (
            {(e.producer, e.consumer, e.mapping, e.by, e.of) for e in spec.edges} for spec in (self, other)
        )
        for producer, consumer, mapping, *_ in sorted(edges ^ new_edges):
            return f"{consumer} reads {producer} ({mapping}) in only one of the two"
        return ""


def _mapping_words(mapping: Mapping) -> tuple[str, int, int]:
    match mapping:
        case Identity():
            return "identity", 0, 0
        case Offset(by):
            return "offset", by, 0
        case Interval(by, of):
            return "interval", by, of
        case Broadcast():
            return "broadcast", 0, 0
        case AllMapping():
            return "all", 0, 0
        case _:  # pragma: no cover
            assert_never(mapping)


def _mapping(edge: EdgeSpec) -> Mapping:
    if edge.mapping == "offset":
        return Offset(edge.by)
    if edge.mapping == "interval":
        return Interval(edge.by, edge.of)
    return _WORDS[edge.mapping]
