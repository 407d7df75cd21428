"""How long a user waits: `rekindle --help`, and `rekindle runs` on a location with 1,000 runs.

Each command runs as a process of its own, in turn with `python -c pass`, so that a noisy machine shows in all of them;
the median of the rounds counts.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from support.location import make_runs

HELP_MS_MAX = 300.0
RUNS_MS_MAX = 500.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rekindle-times-") as folder:
        make_runs(Path(folder), arguments.runs)
        rekindle = [sys.executable, "-c", "from rekindle.cli.main import main; main()"]
        found = measured(
            {
                "python": [sys.executable, "-c", "pass"],
                "help": [*rekindle, "--help"],
                "runs": [*rekindle, "runs", "--location", folder],
                "runs_all": [*rekindle, "runs", "--all", "--location", folder],
            },
            arguments.rounds,
        )
    bare = found["python"]
    figures = [f"{name}_ms={ms:.0f}" for name, ms in found.items()]
    ratios = [f"{name}_ratio={ms / bare:.1f}" for name, ms in found.items() if name != "python"]
    print("RESULT", *figures, *ratios, f"runs={arguments.runs}")
    is_fast = found["help"] < HELP_MS_MAX and found["runs"] < RUNS_MS_MAX and found["runs_all"] < RUNS_MS_MAX
    raise SystemExit(0 if is_fast else 1)


def measured(commands: dict[str, list[str]], rounds: int) -> dict[str, float]:
    """The median milliseconds of each command, after one round that does not count."""
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(rounds + 1):
        for name, command in commands.items():
            begin = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            times[name].append((time.perf_counter() - begin) * 1000)
    return {name: statistics.median(found[1:]) for name, found in times.items()}


if __name__ == "__main__":
    main()
