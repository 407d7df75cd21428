"""Which vertices run again. One pure question, three strategies.

Rules
- Arguments in, a value out; nothing is marked and unmarked.
- `region` is careful: what is recomputed and not proved repeatable counts as different, and its readers are in
  the set from the start. `individual` waits: readers follow only when a digest has shown that they must
  (`changed`). `full` restarts all that ever started. At the end all three satisfy the same invariants.
- A step may have a strategy of its own, `region` or `individual`: it decides whether what is computed again of it
  counts as different before its digest is known.
- A restart set holds only vertices that started before. `remaining_set` also holds those that never did: it
  is the work left, and what `plan` prints.
- A vertex that is running and healthy is left alone, unless something it reads changes. Its result counts as
  held, because it is on its way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from rekindle.errors import Refused
from rekindle.failover.closure import Closure
from rekindle.failover.restart_set import RestartSet, StepRestart
from rekindle.model.availability import Availability
from rekindle.model.graph import Graph
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.model.parts import NOTHING, Parts, joined, less
from rekindle.model.reasons import AnyReason, CodeChanged, EverythingRestarts, ResultLost
from rekindle.model.regions import readers, reads

_Sets = Mapping[str, Partitions]


class Strategy(Enum):
    """The failover strategy of a run."""

    REGION = "region"
    INDIVIDUAL = "individual"
    FULL = "full"

    def check(self, graph: Graph) -> None:
        """Refuse, at plan time, a graph this strategy, or that of a step, would be wrong for. The edge is named."""
        for edge in graph.edges:
            own = graph.steps[edge.consumer].is_pessimistic
            is_individual = self is Strategy.INDIVIDUAL if own is None else not own
            if is_individual and graph.steps[edge.producer].kind.joins_region:
                raise Refused(
                    f"strategy individual: {edge} is pipelined, so that no vertex of {edge.consumer} can "
                    f"restart without {edge.producer}",
                    hint=f"use strategy region, or keep {edge.producer} with result='caching' or 'blocking'",
                )


@dataclass(frozen=True, slots=True)
class FailureFacts:
    """Everything that is known to be wrong, at once. Absent keys mean the empty set.

    failed    vertices whose attempt failed; a failure of a fused step is one of its readers' too
    lost      stored results and exchange parts that are gone
    changed   results and exchange parts that were recomputed and are different, or not known to be equal
    outdated  results of code or parameters that are no longer the run's
    """

    failed: _Sets = field(default_factory=dict)
    lost: Parts = NOTHING
    changed: Parts = NOTHING
    outdated: _Sets = field(default_factory=dict)


def restart_set(
    graph: Graph,
    tracker: Availability,
    failed: _Sets,
    lost: Parts = NOTHING,
    *,
    changed: Parts = NOTHING,
    outdated: _Sets | None = None,
    strategy: Strategy = Strategy.REGION,
) -> RestartSet:
    """The vertices that started before and must run again, each with its reason."""
    happened = FailureFacts(failed, lost, changed, outdated or {})
    started = _started(graph, tracker)
    if strategy is Strategy.FULL:
        return _everything(graph, started)
    return _answer(graph, _close(graph, tracker, happened, started, strategy), started)


def remaining_set(
    graph: Graph, tracker: Availability, happened: FailureFacts, strategy: Strategy = Strategy.REGION
) -> RestartSet:
    """Every vertex that must run before the run is done, also those that never did."""
    if strategy is Strategy.FULL:
        return _everything(graph, graph.whole)
    closure = _close(graph, tracker, happened, _started(graph, tracker), strategy)
    return _answer(graph, closure, graph.whole)


def _close(graph: Graph, tracker: Availability, happened: FailureFacts, started: _Sets, strategy: Strategy) -> Closure:
    results = less(less(tracker.results, happened.lost.results), happened.failed)
    failed = _with_fused(graph, results, happened.failed)
    held = joined(results, less(tracker.running, failed))
    closure = Closure(
        graph,
        held,
        less(tracker.exchanges, happened.lost.exchanges),
        failed,
        started,
        strategy is Strategy.REGION,
    )
    for step, partitions in happened.outdated.items():
        closure.add(step, partitions, CodeChanged())
        closure.change(step, partitions)
    for step in graph.steps:
        if graph.has_output_duty(step) or step in tracker.wanted:
            closure.add(step, graph.whole[step] - held.get(step, EMPTY), ResultLost())
    for step, partitions in happened.changed.results.items():
        closure.change(step, partitions)
    for exchange, partitions in happened.changed.exchanges.items():
        if partitions:
            closure.change_exchange(exchange)
    closure.spread()
    return closure


def _with_fused(graph: Graph, results: _Sets, failed: _Sets) -> _Sets:
    """A pipelined vertex fails in the task of its readers, so those that have no result failed with it."""
    spread = dict(failed)
    for name, step in graph.steps.items():
        if step.kind.joins_region and spread.get(name):
            for edge in graph.outputs[name]:
                unfinished = readers(graph, edge, spread[name]) - results.get(edge.consumer, EMPTY)
                spread[edge.consumer] = spread.get(edge.consumer, EMPTY) | unfinished
    return spread


def _started(graph: Graph, tracker: Availability) -> _Sets:
    """A pipelined vertex started when one of its readers did."""
    if not any(step.kind.joins_region for step in graph.steps.values()):
        return tracker.started
    started = dict(tracker.started)
    for name in reversed(graph.steps):
        if graph.steps[name].kind.joins_region:
            for edge in graph.outputs[name]:
                read = reads(graph, edge, started.get(edge.consumer, EMPTY))
                started[name] = started.get(name, EMPTY) | read
    return started


def _answer(graph: Graph, closure: Closure, within: _Sets) -> RestartSet:
    steps: dict[str, StepRestart] = {}
    for name in graph.steps:
        allowed = within.get(name, EMPTY)
        partitions = closure.run.get(name, EMPTY) & allowed
        if partitions:
            cut = tuple((why, at & allowed) for why, at in closure.because[name])
            steps[name] = StepRestart(partitions, _merged(cut))
    return RestartSet(steps, {x: at for x, at in closure.recomputed.items() if x.consumer in steps})


def _merged(pieces: tuple[tuple[AnyReason, Partitions], ...]) -> tuple[tuple[AnyReason, Partitions], ...]:
    merged: dict[AnyReason, Partitions] = {}
    for why, at in pieces:
        if at:
            merged[why] = merged.get(why, EMPTY) | at
    return tuple(merged.items())


def _everything(graph: Graph, within: _Sets) -> RestartSet:
    all_of = EverythingRestarts()
    steps = {name: StepRestart(within[name], ((all_of, within[name]),)) for name in graph.steps if within.get(name)}
    exchanges = {x.id: Partitions.first(x.partitions) for x in graph.exchanges.values() if x.id.consumer in steps}
    return RestartSet(steps, exchanges)
