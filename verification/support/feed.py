"""Input of a stream: a file after the other, no faster than they are read, so that a slow machine is fed slowly."""

from __future__ import annotations

import threading
from collections.abc import Callable

AHEAD = 2


class Feed:
    """Puts files by their numbers until it is told to end. `last_read` is the last number that everybody has read."""

    def __init__(self, put: Callable[[int], None], last_read: Callable[[], int], every_s: float) -> None:
        self._put_file, self._last_read, self._every_s = put, last_read, every_s
        self.files, self._is_over = 0, threading.Event()
        self._thread = threading.Thread(target=self._put, daemon=True)
        self._thread.start()

    def _put(self) -> None:
        while not self._is_over.wait(self._every_s):
            if self.files <= AHEAD + self._last_read():
                self._put_file(self.files)
                self.files += 1

    def end(self) -> int:
        """How many there are."""
        self._is_over.set()
        self._thread.join()
        return self.files
