"""Deleting within limits: so many objects in one request, so many per second, and none after a word to stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rekindle.storage.store import PAGE, Store

PASSES_MAX = 5


@dataclass(frozen=True, slots=True)
class Limits:
    """`parallel` is how many runs are looked at at once where the store is far away; `per_second` 0 is no limit."""

    batch: int = PAGE
    parallel: int = 8
    per_second: float = 0.0


class Remover:
    """Deletes for all threads of one gc."""

    def __init__(
        self,
        store: Store,
        limits: Limits,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._store = store
        self._limits = limits
        self._clock = clock
        self._pause = pause
        self._lock = threading.Lock()
        self._free_at = clock()

    def remove(self, folder: str, names: Sequence[str]) -> int:
        """Remove these names below a folder; how many."""
        for start in range(0, len(names), self._limits.batch):
            batch = names[start : start + self._limits.batch]
            self._wait(len(batch))
            self._store.delete_many(folder, batch)
        return len(names)

    def remove_all(self, folder: str, is_stopped: Callable[[], bool] = lambda: False) -> int:
        """Remove everything below a folder, page by page; how many. What is added meanwhile goes too, unless somebody
        adds faster than we remove: then the next gc finds it."""
        count = 0
        for _ in range(PASSES_MAX):
            before = count
            for page in self._store.walk(folder):
                if is_stopped():
                    return count
                count += self.remove(folder, [entry.name for entry in page])
            if count == before:
                break
        return count

    def _wait(self, count: int) -> None:
        """Each batch takes its share of the seconds before the next one may start."""
        if not self._limits.per_second:
            return
        with self._lock:
            wait = self._free_at - self._clock()
            self._free_at = max(self._free_at, self._clock()) + count / self._limits.per_second
        if wait > 0:
            self._pause(wait)
