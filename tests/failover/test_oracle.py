"""Minimal and sufficient: a slice of `make oracle`, and proof that the oracle can see.

The brute force lives in verification/; it knows labelled values and nothing of regions, kinds or generations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from oracle import check_graph, jobs
from oracle_graphs import graph_at, world_of
from oracle_world import Value, World
from rekindle.failover import restart
from rekindle.failover.closure import Closure
from rekindle.model.graph import Edge
from rekindle.model.ids import ExchangeId
from rekindle.model.partitions import Partitions
from rekindle.testing.drawing import draw

pytestmark = pytest.mark.slow


def check(every: dict[int, int]) -> tuple[Counter[str], list[str]]:
    count, wrong = Counter[str](), list[str]()
    for shape, choices, turn in jobs(every):
        for choice in choices:
            counted, differing = check_graph(*graph_at(shape, choice, turn + choice))
            count += counted
            wrong += differing
    return count, wrong


def test_a_slice_of_all_small_graphs() -> None:
    count, wrong = check({1: 1, 2: 3, 3: 1499, 4: 4_000_037})
    assert not wrong, wrong[0]
    assert count["double"] > 10_000


class _Deaf(Closure):
    def _walk_down(self, step: str, changed: Partitions) -> None:
        pass


class _Trusting(Closure):
    def change_exchange(self, exchange: ExchangeId) -> None:
        pass


class _Greedy(Closure):
    def _demand(self, edge: Edge, wanted: Partitions) -> None:
        super()._demand(edge, self._graph.whole[edge.producer] if wanted else wanted)


class _Forgetful(Closure):
    def _recompute(self, exchange: ExchangeId, wanted: Partitions) -> Partitions:
        return super()._recompute(exchange, wanted & self._exchanges.get(exchange, wanted))


@pytest.mark.parametrize("wrong_closure", [_Deaf, _Trusting, _Greedy, _Forgetful], ids=lambda made: str(made.__name__))
def test_the_oracle_sees_a_wrong_closure(wrong_closure: type[Closure], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restart, "Closure", wrong_closure)
    _, wrong = check({2: 7, 3: 4999})
    assert wrong


ROWS: list[tuple[str, Callable[[World], tuple[int, bool]], int]] = [
    ("a! =blocking=> b\na =blocking=> c", lambda world: world.smallest(0b011), 0b111),
    ("a =blocking=> b\na =blocking=> c", lambda world: world.smallest(0b011), 0b011),
    ("a! =blocking=> b\na =blocking=> c", lambda world: world.smallest(0b001), 0b000),
    ("a! =blocking=> b\na =blocking=> c", lambda world: world.smallest(0b010), 0b010),
]


@pytest.mark.parametrize(("drawing", "ask", "answer"), ROWS)
def test_the_world_by_hand(drawing: str, ask: Callable[[World], tuple[int, bool]], answer: int) -> None:
    """Values in the order a, b, c. A lost source that is needed again drags the other reader along if it differs."""
    _, values = world_of(draw(drawing))
    assert ask(World(values)) == (answer, True)


def test_a_value_that_is_not_stored_is_made_with_its_reader() -> None:
    chain = (Value((), False, True, False), Value((0,), True, True, True))
    assert World(chain).smallest(0b10) == (0b11, True)
