"""Which records of a batch to try next until one that fails is named. Values in, values out; nothing here tries.

Rules
- Records stand in one order, through all files or partitions of the batch: a range of them is two numbers.
- A half that fails is halved again; a half that passes leaves the other one. So n records take log2(n) tries.
- A record counts as named only if it failed alone. One that does not is left: what fails then depends on other rows, or
  comes and goes, and nobody may leave out a record for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec


class RecordRange(NamedTuple):
    """Records from `low` up to `high`, without it."""

    low: int
    high: int


class UnitRange(NamedTuple):
    """The part of a range that lies in one file or partition: its number in the batch, and records of it."""

    unit: int
    low: int
    high: int


class PoisonSearch(msgspec.Struct, frozen=True):
    """The first record that fails is among these. `is_seen`: just these were tried, and failed."""

    low: int
    high: int
    is_seen: bool = False

    @property
    def asked(self) -> RecordRange | None:
        """What to try next; None when the search is over."""
        count = self.high - self.low
        if count > 1:
            return RecordRange(self.low, self.low + (count + 1) // 2)
        return RecordRange(self.low, self.high) if count == 1 and not self.is_seen else None

    @property
    def named(self) -> int | None:
        """The record that failed alone; None before, and if there is none."""
        return self.low if self.high - self.low == 1 and self.is_seen else None

    def answered(self, has_failed: bool) -> PoisonSearch:
        """After what was asked for was tried."""
        asked = self.asked
        assert asked is not None, "nothing was asked for"
        return PoisonSearch(asked.low, asked.high, True) if has_failed else PoisonSearch(asked.high, self.high)


def unit_ranges(sizes: Sequence[int], wanted: RecordRange) -> Iterator[UnitRange]:
    """A range over all files or partitions, each with its number of records, as ranges of those that it touches."""
    start = 0
    for unit, size in enumerate(sizes):
        low, high = max(wanted.low, start), min(wanted.high, start + size)
        if low < high:
            yield UnitRange(unit, low - start, high - start)
        start += size
