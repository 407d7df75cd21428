"""How the partitions of a consumer read those of its producer.

Each mapping answers two questions on whole sets: who reads these (`downstream`), what they read (`upstream`).
Both directions agree: c reads p exactly if p is read by c. Every producer partition is read by some consumer.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from itertools import repeat
from operator import floordiv
from typing import Final

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
        numbers = read.to_array()
        ratio, rest = divmod(producers, consumers)
        if rest == 0:
            return Partitions(array("I", map(floordiv, numbers, repeat(ratio))))
        return Partitions(array("I", [((p + 1) * consumers - 1) // producers for p in numbers]))

    def upstream(self, readers: Partitions, producers: int, consumers: int) -> Partitions:
        if readers.is_span:
            if not readers:
                return EMPTY
            low, high = readers.lowest, readers.highest + 1
            return Partitions.span(low * producers // consumers, high * producers // consumers)
        numbers = readers.to_array()
        starts = Partitions(array("I", [c * producers // consumers for c in numbers]))
        lasts = Partitions(array("I", [(c + 1) * producers // consumers - 1 for c in numbers]))
        return _stretch(starts, producers // consumers) | lasts

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


def _stretch(starts: Partitions, length: int) -> Partitions:
    """Each start with the `length - 1` numbers behind it, in about log2(length) shifts."""
    done, reach = starts, 1
    while reach < length:
        step = min(reach, length - reach)
        done, reach = done | done.shift(step), reach + step
    return done
