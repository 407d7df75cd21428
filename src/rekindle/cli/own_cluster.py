"""A cluster of our own for a command: what it needs, its environment, and that all of it ends with the command."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from rekindle.cli.demo_scene import write_spark_settings
from rekindle.config import java_home
from rekindle.errors import Refused, RunFailed
from rekindle.local_cluster.cluster import LIGHT, LocalCluster, Size, spark_home

SIZE = Size(worker_cores=4, worker_memory_mb=2048, executor_cores=2, executor_memory_mb=640, application_cores=4)
FOREIGN = ("REKINDLE_", "SPARK_", "PYSPARK_")
ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def started(cluster: LocalCluster, whose: str) -> Iterator[None]:
    try:
        cluster.start()
    except RuntimeError as error:
        cluster.stop()
        raise RunFailed(
            f"the cluster of {whose}: {next(iter(str(error).splitlines()))}",
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


def environment(folder: Path, cluster: LocalCluster, width: int) -> dict[str, str]:
    """This one without what it says about other clusters and locations, and with what is said about this one."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    settings = cluster.app_settings()
    # Its drivers and executors live for a minute: code that is compiled twice costs more than it saves.
    settings["spark.driver.extraJavaOptions"] += f" {LIGHT}"
    conf = write_spark_settings(folder, settings | {"spark.executor.extraJavaOptions": LIGHT})
    return {
        **own,
        **cluster.app_env,
        "SPARK_HOME": str(spark_home()),
        "SPARK_CONF_DIR": str(conf),
        "COLUMNS": str(width),
        "PYTHONUNBUFFERED": "1",
    }


def refuse_what_is_missing(whose: str) -> None:
    if importlib.util.find_spec("pyspark") is None:
        raise Refused(f"{whose} needs pyspark, which is not installed", "pip install 'rekindle[spark]'")
    if not java_home() and shutil.which("java") is None:
        raise Refused(f"{whose} needs Java 17 or newer, and none was found", "install it, then: rekindle doctor")
    if not Path("/proc/self/stat").exists():
        raise Refused(
            f"{whose} runs only on Linux, because it starts and kills processes", "run it on Linux, or in a container"
        )


@contextmanager
def endings_as_interrupts() -> Iterator[None]:
    """Who ends the command ends all it started: a signal unwinds as Ctrl-C does."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in ENDING_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
