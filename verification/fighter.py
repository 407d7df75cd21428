"""One of the processes that fight for a run in `make two-masters`.

It waits until it may take the run over, then appends facts and notes each acknowledgement in its own file,
until it is killed, fenced or done. The file is the witness: what stands in it must stand in the journal,
once, at that number.
"""

from __future__ import annotations

import contextlib
import os
import random
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

import msgspec

from rekindle.errors import AppendUnknown, Fenced, RunClosed, StillOwned
from rekindle.journal.history import Record
from rekindle.journal.journal import Journal
from rekindle.journal.lease import Lease
from rekindle.journal.prune import prune
from rekindle.journal.takeover import take_over
from rekindle.storage.store import Put, Store
from rekindle.storage.stores import open_store
from support.facts import CODEC, RUN, Closed, Fact, Noted, opening

DONE, FENCED, CLOSED, GAVE_UP = 0, 20, 12, 30


class Arena(msgspec.Struct, frozen=True):
    """What the processes of one round share: a store, a folder for witnesses and flags, times."""

    url: str
    options: Mapping[str, str]
    folder: str
    stale_seconds: float
    seed: int
    is_slow: bool
    is_broken: bool = False
    patience_seconds: float = 60.0

    def flag(self, name: str) -> bool:
        return (Path(self.folder) / name).exists()


class SlowAnswers:
    """A store whose conditional writes answer late, never, or land after the answer."""

    def __init__(self, inner: Store, seed: int, delay_seconds: float) -> None:
        self._inner = inner
        self._random = random.Random(seed)
        self._delay = delay_seconds

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def put_if_absent(self, key: str, body: bytes) -> Put:
        match self._random.randrange(6):
            case 0:
                time.sleep(self._seconds())
                return self._inner.put_if_absent(key, body)
            case 1:
                answer = self._inner.put_if_absent(key, body)
                time.sleep(self._seconds())
                return answer
            case 2:
                self._inner.put_if_absent(key, body)
                return Put.UNKNOWN
            case 3:
                threading.Timer(self._seconds(), self._inner.put_if_absent, (key, body)).start()
                return Put.UNKNOWN
            case _:
                return self._inner.put_if_absent(key, body)

    def _seconds(self) -> float:
        """Mostly short, now and then longer than a heartbeat may be silent."""
        return float(1.3 * self._delay * self._random.random() ** 4)


class NoConditions:
    """Planted: a store that ignores the condition, as some real ones do."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def put_if_absent(self, key: str, body: bytes) -> Put:
        self._inner.put(key, body)
        return Put.CREATED


def fight(name: str, arena: Arena) -> NoReturn:
    """The life of one process. Ends it with the code that says how."""
    witness = (Path(arena.folder) / f"{name}.witness").open("a", buffering=1)
    sys.stdout = sys.stderr = witness
    store: Store = open_store(arena.url, arena.options)
    if arena.is_slow:
        store = SlowAnswers(store, arena.seed, arena.stale_seconds)  # type: ignore[assignment]
    if arena.is_broken:
        store = NoConditions(store)  # type: ignore[assignment]
    try:
        code = _master(name, arena, _take_over(arena, store))
    except Fenced as error:
        print(f"fenced {error.code} {error.message}")
        code = FENCED
    except RunClosed as error:
        print(f"closed {error.code} {error.message}")
        code = CLOSED
    witness.flush()
    os._exit(code)


def _pause(seconds: float) -> None:
    time.sleep(min(seconds, 0.02))


def _take_over(arena: Arena, store: Store) -> Journal[Fact]:
    deadline = time.monotonic() + arena.patience_seconds
    while time.monotonic() < deadline:
        try:
            journal, _ = take_over(
                store,
                RUN,
                CODEC,
                opening,
                force=arena.flag("force"),
                stale_seconds=arena.stale_seconds,
                pause=_pause,
            )
        except (StillOwned, AppendUnknown):
            time.sleep(arena.stale_seconds / 10)
            continue
        print(f"opened {journal.epoch} {journal.position.sequence}")
        return journal
    print("gave up")
    os._exit(GAVE_UP)


def _master(name: str, arena: Arena, journal: Journal[Fact]) -> int:
    """Append until the round says enough. Being fenced may be seen by the heartbeat first."""
    lease = Lease(journal, beat_seconds=arena.stale_seconds / 4)
    lease.start()
    number = 0
    while not (arena.flag(f"enough-{name}") and number >= 3):
        if lease.fenced is not None:
            raise lease.fenced
        number += 1
        _append(journal, f"{name}-{number}")
        time.sleep(0.002)
    if arena.flag("gc"):
        _settled(journal, Noted("released"), Closed())
        print(f"pruned {prune(journal.store, journal.run)}")
    lease.stop()
    return DONE


def _append(journal: Journal[Fact], text: str) -> None:
    print(f"try {text}")
    record = _settled(journal, Noted(text))
    print(f"ack {record.sequence} {text}")


def _settled(journal: Journal[Fact], *events: Fact) -> Record[Fact]:
    """Append, and go on with the same bytes until the answer is certain."""
    try:
        return journal.append(*events)
    except AppendUnknown:
        while True:
            with contextlib.suppress(AppendUnknown):
                record = journal.settle()
                assert record is not None
                return record
