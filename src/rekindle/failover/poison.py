"""Partitions that break whatever runs them.

Rules
- A partition that failed with a cause of its own is a suspect. Suspects are tried last, so that everything healthy is
  committed before they fail again.
- A partition that fails `tries_max` times with the same signature is poison and is not tried again. A signature that
  was seen `step_max` times in all stops the whole step: then the step is wrong and not one partition.
- A failure that names no partition (a map task of an exchange inside the group) counts for the whole step: the same
  one `tries_max` times stops it.
- Only counts are kept: per signature one bitmap for "at least once", one for "at least twice", and so on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rekindle.model.failures import Failure
from rekindle.model.partitions import EMPTY, Partitions


@dataclass(frozen=True, slots=True)
class PoisonLimits:
    tries_max: int = 3
    step_max: int = 20


@dataclass(frozen=True, slots=True)
class FailureCounts:
    """Of one step: signature to (failed at least once, at least twice, …), to how often it was seen, and to how often
    it was seen without a partition to blame."""

    levels: Mapping[str, tuple[Partitions, ...]] = field(default_factory=dict)
    seen: Mapping[str, int] = field(default_factory=dict)
    unnamed: Mapping[str, int] = field(default_factory=dict)

    @property
    def partitions(self) -> Partitions:
        return Partitions.union(levels[0] for levels in self.levels.values())

    def after(self, failure: Failure) -> FailureCounts:
        """With one more failure counted, if it blames the partition and not the world around it."""
        if not failure.cause.root.kind.blames_partition:
            return self
        if not failure.partitions:
            count = self.unnamed.get(failure.signature, 0) + 1
            return FailureCounts(self.levels, self.seen, {**self.unnamed, failure.signature: count})
        rising, levels = failure.partitions, []
        for level in self.levels.get(failure.signature, ()):
            levels.append(level | rising)
            rising = rising & level
        if rising:
            levels.append(rising)
        count = self.seen.get(failure.signature, 0) + len(failure.partitions)
        seen = {**self.seen, failure.signature: count}
        return FailureCounts({**self.levels, failure.signature: tuple(levels)}, seen, self.unnamed)

    def without(self, healthy: Partitions) -> FailureCounts:
        """After these partitions finished: they are suspects no longer. What was seen stays seen."""
        kept = {
            signature: tuple(left for left in (level - healthy for level in levels) if left)
            for signature, levels in self.levels.items()
        }
        left = {signature: levels for signature, levels in kept.items() if levels}
        return FailureCounts(left, self.seen, self.unnamed)


@dataclass(frozen=True, slots=True)
class Poison:
    """These partitions failed with this signature, `times` at most each. `is_step`: the whole step is wrong."""

    signature: str
    partitions: Partitions
    times: int
    is_step: bool = False


def poison(limits: PoisonLimits, suspects: FailureCounts) -> tuple[Poison, ...]:
    """What must not be tried again, one entry per signature."""
    found = []
    for signature, levels in suspects.levels.items():
        if suspects.seen[signature] >= limits.step_max:
            found.append(Poison(signature, levels[0], len(levels), is_step=True))
        elif len(levels) >= limits.tries_max:
            found.append(Poison(signature, levels[limits.tries_max - 1], limits.tries_max))
    for signature, count in suspects.unnamed.items():
        if count >= limits.tries_max:
            found.append(Poison(signature, EMPTY, count, is_step=True))
    return tuple(found)


def tried_last(suspects: FailureCounts, ready: Partitions) -> tuple[Partitions, Partitions]:
    """`ready` as (what may run now, what waits for that to end). If only suspects are left, they run."""
    healthy = ready - suspects.partitions
    return (healthy, ready - healthy) if healthy else (ready, EMPTY)
