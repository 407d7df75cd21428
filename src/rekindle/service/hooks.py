"""A command of the user's that is told what happens in a run: `[hooks] command = "…"`.

Rules
- It is started for each notice, without a shell, and is given the notice as one line of JSON on its standard input.
- It is told in order, beside the run: the run does not wait for it and does not fail because of it. What it does not
  take within `SECONDS_MAX` is ended. A process waits at its end for notices that were not told yet.
- A hook that fails is said once, on stderr.
"""

from __future__ import annotations

import queue
import shlex
import subprocess
import threading
from types import TracebackType

from rekindle.observe.notices import RunNotice
from rekindle.service.run_report import to_stderr

SECONDS_MAX = 10.0


class NoticeHook:
    """Around a run. Without a command it does nothing."""

    def __init__(self, command: str) -> None:
        self._words = shlex.split(command)
        self._waiting: queue.SimpleQueue[RunNotice | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._has_failed = False

    def __enter__(self) -> NoticeHook:
        if self._words:
            self._thread = threading.Thread(target=self._run, name="rekindle-hook", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join()

    def tell(self, notice: RunNotice) -> None:
        if self._thread is not None:
            self._waiting.put(notice)

    def _run(self) -> None:
        while (notice := self._waiting.get()) is not None:
            trouble = self._give(notice)
            if trouble and not self._has_failed:
                self._has_failed = True
                to_stderr(f"the hook {self._words[0]} failed: {trouble}; the run goes on")

    def _give(self, notice: RunNotice) -> str:
        try:
            done = subprocess.run(
                self._words,
                input=f"{notice.json()}\n",
                text=True,
                timeout=SECONDS_MAX,
                check=False,
                capture_output=True,
            )
        except subprocess.TimeoutExpired:
            return f"it did not end within {SECONDS_MAX:.0f} s"
        except OSError as error:
            return str(error)
        return f"it ended with {done.returncode}: {done.stderr.strip()[-200:]}" if done.returncode else ""
