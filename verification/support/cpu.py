"""CPU seconds of processes, for campaigns.

A process may end between being listed and being asked. What it used is then in the times of the parent that waited for
it, and it is left out here.
"""

from __future__ import annotations

from collections.abc import Iterable

import psutil


def cpu_s(processes: Iterable[psutil.Process]) -> float:
    """Of these, and of their children that ended."""
    total = 0.0
    for process in processes:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return float(total)


def cpu_s_below(pid: int) -> float:
    """Of a process and all below it."""
    here = psutil.Process(pid)
    return cpu_s((here, *here.children(recursive=True)))
