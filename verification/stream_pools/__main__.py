"""`make stream-pools`: how long a light region waits beside a heavy one, with FIFO and with a pool for each region.

The heavy region always has a batch of 60 tasks of 0.4 seconds on two cores. A file is given to the light one, then the
next one when it was committed. Drivers with FIFO and with FAIR take turns. Exit 0 if the p95 of the time from a file to
its commit is with pools at most 0.3 of that without.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from build_jar import JAR
from stream_pools.pools_driver import HEAVY, LIGHT, TASKS
from support.drivers import Driver, start_driver
from support.signals import when

MODES = ("FIFO", "FAIR")
RATIO_MAX, AHEAD, P95 = 0.3, 3, 94
SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.jars": str(JAR),
    # A file is a task: neither is joined with others.
    "spark.sql.files.openCostInBytes": "134217728",
}


class PoolsPlace:
    """One driver with its folder."""

    def __init__(self, folder: Path, mode: str) -> None:
        self._folder = folder
        self._fed = {LIGHT: 0, HEAVY: 0}
        for name in self._fed:
            (folder / f"in-{name}").mkdir(parents=True)
        self.driver: Driver = start_driver(
            Path(__file__).with_name("pools_driver.py"),
            str(folder),
            folder=folder / "driver",
            settings={**SETTINGS, "spark.scheduler.mode": mode},
            env={"PYSPARK_PYTHON": sys.executable},
        )

    def feed(self, name: str) -> int:
        number = self._fed[name]
        self._fed[name] += 1
        made = self._folder / f".{name}-{number}"
        made.write_text(f'{{"id":{number}}}\n')
        made.rename(self._folder / f"in-{name}" / f"{number:06d}.json")
        return number

    def commits(self, name: str) -> int:
        found = self._folder.glob(f"state/pools/_streams/*/checkpoints/{name}/commits/*")
        return max((int(one.name) for one in found if one.name.isdigit()), default=-1)

    def keep_busy(self) -> None:
        """Some batches of the heavy region always wait."""
        while self._fed[HEAVY] < (self.commits(HEAVY) + 1 + AHEAD) * TASKS:
            self.feed(HEAVY)

    def light(self) -> float:
        """Seconds from a file of the light region to its commit."""
        number, began = self.feed(LIGHT), time.monotonic()

        def is_there() -> bool:
            self.keep_busy()
            return self.commits(LIGHT) >= number or not self.driver.is_alive()

        when(is_there, 300.0, every_s=0.02, sign=lambda: (self.commits(HEAVY), self.driver.printed()))
        if not self.driver.is_alive():
            raise RuntimeError(f"the driver ended:\n{self.driver.text()[-3000:]}")
        return time.monotonic() - began


def measure(folder: Path, mode: str, files: int) -> list[float]:
    place = PoolsPlace(folder, mode)
    try:
        place.keep_busy()
        place.light()
        when(lambda: place.commits(HEAVY) >= 0, 300.0, sign=place.driver.printed)
        return [place.light() for _ in range(files)]
    finally:
        (folder / "halt").touch()
        place.driver.end()


def main() -> int:
    parser = argparse.ArgumentParser(prog="stream-pools")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--files", type=int, default=12)
    asked = parser.parse_args()
    began, folder = time.monotonic(), Path(tempfile.mkdtemp(prefix="stream-pools-"))
    found: dict[str, list[float]] = {mode: [] for mode in MODES}
    for number in range(asked.rounds):
        for mode in MODES if number % 2 == 0 else MODES[::-1]:
            times = measure(folder / f"{number}-{mode}", mode, asked.files)
            found[mode] += times
            print(f"round {number}, {mode}: {' '.join(f'{one:.1f}' for one in times)} s", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    late = {mode: statistics.quantiles(times, n=100)[P95] for mode, times in found.items()}
    ratio = late["FAIR"] / late["FIFO"]
    print(
        f"RESULT stream-pools files={asked.rounds * asked.files} p95_fifo_s={late['FIFO']:.1f} "
        f"p95_fair_s={late['FAIR']:.1f} ratio={ratio:.2f} minutes={(time.monotonic() - began) / 60:.1f}"
    )
    return 0 if ratio <= RATIO_MAX else 1


if __name__ == "__main__":
    sys.exit(main())
