"""A whole pipeline as a picture: sources, regions and sinks.

- A box is a region: a kept step with all that is pipelined into it, which the same tasks compute. What is pipelined
  into two kept steps is computed twice, and stands in both boxes.
- Links between boxes are the edges of the graph, as the master has them.
- A run of an earlier release knows its kept steps only, and these are drawn.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from rekindle.master.facts.graph_spec import EdgeSpec
from rekindle.master.facts.run_spec import DeclaredStep
from rekindle.observe.picture import Link, Picture, PictureNode

SOURCE, SINK = "source", "sink"
Regions = Mapping[str, Sequence[str]]


def region_picture(
    declared: Sequence[DeclaredStep], regions: Regions, kept: Mapping[str, PictureNode], edges: Sequence[Link]
) -> Picture:
    """`kept` are the boxes of the kept steps, producers first, and `edges` are those of the graph."""
    if not declared:
        return Picture(tuple(kept.values()), tuple(edges))
    sources = {one.name for one in declared if one.role == SOURCE}
    nodes: list[PictureNode] = []
    for one in declared:
        if one.name in kept:
            inside = tuple(name for name in regions.get(one.name, ()) if name not in sources and name != one.name)
            nodes.append(_region(one, kept[one.name], inside))
        elif one.role in (SOURCE, SINK):
            note = note_of(one)
            title = _lines(f"{one.name}: {note}", *_published_to(one))
            nodes.append(PictureNode(name=one.name, note=note, title=title))
    read = (Link(name, root) for root, inside in regions.items() for name in inside if name in sources - {root})
    return Picture(tuple(nodes), (*read, *edges, *_published(declared, kept)))


def link_of(edge: EdgeSpec) -> Link:
    return Link(edge.producer, edge.consumer, edge.mapping, edge.is_open)


def note_of(one: DeclaredStep) -> str:
    """What a step is that is not kept."""
    return f"publishes {one.reads[0]}" if one.role == SINK and one.reads else one.role


def _region(one: DeclaredStep, node: PictureNode, inside: tuple[str, ...]) -> PictureNode:
    told = [f"computed with it: {', '.join(inside)}"] * bool(inside)
    title = _lines(node.title or node.name, *told, *_published_to(one))
    return msgspec.structs.replace(node, inside=inside, title=title)


def _published_to(one: DeclaredStep) -> list[str]:
    return [f"published to {one.target}"] if one.target else []


def _lines(*told: str) -> str:
    return "\n".join(told)


def _published(declared: Sequence[DeclaredStep], kept: Collection[str]) -> Iterator[Link]:
    for one in declared:
        if one.role == SINK and one.name not in kept:
            yield from (Link(name, one.name) for name in one.reads)
