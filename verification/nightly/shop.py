"""One shop with its lake, its gold and its runs: nights are run by real drivers, as a user's scheduler would.

The pipeline and the plain script lie in a project folder; a change of code is a change of their text there.
"""

from __future__ import annotations

import os
import random
import runpy
import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nightly.lake import NEW_COLUMN, Lake
from support.drivers import Driver, kill_driver, start_driver

HERE = Path(__file__).parent
COMMAND = Path(sys.executable).with_name("rekindle")
SCRIPTS = ("plain.py", "pipeline.py", "onramp.py")
DONE, DIFFERENT = 0, 5
# Far more than a night takes: a busy machine is no fault.
NIGHT_S_MAX = 1_500.0
SETTINGS = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.log.level": "ERROR",
    # A night is short: most of what it costs is the start of a JVM and its compiler.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
# What the shop changes one day: each text stands once in every script.
CODE = (("BONUS = 5\n", "BONUS = 7\n"),)
SCHEMA = (
    ("amount string", f"amount string, {NEW_COLUMN} string"),
    ('"score", "visits"', f'"score", "{NEW_COLUMN}", "visits"'),
)


@dataclass(slots=True)
class Shop:
    """Everything below one folder. `bare` is what the plain script writes, the truth."""

    folder: Path
    lake: Lake
    project: Path = field(init=False)
    bare: Path = field(init=False)
    gold: Path = field(init=False)
    runs: Path = field(init=False)
    onramp: Path = field(init=False)

    def __post_init__(self) -> None:
        self.project, self.bare = self.folder / "project", self.folder / "bare"
        self.gold, self.runs = self.folder / "gold", self.folder / "runs"
        self.onramp = self.folder / "onramp"

    def begin(self) -> None:
        self.project.mkdir(parents=True)
        for name in SCRIPTS:
            shutil.copy(HERE / name, self.project)
        self.lake.begin()

    def change(self, edits: tuple[tuple[str, str], ...]) -> None:
        """The same change of every script."""
        for name in SCRIPTS:
            path = self.project / name
            text = path.read_text()
            for old, new in edits:
                assert text.count(old) == 1, f"{name} has {old!r} {text.count(old)} times"
                text = text.replace(old, new)
            path.write_text(text)

    def start(self, day: str, *options: str) -> Driver:
        """A driver of the pipeline for one day."""
        place = ("--location", str(self.runs))
        arguments = ("run", str(self.project / "pipeline.py"), "-p", f"day={day}", *place, *options)
        return start_driver(COMMAND, *arguments, folder=self.folder / "drivers", settings=SETTINGS, env=self._env)

    def run(self, day: str, *options: str, ends_with: int = DONE) -> str:
        """A night until it is over; what it printed."""
        driver = self.start(day, *options)
        return finish(driver, day, ends_with)

    def run_killed(self, day: str, after: int, chance: random.Random) -> bool:
        """A night whose driver dies by kill -9 when its journal has so many records, and a moment later; and the night
        that resumes it. False if it was done before it could be killed."""
        before = set(self._runs())
        driver = self.start(day)
        try:
            while driver.is_alive() and self.records(set(self._runs()) - before) < after:
                time.sleep(0.02)
            time.sleep(chance.random())
            is_killed = driver.is_alive()
            if is_killed:
                kill_driver(driver)
        finally:
            driver.end()
        self.run(day)
        return is_killed

    def run_onramp(self, day: str) -> None:
        """The script with the on-ramp, into a gold of its own."""
        arguments = (str(self.lake.folder), str(self.onramp), day)
        script = self.project / "onramp.py"
        driver = start_driver(script, *arguments, folder=self.folder / "drivers", settings=SETTINGS, env=self._env)
        finish(driver, day, DONE)

    def run_plain(self, day: str) -> None:
        """The plain script, in this process: bare Spark's word on this day."""
        before = sys.argv
        sys.argv = ["plain.py", str(self.lake.folder), str(self.bare), day]
        try:
            runpy.run_path(str(self.project / "plain.py"), run_name="__main__")
        finally:
            sys.argv = before

    def records(self, runs: set[Path]) -> int:
        """How many records the journals of these runs have."""
        return sum(1 for run in runs for _ in (run / "journal").glob("0*"))

    def newest_records(self) -> int:
        return self.records({max(self._runs())})

    def _runs(self) -> list[Path]:
        return [path for path in (self.runs / "nightly").glob("2*") if path.is_dir()]

    @property
    def _env(self) -> Mapping[str, str]:
        places = {"LAKE": str(self.lake.folder), "GOLD": str(self.gold)}
        return {**places, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": os.environ["SPARK_LOCAL_IP"]}


def finish(driver: Driver, what: str, ends_with: int) -> str:
    try:
        code = driver.wait(NIGHT_S_MAX)
    finally:
        driver.end()
    assert code == ends_with, f"{what} ended with {code} and not {ends_with}:\n{driver.text()[-4000:]}"
    return driver.text()
