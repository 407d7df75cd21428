"""A server that a test session starts on loopback, in a folder of its own, and ends by process."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from rekindle.local_cluster.processes import Ended, Process, end
from support.signals import when

LOOPBACK = "127.0.0.1"
START_S_MAX = 180.0


class LoopbackServer(Ended):
    """One process that listens on one port; a context manager. What it says is in `log` of its folder."""

    def __init__(self, name: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"rekindle-{name}-"))
        self.port = free_port()
        self.process: Process | None = None
        self._child: subprocess.Popen[bytes] | None = None

    def _spawn(self, command: Sequence[str], given: Mapping[str, str] | None = None) -> None:
        """Until it listens."""
        with (self.folder / "log").open("ab") as log:
            self._child = subprocess.Popen(
                command,
                cwd=self.folder,
                env=os.environ | (given or {}),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.process = Process.of(self._child.pid)
        when(self._listens, START_S_MAX, every_s=0.1)

    def _listens(self) -> bool:
        if self._child is not None and self._child.poll() is not None:
            raise RuntimeError(f"the server ended: {(self.folder / 'log').read_text(errors='replace')[-2000:]}")
        with socket.socket() as client:
            return client.connect_ex((LOOPBACK, self.port)) == 0

    def stop(self) -> None:
        if self.process is not None and self._child is not None:
            end([self.process])
            self._child.wait()
        self.process = self._child = None
        shutil.rmtree(self.folder, ignore_errors=True)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind((LOOPBACK, 0))
        port: int = listener.getsockname()[1]
        return port
