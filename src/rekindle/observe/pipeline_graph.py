"""The graph of a pipeline before anything runs: what would be kept, what is fused into what, and, for a failure that
the user names, what would run again.

Rules
- The edges and the restart set are those of the core, over the graph that a run would journal.
- A failure happens at a stated moment. Of a vertex: all that it reads is committed, and so are the other partitions of
  its step; what reads it has not started. Of a domain: everything before the sinks is committed, and these are running.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from rekindle.observe.picture import Link, Picture, PictureNode, Share
from rekindle.observe.picture_page import drawing_page
from rekindle.observe.picture_svg import svg, text
from rekindle.observe.plan import numbers_text
from rekindle.observe.words import names_text

DOMAINS = {
    "executor": FailureDomain.EXECUTOR,
    "driver": FailureDomain.APPLICATION,
    "storage": FailureDomain.STORAGE,
}
MARKED = "stroke:#e08a1e,stroke-width:3px"
LEGEND = "! fails   # runs again   = stays   . has not started"


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphStep:
    """A step as it was declared: `role` is source, step or sink, `reads` are its inputs; `target` is where it goes."""

    name: str
    role: str
    reads: tuple[str, ...]
    target: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineGraph:
    """`members` are the steps that are fused into each kept one, itself last; `strategy` is the one of the run;
    `failure` is what was asked about, and `restarts` what would run again then. Notebooks draw it."""

    pipeline: str
    steps: tuple[GraphStep, ...]
    spec: RunSpec
    members: Mapping[str, Sequence[str]]
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

    def _asked(
        self, graph: Graph, failure: str, tracker: Availability, failed: Mapping[str, Partitions]
    ) -> PipelineGraph:
        found = restart_set(graph, tracker, failed, strategy=self.strategy)
        return replace(self, failure=failure, failed=failed, restarts=found, started=frozenset(tracker.started))

    def _vertex(self, graph: Graph, given: str) -> tuple[str, Partitions]:
        name, partition = parse_vertex(given) or (given, None)
        if name not in graph.steps:
            roots = [root for root, inside in self.members.items() if name in inside]
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
        """Sources, fused steps, kept ones and sinks."""
        kept = {one.name: one for one in self.spec.graph.steps}
        return Picture(
            tuple(self._node(step, kept.get(step.name)) for step in self.steps),
            tuple(link for step in self.steps for link in self._links(step)),
        )

    def _links(self, reader: GraphStep) -> Iterator[Link]:
        """What a step reads. Where between a kept result and the kept step that reads it rows change their partition is
        for Spark to know: it is drawn at the end."""
        drawn = {edge.producer: edge for edge in self.spec.graph.edges if edge.consumer == reader.name}
        inside = [step for step in self.steps if step.name in self.members.get(reader.name, ())]
        for step in inside:
            found = [drawn[one] for one in step.reads if one in drawn]
            if found and step.name != reader.name:
                drawn[step.name] = max(found, key=lambda edge: edge.mapping == "all")
        for one in reader.reads:
            edge = drawn.get(one)
            yield Link(one, reader.name) if edge is None else Link(one, reader.name, edge.mapping, edge.is_open)

    def _node(self, step: GraphStep, kept: StepSpec | None) -> PictureNode:
        if kept is None:
            published = f"publishes {step.reads[0]}" if step.role == "sink" and step.reads else ""
            roots = [root for root, inside in self.members.items() if step.name in inside]
            fused = f"{'source, ' if step.role == 'source' else ''}pipelined into {names_text(roots)}"
            note = published or (fused if roots else step.role)
            return PictureNode(step.name, note, (), self._title(step, note))
        doubts = self.spec.doubts.get(step.name, ()) if kept.determinism is not Determinism.DETERMINATE else ()
        note = f"{kept.partitions} {kept.kind.value}, {kept.determinism.value}"
        is_marked = self.restarts is not None and bool(self.restarts.partitions(step.name))
        title = self._title(step, f"{note} ({', '.join(doubts)})" if doubts else note)
        return PictureNode(step.name, note, self._shares(step.name, kept.partitions), title, is_marked)

    def _title(self, step: GraphStep, note: str) -> str:
        target = [f"published to {step.target}"] if step.target else []
        return "\n".join([f"{step.name}: {note}", *target, *self._why(step.name)])

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

    def lines(self) -> Iterator[str]:
        """As text."""
        yield from text(self.picture())
        yield from self._answer()

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
        """As a flowchart of Mermaid: one box for each region of more than one step."""
        drawn = self.picture()
        names = {node.name: f"n{number}" for number, node in enumerate(drawn.nodes)}
        boxes = {
            node.name: f'{names[node.name]}["{_quoted(node.name)}<br/>{_quoted(node.note)}"]' for node in drawn.nodes
        }
        lines, inside = ["flowchart LR"], set[str]()
        for root, members in self.members.items():
            own = [one for one in members if one in boxes and one not in inside]
            if len(own) > 1:
                lines.append(f"  subgraph region_{names[root]} [region of {_quoted(root)}]")
                lines += [*(f"    {boxes[one]}" for one in own), "  end"]
                inside.update(own)
        lines += [f"  {box}" for name, box in boxes.items() if name not in inside]
        for link in drawn.links:
            arrow = f"-. {link.how} .->" if link.is_wide else f"-- {link.how} -->" if link.how else "-->"
            lines.append(f"  {names[link.producer]} {arrow} {names[link.consumer]}")
        lines += [f"  style {names[node.name]} {MARKED}" for node in drawn.nodes if node.is_marked]
        return "\n".join(lines) + "\n"

    def svg(self) -> str:
        return svg(self.picture())

    def html(self) -> str:
        title = f"graph of {self.pipeline}" + (f", if {self.failure} fails" if self.failure else "")
        return drawing_page(title, self.picture(), list(self._answer()))

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        return f'<div style="overflow: auto">{self.svg()}</div>'


def _quoted(text: str) -> str:
    return text.replace('"', "'")


def _exchanges(graph: Graph, started: Mapping[str, Partitions]) -> dict[ExchangeId, Partitions]:
    """Those of the groups that have begun are there, as long as the application is."""
    return {one.id: Partitions.first(one.partitions) for one in graph.exchanges.values() if one.id.consumer in started}
