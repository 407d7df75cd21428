"""Pieces of a run's data: partitions of stored results and map parts of exchanges, named together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from rekindle.model.ids import ExchangeId
from rekindle.model.partitions import EMPTY, Partitions

_K = TypeVar("_K", str, ExchangeId)


@dataclass(frozen=True, slots=True)
class Parts:
    """Absent keys mean the empty set. One value may gather hundreds of reports."""

    results: Mapping[str, Partitions] = field(default_factory=dict)
    exchanges: Mapping[ExchangeId, Partitions] = field(default_factory=dict)

    def __or__(self, other: Parts) -> Parts:
        return Parts(joined(self.results, other.results), joined(self.exchanges, other.exchanges))

    def __bool__(self) -> bool:
        return any(self.results.values()) or any(self.exchanges.values())


def joined(one: Mapping[_K, Partitions], other: Mapping[_K, Partitions]) -> dict[_K, Partitions]:
    """The union, key by key."""
    both = dict(one)
    for key, partitions in other.items():
        both[key] = both.get(key, EMPTY) | partitions
    return both


def less(one: Mapping[_K, Partitions], other: Mapping[_K, Partitions]) -> Mapping[_K, Partitions]:
    """The difference, key by key."""
    if not other:
        return one
    return {key: partitions - other.get(key, EMPTY) for key, partitions in one.items()}


NOTHING: Final = Parts()
