"""A world of labelled values that can say, by trying everything, what must run again.

It knows no regions, kinds, generations or strategies. It knows values: which value is made from which others, which
are stored, and which come out the same when made again from the same. A run without a fault makes every value
once. So an output is right exactly if no value stands behind it in two versions.

For n values all 2^n subsets to run again are tried, as columns of arrays. A subset is possible if everything it reads
is stored or made by it. It is right if every output is there and no value appears in the old and in a new version.
Whether a subset is right does not depend on what is missing; only whether it can be done does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Flags = npt.NDArray[np.bool_]
Masks = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class Value:
    """One value of the world. `reads` are indices of earlier values."""

    reads: tuple[int, ...]
    is_stored: bool
    is_repeatable: bool
    is_output: bool


class World:
    """All right subsets of one graph, smallest first."""

    def __init__(self, values: tuple[Value, ...], outdated: int = 0) -> None:
        """`outdated` is a mask of values whose old version no output may show."""
        subsets: Masks = np.arange(1 << len(values), dtype=np.uint32)
        made = [((subsets >> at) & 1).astype(bool) for at in range(len(values))]
        right = _is_possible(values, made) & _shows_one_version(values, made, outdated)
        sizes = np.bitwise_count(subsets)
        order = np.argsort(sizes[right], kind="stable")
        self.subsets: Masks = subsets[right][order]
        self.sizes = sizes[right][order]
        self.leans_on: Masks = _leans_on(values, made)[right][order]
        self._answers: dict[int, tuple[int, bool]] = {}

    def smallest(self, missing: int) -> tuple[int, bool]:
        """The smallest right subset when these stored values are missing, and whether it is the only one."""
        if missing not in self._answers:
            hits = (self.leans_on & np.uint32(missing)) == 0
            first = int(np.argmax(hits))
            is_only = int(np.count_nonzero(hits & (self.sizes == self.sizes[first]))) == 1
            self._answers[missing] = (int(self.subsets[first]), is_only)
        return self._answers[missing]


def _is_possible(values: tuple[Value, ...], made: list[Flags]) -> Flags:
    """What is not stored must be made together with its reader."""
    possible = np.ones_like(made[0])
    for at, value in enumerate(values):
        for read in value.reads:
            if not values[read].is_stored:
                possible &= ~made[at] | made[read]
    return possible


def _leans_on(values: tuple[Value, ...], made: list[Flags]) -> Masks:
    """The stored values that a subset does not make and cannot do without."""
    leans = np.zeros(len(made[0]), dtype=np.uint32)
    for at, value in enumerate(values):
        wanted = np.full_like(made[0], value.is_output)
        for reader, other in enumerate(values):
            if at in other.reads:
                wanted |= made[reader]
        if value.is_stored:
            leans |= np.where(wanted & ~made[at], np.uint32(1 << at), np.uint32(0))
    return leans


def _shows_one_version(values: tuple[Value, ...], made: list[Flags], outdated: int) -> Flags:
    """No output shows a value in two versions, or in one that is outdated."""
    is_new: list[Flags] = []
    ancestry: list[int] = []
    for at, value in enumerate(values):
        differs = np.full_like(made[0], not value.is_repeatable or bool(outdated >> at & 1))
        behind = 1 << at
        for read in value.reads:
            differs |= is_new[read]
            behind |= ancestry[read]
        is_new.append(made[at] & differs)
        ancestry.append(behind)
    shown_old = np.zeros(len(made[0]), dtype=np.uint32)
    shown_new = np.zeros(len(made[0]), dtype=np.uint32)
    seen = [np.full_like(made[0], value.is_output) for value in values]
    for at in reversed(range(len(values))):
        again = seen[at] & made[at]
        for read in values[at].reads:
            seen[read] |= again
        shown_old |= np.where(seen[at] & ~made[at], np.uint32(ancestry[at]), np.uint32(0))
        shown_old |= np.where(again & ~is_new[at], np.uint32(1 << at), np.uint32(0))
        shown_new |= np.where(again & is_new[at], np.uint32(1 << at), np.uint32(0))
    right: Flags = ((shown_old & shown_new) == 0) & ((shown_old & np.uint32(outdated)) == 0)
    return right
