"""How long steps took before, from the times in journals, and what that says about the work that is left.

Rules
- A pace is wall time of attempts against the partitions they made count. An attempt that a dead driver left ends with
  its last own commit: when the next driver sealed it says nothing about it.
- An estimate is a pair: the least and the most that is likely. No pace, no estimate: unknown stays unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from rekindle.master.facts.events import AttemptClosed, AttemptOpened, Event, Outcome, PartitionsCommitted
from rekindle.model.ids import AttemptId


@dataclass(frozen=True, slots=True)
class StepRate:
    """`partitions` of a step were made in `wall_ms` of attempts at it, and took `bytes`; 0 where nobody wrote that."""

    wall_ms: int
    partitions: int
    bytes: int = 0

    def of(self, count: int) -> int:
        """Milliseconds for so many, made the same way."""
        return round(self.wall_ms * count / self.partitions)

    def size(self, count: int) -> int | None:
        """The bytes of so many, if they are like those; None where it is not known."""
        return round(self.bytes * count / self.partitions) if self.bytes else None

    def core_ms(self, count: int, total: int, cores: int) -> int:
        """Milliseconds of cores for so many of `total`: each keeps one core busy for the length of its wave."""
        return round(count * self.of(total) / ceil(total / max(1, cores)))


@dataclass(frozen=True, slots=True)
class Span:
    """At least and at most, in milliseconds."""

    low_ms: int
    high_ms: int


class Clock:
    """Collects the times of attempts as their events come by."""

    def __init__(self) -> None:
        self._opened: dict[AttemptId, int] = {}
        self._last: dict[AttemptId, int] = {}
        self._made: dict[AttemptId, int] = {}
        self._bytes: dict[AttemptId, int] = {}

    def take(self, events: Iterable[Event]) -> None:
        for event in events:
            match event:
                case AttemptOpened(attempt):
                    self._opened[attempt] = event.at_ms
                case PartitionsCommitted(attempt=attempt) if not event.is_adopted and attempt in self._opened:
                    self._last[attempt] = event.at_ms
                    self._made[attempt] = self._made.get(attempt, 0) + len(event.partitions)
                    self._bytes[attempt] = self._bytes.get(attempt, 0) + event.size_bytes
                case AttemptClosed(attempt) if event.outcome is not Outcome.SEALED and attempt in self._made:
                    self._last[attempt] = event.at_ms
                case _:
                    pass

    def paces(self) -> dict[str, StepRate]:
        """The pace of each step that committed anything."""
        found: dict[str, StepRate] = {}
        for attempt, count in self._made.items():
            known = found.get(attempt.step, StepRate(0, 0))
            wall_ms = max(0, self._last[attempt] - self._opened[attempt])
            size = known.bytes + self._bytes[attempt]
            found[attempt.step] = StepRate(known.wall_ms + wall_ms, known.partitions + count, size)
        return found


def paces(events: Iterable[Event]) -> dict[str, StepRate]:
    clock = Clock()
    clock.take(events)
    return clock.paces()


def span(pace: StepRate | None, total: int, wanted: int, cores: int, *, remakes_exchange: bool) -> Span | None:
    """For `wanted` of `total` partitions. Spark works in waves of `cores` tasks (0: not known). Where the exchanges
    below are made again, it may take up to as long as all of it."""
    if pace is None:
        return None
    all_ms = pace.of(total)
    waves = ceil(wanted / cores) / ceil(total / cores) if cores else wanted / total
    low_ms = round(all_ms * waves)
    return Span(low_ms, all_ms if remakes_exchange or not cores else low_ms)


def whole(spans: Mapping[str, Span | None], producers: Mapping[str, Sequence[str]]) -> Span | None:
    """Steps that do not wait for each other may run together: from the longest way through the graph to the sum.
    `producers` has them in topological order."""
    ends: dict[str, int] = {}
    high_ms = 0
    for name, before in producers.items():
        begins = max((ends[one] for one in before), default=0)
        ends[name] = begins
        if name in spans:
            mine = spans[name]
            if mine is None:
                return None
            ends[name] += mine.low_ms
            high_ms += mine.high_ms
    return Span(max(ends.values(), default=0), high_ms)
