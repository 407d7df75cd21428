"""Scenario table D: which stored results nobody can need any more."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from given import finished, parts, sets
from rekindle.failover.release import RetainedResults, RunPhase, phase_of, releasable
from rekindle.failover.restart import FailureFacts, remaining_set
from rekindle.model.availability import Availability
from rekindle.model.graph import Graph
from rekindle.model.kinds import FailureDomain
from rekindle.model.partitions import Partitions
from rekindle.model.parts import Parts
from rekindle.model.regions import reads
from rekindle.testing.drawing import draw

ACTIVE = RunPhase.ACTIVE


def free(graph: Graph, tracker: Availability, holds: RetainedResults | None = None, phase: RunPhase = ACTIVE) -> str:
    found = releasable(graph, tracker, holds or RetainedResults(), phase)
    return " ".join(f"{step}:{at}" for step, at in found.results.items())


ROWS = [
    pytest.param("a[2] =blocking=> b[2]", "", "a:0-1", id="all consumers finished: releasable"),
    pytest.param("a[2] =blocking=> b[2]", "b:1", "a:0", id="pointwise: partition by partition"),
    pytest.param("a[2] =blocking all.=> b[2]", "b:1", "", id="all-to-all: one unfinished consumer holds everything"),
    pytest.param("a[2] =blocking=> b[2]\na =blocking=> c[2]", "c:0", "a:1", id="two consumers: only after both"),
    pytest.param("a[2] =blocking=> b[2] ~> c[2]", "c:0", "a:1", id="a fused consumer is finished when its group is"),
    pytest.param(
        "a[2] =blocking=> b[2] =caching=> c[2]",
        "c:0",
        "a:1 b:1",
        id="the consumer's result would die with the application: a resume may need the input",
    ),
    pytest.param(
        "a[2] =blocking=> b[2] =blocking=> c[2]",
        "c:0",
        "a:0-1 b:1",
        id="the consumer's result survives: the input may go",
    ),
    pytest.param("a[2] =caching=> b[2]", "", "a:0-1", id="a caching result, consumed"),
    pytest.param("a[2] =caching=> b[2]", "b:0", "a:1", id="a caching result, needed in this application"),
    pytest.param("a[2]@forever =blocking=> b[2]", "", "", id="kept for ever"),
    pytest.param("a[2]@run_end =blocking=> b[2]", "", "", id="kept until the run ends"),
    pytest.param(
        "a[2]! =blocking all=> b[2]? =blocking=> c[2]",
        "b:0 c:0",
        "",
        id="the step would start over in a new application, so its input stays",
    ),
    pytest.param(
        "a[2] =blocking interval=> b =blocking +0=> c[3]\nd[2] =blocking +1=> c",
        "c:0,2",
        "a:0-1 d:0",
        id="interval and offset",
    ),
]


@pytest.mark.parametrize(("drawing", "never", "expected"), ROWS)
def test_releasable_while_the_run_is_active(drawing: str, never: str, expected: str) -> None:
    graph = draw(drawing)
    assert free(graph, finished(graph, never)) == expected
    assert free(graph, finished(graph, never), phase=RunPhase.RESUMABLE) == expected, "a stopped run may be resumed"


def test_unfinished_again_is_not_releasable() -> None:
    graph = draw("a[2] =blocking=> b[2]")
    assert free(graph, finished(graph)) == "a:0-1"
    assert free(graph, finished(graph).without(parts("b:0"))) == "a:1"


def test_a_consumer_in_flight_still_reads() -> None:
    graph = draw("a[2] =blocking=> b[2]")
    tracker = replace(finished(graph, "b:0"), running=sets("b:0"))
    assert free(graph, tracker) == "a:1"


def test_pinned_is_never_released() -> None:
    graph = draw("a[3] =blocking=> b[3]")
    holds = RetainedResults(pins=sets("a:1 b:0-2"))
    for phase in RunPhase:
        assert "a:1" not in free(graph, finished(graph), holds, phase)
    assert free(graph, finished(graph), holds) == "a:0,2"


@pytest.mark.parametrize(
    ("phase", "holds", "expected"),
    [
        pytest.param(
            RunPhase.SUCCEEDED, RetainedResults(), "a:0 r:0", id="the run succeeds: an unpublished output stays"
        ),
        pytest.param(
            RunPhase.SUCCEEDED,
            RetainedResults(published=frozenset("c")),
            "a:0 r:0 c:0",
            id="published as a copy: released",
        ),
        pytest.param(
            RunPhase.SUCCEEDED,
            RetainedResults(published=frozenset("c"), promoted=frozenset("c")),
            "a:0 r:0",
            id="promoted: the stored files are what was published",
        ),
        pytest.param(
            RunPhase.ACTIVE,
            RetainedResults(published=frozenset("c")),
            "a:0 c:0",
            id="published early: only kept ones stay",
        ),
        pytest.param(RunPhase.RESUMABLE, RetainedResults(), "a:0", id="the run fails: kept for resume"),
        pytest.param(
            RunPhase.GIVEN_UP, RetainedResults(), "a:0 r:0 c:0", id="given up: everything goes but what is for ever"
        ),
    ],
)
def test_at_the_end_of_a_run(phase: RunPhase, holds: RetainedResults, expected: str) -> None:
    graph = draw("a =blocking=> c\nr@run_end =blocking=> c\nf@forever =blocking=> c")
    assert free(graph, finished(graph), holds, phase) == expected


@pytest.mark.parametrize(
    ("is_done", "is_stopped", "silent_ms", "expected"),
    [
        pytest.param(False, False, 99, RunPhase.ACTIVE, id="the owner was heard within the grace time"),
        pytest.param(False, False, 100, RunPhase.RESUMABLE, id="silent for exactly the grace time"),
        pytest.param(False, True, 0, RunPhase.RESUMABLE, id="stopped by its owner"),
        pytest.param(False, True, 1099, RunPhase.RESUMABLE, id="one ms of retention left"),
        pytest.param(False, False, 1100, RunPhase.GIVEN_UP, id="the owner disappeared: released after the grace time"),
        pytest.param(False, True, 1100, RunPhase.GIVEN_UP, id="the retention ended"),
        pytest.param(False, False, 0, RunPhase.ACTIVE, id="a new master came first: reclaimed"),
        pytest.param(True, True, 9999, RunPhase.SUCCEEDED, id="success stays success"),
    ],
)
def test_phase(is_done: bool, is_stopped: bool, silent_ms: int, expected: RunPhase) -> None:
    assert phase_of(is_done, is_stopped, silent_ms, grace_ms=100, retention_ms=1000) is expected


def test_exchanges_go_when_their_readers_are_done() -> None:
    graph = draw("a[2] =blocking all=> b[2] =blocking all=> c[2]")
    found = releasable(graph, finished(graph, "c:0"), RetainedResults(), ACTIVE)
    assert found.exchanges == parts("a=>b:0-1").exchanges


def test_an_exchange_stays_while_its_reader_is_in_flight() -> None:
    graph = draw("a[2] =blocking all=> b[2]")
    tracker = replace(finished(graph, "b:0"), running=sets("b:0"))
    assert not releasable(graph, tracker, RetainedResults(), ACTIVE).exchanges


def test_a_run_given_up_half_way_frees_what_it_would_have_read() -> None:
    graph = draw("a[2] =blocking=> b[2]")
    assert free(graph, finished(graph, "b:0"), phase=RunPhase.GIVEN_UP) == "a:0-1 b:1"


def test_several_readers_each_hold_their_part() -> None:
    graph = draw("a[4] =blocking=> b[4]\na =blocking=> c[4]\na =blocking=> d[4]")
    assert free(graph, finished(graph, "b:0 c:1 d:2")) == "a:3"


def test_a_held_exchange_does_not_free_its_input() -> None:
    """A new application would have to build the exchange again."""
    graph = draw("a[2] =blocking all.=> b[2]")
    assert free(graph, finished(graph, "b:0")) == ""


def test_asking_twice_gives_the_same_and_released_is_gone() -> None:
    graph = draw("a[2] =blocking=> b[2]")
    tracker = finished(graph, "b:1")
    once = releasable(graph, tracker, RetainedResults(), ACTIVE)
    assert releasable(graph, tracker, RetainedResults(), ACTIVE) == once == Parts(sets("a:0"))
    assert not releasable(graph, tracker.without(once), RetainedResults(), ACTIVE)


kinds = st.sampled_from(["~>", "=blocking=>", "=caching=>", "=memory=>", "=blocking all.=>", "=blocking all?=>"])
marks = st.sampled_from(["", "!", "?"])


@given(st.lists(kinds, min_size=1, max_size=4), st.lists(marks, min_size=5, max_size=5), st.data())
@settings(deadline=None)
def test_after_a_release_no_death_asks_for_what_is_gone(
    arrows: list[str], levels: list[str], data: st.DataObject
) -> None:
    """Release what may go, let the application die at any progress: the work left reads nothing that was released."""
    text = "".join(f"s{at}[3]{levels[at]} {arrow} " for at, arrow in enumerate(arrows)) + f"s{len(arrows)}[3]"
    graph = draw(text)
    tracker = _progress(graph, data)
    gone = releasable(graph, tracker, RetainedResults(), ACTIVE)
    for after in (tracker, tracker.after(graph, FailureDomain.APPLICATION)):
        work = remaining_set(graph, after.without(gone), FailureFacts())
        assert work.steps.keys() == remaining_set(graph, after, FailureFacts()).steps.keys()
        for step in work.steps:
            for edge in graph.inputs[step]:
                read = reads(graph, edge, work.partitions(step)) if not edge.has_exchange else Partitions()
                made = work.partitions(edge.producer)
                assert (read - made).is_disjoint(gone.results.get(edge.producer, Partitions()))


def _progress(graph: Graph, data: st.DataObject) -> Availability:
    """A run that was cut at some point: a vertex is done only if all it reads was."""
    done: dict[str, Partitions] = {}
    for name in graph.steps:
        wanted = data.draw(st.frozensets(st.integers(0, 2)))
        ready = {
            at
            for at in wanted
            if all(reads(graph, e, Partitions((at,))) <= done[e.producer] for e in graph.inputs[name])
        }
        done[name] = Partitions(ready)
    kept = {name: at for name, at in done.items() if graph.steps[name].kind.is_kept}
    exchanges = {x: Partitions.first(e.partitions) for x, e in graph.exchanges.items() if done[x.consumer]}
    return Availability(kept, kept, {}, exchanges)
