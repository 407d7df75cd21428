"""Failover regions: vertices joined by pipelined results, found on demand and never listed as objects.

A region is a mapping of step to partitions. It grows along pipelined edges in both directions. Regions that
depend on each other in a circle cannot finish one before the other, so they are one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from rekindle.model.graph import Edge, Graph
from rekindle.model.ids import Vertex
from rekindle.model.partitions import EMPTY, Partitions

Region = dict[str, Partitions]
_Follow = Callable[[Edge], bool]


def region_of(graph: Graph, vertex: Vertex) -> Region:
    """The region that `vertex` fails with."""
    start: Region = {vertex.step: Partitions((vertex.partition,))}
    below = _spread(graph, start, _always, _is_joined(graph))
    above = _spread(graph, start, _is_joined(graph), _always)
    circle = {step: at & above.get(step, EMPTY) for step, at in below.items()}
    return {step: at for step, at in circle.items() if at}


def regions(graph: Graph, within: Iterable[str] = ()) -> Iterator[Region]:
    """Every region that touches the steps `within` (all, if none is named). For printing and small graphs."""
    seen: Region = {}
    for step in within or graph.steps:
        for partition in graph.whole[step]:
            if partition in seen.get(step, EMPTY):
                continue
            region = region_of(graph, Vertex(step, partition))
            for name, partitions in region.items():
                seen[name] = seen.get(name, EMPTY) | partitions
            yield region


def _always(edge: Edge) -> bool:
    return True


def _is_joined(graph: Graph) -> _Follow:
    return lambda edge: graph.steps[edge.producer].kind.joins_region


def _spread(graph: Graph, start: Region, go_down: _Follow, go_up: _Follow) -> Region:
    """Everything reachable from `start` over the edges that may be followed down, and up."""
    reached, todo = dict(start), list(start)
    while todo:
        step = todo.pop()
        for edge in graph.outputs[step]:
            if go_down(edge):
                _join(reached, todo, edge.consumer, readers(graph, edge, reached[step]))
        for edge in graph.inputs[step]:
            if go_up(edge):
                _join(reached, todo, edge.producer, reads(graph, edge, reached[step]))
    return reached


def _join(reached: Region, todo: list[str], step: str, partitions: Partitions) -> None:
    before = reached.get(step, EMPTY)
    if not partitions <= before:
        reached[step] = before | partitions
        todo.append(step)


def readers(graph: Graph, edge: Edge, read: Partitions) -> Partitions:
    """The consumer partitions of `edge` that read any of these producer partitions."""
    steps = graph.steps
    return edge.mapping.downstream(read, steps[edge.producer].partitions, steps[edge.consumer].partitions)


def reads(graph: Graph, edge: Edge, consumers: Partitions) -> Partitions:
    """The producer partitions of `edge` that any of these consumer partitions reads."""
    steps = graph.steps
    return edge.mapping.upstream(consumers, steps[edge.producer].partitions, steps[edge.consumer].partitions)
