"""Sets of partition numbers of one step, as compressed bitmaps.

A set is a value: every operation returns a new one, and equal sets are equal values. A full range costs a few
bytes whatever its length. Nothing loops over partitions in Python, except what iterates or prints.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import Any, Final

from pyroaring import FrozenBitMap


class Partitions:
    """An immutable set of partition numbers (0 to 2^32 - 1)."""

    __slots__ = ("_bits",)

    def __init__(self, numbers: Iterable[int] = ()) -> None:
        self._bits: Any = FrozenBitMap(numbers)

    @classmethod
    def wrap(cls, bits: Any) -> Partitions:
        """Take over a bitmap of pyroaring that nobody else will change."""
        made = cls.__new__(cls)
        made._bits = bits
        return made

    def unwrap(self) -> Any:
        """The bitmap itself, to be read and not changed."""
        return self._bits

    @classmethod
    def span(cls, start: int, stop: int) -> Partitions:
        """The contiguous set [start, stop)."""
        return cls(range(start, stop)) if start < stop else EMPTY

    @classmethod
    def first(cls, count: int) -> Partitions:
        """All partitions of a step with `count` of them."""
        return cls.span(0, count)

    @classmethod
    def from_bytes(cls, data: bytes) -> Partitions:
        return cls.wrap(FrozenBitMap.deserialize(data))

    @classmethod
    def parse(cls, text: str) -> Partitions:
        """The inverse of `str`: "0-3,7" is {0, 1, 2, 3, 7}."""
        parts = (part.partition("-") for part in filter(None, (piece.strip() for piece in text.split(","))))
        return cls.union(cls.span(int(low), int(high or low) + 1) for low, _, high in parts)

    @classmethod
    def union(cls, sets: Iterable[Partitions]) -> Partitions:
        """What is in any of these sets."""
        found = EMPTY
        for one in sets:
            found = found | one
        return found

    def to_bytes(self) -> bytes:
        """Portable Roaring serialisation, the same that Delta and Iceberg use."""
        packed: bytes = self._bits.serialize()
        return packed

    def __or__(self, other: Partitions) -> Partitions:
        if not other._bits:
            return self
        return Partitions.wrap(self._bits | other._bits) if self._bits else other

    def __and__(self, other: Partitions) -> Partitions:
        return Partitions.wrap(self._bits & other._bits) if self._bits and other._bits else EMPTY

    def __sub__(self, other: Partitions) -> Partitions:
        return Partitions.wrap(self._bits - other._bits) if self._bits and other._bits else self

    def __bool__(self) -> bool:
        return bool(self._bits)

    def __len__(self) -> int:
        return len(self._bits)

    def __iter__(self) -> Iterator[int]:
        return iter(self._bits)

    def __contains__(self, number: int) -> bool:
        return number in self._bits

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Partitions) and bool(self._bits == other._bits)

    def __hash__(self) -> int:
        return hash((len(self._bits), self._bits.min(), self._bits.max()) if self._bits else 0)

    def __le__(self, other: Partitions) -> bool:
        """Is a subset of."""
        return bool(self._bits.issubset(other._bits))

    @property
    def lowest(self) -> int:
        return int(self._bits.min())

    @property
    def highest(self) -> int:
        return int(self._bits.max())

    @property
    def is_span(self) -> bool:
        """Has no gap between its lowest and highest number. The empty set has none."""
        return not self._bits or self.highest - self.lowest + 1 == len(self._bits)

    def rank(self, number: int) -> int:
        """How many members lie below `number`: its place in ascending order, if it is one."""
        return int(self._bits.rank(number)) - (number in self._bits)

    def is_disjoint(self, other: Partitions) -> bool:
        return bool(self._bits.isdisjoint(other._bits))

    def shift(self, by: int) -> Partitions:
        """Every number plus `by`; what would fall below zero is gone."""
        return Partitions.wrap(self._bits.shift(by)) if by and self._bits else self

    def to_array(self) -> array[int]:
        numbers: array[int] = self._bits.to_array()
        return numbers

    def spans(self) -> Iterator[tuple[int, int]]:
        """The maximal contiguous pieces as (start, stop), ascending."""
        if self.is_span:
            if self:
                yield self.lowest, self.highest + 1
            return
        starts = self - self.shift(1)
        lasts = self - Partitions.wrap(self._bits.shift(-1))
        for low, high in zip(starts, lasts, strict=True):
            yield low, high + 1

    def __str__(self) -> str:
        return ",".join(str(low) if high == low + 1 else f"{low}-{high - 1}" for low, high in self.spans())

    def __repr__(self) -> str:
        return f"Partitions({str(self)!r})"


EMPTY: Final = Partitions()
