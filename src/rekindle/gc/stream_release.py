"""Results between the regions of a stream, while it runs: batches that every reader has passed go after a while, and a
producer is held while its readers are too far behind.

Rules
- What may go is decided as by gc (passed_batches.py): by the journal and the checkpoints, whoever has the stream now.
  The audit log says what goes, and why.
- It is beside the stream, in a thread of its own. What goes wrong in it is told, and is no trouble of the stream's.
- A producer whose result is over its bound is held: its next batch waits until the result is well below, or all of it
  was read. Nothing goes that a reader has not passed. A stream that is to end with its input holds nobody: its readers
  start afterwards.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from rekindle.gc.audit_log import AuditLog, forget_old
from rekindle.gc.batch_removal import remove_batches
from rekindle.gc.collect_results import PASSED, results_of
from rekindle.gc.passed_batches import PassedBatches
from rekindle.gc.remover import Limits, Remover
from rekindle.journal.keys import stream_folder
from rekindle.storage.store import Store

# A round comes this often in the time that passed batches are kept, but not more often than once in so many seconds.
ROUNDS_IN_KEPT, ROUND_SECONDS_MIN, ROUND_SECONDS_MAX = 6, 5.0, 600.0
# A producer that is held goes on when its result is below this share of its bound.
GOES_ON_SHARE = 0.8
STOP_SECONDS = 5.0

# Tells the engine that the next batch of a region is to wait, or no longer.
Hold = Callable[[str, bool], None]
# Tells the engine that batches of a result up to one are released.
Forget = Callable[[str, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseRules:
    """How long batches are kept that every reader has passed, and how many bytes a result may have; 0 is no bound."""

    keep_seconds: float
    bytes_max: int = 0

    @property
    def round_seconds(self) -> float:
        return min(max(self.keep_seconds / ROUNDS_IN_KEPT, ROUND_SECONDS_MIN), ROUND_SECONDS_MAX)

    def is_held(self, bytes_left: int, behind: int, *, was_held: bool) -> bool:
        """Whether the producer of a result of this size is held. One whose readers have read all is not: a bound that
        is smaller than a batch would hold it for ever."""
        is_large = bytes_left > self.bytes_max * (GOES_ON_SHARE if was_held else 1.0)
        return bool(self.bytes_max) and behind > 0 and is_large


class StreamRelease:
    """Around a stream that has results, until it is closed."""

    def __init__(self, store: Store, pipeline: str, run: str, rules: ReleaseRules, hold: Hold, forget: Forget) -> None:
        self._store, self._pipeline, self._run, self._rules = store, pipeline, run, rules
        self._hold, self._forget = hold, forget
        self._held: set[str] = set()
        self._record_bytes: dict[tuple[str, str], dict[int, int]] = {}
        self._notes: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._trouble = ""
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._work, name="rekindle release", daemon=True)

    def __enter__(self) -> StreamRelease:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """What it does may be left undone at any time. Nobody is held any longer: the next stream may be in this
        process."""
        self._is_closed.set()
        self._thread.join(STOP_SECONDS)
        with contextlib.suppress(Exception):
            for region in self._held:
                self._hold(region, False)

    def notes(self) -> list[str]:
        """Sentences since it was last asked."""
        found = []
        with contextlib.suppress(queue.Empty):
            while True:
                found.append(self._notes.get_nowait())
        return found

    def _work(self) -> None:
        while not self._is_closed.wait(self._rules.round_seconds):
            try:
                self.look()
                self._trouble = ""
            except Exception as error:
                told = f"batches of results that every reader has passed were not removed: {str(error).splitlines()[0]}"
                if told != self._trouble:
                    self._notes.put(told)
                self._trouble = told

    def look(self) -> None:
        """At all results, once."""
        store, now = self._store, self._store.now()
        folder = f"{stream_folder(self._pipeline, self._run)}/"
        diary = AuditLog(store, self._pipeline, round(now * 1000))
        for one in results_of(store, self._pipeline, self._run):
            known = self._record_bytes.setdefault((one.region, one.generation), {})
            found = one.look(store, folder, lambda at: now - at >= self._rules.keep_seconds, known)
            if found.objects:
                remove_batches(Remover(store, Limits()), diary, self._run, PASSED, found.objects, folder=folder)
                forget_old(store, self._pipeline, round(now * 1000))
                self._forget(one.region, found.through)
            self._bound(one, found.bytes_left)

    def _bound(self, one: PassedBatches, bytes_left: int) -> None:
        was_held = one.region in self._held
        is_held = self._rules.is_held(bytes_left, one.behind, was_held=was_held)
        if is_held == was_held:
            return
        self._hold(one.region, is_held)
        if is_held:
            self._held.add(one.region)
            self._notes.put(
                f"{one.region} waits: its result has {bytes_left:,} bytes, more than {self._rules.bytes_max:,}; "
                f"{one.slowest} is {one.behind} batches behind"
            )
        else:
            self._held.discard(one.region)
            self._notes.put(f"{one.region} goes on: its result has {bytes_left:,} bytes")
