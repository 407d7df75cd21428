"""A real terminal of a given width, with a shell in it: tmux with a server of its own, ended by its own socket."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import pytest

ROWS = 60
WAIT_SECONDS_MAX = 600.0
MAIN = "from rekindle.cli.main import main; main()"


class Screen(NamedTuple):
    """What stands in the terminal after a command: its exit code, and its lines. One that the terminal had to break
    because it was longer than it is wide is still one line here."""

    code: int
    lines: list[str]


class Terminal:
    """Types commands, and reads what is seen."""

    def __init__(self, folder: Path, columns: int, environ: Mapping[str, str]) -> None:
        self._folder = folder
        self._columns = columns
        self._environ = {**os.environ, "LC_ALL": "C.UTF-8", "PS1": "$ ", "HISTFILE": "", **environ}
        for name in ("COLUMNS", "LINES", "TMUX", "NO_COLOR"):
            self._environ.pop(name, None)
        self._place = tempfile.mkdtemp(prefix="rk-")  # The path of a socket must be short.
        self._typed = 0

    def __enter__(self) -> Terminal:
        size = ["-x", str(self._columns), "-y", str(ROWS)]
        self._tmux("-u", "-f", os.devnull, "new-session", "-d", *size, "bash", "--norc", "--noprofile")
        program = f"{shlex.quote(sys.executable)} -c {shlex.quote(MAIN)}"
        assert self.types(f'rekindle() {{ {program} "$@"; }}').code == 0
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._tmux("kill-server")
        shutil.rmtree(self._place, ignore_errors=True)

    def types(self, command: str) -> Screen:
        """Until the command has ended."""
        self._typed += 1
        mark = f"mark{self._typed}"
        self._tmux("send-keys", "-l", f"echo {mark}; {command}; echo {mark}=$?")
        self._tmux("send-keys", "Enter")
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while time.monotonic() < deadline:
            seen = self._seen()
            found = re.search(rf"^{mark}\n(.*?)^{mark}=(\d+)$", seen, re.MULTILINE | re.DOTALL)
            if found:
                return Screen(int(found[2]), [line.rstrip() for line in found[1].splitlines()])
            time.sleep(0.2)
        pytest.fail(f"{command} did not end:\n{seen}")

    def _seen(self) -> str:
        lines = self._tmux("capture-pane", "-p", "-J", "-S", "-").splitlines()
        return "".join(f"{line.rstrip()}\n" for line in lines)

    def _tmux(self, *words: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", f"{self._place}/s", *words],
            cwd=self._folder,
            env=self._environ,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout
