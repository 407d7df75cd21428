"""How the partitions of a consumer read those of its producer.

Each mapping answers two questions on whole sets: who reads these (`downstream`), what they read (`upstream`).
Both directions agree: c reads p exactly if p is read by c. Every producer partition is read by some consumer.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Final

from pyroaring import BitMap, FrozenBitMap

from rekindle.model.dense import from_bits, squeeze, stretch, to_bits, turns
from rekindle.model.partitions import EMPTY, Partitions


@dataclass(frozen=True, slots=True)
class Identity:
    """Consumer p reads producer p: narrow, or two results kept with the same keys and count."""

    def downstream(self, read: Partitions, producers: int, consumers: int) -> Partitions:
        return read

    def upstream(self, readers: Partitions, producers: int, consumers: int) -> Partitions:
        return readers

    def mismatch(self, producers: int, consumers: int) -> str:
        return "" if producers == consumers else f"one to one, but {producers} against {consumers} partitions"


@dataclass(frozen=True, slots=True)
class Offset:
    """Consumer p + by reads producer p: one side of a union."""

    by: int

    def downstream(self, read: Partitions, producers: int, consumers: int) -> Partitions:
        return read.shift(self.by)

    def upstream(self, readers: Partitions, producers: int, consumers: int) -> Partitions:
        return (readers & Partitions.span(self.by, self.by + producers)).shift(-self.by)

    def mismatch(self, producers: int, consumers: int) -> str:
        fits = self.by >= 0 and self.by + producers <= consumers
        return "" if fits else f"{producers} partitions at offset {self.by} do not fit into {consumers}"


@dataclass(frozen=True, slots=True)
class Interval:
    """Consumer c reads a contiguous, balanced piece of the producer: a coalesce without a shuffle. Of a union that is
    coalesced the producer is one side: its partitions stand at `by` among `of`; 0 means that there is no other side."""

    by: int = 0
    of: int = 0

    def downstream(self, read: Partitions, producers: int, consumers: int) -> Partitions:
        return _squeezed(read.shift(self.by), self.of or producers, consumers)

    def upstream(self, readers: Partitions, producers: int, consumers: int) -> Partitions:
        found = _stretched(readers, self.of or producers, consumers)
        return (found & Partitions.span(self.by, self.by + producers)).shift(-self.by) if self.of else found

    def mismatch(self, producers: int, consumers: int) -> str:
        total = self.of or producers
        if self.by < 0 or self.by + producers > total:
            return f"{producers} partitions at offset {self.by} do not fit into {total}"
        return "" if total >= consumers else f"{total} partitions cannot be coalesced into {consumers}"


@dataclass(frozen=True, slots=True)
class All:
    """Every consumer reads every producer, through an exchange that the engine owns."""

    def downstream(self, read: Partitions, producers: int, consumers: int) -> Partitions:
        return Partitions.first(consumers) if read else EMPTY

    def upstream(self, readers: Partitions, producers: int, consumers: int) -> Partitions:
        return Partitions.first(producers) if readers else EMPTY

    def mismatch(self, producers: int, consumers: int) -> str:
        return ""


@dataclass(frozen=True, slots=True)
class Broadcast(All):
    """Every consumer reads every producer, collected once per query and handed to each task."""


IDENTITY: Final = Identity()
ALL: Final = All()
BROADCAST: Final = Broadcast()
INTERVAL: Final = Interval()

Mapping = Identity | Offset | Interval | All | Broadcast


def _squeezed(read: Partitions, total: int, pieces: int) -> Partitions:
    """The pieces in which these of `total` lie."""
    if read.is_span:
        if not read:
            return EMPTY
        low, high = (((p + 1) * pieces - 1) // total for p in (read.lowest, read.highest))
        return Partitions.span(low, high + 1)
    if _is_worth_digits(read, total, pieces):
        return from_bits(squeeze(to_bits(read), total, pieces))
    return Partitions(array("I", [((p + 1) * pieces - 1) // total for p in read.to_array()]))


def _stretched(pieces: Partitions, total: int, count: int) -> Partitions:
    """What of `total` lies in these of `count` pieces."""
    if _is_worth_digits(pieces, total, count):
        return from_bits(stretch(to_bits(pieces), total, count))
    found = BitMap()
    for low, high in pieces.spans():
        found.add_range(low * total // count, high * total // count)
    return Partitions.wrap(FrozenBitMap(found))


def _is_worth_digits(partitions: Partitions, producers: int, consumers: int) -> bool:
    """Many scattered numbers, and pieces that repeat soon: slicing digits beats going number by number."""
    return not partitions.is_span and len(partitions) > producers // 256 + 4 * turns(producers, consumers)
