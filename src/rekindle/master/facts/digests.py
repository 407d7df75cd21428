"""Digests of many partitions as one string of bytes: equal widths, in ascending order of partition.

The master never looks into a digest. Equal bytes mean equal contents; no bytes mean that nothing is known.
"""

from __future__ import annotations

import msgspec

from rekindle.model.partitions import EMPTY, Partitions


class Digests(msgspec.Struct, frozen=True):
    """The digests of `of`; `packed` is None where none were made."""

    of: Partitions
    packed: bytes | None

    def digest(self, partition: int) -> bytes | None:
        if self.packed is None or partition not in self.of:
            return None
        width = len(self.packed) // len(self.of)
        at = self.of.rank(partition) * width
        return self.packed[at : at + width]

    def equal_to(self, other: Digests, among: Partitions) -> Partitions:
        """Which of `among` are known to be equal in both. One look at the bytes if the sets are the same."""
        if self.packed is None or other.packed is None:
            return EMPTY
        if self.of == other.of and self.packed == other.packed:
            return among & self.of
        return Partitions(p for p in among if _is_equal(self.digest(p), other.digest(p)))


def _is_equal(one: bytes | None, other: bytes | None) -> bool:
    return one is not None and one == other
