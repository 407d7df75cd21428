"""`make sim`: many schedules of the simulated world, on all cores, with the histogram of what was hit.

One seed is replayed and printed with `--replay SEED`; a scenario that was edited by hand with `--scenario FILE`.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from world.campaign import Tally, run_seeds
from world.faults import CELLS, FaultKind, FaultPhase, can_happen
from world.scenario import KINDS, Scenario, scenario_of
from world.world import World

CHUNK = 500
FAULTS_MIN = 3
CELL_MIN = 100
FULL_SIZE = 100_000


def campaign(first: int, seeds: int, processes: int) -> Tally:
    chunks = [range(at, min(at + CHUNK, first + seeds)) for at in range(first, first + seeds, CHUNK)]
    total = Tally()
    with ProcessPoolExecutor(processes) as pool:
        for tally in pool.map(run_seeds, chunks):
            total.add(tally)
    return total


def histogram(tally: Tally) -> str:
    """Rows are kinds and phases, columns are result kinds; a dot where the cell cannot happen."""
    lines = [f"{'fault':30}{'phase':28}" + "".join(f"{kind.value:>11}" for kind in KINDS)]
    for kind in FaultKind:
        for phase in FaultPhase:
            if any(can_happen(kind, phase, result) for result in KINDS):
                counts = (
                    str(tally.cells[kind, phase, result]) if can_happen(kind, phase, result) else "."
                    for result in KINDS
                )
                lines.append(f"{kind.value:30}{phase.value:28}" + "".join(f"{count:>11}" for count in counts))
    return "\n".join(lines)


def replay(scenario: Scenario) -> int:
    print(scenario)
    result = World(scenario).run()
    print(f"RESULT phase={result.phase.value if result.phase else 'none'} faults={sum(result.fired.values())}")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--replay", type=int)
    parser.add_argument("--scenario", type=Path)
    asked = parser.parse_args()
    if asked.replay is not None:
        return replay(scenario_of(asked.replay))
    if asked.scenario is not None:
        return replay(Scenario.parse(asked.scenario.read_text()))
    begin = time.monotonic()
    tally = campaign(asked.first, asked.seeds, asked.processes)
    print(histogram(tally))
    print("ends:", ", ".join(f"{name} {count}" for name, count in sorted(tally.ends.items())))
    for seed, check, text in tally.broken[:20]:
        print(f"VIOLATION seed {seed}: {check}: {text}")
    (kind, phase, result), rarest = tally.rarest
    print(f"rarest of {len(CELLS)} cells: {kind.value}, {phase.value}, {result.value}")
    seconds = time.monotonic() - begin
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"RESULT seeds={tally.seeds} violations={len(tally.broken)} median_faults={tally.median_faults} "
        f"min_cell={rarest} cells={len(CELLS)} seconds={seconds:.0f} "
        f"cpu_seconds={used.ru_utime + used.ru_stime:.0f}"
    )
    is_met = not tally.broken and tally.median_faults >= FAULTS_MIN
    return 0 if is_met and (rarest >= CELL_MIN or asked.seeds < FULL_SIZE) else 1


if __name__ == "__main__":
    sys.exit(main())
