"""`rekindle demo`: a run that loses a worker and then its driver in front of the user, and is healed.

- Everything is real: a Spark cluster on loopback, drivers that are processes, kill -9.
- It starts what it kills, ends all it started, by pid, and removes its folder; also when it is interrupted.
- Exit 0 only if the published rows equal those of plain Spark without a fault, and less than everything ran again.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import click

from rekindle.cli.boundary import ExitCode
from rekindle.cli.demo_acts import DemoCast, DemoTerminal, play
from rekindle.cli.demo_driver import Terminal
from rekindle.cli.demo_judge import RunReader
from rekindle.cli.demo_scene import PIPELINE_NAME, lay_out, write_spark_settings
from rekindle.cli.plan import console
from rekindle.config import java_home
from rekindle.errors import Refused, RunFailed
from rekindle.local_cluster.cluster import LocalCluster, Size, spark_home

SIZE = Size(worker_cores=4, worker_memory_mb=2048, executor_cores=2, executor_memory_mb=640, application_cores=4)
FOREIGN = ("REKINDLE_", "SPARK_", "PYSPARK_")
ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


@click.command("demo")
@click.option("--keep", metavar="FOLDER", help="Use this new folder and keep it, to explore it afterwards.")
def command(keep: str | None) -> int:
    """Start a small cluster on this machine, kill a worker and the driver of a run, and resume the run.

    The demo needs only pyspark and Java. It listens only on loopback, and removes its files at the end.
    """
    _refuse_what_is_missing()
    folder = _folder(keep)
    try:
        with _endings_as_interrupts():
            return _play_in(folder, is_kept=keep is not None)
    finally:
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)


def _play_in(folder: Path, *, is_kept: bool) -> int:
    started, teller = time.monotonic(), DemoTerminal(console())
    lay_out(folder)
    teller.opening(folder)
    cluster = LocalCluster(2, size=SIZE, folder=folder / "cluster")
    with _started(cluster), Terminal(folder, _environment(folder, cluster), teller.typed, teller.printed) as terminal:
        is_healed = play(DemoCast(cluster, terminal, RunReader(folder / "store", PIPELINE_NAME), folder, teller))
    teller.closing(time.monotonic() - started, folder if is_kept else None)
    return ExitCode.DONE if is_healed else ExitCode.FAILED


@contextmanager
def _started(cluster: LocalCluster) -> Iterator[None]:
    try:
        cluster.start()
    except RuntimeError as error:
        cluster.stop()
        raise RunFailed(
            f"the cluster of the demo: {next(iter(str(error).splitlines()))}",
            "rekindle doctor",
            is_resumable=False,
        ) from error
    except BaseException:
        cluster.stop()
        raise
    try:
        yield
    finally:
        cluster.stop()


def _environment(folder: Path, cluster: LocalCluster) -> dict[str, str]:
    """This one without what it says about other clusters and locations, and with what is said about this one."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    conf = write_spark_settings(folder, cluster.app_settings())
    width = max(60, console().width - len(DemoTerminal.MARGIN))
    return {
        **own,
        **cluster.app_env,
        "SPARK_HOME": str(spark_home()),
        "SPARK_CONF_DIR": str(conf),
        "COLUMNS": str(width),
        "PYTHONUNBUFFERED": "1",
    }


def _refuse_what_is_missing() -> None:
    if importlib.util.find_spec("pyspark") is None:
        raise Refused("the demo needs pyspark, which is not installed", "pip install 'rekindle[spark]'")
    if not java_home() and shutil.which("java") is None:
        raise Refused("the demo needs Java 17 or newer, and none was found", "install it, then: rekindle doctor")
    if not Path("/proc/self/stat").exists():
        raise Refused(
            "the demo runs only on Linux, because it starts and kills processes", "run it on Linux, or in a container"
        )


def _folder(keep: str | None) -> Path:
    if keep is None:
        return Path(tempfile.mkdtemp(prefix="rekindle-demo-"))
    folder = Path(keep).absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Refused(f"{keep} already exists and is not empty", "name a folder that does not exist yet")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def _endings_as_interrupts() -> Iterator[None]:
    """Who ends the demo ends all it started: a signal unwinds as Ctrl-C does."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in ENDING_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
