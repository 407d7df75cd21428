"""Many seeds, and what came of them: violations with the seed that shows each, and how often every cell was hit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from world.faults import CELLS, Cell
from world.scenario import scenario_of
from world.watch import Violation
from world.world import World


class Tally:
    """The sum of some seeds. Tallies add up."""

    def __init__(self) -> None:
        self.seeds = 0
        self.faults: Counter[int] = Counter()
        self.cells: Counter[Cell] = Counter()
        self.ends: Counter[str] = Counter()
        self.broken: list[tuple[int, str, str]] = []

    def add(self, other: Tally) -> None:
        self.seeds += other.seeds
        self.faults += other.faults
        self.cells += other.cells
        self.ends += other.ends
        self.broken += other.broken

    @property
    def median_faults(self) -> int:
        """Of all schedules, half had at least this many faults."""
        left = self.seeds // 2
        for count in sorted(self.faults):
            left -= self.faults[count]
            if left < 0:
                return count
        return 0

    @property
    def rarest(self) -> tuple[Cell, int]:
        cell = min(CELLS, key=lambda one: self.cells[one])
        return cell, self.cells[cell]


def run_seed(seed: int, tally: Tally) -> None:
    """One schedule. An error of the master counts as found too: nothing may escape it."""
    tally.seeds += 1
    try:
        result = World(scenario_of(seed)).run()
    except Violation as violation:
        tally.broken.append((seed, violation.check, str(violation)))
    except Exception as error:
        tally.broken.append((seed, type(error).__name__, str(error)))
    else:
        tally.faults[sum(result.fired.values())] += 1
        tally.cells += result.fired
        tally.ends[result.phase.value if result.phase else "never started"] += 1


def run_seeds(seeds: Iterable[int]) -> Tally:
    tally = Tally()
    for seed in seeds:
        run_seed(seed, tally)
    return tally
