"""Worker processes: started when they are needed, each with a warm Spark, ended and replaced when they break."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import msgspec

from build_jar import TEST_JAR
from differential.orders import Answer, Order, Status

ORDERS_MAX = 400
SECONDS_MAX = 600.0
TOOLS = Path(__file__).parent.parent
# A shuffle manager that is not Spark's own: no exchange is proved by a checksum, as on Spark 3.5 and 4.0.
WITHOUT_CHECKSUMS = {
    "spark.shuffle.manager": "rekindle.test.SameChecksums",
    "spark.driver.extraClassPath": str(TEST_JAR),
}


class Worker:
    """One process; its Spark has `cores` cores, and is started with these settings."""

    def __init__(self, cores: int, folder: Path, settings: Mapping[str, str]) -> None:
        self._cores, self._folder, self._settings = cores, folder, settings
        self._child: subprocess.Popen[str] | None = None
        self._orders = 0

    def ask(self, order: Order) -> Answer:
        if self._child is None or self._child.poll() is not None or self._orders >= ORDERS_MAX:
            self.end()
            self._start()
        self._orders += 1
        child = self._child
        assert child is not None and child.stdin is not None and child.stdout is not None
        try:
            child.stdin.write(msgspec.json.encode(order).decode() + "\n")
            child.stdin.flush()
            line = _line(child.stdout)
        except BrokenPipeError:
            line = ""
        if not line:
            self.end()
            return Answer(Status.RAW, error="WorkerDied", message="the process ended, or did not answer in time")
        return msgspec.json.decode(line, type=Answer)

    def end(self) -> None:
        """The process, and the JVM it started: both are in a session of their own."""
        if self._child is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child.pid, signal.SIGKILL)
            self._child.wait()
            self._child = None
        self._orders = 0

    def _start(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        paths = os.pathsep.join(str(one) for one in (TOOLS.parent / "src", TOOLS.parent / "tests", TOOLS))
        given = [str(self._cores), str(self._folder / "warehouse"), msgspec.json.encode(self._settings).decode()]
        with (self._folder / f"worker-{self._cores}.txt").open("a") as said:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "differential.worker", *given],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
                cwd=self._folder,
                env={**os.environ, "PYTHONPATH": paths, "SPARK_LOCAL_IP": "127.0.0.1"},
                start_new_session=True,
            )


def _line(output: IO[str]) -> str:
    """The next line, or nothing after a time in which no program of ours can be at work."""
    with selectors.DefaultSelector() as waiting:
        waiting.register(output, selectors.EVENT_READ)
        return output.readline() if waiting.select(SECONDS_MAX) else ""


class Crew:
    """The worker that runs everything, and one with other cores that goes on with what another process left."""

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        self.first, self.second = Worker(2, folder, settings or {}), Worker(3, folder, settings or {})

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *error: object) -> None:
        self.first.end()
        self.second.end()
