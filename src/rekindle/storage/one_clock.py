"""A store whose clock is asked once: for a look at many runs.

Ages come out too low by the time the look takes: a master seems to live a little longer, nothing seems older than it
is. A store that cannot be written to has no clock.
"""

from __future__ import annotations

from functools import cached_property

from rekindle.storage.store import Store


class OneClock:
    """Everything else is the store's own."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    @cached_property
    def _now(self) -> float:
        return self._store.now()

    def now(self) -> float:
        return self._now


def with_one_clock(store: Store) -> Store:
    return OneClock(store)  # type: ignore[return-value]
