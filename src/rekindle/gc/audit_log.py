"""gc's diary: nothing is deleted before a record says what and why.

`<pipeline>/_gc/<time>-<process>-<number>` holds one act: a run that is closed, directories that go as a whole, or files
by name. The time is the store's. A record is kept for 90 days: what it tells of is gone long before.
"""

from __future__ import annotations

import itertools
import os
import secrets
from datetime import UTC, datetime

import msgspec

from rekindle.errors import AppendUnknown
from rekindle.journal.owner import this_process
from rekindle.storage.store import Put, Store

TRIES = 5
DAYS_KEPT = 90


class AuditEntry(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One act on one run, before it is done. `names` are below the one folder; without names the folders go whole."""

    run: str
    act: str
    why: str
    files: int
    bytes: int
    oldest_ms: int | None = None
    folders: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    by: str = ""
    at_ms: int = 0


class AuditLog:
    """Writes the entries of one gc about one pipeline."""

    def __init__(self, store: Store, pipeline: str, now_ms: int) -> None:
        self._store = store
        self._now_ms = now_ms
        stamp = f"{datetime.fromtimestamp(now_ms / 1000, UTC):%Y%m%dT%H%M%SZ}"
        self._prefix = f"{folder_of(pipeline)}{stamp}-{secrets.token_hex(4)}-"
        self._numbers = itertools.count(1)

    def note(self, entry: AuditEntry) -> None:
        """Return when the record is there. Raises `StoreFailed` or `AppendUnknown`: then nothing may be deleted."""
        names = tuple(os.fsencode(name).decode("utf-8", "backslashreplace") for name in entry.names)
        told = msgspec.structs.replace(entry, names=names, by=str(this_process()), at_ms=self._now_ms)
        key, body = f"{self._prefix}{next(self._numbers):06d}", msgspec.json.encode(told)
        for _ in range(TRIES):
            if self._store.put_if_absent(key, body) is Put.CREATED or self._store.get(key) == body:
                return
        raise AppendUnknown(
            f"{self._store.name} gave no definite answer for the audit log of gc", "type the same again"
        )


def folder_of(pipeline: str) -> str:
    return f"{pipeline}/_gc/"


def forget_old(store: Store, pipeline: str, now_ms: int) -> int:
    """Remove entries that are too old to tell anybody anything."""
    folder, oldest = folder_of(pipeline), now_ms / 1000 - DAYS_KEPT * 86_400
    old = [entry.name for page in store.walk(folder) for entry in page if entry.modified < oldest]
    for name in old:
        store.delete(folder + name)
    return len(old)
