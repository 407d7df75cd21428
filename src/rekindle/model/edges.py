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
    """Consumer c reads a contiguous, balanced piece of the producer: a coalesce without a shuffle."""

    def downstream(self, read: Partitions, producers: int, consumers: int) -> Partitions:
        if read.is_span:
            if not read:
                return EMPTY
            low, high = (((p + 1) * consumers - 1) // producers for p in (read.lowest, read.highest))
            return Partitions.span(low, high + 1)
        if _is_worth_digits(read, producers, consumers):
            return from_bits(squeeze(to_bits(read), producers, consumers))
        return Partitions(array("I", [((p + 1) * consumers - 1) // producers for p in read.to_array()]))

    def upstream(self, readers: Partitions, producers: int, consumers: int) -> Partitions:
        if _is_worth_digits(readers, producers, consumers):
            return from_bits(stretch(to_bits(readers), producers, consumers))
        found = BitMap()
        for low, high in readers.spans():
            found.add_range(low * producers // consumers, high * producers // consumers)
        return Partitions.wrap(FrozenBitMap(found))

    def mismatch(self, producers: int, consumers: int) -> str:
        return "" if producers >= consumers else f"{producers} partitions cannot be coalesced into {consumers}"


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


def _is_worth_digits(partitions: Partitions, producers: int, consumers: int) -> bool:
    """Many scattered numbers, and pieces that repeat soon: slicing digits beats going number by number."""
    return not partitions.is_span and len(partitions) > producers // 256 + 4 * turns(producers, consumers)
