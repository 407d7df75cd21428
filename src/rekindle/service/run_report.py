"""A run as it goes on, in plain lines: its plan, the news, each step that is complete, now and then how far it is, and
its summary. For Python, and for a command that has no terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from rekindle.errors import visible
from rekindle.master.facts.events import Event
from rekindle.master.state.run_state import RunState
from rekindle.observe.plan import Plan
from rekindle.observe.progress import Progress, kept_text, left_text, notes_text
from rekindle.service.options import RunOptions

Say = Callable[[str], None]

PLAIN_SECONDS = 30.0


def to_stderr(line: str) -> None:
    """Where Spark shows its own progress: what a program prints itself stays alone."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


class ProgressReport:
    """Tells how far a run is. `say` is given a line each."""

    def __init__(self, progress: Progress, say: Say) -> None:
        self._progress, self._say = progress, say
        self._told = 0.0
        self._complete: set[str] = set()

    def tell(self) -> None:
        """What there is to say now."""
        rows = self._progress.rows()
        for row in rows:
            if row.is_done and row.step not in self._complete:
                self._complete.add(row.step)
                self._say(f"{row.step}: {row.done}/{row.total} done{notes_text(row, is_short=True)}")
        self._complete -= {row.step for row in rows if not row.is_done}
        if time.monotonic() - self._told >= PLAIN_SECONDS:
            self._told = time.monotonic()
            going = [f"{row.step} {row.done}/{row.total}" for row in rows if not row.is_done]
            if going:
                self._say(f"{', '.join(going)}{left_text(self._progress)}")


class RunReport:
    """One call of `Pipeline.run`, told to a user of Python."""

    def __init__(self, say: Say) -> None:
        self._say_line = say
        self._progress = Progress()
        self._plain = ProgressReport(self._progress, self._say)
        self._state: RunState | None = None

    def options(self, given: RunOptions) -> RunOptions:
        """The same options, with what is told beside what the user asked to be told."""

        def watch(events: tuple[Event, ...], state: RunState) -> None:
            self._take(events, state)
            given.watcher(events, state)

        def on_plan(plan: Plan) -> None:
            self.lines(str(plan))
            if given.on_plan is not None:
                given.on_plan(plan)

        return replace(given, watcher=watch, on_plan=on_plan)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Whoever types Ctrl-C is told what is kept, and what to do."""
        try:
            yield
        except KeyboardInterrupt:
            self.lines(f"interrupted: {kept_text(self._state)}\n  next: the same call resumes the run")
            raise

    def lines(self, text: str) -> None:
        for line in visible(text).splitlines():
            self._say_line(line)

    def _take(self, events: tuple[Event, ...], state: RunState) -> None:
        self._state = state
        for line in self._progress.take(events, state):
            self._say(line)
        self._plain.tell()

    def _say(self, line: str) -> None:
        self.lines(f"{time.strftime('%H:%M:%S')} {line}")
