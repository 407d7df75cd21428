"""`rekindle demo`: a run that loses a worker and then its driver in front of the user, and is healed.

- Everything is real: a Spark cluster on loopback, drivers that are processes, kill -9.
- It starts what it kills, ends all it started, by pid, and removes its folder; also when it is interrupted.
- Exit 0 only if the published rows equal those of plain Spark without a fault, and less than everything ran again.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

import click

from rekindle.cli.boundary import ExitCode
from rekindle.cli.demo_acts import DemoCast, DemoTerminal, play
from rekindle.cli.demo_driver import Terminal
from rekindle.cli.demo_judge import RunReader
from rekindle.cli.demo_scene import PIPELINE_NAME, lay_out
from rekindle.cli.own_cluster import SIZE, endings_as_interrupts, environment, refuse_what_is_missing, started
from rekindle.cli.plan import console
from rekindle.errors import Refused
from rekindle.local_cluster.cluster import LocalCluster


@click.command("demo")
@click.option("--keep", metavar="FOLDER", help="Use this new folder and keep it, to explore it afterwards.")
def command(keep: str | None) -> int:
    """Start a small cluster on this machine, kill a worker and the driver of a run, and resume the run.

    The demo needs only pyspark and Java. It listens only on loopback, and removes its files at the end.
    """
    refuse_what_is_missing("the demo")
    folder = _folder(keep)
    try:
        with endings_as_interrupts():
            return _play_in(folder, is_kept=keep is not None)
    finally:
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)


def _play_in(folder: Path, *, is_kept: bool) -> int:
    began, teller = time.monotonic(), DemoTerminal(console())
    lay_out(folder)
    teller.opening(folder)
    cluster = LocalCluster(2, size=SIZE, folder=folder / "cluster")
    width = max(60, console().width - len(DemoTerminal.MARGIN))
    with (
        started(cluster, "the demo"),
        Terminal(folder, environment(folder, cluster, width), teller.typed, teller.printed) as terminal,
    ):
        is_healed = play(DemoCast(cluster, terminal, RunReader(folder / "store", PIPELINE_NAME), folder, teller))
    teller.closing(time.monotonic() - began, folder if is_kept else None)
    return ExitCode.DONE if is_healed else ExitCode.FAILED


def _folder(keep: str | None) -> Path:
    if keep is None:
        return Path(tempfile.mkdtemp(prefix="rekindle-demo-"))
    folder = Path(keep).absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Refused(f"{keep} already exists and is not empty", "name a folder that does not exist yet")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
