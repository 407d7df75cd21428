"""Who owns an epoch: a process, named so that the same host can see whether it died.

A process id alone says little: it is used again, and another container has its own numbers. A process is
the same only with equal host, boot, process namespace, id and start time. Where any of these cannot be
read, nobody is ever seen dead, and a takeover waits for the heartbeat to become stale.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

import msgspec

PROC = Path("/proc")


class Owner(msgspec.Struct, frozen=True, omit_defaults=True):
    """A process on a host. `started` is in clock ticks since the boot named by `boot`."""

    host: str
    pid: int
    boot: str = ""
    namespace: str = ""
    started: int = 0

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


def this_process() -> Owner:
    """The owner that this process is."""
    pid = os.getpid()
    started = _start_and_state(pid)
    return Owner(socket.gethostname(), pid, _boot(), _namespace(), started[0] if started else 0)


def is_seen_dead(owner: Owner) -> bool:
    """Whether the owner certainly runs no more, as seen from this host."""
    if not (owner.boot and owner.namespace and owner.started and _is_here(owner)):
        return False
    found = _start_and_state(owner.pid)
    if found is None:
        return not _answers(owner.pid)
    return found[0] != owner.started or found[1] in "ZX"


def is_seen_alive(owner: Owner) -> bool:
    """Whether the owner certainly runs, as seen from this host."""
    found = _start_and_state(owner.pid)
    return _is_here(owner) and found is not None and found[0] == owner.started and found[1] not in "ZX"


def _is_here(owner: Owner) -> bool:
    """Its number means the same process to us."""
    here = this_process()
    return (owner.host, owner.boot, owner.namespace) == (here.host, here.boot, here.namespace)


def _answers(pid: int) -> bool:
    """Whether the number is in use. A process may live and yet be hidden from us in /proc."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _start_and_state(pid: int) -> tuple[int, str] | None:
    """Start time and state of a process, None where there is no such process, or it is hidden."""
    try:
        text = (PROC / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    after_name = text[text.rindex(")") + 2 :].split()
    return int(after_name[19]), after_name[0]


def _boot() -> str:
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _namespace() -> str:
    try:
        return str((PROC / "self/ns/pid").readlink())
    except OSError:
        return ""
