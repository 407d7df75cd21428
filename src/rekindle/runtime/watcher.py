"""Who is told what a run decides."""

from __future__ import annotations

from typing import Protocol

from rekindle.master.facts.events import Event
from rekindle.master.state.run_state import RunState


class Watcher(Protocol):
    """Is told each decision after it counts; for progress and summaries. It cannot change anything."""

    def __call__(self, events: tuple[Event, ...], state: RunState) -> None: ...


def ignore(events: tuple[Event, ...], state: RunState) -> None:
    """Nobody watches."""
