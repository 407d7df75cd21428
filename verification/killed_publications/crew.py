"""Publishers that are started, waited for, woken and killed, each by its process."""

from __future__ import annotations

import multiprocessing
import signal
import time
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import msgspec

from killed_publications import publisher
from killed_publications.modes import Assignment
from rekindle.local_cluster.processes import Process
from support.drivers import kill_driver, start_driver
from support.signals import when

SECONDS_MAX = 300.0
FORK = multiprocessing.get_context("forkserver")
FORK.set_forkserver_preload([publisher.__name__])


@dataclass(slots=True)
class Publisher:
    """A forked publisher: it lives, stands still, was killed, or has ended."""

    child: ForkServerProcess
    process: Process | None
    notes: Path

    @property
    def steps(self) -> list[str]:
        """What it did, up to its last step."""
        lines = self.notes.read_text().splitlines() if self.notes.exists() else []
        return [line for line in lines if line != publisher.READY and not line.startswith("answer ")]

    @property
    def answer(self) -> str:
        """Empty if it has not ended."""
        lines = self.notes.read_text().splitlines() if self.notes.exists() else []
        return next((line.removeprefix("answer ") for line in lines if line.startswith("answer ")), "")

    @property
    def is_frozen(self) -> bool:
        return self.process is not None and self.process.is_stopped()

    @property
    def was_killed(self) -> bool:
        return self.child.exitcode == -signal.SIGKILL

    def wait(self) -> None:
        """Until it was killed, has ended or stands still."""
        when(lambda: self.is_frozen or not self.child.is_alive(), SECONDS_MAX, 0.005)
        if not self.is_frozen:
            self.child.join()
            assert self.child.exitcode in (0, -signal.SIGKILL), f"a publisher ended with {self.child.exitcode}"

    def end(self) -> None:
        """Whatever it does, it is over: a process that stands still would be waited for."""
        if self.process is not None:
            self.process.send(signal.SIGKILL)
        self.child.join()

    def wake(self) -> None:
        """It goes on where it stood, to its end."""
        assert self.process is not None
        self.process.send(signal.SIGCONT)
        self.child.join()


def start(told: Assignment) -> Publisher:
    """A publisher with the JVM of this process."""
    child = FORK.Process(target=publisher.live, args=(msgspec.json.encode(told),))
    child.start()
    assert child.pid is not None
    return Publisher(child, Process.of(child.pid), Path(told.notes))


def killed_with_jvm(told: Assignment, folder: Path, after_s: float) -> tuple[bool, float]:
    """A publisher with a JVM of its own; both are killed so long after it began. False if it had ended; then the time
    that it took."""
    folder.mkdir(parents=True, exist_ok=True)
    body = folder / f"assignment-{time.time_ns()}"
    body.write_bytes(msgspec.json.encode(told))
    notes = Path(told.notes)
    driver = start_driver(Path(publisher.__file__), str(body), folder=folder, settings=told.spark)
    try:
        when(lambda: _has(notes, publisher.READY) or not driver.is_alive(), SECONDS_MAX, 0.002)
        began = time.monotonic()
        assert driver.is_alive(), driver.text()[-3000:]
        while time.monotonic() < began + after_s and driver.is_alive() and not _has(notes, "answer "):
            time.sleep(0.001)
        if driver.is_alive() and not _has(notes, "answer "):
            kill_driver(driver)
            return True, time.monotonic() - began
        return False, time.monotonic() - began
    finally:
        driver.end()


def _has(notes: Path, word: str) -> bool:
    return notes.exists() and word in notes.read_text()
