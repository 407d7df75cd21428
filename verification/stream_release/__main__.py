"""`make stream-release`: at least 5,000 batches of a result that three regions read, with drivers killed meanwhile.

What a stream keeps of its result is counted every two seconds: the files may not grow with the batches, by the slope of
a line through the counts after the first two minutes of each half. In the second half one reader is no longer in the
code. In the end it comes back: it must name the batch that it misses. Both others have each row once, with what was
drawn for it, and after gc no files of the result are left that do not count.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq

from build_jar import JAR
from stream_release.release_driver import KEEP_MINUTES, MADE, ONCE, PLAIN, SIDE, WITHOUT
from support.drivers import Driver, kill_driver, start_driver
from support.signals import when
from support.slopes import Slope, slope_of

MAIN = "from rekindle.cli.main import main; main()"
EVERY_S, WARM_UP_S, GONE = 2.0, 120.0, f"of the result of {MADE} is gone"
SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.jars": str(JAR),
    "spark.sql.shuffle.partitions": "1",
    "spark.scheduler.mode": "FAIR",
}


class ReleasePlace:
    """One folder, with the driver that runs in it now."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._started = folder, 0

    def start(self, *words: str) -> Driver:
        self._started += 1
        return start_driver(
            Path(__file__).with_name("release_driver.py"),
            str(self.folder),
            *words,
            folder=self.folder / f"driver-{self._started}",
            settings=SETTINGS,
            env={"PYSPARK_PYTHON": sys.executable},
        )

    def batch(self) -> int:
        """The last one that the producer committed."""
        names = (one.name for one in self.folder.glob(f"state/live/_streams/*/checkpoints/{MADE}/commits/*"))
        return max((int(name) for name in names if name.isdigit()), default=-1)

    def tries(self) -> int:
        """How many directories the result has."""
        return sum(1 for _ in self._result().glob("data/*/*/*"))

    def orphans(self) -> tuple[int, int]:
        """Directories of the result that no entry names: of batches before the last one, and of that one or the next,
        which go when readers have passed it."""
        named = {line.removeprefix("directory\t") for one in self._entries() for line in one.read_text().splitlines()}
        last = max(int(one.name) for one in self._entries())
        left = [one for one in self._result().glob("data/*/*/*") if str(one.relative_to(self._result())) not in named]
        late = sum(1 for one in left if int(one.name.split("-")[0]) >= last)
        return len(left) - late, late

    def _entries(self) -> list[Path]:
        return [one for one in self._result().glob("entries/*/*/*") if one.name.isdigit()]

    def _result(self) -> Path:
        (stream,) = (self.folder / "state" / "live" / "_streams").iterdir()
        return stream / "results" / MADE

    def moved(self, driver: Driver, batches: int) -> None:
        """Until there are so many more."""
        was = self.batch()
        when(lambda: self.batch() >= was + batches or not driver.is_alive(), 300.0, sign=driver.printed)
        if not driver.is_alive():
            raise RuntimeError(f"the driver ended:\n{driver.text()[-3000:]}")

    def stop(self, driver: Driver) -> None:
        halt = self.folder / "halt"
        halt.touch()
        driver.wait()
        halt.unlink()

    def rows(self, name: str) -> Counter[tuple[int, float]]:
        found: Counter[tuple[int, float]] = Counter()
        for path in (self.folder / name / "current").glob("*.parquet"):
            table = pq.read_table(path, columns=["value", "drawn"])
            found.update(zip(table.column("value").to_pylist(), table.column("drawn").to_pylist(), strict=True))
        return found


def half(place: ReleasePlace, driver: Driver, upto: int, kills: int, words: list[str]) -> tuple[Driver, Slope, int]:
    """Until the producer has so many batches, with a driver killed now and then: the driver, and how the number of
    directories grew, and their most."""
    began, first = time.monotonic(), place.batch()
    marks = [first + (upto - first) * (number + 1) // (kills + 1) for number in range(kills)]
    found: list[dict[str, float]] = []
    while place.batch() < upto:
        place.moved(driver, 1)
        if marks and place.batch() >= marks[0]:
            marks.pop(0)
            kill_driver(driver)
            driver = place.start(*words)
        time.sleep(EVERY_S)
        found.append({"at_s": time.monotonic() - began, "count": float(place.tries())})
    late = [one for one in found if one["at_s"] > WARM_UP_S]
    if len(late) < 3:
        raise RuntimeError("too few batches for a slope: ask for more")
    return driver, slope_of(late, "count"), round(max(one["count"] for one in late))


def main() -> int:
    parser = argparse.ArgumentParser(prog="stream-release")
    parser.add_argument("--batches", type=int, default=5_000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--keep", action="store_true", help="leave the folder for a look")
    asked = parser.parse_args()
    began, place = time.monotonic(), ReleasePlace(Path(tempfile.mkdtemp(prefix="stream-release-")))
    driver = place.start()
    try:
        driver, all_slope, all_most = half(place, driver, asked.batches // 2, asked.kills // 2, [])
        place.stop(driver)
        driver = place.start(WITHOUT)
        driver, left_slope, left_most = half(place, driver, asked.batches, asked.kills // 2, [WITHOUT])
        place.stop(driver)
        driver = place.start()
        when(lambda: f"{SIDE} gave up" in driver.text(), 300.0, sign=driver.printed)
        is_told = GONE in driver.text()
        place.moved(driver, 5)
        place.stop(driver)
        driver = place.start(WITHOUT)
        place.moved(driver, 5)
        place.stop(driver)
    finally:
        driver.end()
    plain, once = place.rows(PLAIN), place.rows(ONCE)
    doubled = sum(count - 1 for count in plain.values()) + sum(count - 1 for count in once.values())
    values = sorted(value for value, _ in plain)
    lost = 0 if values == list(range(len(values))) else 1
    # One of them may be some batches ahead: what both have is the same.
    least = min(len(plain), len(once))
    other = sum(1 for row in plain if row[0] < least and row not in once)
    words = ["gc", "--location", str(place.folder / "state"), "--set", "gc.grace_hours=0"]
    subprocess.run([sys.executable, "-c", MAIN, *words], check=True)
    orphans, late = place.orphans()
    batches = place.batch()
    if not asked.keep:
        shutil.rmtree(place.folder, ignore_errors=True)
    slopes = f"slope={all_slope.per_hour:.0f} slope_low={all_slope.low:.0f} most={all_most} "
    slopes += f"left_slope={left_slope.per_hour:.0f} left_slope_low={left_slope.low:.0f} left_most={left_most}"
    print(
        f"RESULT stream-release batches={batches} kills={asked.kills} keep_minutes={KEEP_MINUTES} {slopes} "
        f"rows={len(plain)} lost={lost} doubled={doubled} other={other} told={is_told} orphans={orphans} late={late} "
        f"minutes={(time.monotonic() - began) / 60:.1f}"
    )
    is_flat = all_slope.is_flat and left_slope.is_flat
    return 0 if is_flat and is_told and not (lost or doubled or other or orphans) else 1


if __name__ == "__main__":
    sys.exit(main())
