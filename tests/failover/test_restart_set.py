"""Scenario table B: which vertices restart, on drawn graphs. Steps are determinate unless marked."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from given import finished, parts, sets, shown
from rekindle.errors import Refused
from rekindle.failover.restart import FailureFacts, Strategy, remaining_set, restart_set
from rekindle.model.availability import Availability
from rekindle.model.ids import ExchangeId, Vertex
from rekindle.model.kinds import FailureDomain
from rekindle.model.reasons import (
    AnyReason,
    CodeChanged,
    EverythingRestarts,
    ExchangeChanged,
    Failed,
    FusedInto,
    InputDiffers,
    NeededBy,
    NotYetRun,
    ResultLost,
    WholeStep,
)
from rekindle.testing.drawing import draw

# drawing, what never ran, what failed, what is lost, the restart set
ROWS = [
    pytest.param("a@forever =blocking=> b", "", "", "a:0", "a:0", id="a result kept for ever is an output too"),
    pytest.param("a!@forever =blocking=> b", "", "", "a:0", "a:0 b:0", id="and its readers must agree with it"),
    pytest.param("a@run_end =blocking=> b", "", "", "a:0", "", id="one kept until the run ends is not"),
    pytest.param(
        "a[2]? =blocking all.=> b[2]",
        "b:1",
        "a:0",
        "a=>b:0",
        "a:0 b:0",
        id="own error, 2x2 blocking all-to-all: the vertex and its consumers, finished ones too",
    ),
    pytest.param(
        "a[2] =blocking all=> b[2]",
        "b:1",
        "a:0",
        "a=>b:0",
        "a:0",
        id="own error in a repeatable step: finished consumers are spared",
    ),
    pytest.param("a[2]? =blocking all=> b[2]", "", "a:0", "", "", id="own error, but nobody needs it any more"),
    pytest.param("a[2]? =blocking=> b[2]", "", "b:0", "a:0", "a:0 b:0", id="an input is lost: also its producer"),
    pytest.param("a[2]? =blocking=> b[2]", "", "b:0", "a:1", "b:0", id="a lost partition that nobody reads again"),
    pytest.param("a[2]! =blocking=> b[2]", "", "b:0", "", "b:0", id="the input is available: the vertex alone"),
    pytest.param("a[2] ~> b[2]", "", "b:1", "", "a:1 b:1", id="a narrow pipelined chain: one partition of it"),
    pytest.param(
        "a[3]? =blocking=> b[3]? ~> c[3]\na =blocking=> d[3]",
        "d:0",
        "c:0",
        "a:0-1",
        "a:0 b:0 c:0",
        id="not started vertices are no restart, but their lost inputs are",
    ),
    pytest.param("s =blocking=> a? =blocking=> b\ns =blocking=> t", "", "", "b:0", "b:0", id="only the sink is lost"),
    pytest.param(
        "a? =blocking=> b =blocking=> d\na =blocking=> c =blocking=> d",
        "",
        "c:0 d:0",
        "a:0",
        "a:0 b:0 c:0 d:0",
        id="a diamond must see one version of its source",
    ),
    pytest.param(
        "a[2]? =memory=> b[2]? =caching=> c[2]? =blocking=> d[2]",
        "",
        "d:0",
        "c:0 b:0 a:0",
        "a:0 b:0 c:0 d:0",
        id="memory gone: backtrack through it",
    ),
    pytest.param(
        "a[2]? =memory=> b[2]? =caching=> c[2]? =blocking=> d[2]",
        "",
        "d:0",
        "c:0 a:0",
        "c:0 d:0",
        id="the caching result is there: backtrack no further",
    ),
    pytest.param(
        "p[2] ~> j[2]\nb[2] =blocking=> j\nc[2] =caching=> j\nm[2] =memory=> j",
        "",
        "j:1",
        "c:1 m:0-1",
        "p:1 c:1 m:1 j:1",
        id="mixed kinds: backtrack only through what is not available",
    ),
    pytest.param("a[3]! =blocking interval=> b!", "b:0", "a:1", "", "a:1", id="a coalesce restarts the part it needs"),
    pytest.param(
        "a[2]! =blocking +0=> u[5]\nb[3]! =blocking +2=> u",
        "",
        "u:3",
        "b:0-1",
        "b:1 u:3",
        id="a union reads only the side it stands on",
    ),
    pytest.param(
        "a[2]! =blocking +0=> u[5] =blocking=> v[5]\na =blocking=> c[2]",
        "",
        "c:1",
        "a:1",
        "a:1 u:1 c:1 v:1",
        id="an indeterminate recompute takes along exactly who read it",
    ),
]


@pytest.mark.parametrize(("drawing", "never", "failed", "lost", "expected"), ROWS)
def test_restart_set(drawing: str, never: str, failed: str, lost: str, expected: str) -> None:
    graph = draw(drawing)
    assert shown(restart_set(graph, finished(graph, never), sets(failed), parts(lost))) == expected


@pytest.mark.parametrize("failing", ["x", "y", "z"])
@pytest.mark.parametrize(("has_x", "has_y"), list(product((False, True), repeat=2)))
def test_two_inputs_four_availabilities_three_failing_vertices(has_x: bool, has_y: bool, failing: str) -> None:
    """z reads x and y; all three had started. What is available is not run again; what is not, is. `remaining_set` is
    what the master asks."""
    graph = draw("x? =blocking=> z\ny? =blocking=> z")
    lost = " ".join(f"{name}:0" for name, has in (("x", has_x), ("y", has_y)) if not has)
    answer = restart_set(graph, finished(graph), sets(f"{failing}:0"), parts(lost))
    happened = FailureFacts(sets(f"{failing}:0"), parts(lost))
    assert shown(remaining_set(graph, finished(graph), happened)) == shown(answer)
    # z is finished unless it is what failed: then nobody reads x or y again.
    if failing != "z":
        assert shown(answer) == ""
    else:
        assert shown(answer) == " ".join([*("x:0",) * (not has_x), *("y:0",) * (not has_y), "z:0"])


@pytest.mark.parametrize("failing", ["x", "y", "z"])
@pytest.mark.parametrize(("has_x", "has_y"), list(product((False, True), repeat=2)))
def test_the_same_twelve_while_the_consumer_has_begun(has_x: bool, has_y: bool, failing: str) -> None:
    """z had started and is not finished: it needs both inputs, so each that is gone runs again."""
    graph = draw("x? =blocking=> z\ny? =blocking=> z")
    tracker = finished(graph)
    begun = Availability(sets("x:0 y:0"), tracker.started, {}, {})
    gone = {name for name, has in (("x", has_x), ("y", has_y)) if not has} | {failing}
    lost = " ".join(f"{name}:0" for name in gone - {"z"})
    answer = restart_set(graph, begun, sets(f"{failing}:0"), parts(lost))
    assert shown(remaining_set(graph, begun, FailureFacts(sets(f"{failing}:0"), parts(lost)))) == shown(answer)
    assert shown(answer) == " ".join(f"{name}:0" for name in ("x", "y", "z") if name in gone | {"z"})


@pytest.mark.parametrize(
    ("lost", "expected"),
    [
        pytest.param("", "b1:0 b2:0 c1:0 c2:0", id="the middle fails: downstream only"),
        pytest.param("a2:0", "a1:0 a2:0 b1:0 b2:0 c1:0 c2:0", id="the middle fails and its input is lost: everything"),
    ],
)
def test_three_regions_of_two_vertices(lost: str, expected: str) -> None:
    graph = draw("a1? ~> a2? =blocking=> b1? ~> b2? =blocking=> c1? ~> c2?")
    answer = restart_set(graph, finished(graph, ""), sets("b1:0 b2:0 c2:0"), parts(lost))
    assert shown(answer) == expected


def test_nothing_started_yet_is_an_empty_set() -> None:
    graph = draw("a[2]? =blocking=> b[2]")
    answer = restart_set(graph, Availability(), {})
    assert not len(answer) and not answer.steps
    assert shown(remaining_set(graph, Availability(), FailureFacts())) == "a:0-1 b:0-1"


def test_a_running_vertex_is_left_alone_unless_its_input_changes() -> None:
    graph = draw("a[2]? =blocking=> b[2]? =blocking=> c[2]")
    tracker = Availability(sets("a:0-1"), sets("a:0-1 b:0-1"), sets("b:0-1"))
    assert shown(restart_set(graph, tracker, {})) == ""
    assert shown(restart_set(graph, tracker, sets("b:1"))) == "b:1"
    assert shown(restart_set(graph, tracker, sets("b:1"), parts("a:1"))) == "a:1 b:1"
    assert shown(restart_set(graph, tracker, {}, changed=parts("a:0"))) == "b:0"
    assert shown(restart_set(graph, tracker, {}, outdated=sets("b:0"))) == "b:0"


def test_a_fused_failure_spares_readers_that_have_their_result() -> None:
    """Map tasks of an exchange fail while it is made again; what was committed over it stays."""
    graph = draw("a[2] ~all~> b[3]\nc[2] ~> d[2]\nc ~> e[2]")
    tracker = Availability(sets("b:0 d:0 e:1"), sets("b:0-2 d:0-1 e:0-1"), sets("b:1-2 d:1 e:0"))
    assert shown(restart_set(graph, tracker, sets("a:1"))) == "a:0-1 b:1-2"
    both = restart_set(graph, tracker, sets("c:0 e:1"))
    assert shown(both) == "c:0-1 e:0-1"
    assert both.why(Vertex("e", 0)) == both.why(Vertex("e", 1)) == Failed()


def test_a_finished_reader_of_a_fused_failure_did_not_fail_itself() -> None:
    graph = draw("a[2]? ~all~> b[2]?")
    tracker = Availability(sets("b:0"), sets("b:0-1"), sets("b:1"))
    answer = restart_set(graph, tracker, sets("a:1"))
    assert answer.why(Vertex("b", 0)) == ExchangeChanged(ExchangeId("b", "a"))
    assert answer.why(Vertex("b", 1)) == Failed()


def test_a_fused_step_started_when_any_of_its_readers_did() -> None:
    graph = draw("a[3] ~> b[3]\na ~> c[3]\na ~> d[3]")
    tracker = Availability({}, sets("b:0 c:1"))
    assert shown(restart_set(graph, tracker, {})) == "a:0-1 b:0 c:1"


def test_a_failure_in_a_fused_step_fails_the_task_it_runs_in() -> None:
    graph = draw("a[2] ~> b[2]")
    tracker = Availability({}, sets("b:0-1"), sets("b:0-1"))
    assert shown(restart_set(graph, tracker, sets("a:1"))) == "a:1 b:1"


# --- exchanges that the engine owns ------------------------------------------------------------------------------

EXCHANGE_ROWS = [
    pytest.param("a[2]! ~all.~> b[3]!", "b:1", "", "b:1", "", id="the exchange is still there: the reduce side alone"),
    pytest.param(
        "a[2] ~all.~> b[3]!",
        "b:1",
        "a=>b:0",
        "a:0 b:1",
        "a=>b:0",
        id="a map part is lost, below it all is determinate: only that part",
    ),
    pytest.param(
        "a[2]! ~all.~> b[3]!",
        "b:1",
        "a=>b:0",
        "a:0 b:0-2",
        "a=>b:0",
        id="a map part is lost and may come out different: the step starts over",
    ),
    pytest.param(
        "a[2] =blocking all=> b[3]!",
        "b:1",
        "a=>b:0-1",
        "b:0-2",
        "a=>b:0-1",
        id="the plan below the exchange is not known to be determinate: the step starts over",
    ),
    pytest.param(
        "a[2] =blocking all.=> b[3]!",
        "b:1",
        "a=>b:0-1 a:0",
        "a:0 b:1",
        "a=>b:0-1",
        id="a lost input below a lost exchange",
    ),
    pytest.param("a[2]! =blocking all.=> b[3]!", "b:1", "a:0", "b:1", "", id="a held exchange hides a lost input"),
    pytest.param(
        "a[2]! =blocking all.=> b[3]!\na =blocking=> c[2]",
        "c:0",
        "a:0",
        "a:0 b:0-2 c:0",
        "a=>b:0",
        id="but if that input is recomputed for another reader, all who read the exchange follow",
    ),
    pytest.param(
        "a[2] =blocking broadcast=> b[3]?",
        "b:1",
        "a=>b:0-1",
        "b:0-2",
        "a=>b:0-1",
        id="a broadcast side that may change between attempts",
    ),
    pytest.param(
        "a[3] =blocking=> b[3]?@constants",
        "b:1",
        "=>b:0",
        "b:0-2",
        "=>b:0",
        id="query constants drawn anew: a mix would be no possible outcome",
    ),
    pytest.param(
        "a[3] =blocking=> b[3]?@constants", "b:1", "", "b:1", "", id="query constants still held: the vertex alone"
    ),
    pytest.param(
        "a[3] =blocking=> b[3]*@constants", "b:1", "=>b:0", "b:1", "=>b:0", id="declared deterministic: carried"
    ),
    pytest.param("a[3] =blocking=> b[3]@whole", "b:1", "", "b:0-2", "", id="a barrier step restarts whole"),
    pytest.param("a[3] =blocking=> b[3]@whole", "b:0-2", "", "b:0-2", "", id="a barrier step that failed whole"),
]


@pytest.mark.parametrize(("drawing", "failed", "lost", "expected", "exchanges"), EXCHANGE_ROWS)
def test_exchanges(drawing: str, failed: str, lost: str, expected: str, exchanges: str) -> None:
    graph = draw(drawing)
    answer = restart_set(graph, finished(graph), sets(failed), parts(lost))
    assert shown(answer) == expected
    assert answer.exchanges == parts(exchanges).exchanges
    assert answer.tasks == len(answer) + sum(len(at) for at in answer.exchanges.values())


@pytest.mark.parametrize("failed", ["b:0 c:1", "b:0-1 c:1"])
def test_parts_of_an_exchange_that_are_lost_and_parts_whose_input_changed(failed: str) -> None:
    graph = draw("a[2]! =blocking all.=> b[2]\na =blocking=> c[2]")
    answer = restart_set(graph, finished(graph), sets(failed), parts("a:1 a=>b:0"))
    assert shown(answer) == "a:1 b:0-1 c:1"
    assert answer.exchanges == parts("a=>b:0-1").exchanges


def test_several_things_wrong_with_one_step_at_once() -> None:
    graph = draw("a[2] =blocking=> b[2] =blocking=> c[2]")
    old = restart_set(graph, finished(graph), {}, parts("a:0-1 c:1 b:1"), outdated=sets("b:0"))
    assert shown(old) == "a:0-1 b:0-1 c:0-1"
    new = restart_set(graph, finished(graph), {}, changed=parts("b:1"), outdated=sets("b:0"))
    assert shown(new) == "b:0 c:0-1"


def test_a_reader_that_changed_whole_does_not_hide_the_next() -> None:
    graph = draw("x =blocking all=> b[2]\na[2] =blocking=> b\na =blocking=> c[2]")
    assert shown(restart_set(graph, finished(graph), {}, changed=parts("x=>b:0 a:0"))) == "b:0-1 c:0"


@pytest.mark.parametrize("strategy", [Strategy.REGION, Strategy.INDIVIDUAL])
def test_a_reader_that_changed_together_with_what_it_read_runs_again(strategy: Strategy) -> None:
    """Both were made again at once: it came out different, and of an input that exists no more."""
    graph = draw("a? =blocking all=> b?\nb =blocking=> c")
    both = restart_set(graph, finished(graph), {}, changed=parts("a:0 b:0"), strategy=strategy)
    assert shown(both) == "b:0 c:0"
    assert both.why(Vertex("b", 0)) == InputDiffers("a")


# --- strategies ---------------------------------------------------------------------------------------------------


def test_full_restarts_all_that_started() -> None:
    graph = draw("a[2]@constants ~> b[2] =blocking all=> c[2]")
    tracker = finished(graph, "c:1")
    answer = restart_set(graph, tracker, sets("c:0"), strategy=Strategy.FULL)
    assert shown(answer) == "a:0-1 b:0-1 c:0"
    assert answer.why(Vertex("a", 0)) == EverythingRestarts()
    assert set(answer.exchanges) == {ExchangeId("a"), ExchangeId("c", "b")}
    assert shown(remaining_set(graph, tracker, FailureFacts(), Strategy.FULL)) == "a:0-1 b:0-1 c:0-1"
    assert not restart_set(draw("a"), Availability(), {}, strategy=Strategy.FULL).steps


def test_individual_restarts_the_vertex_alone_and_its_lost_inputs() -> None:
    graph = draw("a[2]? =blocking=> b[2]? =blocking=> c[2]\na =blocking=> d[2]")
    alone = restart_set(graph, finished(graph), sets("d:0"), strategy=Strategy.INDIVIDUAL)
    assert shown(alone) == "d:0"
    with_input = restart_set(graph, finished(graph), sets("d:0"), parts("a:0"), strategy=Strategy.INDIVIDUAL)
    assert shown(with_input) == "a:0 d:0"


def test_individual_follows_a_digest_that_differs() -> None:
    graph = draw("a[2]? =blocking=> b[2]? =blocking=> c[2]\na =blocking=> d[2]")
    follow = restart_set(graph, finished(graph), {}, changed=parts("a:0"), strategy=Strategy.INDIVIDUAL)
    assert shown(follow) == "b:0 d:0 c:0"


def test_individual_is_refused_where_a_pipelined_edge_makes_it_wrong() -> None:
    graph = draw("a[2] =blocking=> b[2] ~> c[2]")
    with pytest.raises(Refused) as refused:
        Strategy.INDIVIDUAL.check(graph)
    assert "b -> c is pipelined" in refused.value.message
    assert refused.value.hint == "use strategy region, or keep b with result='caching' or 'blocking'"
    Strategy.INDIVIDUAL.check(draw("a[2] =blocking=> b[2]"))
    Strategy.REGION.check(graph)
    Strategy.FULL.check(graph)


# --- reasons ------------------------------------------------------------------------------------------------------


def reasons(text: str, never: str = "", failed: str = "", lost: str = "", **more: object) -> dict[str, AnyReason]:
    graph = draw(text)
    happened = FailureFacts(sets(failed), parts(lost), **more)  # type: ignore[arg-type]
    answer = remaining_set(graph, finished(graph, never), happened)
    for restart in answer.steps.values():
        pieces = [at for _, at in restart.because]
        assert sum(map(len, pieces)) == len(restart.partitions), "each vertex has exactly one reason"
        assert all(at <= restart.partitions and at for at in pieces)
    return {str(vertex): answer.why(vertex) for vertex in answer}


def test_every_vertex_says_why() -> None:
    assert reasons("a[2] ~> b[2]? =blocking=> c[2]? =blocking=> d[2]\nc =blocking=> e[2]", "e:0", "c:0", "b:0") == {
        "a[0]": FusedInto("b"),
        "b[0]": NeededBy("c"),
        "c[0]": Failed(),
        "d[0]": InputDiffers("c"),
        "e[0]": NotYetRun(),
    }
    assert reasons("a[2]", lost="a:1") == {"a[1]": ResultLost()}
    assert reasons("a[2]@whole", failed="a:1") == {"a[0]": WholeStep(), "a[1]": Failed()}
    assert reasons("a =blocking all=> b[2]?", failed="b:0", lost="a=>b:0") == {
        "b[0]": Failed(),
        "b[1]": ExchangeChanged(ExchangeId("b", "a")),
    }


def test_step_code_changed_between_failure_and_resume() -> None:
    """The step and what depends on it run again, everything upstream is reused; also if it is determinate."""
    text = "a[2] =blocking=> b[2] =blocking=> c[2]"
    assert reasons(text, outdated=sets("b:0-1")) == {
        "b[0]": CodeChanged(),
        "b[1]": CodeChanged(),
        "c[0]": InputDiffers("b"),
        "c[1]": InputDiffers("b"),
    }


def test_a_retry_on_a_held_exchange_after_parts_were_silently_recomputed() -> None:
    graph = draw("a[2]? ~all~> b[3]? =blocking all.=> c[2]")
    answer = restart_set(graph, finished(graph), {}, changed=parts("a=>b:1"))
    assert shown(answer) == "b:0-2 c:0-1"
    assert answer.why(Vertex("b", 0)) == ExchangeChanged(ExchangeId("b", "a"))
    assert not restart_set(graph, finished(graph), {}, changed=parts("a=>b:")).steps


def test_a_cached_block_recomputed_behind_our_back() -> None:
    """Its new version is there; whoever read the old one restarts, and nobody else."""
    graph = draw("a[3]? =caching=> b[3]? =blocking=> c[3]\na =caching=> d[3]")
    assert shown(restart_set(graph, finished(graph), {}, changed=parts("a:1"))) == "b:1 d:1 c:1"


def test_hundreds_of_losses_found_in_one_pass() -> None:
    graph = draw("a[1000]! =blocking=> b[1000]! =blocking all.=> c[10]")
    lost = parts("b:0-998") | parts("a:500-999") | parts("b=>c:0-999")
    answer = restart_set(graph, finished(graph), sets("c:3"), lost)
    assert shown(answer) == "a:500-998 b:0-998 c:0-9"


def test_the_set_prints_and_holds() -> None:
    graph = draw("a[4]? =blocking=> b[4]")
    answer = restart_set(graph, finished(graph), sets("b:0-1"), parts("a:1"))
    assert list(answer.lines()) == ["a  1  1: needed by b and not available", "b  2  0-1: failed"]
    both = restart_set(graph, finished(graph), sets("b:0-1"), parts("b:3"))
    assert list(both.lines()) == ["b  3  0-1: failed · 3: result lost"]
    assert Vertex("b", 0) in answer and Vertex("a", 0) not in answer and Vertex("x", 0) not in answer
    assert len(answer) == 3


def test_application_death_of_a_half_finished_run() -> None:
    """Blocking results are reused; caching ones, and the exchange, are gone."""
    graph = draw("s[2] =blocking=> a[2] =caching=> b[2] =blocking all.=> c[3]")
    tracker = finished(graph, "c:1-2").after(graph, FailureDomain.APPLICATION)
    answer = remaining_set(graph, tracker, FailureFacts())
    assert shown(answer) == "c:1-2"
    assert answer.exchanges == parts("b=>c:0-1").exchanges
    lost_too = remaining_set(graph, tracker, FailureFacts(lost=parts("b:0")))
    assert shown(lost_too) == "a:0 b:0 c:1-2"


def test_what_goes_to_a_target_runs_again_although_its_readers_are_done() -> None:
    graph = draw("a[2] =blocking=> b[2]")
    tracker = finished(graph).without(parts("a:1"))
    assert shown(remaining_set(graph, tracker, FailureFacts())) == ""
    assert shown(remaining_set(graph, replace(tracker, wanted=frozenset("a")), FailureFacts())) == "a:1"


@pytest.mark.parametrize(
    ("own", "strategy", "expected"),
    [
        ("", Strategy.REGION, {"a": "0", "b": "0"}),
        ("", Strategy.INDIVIDUAL, {"a": "0"}),
        ("@individual", Strategy.REGION, {"a": "0"}),
        ("@region", Strategy.INDIVIDUAL, {"a": "0", "b": "0"}),
    ],
)
def test_the_strategy_of_a_step_goes_before_that_of_the_run(
    own: str, strategy: Strategy, expected: dict[str, str]
) -> None:
    """Whether the readers of what is computed again follow at once."""
    graph = draw(f"a[2]?@forever{own} =blocking=> b[2]@forever")
    answer = restart_set(graph, finished(graph), sets("a:0"), strategy=strategy)
    assert {name: str(step.partitions) for name, step in answer.steps.items()} == expected


def test_a_step_that_reads_what_is_pipelined_cannot_be_individual() -> None:
    graph = draw("a[1] ~> b[1]@individual")
    with pytest.raises(Refused, match="strategy individual: a -> b is pipelined"):
        Strategy.REGION.check(graph)
    Strategy.INDIVIDUAL.check(draw("a[1] ~> b[1]@region"))
