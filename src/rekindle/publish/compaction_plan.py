"""Which batches of a stream are compacted next: pure, by their numbers.

- Batches that no compaction has are made one range when there are as many as the setting says.
- Ranges are of levels: one of a level has ten times the batches of one of the level below. The tenth range of a level
  is made one with the nine before it. So a row is written again as often as the number of batches has digits, not more.
- No compaction takes more than ten times the setting of new batches: what was left for a long time is done in pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

GROWTH = 10


class PlannedCompaction(NamedTuple):
    """The new batches `first` to `last`, made one range with the newest `absorbed` ranges."""

    first: int
    last: int
    absorbed: int


def planned_compaction(ranges: Sequence[int], through: int, last: int, every: int) -> PlannedCompaction | None:
    """`ranges` have so many batches each and go up to `through`; `last` is the last batch of the target. None while
    there is nothing to do."""
    if every <= 0 or last - through < every:
        return None
    last = min(last, through + every * GROWTH)
    batches, absorbed = last - through, 0
    while True:
        level = _level(batches, every)
        older = list(ranges[: len(ranges) - absorbed])
        same = 0
        while same < len(older) and _level(older[-1 - same], every) <= level:
            same += 1
        if same < GROWTH - 1:
            return PlannedCompaction(through + 1, last, absorbed)
        batches += sum(older[-same:])
        absorbed += same


def _level(batches: int, every: int) -> int:
    level = 0
    while batches >= every * GROWTH:
        batches, level = batches // GROWTH, level + 1
    return level
