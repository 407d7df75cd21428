"""`make stream-shards`: a stream in four shards, one of which has a poison record; and four that become eight.

- **poison**: runs with the record and without it take turns over the same files. How long the other three shards take
  from their first commit to their last, by the times of Spark's own commits: with the record at most 1/0.95 of without.
  The restarts of the failed shard cost the others some seconds, once (`extra_s`): so few files would measure those.
  The control has no shards: its one query stops, and rows are missing.
- **split**: files come all the while. Four shards are stopped, finish what they had begun, and go on as eight; the
  driver of the eight is killed (-9) at a random moment of its first seconds, and again later. In the end each row is in
  the target once.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq

from build_jar import JAR
from stream_shards.shards_driver import PLAIN
from support.drivers import Driver, kill_driver, start_driver
from support.feed import Feed
from support.signals import when

ROWS, SHARDS, MORE, RATE_MIN = 200, 4, 8, 0.95
NOBODY = "-1"
SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.jars": str(JAR),
    "spark.scheduler.mode": "FAIR",
}


class ShardsPlace:
    """One folder: input, state, target."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._started = folder, 0
        (folder / "in").mkdir(parents=True)

    def feed(self, number: int) -> None:
        made = self.folder / f".{number}"
        made.write_text("".join(f'{{"id":{one}}}\n' for one in range(number * ROWS, (number + 1) * ROWS)))
        made.rename(self.folder / "in" / f"{number:05d}.json")

    def start(self, shards: int, *words: str, poisoned: str = NOBODY) -> Driver:
        self._started += 1
        return start_driver(
            Path(__file__).with_name("shards_driver.py"),
            str(self.folder),
            str(shards),
            poisoned,
            *words,
            folder=self.folder / f"driver-{self._started}",
            settings=SETTINGS,
            env={"PYSPARK_PYTHON": sys.executable},
        )

    def ended(self, shards: int, *words: str, poisoned: str = NOBODY) -> str:
        """What a driver printed that ends by itself."""
        driver = self.start(shards, *words, poisoned=poisoned)
        try:
            code = driver.wait(600.0, sign=self.commits)
            if code:
                raise RuntimeError(f"the driver ended with {code}:\n{driver.text()[-3000:]}")
            return driver.text()
        finally:
            driver.end()

    def regions(self) -> dict[str, list[Path]]:
        """The commits of each region, in all checkpoints that it had."""
        found: dict[str, list[Path]] = {}
        for one in self.folder.glob("state/live/_streams/*/checkpoints*/*/commits/*"):
            if one.name.isdigit():
                found.setdefault(one.parent.parent.name, []).append(one)
        return found

    def commits(self) -> int:
        return sum(map(len, self.regions().values()))

    def last_read(self) -> int:
        """The last of as many files as have their rows in the target."""
        return self.rows().total() // ROWS - 1

    def rows(self) -> Counter[int]:
        found = Counter[int]()
        for path in Path(self.folder / PLAIN / "current").resolve().glob("*.parquet"):
            found.update(pq.read_table(path, columns=["id"]).column("id").to_pylist())
        return found

    def moved(self, driver: Driver, commits: int) -> None:
        was = self.commits()
        when(lambda: self.commits() >= was + commits or not driver.is_alive(), 300.0, sign=driver.printed)
        if not driver.is_alive():
            raise RuntimeError(f"the driver ended:\n{driver.text()[-3000:]}")

    def begun(self, driver: Driver) -> None:
        """Until its regions are told to start."""
        when(lambda: " started" in driver.text() or not driver.is_alive(), 300.0, sign=driver.printed)

    def stop(self, driver: Driver) -> None:
        halt = self.folder / "halt"
        halt.touch()
        driver.wait(300.0, sign=self.commits)
        halt.unlink()


def took(place: ShardsPlace, regions: list[str]) -> float:
    """Seconds from the first commit to the last of these regions, the mean of all."""
    spans = []
    for name in regions:
        times = [one.stat().st_mtime for one in place.regions()[name]]
        spans.append(max(times) - min(times))
    return statistics.mean(spans)


