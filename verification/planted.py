"""`make planted`: plant each bug of the list, and see after how many seeds which check of the world catches it.

Writes docs/reports/planted.md. It fails if a bug is not caught, or if the world finds fault without one.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from planted_bugs import BUGS
from world.campaign import Tally, run_seed

REPORT = Path(__file__).parent.parent / "docs" / "reports" / "planted.md"
BUGS_MIN = 40
SEED_SECONDS_MAX = 20
# What Python says of a plant that no longer fits the code: nobody caught anything.
MISFITS = ("TypeError", "AttributeError", "NameError")


@dataclass(frozen=True)
class Caught:
    """What became of one bug. `check` is empty where nothing saw it."""

    name: str
    check: str
    text: str
    seeds: int


class Hangs(Exception):
    """A decision that never ends. Without a bug a schedule takes a hundredth of a second."""


def _hangs(number: int, frame: object) -> None:
    raise Hangs(f"no end within {SEED_SECONDS_MAX} s")


def hunt(index: int, seeds: int) -> Caught:
    bug = BUGS[index]
    tally = Tally()
    signal.signal(signal.SIGALRM, _hangs)
    with bug.plant():
        for seed in range(seeds):
            signal.alarm(SEED_SECONDS_MAX)
            run_seed(seed, tally)
            signal.alarm(0)
            if tally.broken:
                _, check, text = tally.broken[0]
                if check in MISFITS:
                    return Caught(bug.name, "", f"the plant does not fit: {text}", seed + 1)
                return Caught(bug.name, check, text, seed + 1)
    return Caught(bug.name, "", "", seeds)


def report(found: list[Caught], seeds: int) -> str:
    lines = [
        "# Planted bugs",
        "",
        "`make planted` plants each of these in the master, its policies or the ports of the simulated world, and runs",
        f"up to {seeds} seeds until a check sees it. `AssertionError` is a paired assertion of the fold. Without a bug",
        "the same seeds find nothing (`make sim`).",
        "",
        "| bug | caught by | after seeds | what it said |",
        "| --- | --- | --- | --- |",
    ]
    for one in found:
        said = one.text.replace("|", "/").replace("\\n", " ")[:110]
        lines.append(f"| {one.name} | {one.check or 'NOTHING'} | {one.seeds} | {said} |")
    lines += ["", f"Made on {date.today():%-d %B %Y} at commit {_commit()}: `{result(found)}`."]
    return "\n".join(lines) + "\n"


def result(found: list[Caught]) -> str:
    caught = sum(bool(one.check) for one in found)
    return f"RESULT bugs={len(found)} caught={caught} seeds_max={max(one.seeds for one in found)}"


def _commit() -> str:
    asked = ["git", "rev-parse", "--short=7", "HEAD"]
    return subprocess.run(asked, cwd=REPORT.parent, capture_output=True, text=True, check=True).stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20_000)
    parser.add_argument("--only", default="")
    asked = parser.parse_args()
    chosen = [at for at, bug in enumerate(BUGS) if asked.only in bug.name]
    with ProcessPoolExecutor(2, max_tasks_per_child=1) as pool:
        found = list(pool.map(hunt, chosen, [asked.seeds] * len(chosen)))
    for one in found:
        print(f"{one.check or 'NOT CAUGHT':20} {one.seeds:6}  {one.name}: {one.text[:120]}")
    missed = [one for one in found if not one.check]
    if not asked.only:
        REPORT.parent.mkdir(parents=True, exist_ok=True)
        REPORT.write_text(report(found, asked.seeds))
    print(result(found))
    return 0 if not missed and (asked.only or len(found) >= BUGS_MIN) else 1


if __name__ == "__main__":
    sys.exit(main())
