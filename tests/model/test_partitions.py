"""Partition sets are values: like frozen sets of numbers, only smaller."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rekindle.model.partitions import EMPTY, Partitions

numbers = st.frozensets(st.integers(0, 300), max_size=40)


@given(numbers, numbers)
@settings(deadline=None)
def test_algebra_is_that_of_sets(one: frozenset[int], other: frozenset[int]) -> None:
    a, b = Partitions(one), Partitions(other)
    assert set(a | b) == one | other
    assert set(a & b) == one & other
    assert set(a - b) == one - other
    assert (a <= b) == (one <= other)
    assert a.is_disjoint(b) == one.isdisjoint(other)
    assert (a == b) == (one == other)
    assert len(a) == len(one)
    assert bool(a) == bool(one)
    assert (a == b) <= (hash(a) == hash(b))


@given(numbers, st.integers(0, 50))
@settings(deadline=None)
def test_shift_moves_every_number(one: frozenset[int], by: int) -> None:
    assert set(Partitions(one).shift(by)) == {at + by for at in one}
    assert set(Partitions(one).shift(-by)) == {at - by for at in one if at >= by}


@given(numbers)
@settings(deadline=None)
def test_text_and_bytes_come_back(one: frozenset[int]) -> None:
    made = Partitions(one)
    assert Partitions.parse(str(made)) == made
    assert Partitions.from_bytes(made.to_bytes()) == made
    assert set(made.to_array()) == one


@given(numbers)
@settings(deadline=None)
def test_spans_are_the_maximal_pieces(one: frozenset[int]) -> None:
    pieces = list(Partitions(one).spans())
    assert {at for low, high in pieces for at in range(low, high)} == one
    assert all(before[1] < after[0] for before, after in pairwise(pieces))


@pytest.mark.parametrize(
    ("made", "text"),
    [
        pytest.param(EMPTY, "", id="the empty set prints as nothing"),
        pytest.param(Partitions((0,)), "0", id="one number"),
        pytest.param(Partitions.first(3), "0-2", id="a full step"),
        pytest.param(Partitions((0, 1, 5, 7, 8)), "0-1,5,7-8", id="pieces"),
        pytest.param(Partitions((3, 4, 9)), "3-4,9", id="pieces that do not begin at 0"),
        pytest.param(Partitions((0, 2**32 - 1)), "0,4294967295", id="both ends of what a number can be"),
        pytest.param(Partitions.span(5, 5), "", id="an empty span"),
        pytest.param(Partitions.span(7, 5), "", id="a span turned round is empty"),
    ],
)
def test_text(made: Partitions, text: str) -> None:
    assert str(made) == text
    assert repr(made) == f"Partitions({text!r})"
    assert made.is_span == ("," not in text)


def test_parse_forgives_spaces() -> None:
    assert Partitions.parse(" 1 , 3-4,") == Partitions((1, 3, 4))


def test_ends_and_membership() -> None:
    made = Partitions((3, 9))
    assert (made.lowest, made.highest) == (3, 9)
    assert 3 in made and 4 not in made
    assert made != {3, 9}


@given(numbers, st.integers(0, 300))
@settings(deadline=None)
def test_rank_counts_what_lies_below(one: frozenset[int], number: int) -> None:
    assert Partitions(one).rank(number) == len([at for at in one if at < number])


def test_equal_sets_have_one_hash() -> None:
    made = Partitions((3, 9))
    assert {made: "a"}[Partitions.parse("3,9")] == "a"
    assert hash(made - made) == hash(EMPTY) != hash(made)


@given(st.lists(numbers, max_size=5))
@settings(deadline=None)
def test_union_has_what_any_has(sets: list[frozenset[int]]) -> None:
    assert set(Partitions.union(Partitions(one) for one in sets)) == frozenset[int]().union(*sets)


def test_nothing_is_copied_where_nothing_changes() -> None:
    made = Partitions((3, 9))
    assert made | EMPTY is made
    assert EMPTY | made is made
    assert made - EMPTY is made
    assert made & EMPTY is EMPTY
    assert made.shift(0) is made


def test_a_million_partitions_cost_bytes() -> None:
    assert len(Partitions.first(1_000_000).to_bytes()) < 300
