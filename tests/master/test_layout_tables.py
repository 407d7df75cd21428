"""The graph seen from its kept steps, and what the policies are told about a state."""

from __future__ import annotations

import pytest

from given import sets
from master.driving import Driven
from rekindle.master.facts.graph_spec import EdgeSpec, GraphSpec
from rekindle.master.state.graph_index import GraphIndex
from rekindle.model.ids import ExchangeId
from rekindle.model.kinds import Proof
from rekindle.model.partitions import Partitions
from rekindle.testing.drawing import draw


def layout(drawing: str) -> GraphIndex:
    return GraphIndex(GraphSpec.of(draw(drawing)))


def test_a_layout_is_its_spec() -> None:
    one = layout("a[2]")
    assert hash(one) == hash(one.spec)


STAGES = [
    ("fused steps run in the tasks of their reader", "a[2] ~> b[2] ~> c[2]", "c", "a b c"),
    ("a diamond is found once", "a[2] ~> b[2] ~> d[2]\na ~> c[2] ~> d", "d", "a b c d"),
    ("a kept input does not", "a[2] =blocking=> b[2]", "b", "b"),
    ("what is below an exchange does not", "a[2] ~all~> b[2]", "b", "b"),
]


@pytest.mark.parametrize(("drawing", "root", "wanted"), [row[1:] for row in STAGES], ids=[row[0] for row in STAGES])
def test_stages(drawing: str, root: str, wanted: str) -> None:
    assert layout(drawing).stages[root] == frozenset(wanted.split())


def test_a_step_that_restarts_whole_takes_only_its_own_tasks_along() -> None:
    assert layout("a[2]@whole ~> b[2]").restarts_whole("b")
    assert not layout("a[2]@whole ~all~> b[2]").restarts_whole("b")
    assert not layout("a[2]@whole =blocking=> b[2]").restarts_whole("b")


UNION = "s[2] =blocking=> a[2] ~+0~> u[4]\ns =blocking=> b[2] ~+2~> u"


def test_reads_by_two_ways_are_joined() -> None:
    assert layout(UNION).read_by("u", Partitions((0, 3))) == sets("s:0-1")


def test_readers_by_two_ways_are_joined() -> None:
    assert layout(UNION).readers_of("s", Partitions((0,))) == sets("u:0,2")


def test_readers_are_found_through_fused_steps_and_not_behind_kept_ones() -> None:
    found = layout("a[2] =blocking=> b[2] ~> c[2] =blocking=> d[2]").readers_of("a", Partitions((1,)))
    assert found == sets("c:1")


PROOFS = [
    ("by our own table", "a[2]", Proof.DETERMINATE),
    ("on the user's word", "a[2]*", Proof.DECLARED),
    ("on the user's word about one of the group", "x[2]* ~> a[2]", Proof.DECLARED),
    ("on the user's word about an exchange", "x[2] =blocking all*=> a[2]", Proof.DECLARED),
    ("not at all", "a[2]?", None),
]


@pytest.mark.parametrize(("drawing", "proof"), [row[1:] for row in PROOFS], ids=[row[0] for row in PROOFS])
def test_a_group_is_repeatable(drawing: str, proof: Proof | None) -> None:
    assert layout(drawing).repeatable["a"] is proof


def test_only_an_offset_has_a_number_in_the_journal() -> None:
    drawing = "a[4] =blocking interval=> b[2]\na =blocking all=> c[3]\na =blocking broadcast=> d[4]\na =blocking=> e[4]"
    assert {edge.mapping: edge.by for edge in GraphSpec.of(draw(drawing)).edges} == {
        "interval": 0,
        "all": 0,
        "broadcast": 0,
        "identity": 0,
    }
    assert GraphSpec.of(draw("a[4] =blocking +1=> e[5]")).edges == (
        EdgeSpec(producer="a", consumer="e", mapping="offset", by=1),
    )


def test_policies_are_told_everything_that_is_in_flight() -> None:
    run = Driven("a[2]? =blocking=> b[2]")
    run.finish("a")
    run.lose("a", "0")
    run.commit("b", "0")
    run.lose("b", "0")
    tracker = run.state.tracker()
    assert tracker.running["b"] == run.state.running("b")


def test_two_attempts_of_a_step_are_both_in_flight() -> None:
    run = Driven("a[3] =blocking all=> b[1]")
    run.commit("a", "0")
    run.lose("a", "0")
    assert len(list(run.state.attempts_of("a"))) == 2
    assert run.state.tracker().running == sets("a:0-2")


def test_policies_are_told_what_finished_once() -> None:
    run = Driven("a[3] =blocking all=> b[1]")
    run.commit("a", "0-1")
    run.lose("a", "0")
    tracker = run.state.tracker()
    assert tracker.results["a"] == Partitions((1,))
    assert tracker.started["a"] == Partitions((0, 1))


def test_an_exchange_in_two_plans_is_held_where_both_hold_it() -> None:
    run = Driven("s[2] =blocking=> a[2] ~all~> b[2] ~> d[2]\nb ~> c[2]")
    shared = ExchangeId("b", "a")
    run.finish("s")
    run.commit("c", "0")
    assert run.state.tracker().exchanges[shared] == Partitions()
    run.commit("d", "0")
    assert run.state.tracker().exchanges[shared] == Partitions((0, 1))
