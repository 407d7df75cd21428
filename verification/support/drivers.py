"""Driver programs as processes of their own, so that they can be killed, stopped and woken like real ones.

A driver is two processes: Python and the JVM it started. What is said to the driver is said to both, and to
nobody else. Settings reach it through a file of properties, so that the script is what a user would write.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rekindle.local_cluster.processes import Process, end
from support import class_archive
from support.signals import KERNEL_S_MAX, STALLED_S, cont, stop, when

ROOT = Path(__file__).parent.parent.parent


class Driver:
    """A script that runs as a driver; its output goes to a file."""

    def __init__(self, child: subprocess.Popen[bytes], output: Path) -> None:
        self._child = child
        self.output = output
        process = Process.of(child.pid)
        assert process is not None, "a child that was not waited for keeps its entry"
        self.process = process

    @property
    def java(self) -> Process | None:
        """The JVM of the driver, once it was started."""
        children = self.process.children()
        return next((child for child in children if Path((child.command() or [""])[0]).name == "java"), None)

    @property
    def processes(self) -> list[Process]:
        java = self.java  # Looked for once: it may end in between.
        return [self.process, *([java] if java is not None else [])]

    def text(self) -> str:
        return self.output.read_text(errors="replace")

    def is_alive(self) -> bool:
        return self.process.is_alive()

    def wait(self, timeout_s: float = STALLED_S, sign: Callable[[], object] | None = None) -> int:
        """Its exit code. A driver that does not end, and has printed nothing for so long, is an error that shows the
        end of its output; `sign` tells more of its steps than its output does."""
        try:
            when(lambda: self._child.poll() is not None, timeout_s, sign=sign or self.printed)
        except TimeoutError:
            raise TimeoutError(f"still running, and silent for {timeout_s} s:\n{self.text()[-3000:]}") from None
        return self._child.wait()

    def printed(self) -> int:
        return self.output.stat().st_size

    def end(self) -> None:
        """Whatever is left of it, ended."""
        end([*self.processes, *self.process.descendants()])
        self._child.wait()


def start_driver(
    script: Path,
    *arguments: str,
    folder: Path,
    settings: Mapping[str, str],
    env: Mapping[str, str] | None = None,
) -> Driver:
    """Start a script with Spark settings; its configuration and its output are in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    number = time.time_ns()
    properties, output = folder / f"settings-{number}.conf", folder / f"output-{number}.txt"
    properties.write_text("".join(f"{key} {value}\n" for key, value in with_classes(settings).items()))
    paths = os.pathsep.join(str(ROOT / name) for name in ("src", "tests", "verification"))
    submit = f"--properties-file {shlex.quote(str(properties))} pyspark-shell"
    variables = {"PYSPARK_SUBMIT_ARGS": submit, "PYTHONPATH": paths, "PYTHONUNBUFFERED": "1"}
    with output.open("wb") as file:
        child = subprocess.Popen(
            [sys.executable, str(script), *arguments],
            cwd=folder,
            env={**os.environ, **variables, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return Driver(child, output)


def with_classes(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings, with the archive of classes for the JVMs of driver and executors."""
    known = dict(settings)
    for who in ("driver", "executor"):
        name = f"spark.{who}.extraJavaOptions"
        options = class_archive.options(settings.get(f"spark.{who}.extraClassPath", ""))
        known[name] = f"{settings.get(name, '')} {options}".strip()
    return known


def kill_driver(driver: Driver) -> int:
    """kill -9 of Python and its JVM, and the moment of it in milliseconds. One that has ended is an error."""
    processes = driver.processes
    if not driver.is_alive():
        raise ProcessLookupError(f"the driver ended before it could be killed:\n{driver.text()[-3000:]}")
    moment_ms = time.time_ns() // 1_000_000
    # Both are stopped before the first is killed: neither may live to see the other die and write that down.
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for process in processes:
            process.send(number)
    when(lambda: not any(process.is_alive() for process in processes), KERNEL_S_MAX)
    driver.wait(KERNEL_S_MAX)
    return moment_ms


def stop_driver(driver: Driver) -> None:
    for process in driver.processes:
        stop(process)


def cont_driver(driver: Driver) -> None:
    for process in reversed(driver.processes):
        cont(process)


def flush_events_often(spark: Any, every_s: float = 0.5) -> None:
    """Make Spark write its event log out at least this often, for a driver that is going to be killed.

    Spark flushes the log on some events and not on those of tasks: of 6 tasks that finished 3 s before a kill,
    3 and 4 were in the log of two drivers without this, and 6 with it. To be called in the driver: it posts an
    event that flushes, about an RDD that does not exist.
    """
    context = spark.sparkContext._jsc.sc()
    made = getattr(spark.sparkContext._jvm, "org.apache.spark.scheduler.SparkListenerUnpersistRDD")

    def post() -> None:
        while not context.isStopped():
            context.listenerBus().post(made(-1))
            time.sleep(every_s)

    threading.Thread(target=post, name="flush-events", daemon=True).start()