def poison_round(folder: Path, files: int, *, is_poisoned: bool, shards: int = SHARDS) -> tuple[ShardsPlace, str]:
    """All files are there; the record is in the one after the first third. The region that gave up."""
    place = ShardsPlace(folder)
    for number in range(files):
        place.feed(number)
    if is_poisoned:
        (folder / "poison").touch()
    text = place.ended(shards, "now", poisoned=str(files // 3 * ROWS))
    gave_up = [line.split()[1] for line in text.splitlines() if " gave up: poison" in line]
    return place, gave_up[0] if gave_up else ""


def poison(folder: Path, rounds: int, files: int) -> tuple[str, bool]:
    ratios, extra_s, lost = [], [], 0
    everything = Counter(range(files * ROWS))
    poison_round(folder / "warm", 3, is_poisoned=False)
    for number in range(rounds):
        made: dict[bool, ShardsPlace] = {}
        failed = ""
        for is_poisoned in (True, False) if number % 2 else (False, True):
            its = folder / f"{number}-{is_poisoned}"
            made[is_poisoned], name = poison_round(its, files, is_poisoned=is_poisoned)
            failed = failed or name
        healthy = [f"{PLAIN}.{one}" for one in range(SHARDS) if f"{PLAIN}.{one}" != failed]
        undisturbed_s, disturbed_s = took(made[False], healthy), took(made[True], healthy)
        ratios.append(undisturbed_s / disturbed_s)
        extra_s.append(disturbed_s - undisturbed_s)
        lost += (everything - made[False].rows()).total()
        missing = everything - made[True].rows()
        # Those that only the failed shard could read.
        lost += 0 if missing and missing.total() < everything.total() / 2 else 1
        (made[True].folder / "poison").unlink()
        made[True].ended(SHARDS, "now")
        lost += made[True].rows() != everything
        print(
            f"round {number}: {failed} gave up, rate of the others {ratios[-1]:.3f} of undisturbed "
            f"({disturbed_s:.1f} s, {undisturbed_s:.1f} s)",
            flush=True,
        )
    control, _ = poison_round(folder / "control", files, is_poisoned=True, shards=1)
    stopped = (everything - control.rows()).total() / everything.total()
    rate = statistics.median(ratios)
    told = f"poison_rounds={rounds} files={files} rate={rate:.3f} extra_s={statistics.median(extra_s):.1f} "
    told += f"lost={lost} control_missing={stopped:.2f}"
    return told, rate >= RATE_MIN and not lost and stopped > 0.5


def split_round(folder: Path, chance: random.Random) -> tuple[int, int, int]:
    """Rows lost, rows doubled, and kills."""
    place = ShardsPlace(folder)
    place.feed(0)
    feed = Feed(place.feed, place.last_read, 0.5)
    kills = 0
    try:
        driver = place.start(SHARDS)
        try:
            place.moved(driver, 6 * SHARDS)
            place.stop(driver)
        finally:
            driver.end()
        text = place.ended(SHARDS, "now")
        driver = place.start(MORE)
        try:
            place.begun(driver)
            for seconds in (chance.uniform(0, 4), chance.uniform(2, 10)):
                time.sleep(seconds)
                if driver.is_alive():
                    kill_driver(driver)
                    kills += 1
                text = driver.text()
                driver = place.start(MORE)
                place.begun(driver)
            place.moved(driver, 3 * MORE)
            files = feed.end()
            place.stop(driver)
        finally:
            driver.end()
        text = place.ended(MORE, "now")
    finally:
        feed.end()
    expected, found = Counter(range(files * ROWS)), place.rows()
    lost, doubled = (expected - found).total(), (found - expected).total()
    if lost or doubled:
        print(f"WRONG {lost} lost, {doubled} doubled of {files} files:\n{text[-2000:]}", flush=True)
    return lost, doubled, kills


def main() -> int:
    parser = argparse.ArgumentParser(prog="stream-shards")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--files", type=int, default=160)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    began, folder = time.monotonic(), Path(tempfile.mkdtemp(prefix="stream-shards-"))
    chance, told, is_right = random.Random(asked.seed), "", True
    if asked.rounds:
        told, is_right = poison(folder / "poison", asked.rounds, asked.files)
    lost = doubled = kills = 0
    for number in range(asked.splits):
        one = split_round(folder / f"split-{number}", chance)
        lost, doubled, kills = lost + one[0], doubled + one[1], kills + one[2]
        print(f"split {number}: lost {one[0]}, doubled {one[1]}, {one[2]} kills", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    print(
        f"RESULT stream-shards {told} splits={asked.splits} split_kills={kills} split_lost={lost} "
        f"split_doubled={doubled} minutes={(time.monotonic() - began) / 60:.1f}"
    )
    return 0 if is_right and not lost and not doubled else 1


if __name__ == "__main__":
    sys.exit(main())
