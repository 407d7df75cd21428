"""Signals to exactly one process, at a chosen moment. A signal that meets nobody is an error of the test."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rekindle.local_cluster.processes import Process
from rekindle.local_cluster.timeouts import ProgressTimeout

# Nothing but the kernel is waited for; on a machine whose cores are given to others it takes its time.
KERNEL_S_MAX = 60.0
# Processes that do nothing for so long hang.
STALLED_S = 180.0


def when(
    predicate: Callable[[], object],
    timeout_s: float = STALLED_S,
    every_s: float = 0.02,
    sign: Callable[[], object] = lambda: None,
) -> None:
    """Wait until something is true. The limit counts from the last change of `sign`, if there is one: a machine may be
    slow."""
    patience = ProgressTimeout(sign, timeout_s)
    while not predicate():
        if patience.is_over():
            raise TimeoutError(f"not true, and nothing moved for {timeout_s} s: {predicate}")
        time.sleep(every_s)


def after_files(folder: Path, count: int, pattern: str = "**/part-*", timeout_s: float = STALLED_S) -> None:
    """Wait until a folder holds at least so many files of a pattern."""
    when(lambda: sum(1 for _ in folder.glob(pattern)) >= count, timeout_s)


def after_line(file: Path, text: str, timeout_s: float = STALLED_S) -> None:
    """Wait until a file (a driver's output, say) contains a text."""
    when(lambda: file.exists() and text in file.read_text(errors="replace"), timeout_s)


def kill(process: Process) -> None:
    """kill -9, and wait until it is gone."""
    _send(process, signal.SIGKILL)
    when(lambda: not process.is_alive(), KERNEL_S_MAX)


def stop(process: Process) -> None:
    """SIGSTOP, and wait until it stands still."""
    _send(process, signal.SIGSTOP)
    when(process.is_stopped, KERNEL_S_MAX)


def cont(process: Process) -> None:
    """SIGCONT, and wait until it moves again."""
    _send(process, signal.SIGCONT)
    when(lambda: not process.is_stopped(), KERNEL_S_MAX)


@contextmanager
def stopped(process: Process) -> Iterator[None]:
    """The process stands still inside the block."""
    stop(process)
    try:
        yield
    finally:
        process.send(signal.SIGCONT)


def _send(process: Process, number: signal.Signals) -> None:
    if not process.send(number):
        raise ProcessLookupError(f"process {process.pid} is gone: nobody to send {number.name} to")
