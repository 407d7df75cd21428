"""Commands as a user types them, each a process of its own that can be killed.

- What a command prints is shown line by line, as it comes, under the command.
- A driver is two processes, Python and the JVM it started. Both are named by pid and start time; nobody else is ever
  signalled.
- Nobody knows how slow a machine is: a command is waited for as long as it prints something, or anything grows in the
  folder it runs in (journal, results, Spark's logs). One that does neither for `STALLED_SECONDS` hangs.
"""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path

from rekindle.cli.supervise import interpreter
from rekindle.errors import RunFailed
from rekindle.local_cluster.processes import Process, end, wait_gone
from rekindle.local_cluster.timeouts import ProgressTimeout, bytes_below

CLI = "from rekindle.cli.main import main; main()"
HINT = "rekindle demo --keep demo, then look at demo/spark.log"
GONE_SECONDS_MAX = 10.0
STALLED_SECONDS = 180.0
POLL_SECONDS = 0.1
# What the JVM says of itself whenever Spark starts.
NOISE = "WARNING: Using incubator modules"

# Shows a line of a command.
Show = Callable[[str], None]


class StartedCommand:
    """One command that was started. `grows` is a number that changes when it wrote something."""

    def __init__(
        self,
        child: subprocess.Popen[str],
        show: Show,
        name: str = "it",
        grows: Callable[[], int] = lambda: 0,
        hint: str = HINT,
    ) -> None:
        self._child = child
        self._hint = hint
        self._name = name
        self._grows = grows
        self._lines = 0
        self._reader = threading.Thread(target=self._read, args=(show,), name="demo-lines", daemon=True)
        self._reader.start()
        process = Process.of(child.pid)
        assert process is not None, "a child that was not waited for keeps its entry"
        self.process = process

    def is_alive(self) -> bool:
        return self._child.poll() is None

    def wait(self) -> int:
        """Its exit code, when all it printed was shown. Raises `RunFailed` where it hangs."""
        patience = self.patience()
        while (code := self._child.poll()) is None:
            if patience.is_over():
                told = f"`{self._name}` printed and wrote nothing for {STALLED_SECONDS:.0f} s"
                raise RunFailed(told, self._hint, is_resumable=False)
            time.sleep(POLL_SECONDS)
        self._reader.join(GONE_SECONDS_MAX)
        return code

    def patience(self) -> ProgressTimeout:
        return ProgressTimeout(lambda: (self._lines, self._grows()), STALLED_SECONDS)

    def processes(self) -> list[Process]:
        """Python, and its JVM once it was started."""
        children = self.process.children()
        return [self.process, *(one for one in children if Path((one.command() or [""])[0]).name == "java")]

    def kill(self) -> None:
        """kill -9 of both, Python first: it must not live to see its JVM die and write that down."""
        processes = self.processes()
        for process in processes:
            process.send(signal.SIGKILL)
        wait_gone(processes, GONE_SECONDS_MAX)
        self.wait()

    def end(self) -> None:
        """Whatever is left of it, ended. The pid of one that was waited for may be somebody else's by now."""
        if self.is_alive():
            end([self.process, *self.process.descendants()])
        self._child.wait()

    def _read(self, show: Show) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            self._lines += 1
            if not line.startswith(NOISE):
                show(line.rstrip())


@dataclass(slots=True)
class Terminal:
    """Where commands are typed: a folder, in which what they write grows, and a whole environment; `current` is the
    current folder of the commands, if it is another, `hint` what to do about one that hangs. Ends what is still running
    when it is left."""

    folder: Path
    environment: Mapping[str, str]
    say: Show
    show: Show
    _: KW_ONLY
    current: Path | None = None
    hint: str = HINT
    _started: list[StartedCommand] = field(default_factory=list)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        for command in self._started:
            command.end()

    def types(self, *words: str) -> StartedCommand:
        """Start `rekindle …`."""
        self.say(shlex.join(["rekindle", *words]))
        return self._start([*interpreter(), "-c", CLI, *words])

    def types_python(self, script: str) -> StartedCommand:
        """Start a script."""
        self.say(f"python {script}")
        return self._start([sys.executable, script])

    def starts(self, module: str, order: Path) -> StartedCommand:
        """Start a module of ours that does what a file says."""
        return self._start([sys.executable, "-m", module, str(order)])

    def _start(self, words: Sequence[str]) -> StartedCommand:
        child = subprocess.Popen(
            words,
            cwd=self.current or self.folder,
            env=dict(self.environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        name = shlex.join(words[-2:])
        command = StartedCommand(child, self.show, name, lambda: bytes_below(self.folder), self.hint)
        self._started.append(command)
        return command


def wait_until(is_so: Callable[[], bool], command: StartedCommand) -> bool:
    """Wait until something is so; False if the command ends before, or hangs."""
    patience = command.patience()
    while not is_so():
        if not command.is_alive() or patience.is_over():
            return False
        time.sleep(POLL_SECONDS)
    return True
