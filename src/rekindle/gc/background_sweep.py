"""The safety net: every driver sweeps a little of its own pipeline, when it starts and when it ends.

Rules
- It removes old waste and closes nothing: giving a run up is gc's.
- It is bounded: at most `RUNS` runs at a time, in turn, at most `PAGES` pages of a listing and `FILES` files of each;
  what is larger waits for gc. For each pipeline it happens once in `EVERY_SECONDS`, whoever does it.
- It is beside the run, in a thread of its own. When the run ends it is told to stop; behind a run that went well it has
  `END_SECONDS` more. It stops between two runs, and nobody waits longer than `STOP_SECONDS` for that. Whatever goes
  wrong in it is no trouble of the run's.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType

import msgspec

from rekindle.gc.collect_run import GcReport, GcRules, RunCollector
from rekindle.journal.keys import numbered, numbers
from rekindle.storage.store import Store

RUNS = 20
PAGES = 5
FILES = 5_000
EVERY_SECONDS = 3600.0
END_SECONDS = 1.0
STOP_SECONDS = 10.0


class SweepProgress(msgspec.Struct, frozen=True):
    """How far the last sweep came: the number of the run that is next."""

    next: int


def sweep(store: Store, pipeline: str, rules: GcRules, is_over: Callable[[], bool] = lambda: False) -> list[GcReport]:
    """Sweep the runs that are next, unless somebody did so a moment ago. The note is made first: whoever comes now need
    not do the same."""
    key = f"{pipeline}/_swept"
    last = store.modified(key)
    if last is not None and store.now() - last < EVERY_SECONDS:
        return []
    chosen = _next(numbers(store, pipeline), _read(store, key))
    if not chosen:
        return []
    store.put(key, msgspec.json.encode(SweepProgress(chosen[-1] + 1)))
    janitor = RunCollector(store, pipeline, replace(rules, may_close=False, pages_max=PAGES, files_max=FILES))
    reports = []
    for number in chosen:
        if is_over():
            store.put(key, msgspec.json.encode(SweepProgress(number)))
            break
        run = numbered(store, pipeline, number)
        if run is not None:
            reports.append(janitor.tend(run, number))
    return reports


def _next(every: list[int], start: int) -> list[int]:
    """From `start` on, and round again."""
    behind = [number for number in every if number >= start]
    return (behind + every[: len(every) - len(behind)])[:RUNS]


def _read(store: Store, key: str) -> int:
    data = store.get(key)
    try:
        return 1 if data is None else msgspec.json.decode(data, type=SweepProgress).next
    except msgspec.MsgspecError:
        return 1


class BackgroundSweep:
    """Around a run; without rules there is none. `open_store` is called in the thread that uses what it gives."""

    def __init__(self, open_store: Callable[[], Store], pipeline: str, rules: GcRules | None) -> None:
        self._open_store = open_store
        self._pipeline = pipeline
        self._rules = rules
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> BackgroundSweep:
        self._begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Again after a run that went well. One that failed has somebody waiting for the reason."""
        if self._is_ended() and error is None:
            self._begin()
            self._wait(END_SECONDS)
            self._is_ended()

    def _begin(self) -> None:
        """A process that can have no more threads has no sweep."""
        self._stop.clear()
        thread = threading.Thread(target=self._sweep, name="rekindle-sweep", daemon=True)
        if self._rules is not None:
            with contextlib.suppress(RuntimeError):
                thread.start()
                self._thread = thread

    def _is_ended(self) -> bool:
        """A store that hangs is not waited for: what the thread does may be left undone at any time."""
        self._stop.set()
        self._wait(STOP_SECONDS)
        return self._thread is None or not self._thread.is_alive()

    def _wait(self, seconds: float) -> None:
        if self._thread is not None:
            self._thread.join(seconds)

    def _sweep(self) -> None:
        """Whatever it is: `rekindle gc` meets it too, and says so."""
        if self._rules is not None:
            with contextlib.suppress(Exception):
                sweep(self._open_store(), self._pipeline, self._rules, self._stop.is_set)
