"""The source files of a plan, looked at again before anything that was made from them counts.

Rules
- A commit is reported only after a look that began when the commit was known: whatever its task had read is older than
  that look. A file that was replaced before it was read is seen as replaced.
- A look that finds a difference, or that fails, lets nothing through. What was reported before stays.
- Looks are made in threads of their own: the loop asks and never waits. They are at least `LOOK_SECONDS_MIN` apart, and
  ten times as long as one takes; commits wait for the next one. There is one before the first task of an attempt and
  one at its end.
- A plan without files from outside is not looked at.
- Not seen: a file that was replaced and put back, with its time, between two looks; on a store without tags, another
  file of the same length and time; what an eager step read by a job of its own while it was built.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame

from rekindle.engine.spark.jvm import plan_calls
from rekindle.errors import InputChanged
from rekindle.remedies import StartRemedy

LOOK_SECONDS_MIN, LOOK_SECONDS_MAX = 1.0, 60.0
LOOK_SHARE = 0.1
FILES_NAMED_MAX = 2


class SourceFiles:
    """The files that a plan of `step` reads from outside."""

    def __init__(self, step: str, files: Any, enter: Callable[[], None]) -> None:
        self._step, self._files, self.enter = step, files, enter

    def changed(self) -> list[str]:
        """What is not as it was, a line each: the path and what is different. One listing."""
        return [" ".join(line.split("\t")) for line in plan_calls.changed_files(self._files)]

    def refuse_change(self) -> None:
        if found := self.changed():
            raise changed_input(self._step, found)


def source_files(step: str, frame: DataFrame, enter: Callable[[], None]) -> SourceFiles | None:
    """What a plan reads from files that are not ours; None if nothing."""
    files = plan_calls.source_files(frame)
    return None if files is None else SourceFiles(step, files, enter)


def changed_input(step: str, found: list[str]) -> InputChanged:
    """One line: a journal keeps no more of it."""
    more = f" and {len(found) - FILES_NAMED_MAX} more" if len(found) > FILES_NAMED_MAX else ""
    return InputChanged(
        f"the input of {step} changed while the run was on: {'; '.join(found[:FILES_NAMED_MAX])}{more}",
        hint=StartRemedy(to="read it again", replace=(step,)),
    )


class _Look:
    """One look, in a thread of its own. `covers` is how many commits were waiting when it began."""

    def __init__(self, sources: SourceFiles, covers: int) -> None:
        self._sources, self.covers = sources, covers
        self.error: BaseException | None = None
        self.seconds = 0.0
        self._thread = threading.Thread(target=self._run, name="look at the sources", daemon=True)
        self._thread.start()

    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def _run(self) -> None:
        began = time.monotonic()
        try:
            self._sources.enter()
            self._sources.refuse_change()
        except BaseException as error:
            self.error = error
        self.seconds = time.monotonic() - began


class SourceCheck:
    """Which commits of one attempt may be reported. Called by whoever holds the attempt's lock."""

    def __init__(self, sources: SourceFiles | None) -> None:
        self._sources = sources
        self._look: _Look | None = None
        self._next_at = 0.0
        self._changed: InputChanged | None = None

    def let_through(self, waiting: int) -> int:
        """How many of the commits that wait, in their order, may be reported now. Never waits itself; raises
        `InputChanged` when a look found a difference, and from then on. A look that failed is made again."""
        if self._sources is None:
            return waiting
        if self._changed is not None:
            raise self._changed
        done = 0
        if self._look is not None and self._look.is_over():
            look, self._look = self._look, None
            pause = min(max(LOOK_SECONDS_MIN, look.seconds / LOOK_SHARE), LOOK_SECONDS_MAX)
            self._next_at = time.monotonic() + pause
            if isinstance(look.error, InputChanged):
                self._changed = look.error
                raise look.error
            done = look.covers if look.error is None else 0
        if self._look is None and waiting > done and time.monotonic() >= self._next_at:
            self._look = _Look(self._sources, waiting - done)
        return done

    def look_now(self) -> None:
        """In the attempt's own thread, before its first task and at its end. Raises what is wrong."""
        if self._changed is not None:
            raise self._changed
        if self._sources is not None:
            self._sources.refuse_change()
