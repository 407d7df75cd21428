"""Sets as digits: the same sets, whatever they look like."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rekindle.model import dense
from rekindle.model.partitions import EMPTY, Partitions

BLOCK = 65_536
NEAR_PATTERN = Partitions(at for at in range(BLOCK) if dense._pattern_bits(1) >> at & 1)


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(EMPTY, id="nothing"),
        pytest.param(Partitions((0,)), id="the first number"),
        pytest.param(Partitions((BLOCK - 1,)), id="the last of a block"),
        pytest.param(Partitions((BLOCK,)), id="the first of the next block"),
        pytest.param(Partitions.first(3 * BLOCK), id="full blocks"),
        pytest.param(Partitions.span(5, 2 * BLOCK + 9), id="a span"),
        pytest.param(Partitions(range(0, 2 * BLOCK, 2)), id="every second"),
        pytest.param(Partitions(range(0, 9 * BLOCK, 1001)), id="few and far between"),
        pytest.param(NEAR_PATTERN, id="the pattern itself: mixing leaves nothing, the slow way is taken"),
        pytest.param(NEAR_PATTERN | Partitions((2 * BLOCK,)), id="the pattern in one block only"),
    ],
)
def test_there_and_back(made: Partitions) -> None:
    bits = dense.to_bits(made)
    assert bits.bit_count() == len(made)
    assert bits.bit_length() == (made.highest + 1 if made else 0)
    assert dense.from_bits(bits) == made


@given(st.integers(1, 60), st.integers(1, 60), st.integers(0, 2**60))
@settings(deadline=None)
def test_squeeze_and_stretch_by_definition(one: int, other: int, drawn: int) -> None:
    producers, consumers = max(one, other), min(one, other)
    starts = [c * producers // consumers for c in range(consumers + 1)]
    up, down = drawn % 2**producers, drawn % 2**consumers
    pieces = [range(low, high) for low, high in pairwise(starts)]
    hit = sum(1 << c for c, piece in enumerate(pieces) if any(up >> at & 1 for at in piece))
    spread = sum(1 << at for c, piece in enumerate(pieces) if down >> c & 1 for at in piece)
    assert dense.squeeze(up, producers, consumers) == hit
    assert dense.stretch(down, producers, consumers) == spread


def test_turns_are_the_pieces_until_they_repeat() -> None:
    assert [dense.turns(800, 200), dense.turns(800, 70), dense.turns(7, 5)] == [1, 7, 5]
