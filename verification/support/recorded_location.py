"""A location as a release left it: a project whose run failed, packed whole. The next releases resume it.

- One archive per release, made once and never changed: `python -m verification record_location` writes no second one.
- The pipeline reads its source as `viewfs://recorded/orders`, a name that every folder can be mounted under, and the
  archive keeps the modification times of the files: the pins of the run's inputs hold wherever it is unpacked.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import msgspec

from rekindle.journal.history import read
from rekindle.master.facts.events import AttemptOpened, Event, RunStarted
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.runtime.opening import codec
from rekindle.storage.local_disk import LocalDisk

HERE = Path(__file__).parents[2] / "tests" / "replay"
ARCHIVE = "location.tar.gz"
LOCATION = "location"
SCRATCH = "tmp"
PIPELINE = "shop"
# The country without a rate: its partition of `priced` failed in the recorded run.
MISSING = 3
STARTS_SPARK = ("plan", "run", "resume")
COMMAND = "from rekindle.cli.main import main; main()"
FOREIGN = ("REKINDLE_", "SPARK_", "PYSPARK_")


class Ended(msgspec.Struct, frozen=True):
    """What a command came to."""

    code: int
    text: str


def rekindle(project: Path, *words: str) -> Ended:
    """One `rekindle` command, as a process of its own in the folder of the project; what Spark leaves is in `tmp`.
    Those that may start Spark are told how."""
    (project / SCRATCH).mkdir(exist_ok=True)
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(project / SCRATCH),
        "spark.sql.session.timeZone": "UTC",
        "spark.hadoop.fs.viewfs.mounttable.recorded.link./orders": (project / "orders").as_uri(),
    }
    flags = [flag for key, value in settings.items() for flag in ("--conf", f"{key}={value}")]
    flags = ["--master", "local[2]", *flags] if words[0] in STARTS_SPARK else []
    known = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    mine = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "LC_ALL": "C.UTF-8", "COLUMNS": "140"}
    mine |= {"TMPDIR": str(project / SCRATCH), "REKINDLE_BACKOFF_INITIAL_MS": "10"}
    mine |= {"REKINDLE_LOCATION": LOCATION}
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, *words, *flags],
        cwd=project,
        env=known | mine,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    return Ended(done.returncode, done.stdout + done.stderr)


def give_rate(project: Path, country: int) -> None:
    (project / "rates" / str(country)).write_text(f"{country + 2}\n")


def pack(project: Path, archive: Path) -> None:
    """The project without anybody's name in it."""

    def nobody(found: tarfile.TarInfo) -> tarfile.TarInfo | None:
        found.uid = found.gid = 0
        found.uname = found.gname = ""
        return None if "__pycache__" in found.name else found

    with tarfile.open(archive, "w:gz") as packed:
        packed.add(project, arcname=".", filter=nobody)


def unpack(archive: Path, project: Path) -> None:
    """With the modification times that the files had."""
    with tarfile.open(archive) as packed:
        packed.extractall(project, filter="data")


def run_name(project: Path) -> str:
    """The one run there is."""
    [listed] = (project / LOCATION / PIPELINE / "_runs").iterdir()
    return listed.read_text()


def events_of(project: Path) -> list[Event]:
    """The facts of the run."""
    store = LocalDisk(project / LOCATION)
    return list(read(store, f"{PIPELINE}/{run_name(project)}", codec()).events)


def started_in(events: list[Event], epoch: int) -> dict[str, Partitions]:
    """Which partitions of each step the master of an epoch had computed."""
    found: dict[str, Partitions] = {}
    for event in events:
        if isinstance(event, AttemptOpened) and event.attempt.epoch == epoch:
            found[event.attempt.step] = found.get(event.attempt.step, EMPTY) | event.partitions
    return found


def fingerprints_of(events: list[Event]) -> dict[str, dict[str, str]]:
    """What each kept step was when the run started."""
    [started] = [event for event in events if isinstance(event, RunStarted)]
    return {step: dict(parts) for step, parts in started.fingerprints.items()}
