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

from nightly.gold import Gold, Mark
from nightly.lake import NEW_COLUMN, Lake
from nightly.lake_tables import LakeTables
from support.drivers import Driver, kill_driver, start_driver
from support.s3 import S3Server

HERE = Path(__file__).parent
COMMAND = Path(sys.executable).with_name("rekindle")
SCRIPTS = ("plain.py", "pipeline.py", "onramp.py")
DONE, DIFFERENT = 0, 5
# Far more than a night takes: a busy machine is no fault.
NIGHT_S_MAX = 1_500.0
LOOK_S = 0.05
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
    """Everything below one folder; with a server, what is published and the location of the runs in its bucket. `bare`
    is what the plain script writes, the truth. `tables` are the targets where they are not files."""

    folder: Path
    lake: Lake
    server: S3Server | None = None
    tables: LakeTables | None = None
    project: Path = field(init=False)
    bare: Path = field(init=False)
    gold: Gold = field(init=False)
    runs: Gold = field(init=False)
    onramp: Gold = field(init=False)

    def __post_init__(self) -> None:
        self.project, self.bare = self.folder / "project", self.folder / "bare"
        root = str(self.folder) if self.server is None else self.server.url("shop")
        self.gold, self.runs, self.onramp = (Gold(f"{root}/{name}", self.server) for name in ("gold", "runs", "onramp"))

    @property
    def settings(self) -> Mapping[str, str]:
        found: Mapping[str, str] = SETTINGS | (self.server.spark_settings if self.server is not None else {})
        return {**found, **(self.tables.settings if self.tables is not None else {})}

    def begin(self) -> None:
        self.project.mkdir(parents=True)
        for name in SCRIPTS:
            shutil.copy(HERE / name, self.project)
        if self.tables is not None:
            self.change(self.tables.edits, "pipeline.py")
        self.lake.begin()

    def change(self, edits: tuple[tuple[str, str], ...], *scripts: str) -> None:
        """The same change of every script, or of these."""
        for name in scripts or SCRIPTS:
            path = self.project / name
            text = path.read_text()
            for old, new in edits:
                assert text.count(old) == 1, f"{name} has {old!r} {text.count(old)} times"
                text = text.replace(old, new)
            path.write_text(text)

    def start(self, day: str, *options: str) -> Driver:
        """A driver of the pipeline for one day."""
        place = ("--location", self.runs.root)
        arguments = ("run", str(self.project / "pipeline.py"), "-p", f"day={day}", *place, *options)
        return start_driver(COMMAND, *arguments, folder=self.folder / "drivers", settings=self.settings, env=self._env)

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
                time.sleep(LOOK_S)
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
        arguments = (str(self.lake.folder), self.onramp.root, day)
        script = self.project / "onramp.py"
        driver = start_driver(script, *arguments, folder=self.folder / "drivers", settings=self.settings, env=self._env)
        finish(driver, day, DONE)

    def run_plain(self, day: str) -> None:
        """The plain script, in this process: bare Spark's word on this day."""
        before = sys.argv
        sys.argv = ["plain.py", str(self.lake.folder), str(self.bare), day]
        try:
            runpy.run_path(str(self.project / "plain.py"), run_name="__main__")
        finally:
            sys.argv = before

    def records(self, runs: set[str]) -> int:
        """How many records the journals of these runs have."""
        store = self.runs.store()
        names = (name for run in runs for name in store.list_after(f"nightly/{run}/journal/"))
        return sum(1 for name in names if name.startswith("0"))

    def by_day(self) -> dict[str, dict[str, Mark]]:
        """The files of the fact by day, with what tells whether they are the same."""
        return self.gold.by_day("fact") if self.tables is None else self.tables.by_day("fact")

    def newest_records(self) -> int:
        return self.records({max(self._runs())})

    def _runs(self) -> list[str]:
        return [name for name in self.runs.store().list_folders("nightly/") if name.startswith("2")]

    @property
    def _env(self) -> Mapping[str, str]:
        places = {"LAKE": str(self.lake.folder), "GOLD": self.gold.root}
        if self.server is not None:
            places |= {f"REKINDLE_STORAGE_{name.upper()}": value for name, value in self.server.store_settings.items()}
        return {**places, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": os.environ["SPARK_LOCAL_IP"]}


def finish(driver: Driver, what: str, ends_with: int) -> str:
    try:
        code = driver.wait(NIGHT_S_MAX)
    finally:
        driver.end()
    assert code == ends_with, f"{what} ended with {code} and not {ends_with}:\n{driver.text()[-4000:]}"
    return driver.text()
