"""How long to wait for processes on a machine of unknown speed: as long as they go on.

A limit counts the seconds since the last step forward, never those since the start.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

# A sign is looked at so often while its limit passes: looking may cost a walk over many files.
LOOKS_MIN = 30


class ProgressTimeout:
    """Knows since when nothing moves. `sign` is a value that is another one after each step forward."""

    def __init__(self, sign: Callable[[], object], seconds: float) -> None:
        self._sign = sign
        self._seconds = seconds
        self._last = sign()
        self._moved = self._looked = time.monotonic()

    def is_over(self) -> bool:
        now = time.monotonic()
        if now - self._looked >= self._seconds / LOOKS_MIN:
            sign, self._looked = self._sign(), now
            if sign != self._last:
                self._last, self._moved = sign, now
        return now - self._moved > self._seconds


def bytes_below(folder: Path) -> int:
    """What all files of a folder take; one that goes meanwhile counts nothing."""
    total = 0
    for above, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += (Path(above) / name).lstat().st_size
    return total
