"""A graph is checked when it is made; groups, exchanges and duties follow from it."""

from __future__ import annotations

import pytest

from rekindle.errors import Refused
from rekindle.model.edges import ALL
from rekindle.model.graph import Edge, Graph, Step, promoted
from rekindle.model.ids import ExchangeId
from rekindle.model.kinds import Determinism, KeepUntil, ResultKind
from rekindle.model.partitions import Partitions
from rekindle.testing.drawing import draw


@pytest.mark.parametrize(
    ("steps", "edges", "says"),
    [
        pytest.param(
            [Step(name="a", partitions=1), Step(name="a", partitions=1)],
            [],
            "two steps are named a",
            id="one name, two steps",
        ),
        pytest.param([Step(name="a", partitions=0)], [], "a has 0 partitions", id="no partitions"),
        pytest.param(
            [Step(name="a", partitions=1)], [Edge("a", "b")], "there is no step b", id="a reader that is not there"
        ),
        pytest.param(
            [Step(name="a", partitions=1), Step(name="b", partitions=1)],
            [Edge("a", "b"), Edge("a", "b", ALL)],
            "a -> b is drawn twice",
            id="two edges between the same steps",
        ),
        pytest.param(
            [Step(name="a", partitions=2), Step(name="b", partitions=3)],
            [Edge("a", "b")],
            "a -> b: one to one",
            id="counts that do not match",
        ),
        pytest.param(
            [Step(name="a", partitions=1), Step(name="b", partitions=1), Step(name="c", partitions=1)],
            [Edge("a", "b"), Edge("b", "c"), Edge("c", "b")],
            "form a cycle: b, c",
            id="a circle",
        ),
        pytest.param(
            [Step(name="a", partitions=1, kind=ResultKind.PIPELINED)],
            [],
            "a is pipelined, but no step reads it",
            id="a pipelined result that nobody reads",
        ),
        pytest.param(
            [
                Step(name="a", partitions=1, kind=ResultKind.PIPELINED),
                Step(name="b", partitions=1),
                Step(name="c", partitions=1),
            ],
            [Edge("a", "b"), Edge("a", "c")],
            "a is pipelined into several consumers (a -> b, a -> c) and is not determinate",
            id="a pipelined step read by two kept groups",
        ),
        pytest.param(
            [
                Step(name="a", partitions=1, kind=ResultKind.PIPELINED, keep=KeepUntil.FOREVER),
                Step(name="b", partitions=1),
            ],
            [Edge("a", "b")],
            "a is pipelined, so it has no result to keep forever",
            id="a pipelined step that is kept for ever",
        ),
    ],
)
def test_refused(steps: list[Step], edges: list[Edge], says: str) -> None:
    with pytest.raises(Refused) as refused:
        Graph.of(steps, edges)
    assert says in refused.value.message


def test_refusal_says_what_to_type() -> None:
    with pytest.raises(Refused) as refused:
        draw("a! ~> b\na ~> c")
    assert "result='caching'" in refused.value.hint


def test_a_repeatable_pipelined_step_may_have_several_readers() -> None:
    assert not draw("a ~> b\na ~> c").two_versions


def test_but_not_if_an_exchange_into_it_is_not_repeatable() -> None:
    with pytest.raises(Refused):
        draw("s =blocking all?=> a ~> b\na ~> c")
    assert not draw("s =blocking all=> a ~> b\na ~> c").two_versions


def test_nor_if_a_step_fused_below_it_is_not() -> None:
    with pytest.raises(Refused, match="b is pipelined into several consumers"):
        draw("a! ~> b ~> c\nb ~> d")
    with pytest.raises(Refused, match="c is pipelined into several consumers"):
        draw("a! ~> b ~> c ~> d\na2 ~> b\nb2 =blocking=> c ~> e")
    assert not draw("a! =blocking=> b ~> c\nb ~> d").two_versions


def test_promotion_keeps_exactly_the_torn_steps() -> None:
    piped = ResultKind.PIPELINED
    steps = [
        Step(name="a", partitions=1, kind=piped),
        Step(name="b", partitions=1, kind=piped, determinism=Determinism.DETERMINATE),
        Step(name="c", partitions=1, kind=piped),
        Step(name="d", partitions=1),
    ]
    edges = [Edge("a", "b"), Edge("a", "d"), Edge("b", "c"), Edge("b", "d"), Edge("c", "d")]
    kept, names = promoted(steps, edges, ResultKind.CACHING)
    assert names == ("a",)
    assert [step.kind for step in kept] == [ResultKind.CACHING, piped, piped, ResultKind.BLOCKING]
    Graph.of(kept, edges)


def test_steps_stand_in_topological_order() -> None:
    steps = [Step(name="c", partitions=1), Step(name="b", partitions=1), Step(name="a", partitions=1)]
    assert list(Graph.of(steps, [Edge("a", "b"), Edge("b", "c")]).steps) == ["a", "b", "c"]


def test_groups_are_the_spark_plans() -> None:
    graph = draw("a[2] ~> b[2] ~all~> c[3] =blocking=> d[3]\na ~> e[2]\nb ~all~> e")
    assert {root: sorted(group.members) for root, group in graph.groups.items()} == {
        "c": ["a", "b", "c"],
        "d": ["d"],
        "e": ["a", "b", "e"],
    }
    assert graph.groups["c"].exchanges == (ExchangeId("c", "b"),)
    assert not graph.groups["c"].is_narrow
    assert graph.groups["d"].is_narrow


def test_exchanges_have_a_part_per_producer_partition_and_constants_have_one() -> None:
    graph = draw("a[3] =blocking all=> b[2]!@constants\na =blocking broadcast.=> c")
    found = {str(x.id): (x.partitions, x.determinism) for x in graph.exchanges.values()}
    assert found == {
        "a=>b": (3, Determinism.INDETERMINATE),
        "a=>c": (3, Determinism.DETERMINATE),
        "query=>b": (1, Determinism.INDETERMINATE),
    }


def test_duties_and_size() -> None:
    graph = draw("a[2]@forever =blocking=> b[2] =blocking=> c[2]@run_end")
    assert [name for name in graph.steps if graph.has_output_duty(name)] == ["a", "c"]
    assert graph.vertices == 6
    assert graph.whole["b"] == Partitions.first(2)
