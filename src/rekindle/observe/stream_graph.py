"""The graph of a streaming pipeline, and what restarts when a region fails that the user names.

The restart set is that of the core, when all regions run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from rekindle.errors import NotFound
from rekindle.failover.restart import Strategy, restart_set
from rekindle.model.availability import Availability
from rekindle.observe.graph_picture import GraphPicture
from rekindle.observe.mermaid import flowchart, quoted
from rekindle.observe.picture import Link, Picture
from rekindle.observe.stream_picture import inside_of, stream_picture
from rekindle.observe.stream_view import RegionView
from rekindle.streams.stream_spec import StreamSpec
from rekindle.streams.stream_state import ONE

LEGEND = "! fails   # restarts from its checkpoint   = goes on"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamGraph(GraphPicture):
    """`regions` as they are now, or before the first start; `failure` is the region that was asked about, and
    `restarts` are those that start again then. Notebooks draw it."""

    pipeline: str
    spec: StreamSpec
    strategy: Strategy
    regions: tuple[RegionView, ...]
    failure: str = ""
    restarts: tuple[str, ...] = ()

    def what_if(self, failure: str) -> StreamGraph:
        """The same, with what restarts if this region fails."""
        if failure not in self.spec.names:
            known = f"its regions are {', '.join(self.spec.names)}"
            raise NotFound(f"{self.pipeline} is a stream, and has no region {failure}", known)
        every = dict.fromkeys(self.spec.names, ONE)
        found = restart_set(
            self.spec.graph(), Availability(started=every, running=every), {failure: ONE}, strategy=self.strategy
        )
        again = tuple(name for name in self.spec.names if name == failure or name in found.steps)
        return replace(self, failure=failure, restarts=again)

    def picture(self) -> Picture:
        """Sources, regions and targets."""
        if not self.failure:
            return stream_picture(self.regions)
        states = {name: "computed" if name in self.restarts else "reused" for name in self.spec.names}
        return stream_picture(self.regions, states | {self.failure: "failed"}, self.restarts)

    def _answer(self) -> Iterator[str]:
        if not self.failure:
            return
        yield LEGEND
        count, total = len(self.restarts), len(self.spec.names)
        yield f"If {self.failure} fails ({self.strategy.value}), {count} of {total} regions restart:"
        yield from (f"  {name}" for name in self.restarts)

    def mermaid(self) -> str:
        """As a flowchart of Mermaid: a box for each region, with its steps."""
        boxes: dict[str, str] = {}
        groups: dict[str, list[str]] = {}
        links: list[Link] = []
        marked: list[str] = []
        for one in self.regions:
            boxes |= {name: f"{name}<br/>source" for name in one.sources}
            members = [f"{one.name}/{step}" for step in one.steps if step not in one.sources]
            boxes |= dict(zip(members, inside_of(one), strict=True))
            groups[f"region {one.name}, {one.trigger}"] = members
            links += self._links(one)
            target = f"{one.target}<br/>{one.delivery}"
            boxes[target] = target
            links.append(Link(members[-1], target))
            marked += members if one.name in self.restarts else []
        return flowchart({name: quoted(label) for name, label in boxes.items()}, groups, links, marked)

    def _links(self, one: RegionView) -> Iterator[Link]:
        """What each step of a region reads."""
        reads = {step.name: step.reads for step in self.spec.declared}
        for step in one.steps:
            for name in reads.get(step, ()):
                yield Link(name if name in one.sources else f"{one.name}/{name}", f"{one.name}/{step}")
