"""Stores that break the promise that journals rest on."""

from __future__ import annotations

from rekindle.storage.memory import MemoryStore
from rekindle.storage.store import Put


class IgnoresConditions(MemoryStore):
    """A store that accepts a condition and ignores it."""

    def put_if_absent(self, key: str, body: bytes) -> Put:
        self.put(key, body)
        return Put.CREATED
