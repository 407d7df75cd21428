"""Processes named so that a signal can reach nobody else.

A process is its pid and its start time: a pid that the system gave to another process in the meantime is
never signalled. Nothing here looks for processes by name. A dead process that nobody has waited for counts as
gone.
"""

from __future__ import annotations

import os
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Process:
    """One process of this machine."""

    pid: int
    start_ticks: int

    @staticmethod
    def of(pid: int) -> Process | None:
        stat = _stat(pid)
        return None if stat is None else Process(pid, stat.start_ticks)

    def is_alive(self) -> bool:
        stat = _stat(self.pid)
        return stat is not None and stat.start_ticks == self.start_ticks and stat.state not in "ZX"

    def is_stopped(self) -> bool:
        stat = _stat(self.pid)
        return stat is not None and stat.start_ticks == self.start_ticks and stat.state in "Tt"

    def send(self, number: signal.Signals) -> bool:
        """Signal exactly this process; False if it is already gone."""
        if not self.is_alive():
            return False
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        return True

    def command(self) -> list[str]:
        try:
            raw = (PROC / str(self.pid) / "cmdline").read_bytes()
        except OSError:
            return []
        return [part.decode(errors="replace") for part in raw.split(b"\0") if part]

    def children(self) -> list[Process]:
        return [Process(pid, stat.start_ticks) for pid, stat in _all() if stat.parent == self.pid]

    def descendants(self) -> list[Process]:
        found: list[Process] = []
        for child in self.children():
            found += [child, *child.descendants()]
        return found

    def wait_gone(self, timeout_s: float) -> bool:
        return wait_gone([self], timeout_s)


class Ended(ABC):
    """Something with processes, to be used as `with …`: whatever was started is ended, also if the start fails."""

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def stop(self) -> None: ...

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def wait_gone(processes: Iterable[Process], timeout_s: float) -> bool:
    left = list(processes)
    deadline = time.monotonic() + timeout_s
    while left := [process for process in left if process.is_alive()]:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def end(processes: Iterable[Process], grace_s: float = 5.0) -> None:
    """SIGTERM (and SIGCONT, for a stopped one could not hear it), then SIGKILL whoever is left."""
    listed = list(processes)
    for process in listed:
        process.send(signal.SIGTERM)
        process.send(signal.SIGCONT)
    if not wait_gone(listed, grace_s):
        for process in listed:
            process.send(signal.SIGKILL)
        wait_gone(listed, grace_s)


@dataclass(frozen=True, slots=True)
class _Stat:
    state: str
    parent: int
    start_ticks: int


def _stat(pid: int) -> _Stat | None:
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    # The command name stands in parentheses and may hold spaces: fields are counted after the last one.
    fields = text[text.rindex(")") + 2 :].split()
    return _Stat(state=fields[0], parent=int(fields[1]), start_ticks=int(fields[19]))


def _all() -> list[tuple[int, _Stat]]:
    pids = [int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit()]
    return [(pid, stat) for pid in pids if (stat := _stat(pid)) is not None]
