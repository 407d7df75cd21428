"""What goes first when a run keeps more than its budget: against every other choice there is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from failover.test_release import ROWS, free
from given import finished, sets
from rekindle.failover.budget import BudgetChoice, RemovableAttempt, choose, remake_ms
from rekindle.failover.release import RetainedResults, RunPhase, spare
from rekindle.model.ids import AttemptId, Epoch, Generation
from rekindle.testing.drawing import draw


def attempt(number: int) -> AttemptId:
    return AttemptId("s", Generation(0), Epoch(1), number)


def spares(*pairs: tuple[int, int | None]) -> list[RemovableAttempt]:
    return [RemovableAttempt(attempt(at), size, cost) for at, (size, cost) in enumerate(pairs)]


@pytest.mark.parametrize(
    ("kept", "budget", "pairs", "gone", "short"),
    [
        pytest.param(10, 0, [(10, 1)], [], 0, id="no budget: nothing goes"),
        pytest.param(10, 10, [(5, 1)], [], 0, id="exactly the budget: nothing goes"),
        pytest.param(11, 10, [(5, 9), (5, 1)], [1], 0, id="the cheaper one of two equals"),
        pytest.param(12, 10, [(2, 4), (9, 9)], [0], 0, id="a small one is enough"),
        pytest.param(18, 10, [(2, 1), (9, 9)], [1], 0, id="what is not needed for it stays, however cheap"),
        pytest.param(20, 10, [(3, 1), (4, 1)], [0, 1], 3, id="not enough: all goes, and it says by how much"),
        pytest.param(20, 10, [], [], 10, id="nothing can go: it says so"),
        pytest.param(11, 10, [(5, None), (5, 9999)], [1], 0, id="of unknown cost: last"),
        pytest.param(11, 10, [(0, 0), (5, 3)], [1], 0, id="what takes nothing frees nothing"),
    ],
)
def test_rows(kept: int, budget: int, pairs: list[tuple[int, int | None]], gone: list[int], short: int) -> None:
    assert choose(kept, budget, spares(*pairs)) == BudgetChoice(tuple(map(attempt, gone)), short)


def best(excess: int, known: Sequence[RemovableAttempt]) -> int:
    """The least cost of any set of spares that frees enough."""
    every = chain.from_iterable(combinations(known, count) for count in range(len(known) + 1))
    enough = [one for one in every if sum(spare.bytes for spare in one) >= excess]
    return min(sum(spare.cost_ms or 0 for spare in one) for one in enough)


@given(st.lists(st.tuples(st.integers(1, 20), st.integers(0, 50)), max_size=7), st.integers(1, 80), st.integers(1, 40))
def test_enough_goes_and_little_more_than_the_best(pairs: list[tuple[int, int]], kept: int, budget: int) -> None:
    known = spares(*pairs)
    found = choose(kept, budget, known)
    taken = [one for one in known if one.attempt in found.attempts]
    freed, excess = sum(one.bytes for one in taken), kept - budget
    if excess <= 0:
        assert found == BudgetChoice()
    elif sum(one.bytes for one in known) < excess:
        assert taken == known and found.short_bytes == excess - freed
    else:
        assert freed >= excess and found.short_bytes == 0
        assert all(freed - one.bytes < excess for one in taken), "one of them could have stayed"
        assert sum(one.cost_ms or 0 for one in taken) <= 2 * best(excess, known)


@pytest.mark.parametrize(("drawing", "never", "expected"), ROWS)
def test_what_may_go_anyway_is_spare(drawing: str, never: str, expected: str) -> None:
    graph = draw(drawing)
    found = spare(graph, finished(graph, never), RetainedResults())
    for step, partitions in sets(expected).items():
        assert partitions <= found[step]


@pytest.mark.parametrize(
    ("drawing", "never", "holds", "expected"),
    [
        pytest.param(
            "a[2]@run_end =blocking=> b[2]", "", RetainedResults(), "a:0-1", id="kept until the run ends: spare"
        ),
        pytest.param("a[2]@run_end =blocking=> b[2]", "b:1", RetainedResults(), "a:0", id="what is still read is not"),
        pytest.param("a[2]@forever =blocking=> b[2]", "", RetainedResults(), "", id="kept for ever"),
        pytest.param("a[2]@run_end =blocking=> b[2]", "", RetainedResults(pins=sets("a:1")), "a:0", id="pinned"),
        pytest.param(
            "a[2]@run_end =blocking=> b[2] =caching=> c[2]", "c:0", RetainedResults(), "a:1 b:1", id="a resume needs it"
        ),
    ],
)
def test_what_is_spare(drawing: str, never: str, holds: RetainedResults, expected: str) -> None:
    graph = draw(drawing)
    found = spare(graph, finished(graph, never), holds)
    assert " ".join(f"{step}:{at}" for step, at in found.items()) == expected


def test_what_goes_to_a_target_is_not_released_before_it_is_there() -> None:
    graph = draw("a[2] =blocking=> b[2]")
    tracker = replace(finished(graph), wanted=frozenset("a"))
    assert free(graph, tracker) == "" and spare(graph, tracker, RetainedResults()) == {}
    assert free(graph, tracker, phase=RunPhase.GIVEN_UP) == "a:0-1 b:0-1"


CHAIN = "a[2] =blocking=> p[2] ~> b[2] =blocking all.=> c[2]"


@pytest.mark.parametrize(
    ("missing", "gone", "expected"),
    [
        pytest.param("", "b:0", 10, id="its input is there"),
        pytest.param("a:0", "b:0", 11, id="its input went before it"),
        pytest.param("a:1", "b:0", 10, id="another partition went"),
        pytest.param("a:0-1", "c:1", 100, id="only what it reads counts"),
        pytest.param("a:0-1 b:0", "c:1", 111, id="two steps up"),
    ],
)
def test_the_cost_of_making_it_again(missing: str, gone: str, expected: int) -> None:
    graph = draw(CHAIN)
    pace_ms = {"a": 1.0, "b": 10.0, "c": 100.0}
    assert remake_ms(graph, finished(graph, missing), pace_ms, sets(gone)) == expected


def test_without_a_pace_there_is_no_cost() -> None:
    graph = draw(CHAIN)
    with pytest.raises(KeyError):
        remake_ms(graph, finished(graph, "a:0"), {"b": 1.0, "c": 1.0}, sets("b:0"))
