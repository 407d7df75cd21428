"""SIGTERM as a wish to stop."""

from __future__ import annotations

import signal
import threading
from types import FrameType


class StopSignal:
    """SIGTERM as a wish to stop: a stream asks at each poll. Before the first time it ends the process, as ever."""

    def __init__(self) -> None:
        self._told = ""
        self._is_set = False

    def __call__(self) -> str:
        if not self._is_set and threading.current_thread() is threading.main_thread():
            self._is_set = True
            signal.signal(signal.SIGTERM, self._take)
        return self._told

    def _take(self, number: int, frame: FrameType | None) -> None:
        self._told = "SIGTERM"
