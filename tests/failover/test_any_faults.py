"""Any graph, any number of faults: the set is the smallest right one, and each vertex in it has one reason.

`make oracle` enumerates small graphs with up to two faults; here both are drawn, with up to five faults at once.
"""

from __future__ import annotations

from functools import cache, reduce
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle import _mask
from oracle_faults import Faults
from oracle_graphs import Node, Shape, choices_of, graph_at, is_torn, shapes, size_of, world_of
from oracle_world import Value, World
from rekindle.failover.restart import FailureFacts, Strategy, remaining_set, restart_set
from rekindle.model.availability import Availability
from rekindle.model.graph import Graph
from rekindle.model.ids import ExchangeId
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.model.parts import Parts
from rekindle.model.reasons import Failed, NotYetRun
from rekindle.testing.drawing import drawn

pytestmark = pytest.mark.slow

Term = tuple[int, int, tuple[Any, ...]]


@cache
def drawn_shapes() -> list[Shape]:
    """Made when a test needs them: who only collects tests does not wait for them."""
    small = [shape for steps in (2, 3) for shape in shapes(steps) if 4 <= size_of(shape) <= 11]
    return small + [shape for at, shape in enumerate(shapes(4)) if at % 97 == 0 and size_of(shape) <= 11]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    shape = draw(st.sampled_from(drawn_shapes()))
    steps, edges = graph_at(shape, draw(st.integers(0, choices_of(shape) - 1)), draw(st.integers(0, 5)))
    if is_torn(steps, edges):
        steps, edges = graph_at(shape, 2 ** len(steps) - 1, 0)
    return Graph.of(steps, edges)


@given(graphs(), st.data())
@settings(deadline=None)
def test_smallest_and_right_for_any_faults(graph: Graph, data: st.DataObject) -> None:
    nodes, values = world_of(graph)
    place = {node: at for at, node in enumerate(nodes)}
    faults = list(Faults(graph, nodes, values).singles())
    fault = reduce(lambda one, other: one + other, data.draw(st.lists(st.sampled_from(faults), min_size=1, max_size=5)))
    answer = remaining_set(graph, fault.before(graph), FailureFacts(fault.failed, fault.lost))
    assert (_mask(answer, place), True) == World(values).smallest(fault.missing), f"{drawn(graph)}\n{fault.text}"
    for restart in answer.steps.values():
        pieces = [at for _, at in restart.because]
        assert all(pieces) and sum(map(len, pieces)) == len(restart.partitions)
        assert len({reason for reason, _ in restart.because}) == len(pieces)
        assert Partitions(at for piece in pieces for at in piece) == restart.partitions


@given(graphs(), st.data())
@settings(deadline=None)
def test_restart_is_what_remains_of_what_started(graph: Graph, data: st.DataObject) -> None:
    nodes, values = world_of(graph)
    fault = data.draw(st.sampled_from(list(Faults(graph, nodes, values).singles())))
    tracker = fault.before(graph)
    everything = remaining_set(graph, tracker, FailureFacts(fault.failed, fault.lost))
    again = restart_set(graph, tracker, fault.failed, fault.lost)
    for step in graph.steps:
        started = tracker.started.get(step, EMPTY)
        assert again.partitions(step) == everything.partitions(step) & started
    for vertex in again:
        assert again.why(vertex) != NotYetRun()
        is_failed = vertex.partition in fault.failed.get(vertex.step, EMPTY)
        assert not is_failed or again.why(vertex) == Failed()


@given(graphs(), st.data())
@settings(deadline=None)
def test_individual_never_asks_for_more(graph: Graph, data: st.DataObject) -> None:
    nodes, values = world_of(graph)
    fault = data.draw(st.sampled_from(list(Faults(graph, nodes, values).singles())))
    tracker = fault.before(graph)
    happened = FailureFacts(fault.failed, fault.lost)
    careful = remaining_set(graph, tracker, happened)
    waiting = remaining_set(graph, tracker, happened, Strategy.INDIVIDUAL)
    for step in graph.steps:
        assert waiting.partitions(step) <= careful.partitions(step)


@given(graphs(), st.data())
@settings(deadline=None)
def test_following_the_digests_ends_with_one_version(graph: Graph, data: st.DataObject) -> None:
    """Wait for digests, restart only who read something that came out different: at the end every output is there,
    and behind all of them each value stands in one version. Whether what is not repeatable differs is drawn."""
    nodes, values = world_of(graph)
    place = {node: at for at, node in enumerate(nodes)}
    faults = st.lists(st.sampled_from(list(Faults(graph, nodes, values).singles())), min_size=1, max_size=3)
    fault = reduce(lambda one, other: one + other, data.draw(faults))
    made = Made(values, data)
    made.run(set(range(len(values))))
    made.forget(fault.missing)
    happened, tracker = FailureFacts(fault.failed, fault.lost), fault.before(graph)
    for _ in range(2 * len(values)):
        wave = _mask(remaining_set(graph, tracker, happened, Strategy.INDIVIDUAL), place)
        changed = made.run({at for at in place.values() if wave >> at & 1})
        if not changed:
            break
        happened = FailureFacts(changed=_parts(nodes, changed))
        there = _parts(nodes, set(made.stored))
        tracker = Availability(there.results, tracker.started, {}, there.exchanges)
    assert not changed, "it ends"
    made.check_outputs()


class Made:
    """Values as terms: what made them, of what, and the how-manieth try where that can matter."""

    def __init__(self, values: tuple[Value, ...], data: st.DataObject) -> None:
        self.values, self.data = values, data
        self.stored: dict[int, Term] = {}
        self.seen: dict[int, Term] = {}

    def run(self, wave: set[int]) -> set[int]:
        """Make these, from what is stored or made with them; answer the stored ones that readers saw otherwise."""
        fresh: dict[int, Term] = {}
        for at in sorted(wave):
            value = self.values[at]
            read = tuple(fresh[other] if other in wave else self.stored[other] for other in value.reads)
            number = 0 if value.is_repeatable else self.data.draw(st.integers(0, 1))
            fresh[at] = (at, number, read)
        kept = {at: term for at, term in fresh.items() if self.values[at].is_stored}
        changed = {at for at, term in kept.items() if self.seen.get(at, term) != term}
        self.stored.update(kept)
        self.seen.update(kept)
        return changed

    def forget(self, missing: int) -> None:
        for at in [at for at in self.stored if missing >> at & 1]:
            del self.stored[at]

    def check_outputs(self) -> None:
        versions: dict[int, Term] = {}
        todo = [self.stored[at] for at, value in enumerate(self.values) if value.is_output]
        while todo:
            term = todo.pop()
            assert versions.setdefault(term[0], term) == term, "two versions of one value"
            todo.extend(term[2])


def _parts(nodes: list[Node], at: set[int]) -> Parts:
    results: dict[str, Partitions] = {}
    exchanges: dict[ExchangeId, Partitions] = {}
    for thing, number in (nodes[node] for node in at):
        if isinstance(thing, ExchangeId):
            exchanges[thing] = exchanges.get(thing, EMPTY) | Partitions((number,))
        else:
            results[thing] = results.get(thing, EMPTY) | Partitions((number,))
    return Parts(results, exchanges)
