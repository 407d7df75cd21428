"""Which results go first when a run keeps more than its storage budget.

Rules
- Only spares are asked for: results that nobody can need any more and that are kept all the same. A result that a
  vertex still has to read, a pinned one and one that is kept for ever stay, whatever the budget says. If the spares are
  not enough, all of them go, and the budget is exceeded: `short_bytes` says by how much.
- Results go by whole attempts: the files of an attempt are deleted together, and nothing less frees space.
- As little as possible is lost: to make what goes again would take at most twice as long as for the best choice, and
  none of it could have stayed. Where the journal has no times, a result counts as dearer than all that has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rekindle.model.availability import Availability
from rekindle.model.graph import Graph
from rekindle.model.ids import AttemptId
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.model.regions import reads


@dataclass(frozen=True, slots=True)
class RemovableAttempt:
    """An attempt of which everything that counts may go. `cost_ms` is what it would take to make that again; None where
    nobody knows."""

    attempt: AttemptId
    bytes: int
    cost_ms: int | None


@dataclass(frozen=True, slots=True)
class BudgetChoice:
    """What goes, and by how much the budget is exceeded after that."""

    attempts: tuple[AttemptId, ...] = ()
    short_bytes: int = 0


def choose(kept_bytes: int, budget_bytes: int, spares: Sequence[RemovableAttempt]) -> BudgetChoice:
    """Enough of the spares to come down to the budget, or all of them. A budget of 0 is none."""
    excess = kept_bytes - budget_bytes
    if not budget_bytes or excess <= 0:
        return BudgetChoice()
    priced = _priced(spares)
    best: list[_Priced] | None = None
    taken: list[_Priced] = []
    for one in sorted(priced, key=lambda one: (one.cost / one.bytes, one.attempt)):
        if _bytes(taken) + one.bytes < excess:
            taken.append(one)
        elif best is None or _cost([*taken, one]) < _cost(best):
            best = [*taken, one]
    if best is None:
        return BudgetChoice(_named(taken), excess - _bytes(taken))
    return BudgetChoice(_named(_without_surplus(best, excess)))


def remake_ms(graph: Graph, tracker: Availability, pace_ms: Mapping[str, float], gone: Mapping[str, Partitions]) -> int:
    """What it would take to make these again, with everything on the way to them that is not available any more. Steps
    that are fused cost nothing of their own. Raises KeyError for a step whose pace is not known."""
    wanted = dict(gone)
    cost = 0.0
    for name in reversed(graph.steps):
        if name not in wanted:
            continue
        if graph.steps[name].kind.is_kept:
            cost += pace_ms[name] * len(wanted[name])
        for edge in graph.inputs[name]:
            read = reads(graph, edge, wanted[name]) - tracker.results.get(edge.producer, EMPTY)
            if read:
                wanted[edge.producer] = wanted.get(edge.producer, EMPTY) | read
    return round(cost)


@dataclass(frozen=True, slots=True)
class _Priced:
    attempt: AttemptId
    bytes: int
    cost: int


def _priced(spares: Sequence[RemovableAttempt]) -> list[_Priced]:
    dearest = 1 + sum(one.cost_ms or 0 for one in spares)
    return [
        _Priced(one.attempt, one.bytes, dearest if one.cost_ms is None else one.cost_ms)
        for one in spares
        if one.bytes > 0
    ]


def _without_surplus(taken: list[_Priced], excess: int) -> list[_Priced]:
    """The dearest first: whatever is not needed for it stays."""
    left = list(taken)
    for one in sorted(taken, key=lambda one: (-one.cost, one.attempt)):
        if _bytes(left) - one.bytes >= excess:
            left.remove(one)
    return left


def _bytes(taken: Sequence[_Priced]) -> int:
    return sum(one.bytes for one in taken)


def _cost(taken: Sequence[_Priced]) -> int:
    return sum(one.cost for one in taken)


def _named(taken: Sequence[_Priced]) -> tuple[AttemptId, ...]:
    return tuple(sorted(one.attempt for one in taken))
