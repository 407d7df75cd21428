"""`make bench-stream`: P11. What a restart, and a batch without a failure, cost against bare queries.

Three drivers live side by side: a bare one, ours, and a bare one again as the control. One after the other is given a
file, in turns; the others wait. CPU is that of the driver's process and of all below it, from the file to its commit.
- Restarts: the batch fails once in a Python function, and the query starts again at once, from its checkpoint. The time
  from the failure to its notice is printed apart.
- Batches: no failure, and no Python.
Exit 0 if a restart costs at most 1.1 of the CPU, a batch at most 1.03 of the CPU and 1.05 of the time.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from bench_batch.figures import Estimate, estimate
from bench_stream.bench_driver import FRAGILE, NAME
from build_jar import JAR
from support.cpu import cpu_s_below
from support.drivers import Driver, start_driver
from support.signals import when

OURS, BARE, AGAIN = "ours", "bare", "again"
SIDES = (BARE, OURS, AGAIN)
PLAIN, ROWS, REST_S, WARM_UP = "plain", 2_000, 0.5, 3
RESTART_CPU_MAX, BATCH_CPU_MAX, BATCH_TIME_MAX = 1.1, 1.03, 1.05
SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.jars": str(JAR),
    "spark.sql.shuffle.partitions": "2",
    "spark.task.maxFailures": "1",
}


@dataclass(frozen=True, slots=True)
class BatchCost:
    """One batch: CPU seconds, seconds from its file to its commit, milliseconds from a failure to its notice."""

    cpu_s: float
    took_s: float
    notice_ms: float = 0.0


class BenchSide:
    """One driver, with its folder."""

    def __init__(self, folder: Path, name: str, plan: str) -> None:
        self.name, self._folder, self._files = name, folder / f"{plan}-{name}", 0
        for one in ("in", "fail", "raised"):
            (self._folder / one).mkdir(parents=True)
        self._driver: Driver = start_driver(
            Path(__file__).with_name("bench_driver.py"),
            str(self._folder),
            OURS if name == OURS else BARE,
            plan,
            folder=self._folder / "driver",
            settings=SETTINGS,
            env={"PYSPARK_PYTHON": sys.executable},
        )

    def _commit(self, number: int) -> bool:
        if self.name != OURS:
            return (self._folder / "checkpoints" / NAME / "commits" / str(number)).exists()
        return any(self._folder.glob(f"state/bench/_streams/*/checkpoints/{NAME}/commits/{number}"))

    def batch(self, *, fails: bool) -> BatchCost:
        number, self._files = self._files, self._files + 1
        made = self._folder / f".{number}"
        made.write_text("".join(f'{{"id":{number * ROWS + one},"text":"row {one}"}}\n' for one in range(ROWS)))
        cpu_s, began = cpu_s_below(self._driver.process.pid), time.monotonic()
        if fails:
            (self._folder / "fail" / str(number)).touch()
        made.rename(self._folder / "in" / f"{number:06d}.json")
        when(lambda: self._commit(number) or not self._driver.is_alive(), every_s=0.005, sign=self._driver.printed)
        took_s = time.monotonic() - began
        if not self._driver.is_alive():
            raise RuntimeError(f"the driver ended:\n{self._driver.text()[-3000:]}")
        used_s = cpu_s_below(self._driver.process.pid) - cpu_s
        return BatchCost(used_s, took_s, self._notice_ms(number) if fails else 0.0)

    def _notice_ms(self, number: int) -> float:
        raised = int((self._folder / "raised" / str(number)).read_text())
        return float(int((self._folder / "seen").read_text().split()[-1]) - raised)

    def end(self) -> None:
        (self._folder / "halt").touch()
        self._driver.end()


def measure(folder: Path, plan: str, rounds: int) -> dict[str, list[BatchCost]]:
    sides = [BenchSide(folder, name, plan) for name in SIDES]
    found: dict[str, list[BatchCost]] = {name: [] for name in SIDES}
    try:
        for number in range(-WARM_UP, rounds):
            turn = number % len(sides)
            for side in (*sides[turn:], *sides[:turn]):
                cost = side.batch(fails=plan == FRAGILE)
                if number >= 0:
                    found[side.name].append(cost)
                time.sleep(REST_S)
    finally:
        for side in sides:
            side.end()
    return found


def ratio(found: dict[str, list[BatchCost]], side: str, field: str) -> Estimate:
    both = zip(found[side], found[BARE], strict=True)
    return estimate([getattr(one, field) / getattr(bare, field) for one, bare in both])


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench-stream")
    parser.add_argument("--rounds", type=int, default=30)
    asked = parser.parse_args()
    began, folder = time.monotonic(), Path(tempfile.mkdtemp(prefix="stream-bench-"))
    restarts = measure(folder, FRAGILE, asked.rounds)
    batches = measure(folder, PLAIN, asked.rounds)
    shutil.rmtree(folder, ignore_errors=True)
    for what, found in (("restart", restarts), ("batch", batches)):
        for name in SIDES:
            cpu = statistics.median(one.cpu_s for one in found[name])
            took = statistics.median(one.took_s for one in found[name])
            notice = statistics.median(one.notice_ms for one in found[name])
            print(f"{what} {name}: CPU {cpu:.3f} s, {took:.3f} s, noticed after {notice:.0f} ms", flush=True)
    figures = {
        "restart_cpu": (ratio(restarts, OURS, "cpu_s"), RESTART_CPU_MAX),
        "batch_cpu": (ratio(batches, OURS, "cpu_s"), BATCH_CPU_MAX),
        "batch_time": (ratio(batches, OURS, "took_s"), BATCH_TIME_MAX),
    }
    control = {
        "restart_cpu_aa": ratio(restarts, AGAIN, "cpu_s"),
        "batch_cpu_aa": ratio(batches, AGAIN, "cpu_s"),
        "batch_time_aa": ratio(batches, AGAIN, "took_s"),
    }
    for name, one in (*((name, found) for name, (found, _) in figures.items()), *control.items()):
        print(f"{name}: {one}")
    told = " ".join(f"{name}={one.median:.3f}" for name, (one, _) in figures.items())
    controls = " ".join(f"{name}={one.median:.3f}" for name, one in control.items())
    missed = [name for name, (one, limit) in figures.items() if one.median > limit]
    print(
        f"RESULT bench-stream rounds={asked.rounds} {told} {controls} missed={','.join(missed) or 'none'} "
        f"minutes={(time.monotonic() - began) / 60:.1f}"
    )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
