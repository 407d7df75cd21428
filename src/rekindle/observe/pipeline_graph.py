"""The graph of a pipeline before anything runs: what would be kept, what is fused into what, and, for a failure that
the user names, what would run again.

Rules
- The edges and the restart set are those of the core, over the graph that a run would journal.
- A failure happens at a stated moment. Of a vertex: all that it reads is committed, and so are the other partitions of
  its step; what reads it has not started. Of a domain: everything before the sinks is committed, and these are running.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from rekindle.errors import NotFound
from rekindle.failover.restart import Strategy, restart_set
from rekindle.failover.restart_set import RestartSet
from rekindle.master.facts.graph_spec import StepSpec
from rekindle.master.facts.run_spec import RunSpec
from rekindle.master.state.graph_index import GraphIndex
from rekindle.model.availability import Availability
from rekindle.model.graph import Graph
from rekindle.model.ids import ExchangeId, parse_vertex
from rekindle.model.kinds import Determinism, FailureDomain
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.model.reasons import sentence
from rekindle.observe.graph_picture import GraphPicture
from rekindle.observe.mermaid import kept_note, mermaid
from rekindle.observe.picture import Picture, PictureNode, Share
from rekindle.observe.plan import numbers_text
from rekindle.observe.region_picture import link_of, region_picture
from rekindle.observe.words import names_text

DOMAINS = {
    "executor": FailureDomain.EXECUTOR,
    "driver": FailureDomain.APPLICATION,
    "storage": FailureDomain.STORAGE,
}
LEGEND = "! fails   # runs again   = stays   . has not started"


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineGraph(GraphPicture):
    """`strategy` is the one of the run; `failure` is what was asked about, and `restarts` what would run again then.
    Notebooks draw it."""

    pipeline: str
    spec: RunSpec
    strategy: Strategy
    failure: str = ""
    failed: Mapping[str, Partitions] = field(default_factory=dict)
    restarts: RestartSet | None = None
    started: frozenset[str] = frozenset()

    def what_if(self, failure: str) -> PipelineGraph:
        """The same, with what would run again after the failure of a vertex, such as `totals[2]`, or of `executor`,
        `driver` or `storage`."""
        graph = self.spec.graph.graph()
        self.strategy.check(graph)
        if failure in DOMAINS:
            return self._after_domain(graph, failure)
        step, partitions = self._vertex(graph, failure)
        started = {name: graph.whole[name] for name in GraphIndex(self.spec.graph).upstream[step]}
        results = started | {step: graph.whole[step] - partitions}
        tracker = Availability(results, started, exchanges=_exchanges(graph, started))
        return self._asked(graph, failure, tracker, {step: partitions})

    def _after_domain(self, graph: Graph, failure: str) -> PipelineGraph:
        sinks = frozenset(self.spec.sinks) or frozenset(graph.steps)
        before = {name: at for name, at in graph.whole.items() if name not in sinks}
        tracker = Availability(before, dict(graph.whole), exchanges=_exchanges(graph, graph.whole), wanted=sinks)
        return self._asked(graph, failure, tracker.after(graph, DOMAINS[failure]), {})

    def planned_at(self, committed: Mapping[str, Partitions], started: Mapping[str, Partitions]) -> RestartSet:
        """What would run again if the failure that was asked about came when so much was done and had begun."""
        graph, domain = self.spec.graph.graph(), DOMAINS.get(self.failure)
        tracker = Availability(committed, started, exchanges=_exchanges(graph, started))
        if domain is not None:
            sinks = frozenset(self.spec.sinks) or frozenset(graph.steps)
            tracker = replace(tracker, wanted=sinks).after(graph, domain)
        return restart_set(graph, tracker, self.failed, strategy=self.strategy)

    def _asked(
        self, graph: Graph, failure: str, tracker: Availability, failed: Mapping[str, Partitions]
    ) -> PipelineGraph:
        found = restart_set(graph, tracker, failed, strategy=self.strategy)
        return replace(self, failure=failure, failed=failed, restarts=found, started=frozenset(tracker.started))

    def _vertex(self, graph: Graph, given: str) -> tuple[str, Partitions]:
        name, partition = parse_vertex(given) or (given, None)
        if name not in graph.steps:
            roots = self.spec.regions_with(name)
            known = f"ask for one of {', '.join([*graph.steps, *DOMAINS])}"
            raise NotFound(
                f"{name} is not a kept step",
                f"it is pipelined into {names_text(roots)}: ask for a partition of that" if roots else known,
            )
        count = graph.steps[name].partitions
        if partition is not None and partition >= count:
            raise NotFound(f"{name} has partitions 0 to {count - 1}", f"ask for {name}[{count - 1}]")
        return name, graph.whole[name] if partition is None else Partitions((partition,))

    def picture(self) -> Picture:
        """Sources, regions and sinks."""
        spec = self.spec
        kept = {one.name: self._node(one) for one in spec.graph.steps}
        return region_picture(spec.declared, spec.regions, kept, list(map(link_of, spec.graph.edges)))

    def _node(self, kept: StepSpec) -> PictureNode:
        doubts = self.spec.doubts.get(kept.name, ()) if kept.determinism is not Determinism.DETERMINATE else ()
        note = kept_note(kept)
        is_marked = self.restarts is not None and bool(self.restarts.partitions(kept.name))
        told = f"{kept.name}: {note}" + (f" ({', '.join(doubts)})" if doubts else "")
        title = "\n".join([told, *self._why(kept.name)])
        shares = self._shares(kept.name, kept.partitions)
        return PictureNode(name=kept.name, note=note, shares=shares, title=title, is_marked=is_marked)

    def _shares(self, name: str, count: int) -> tuple[Share, ...]:
        if self.restarts is None:
            return (Share("missing", count),)
        failed = len(self.failed.get(name, EMPTY))
        again = len(self.restarts.partitions(name)) - failed
        rest = Share("reused" if name in self.started else "missing", count - failed - again)
        return Share("failed", failed), Share("computed", again), rest

    def _why(self, name: str) -> Iterator[str]:
        if self.restarts is not None and name in self.restarts.steps:
            for why, at in self.restarts.steps[name].because:
                yield f"{numbers_text(at)}: {sentence(why)}"

    def _answer(self) -> Iterator[str]:
        """What would run again, if that was asked."""
        if self.restarts is None:
            return
        yield LEGEND
        run = {name: self.restarts.partitions(name) for name in self.restarts.steps}
        count = sum(map(len, run.values()))
        total = sum(step.partitions for step in self.spec.graph.steps)
        moment = "the sinks run" if self.failure in DOMAINS else "what it reads is computed and what reads it is not"
        yield f"If {self.failure} fails when {moment} ({self.strategy.value}), {count} of {total} vertices run:"
        for name in run:
            yield from (f"  {name} {line}" for line in self._why(name))

    def mermaid(self) -> str:
        """As a flowchart of Mermaid: every step, and a box for each region of more than one."""
        again = [name for name in self.restarts.steps if self.restarts.partitions(name)] if self.restarts else []
        return mermaid(self.spec, again)


def _exchanges(graph: Graph, started: Mapping[str, Partitions]) -> dict[ExchangeId, Partitions]:
    """Those of the groups that have begun are there, as long as the application is."""
    return {one.id: Partitions.first(one.partitions) for one in graph.exchanges.values() if one.id.consumer in started}
