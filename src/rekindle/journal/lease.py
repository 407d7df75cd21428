"""The lease of a master: a heartbeat, judged by the store's clock, that looks for its successor.

- `heartbeat/<epoch>` is rewritten by that epoch's master only. Its age is the store's now less its time
  there.
- A master lives if its heartbeat or its last record is young. It left if it said so. It is dead if its
  process is seen dead on this host. Nothing else ends a lease early.
- A heartbeat names the last acknowledged number: a journal that ends before it, or before the epoch of one, has lost
  facts and is refused.
- Each beat first looks whether the next number was taken. Then `on_fenced` is called, once, from the beat's
  thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from enum import Enum
from typing import Any

import msgspec

from rekindle.errors import Fenced, JournalRefused, StoreFailed
from rekindle.journal.frame import name_of
from rekindle.journal.history import Position, folder_of
from rekindle.journal.journal import Journal
from rekindle.journal.owner import Owner, is_seen_dead
from rekindle.remedies import TextRemedy, new_run
from rekindle.storage.store import Store

BEAT_SECONDS = 5.0
STALE_SECONDS = 30.0


class Heartbeat(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a living master writes beside its journal."""

    epoch: int
    writer: str
    sequence: int
    owner: Owner | None = None
    has_left: bool = False


class LivenessState(Enum):
    """Whether the owner of the newest epoch may still act."""

    NOBODY = "no driver ever owned the run"
    LEFT = "its driver has ended"
    DEAD = "its driver process is dead on this host"
    STALE = "its driver sent no heartbeat for too long"
    LIVING = "its driver is alive"

    @property
    def may_be_taken_over(self) -> bool:
        return self is not LivenessState.LIVING


class Liveness(msgspec.Struct, frozen=True):
    """The life of a run's owner, with the age of its last sign by the store's clock."""

    life: LivenessState
    age_seconds: float | None
    owner: Owner | None


def heartbeat_key(run: str, epoch: int) -> str:
    return f"{_beats_of(run)}{epoch:010d}"


def _beats_of(run: str) -> str:
    return f"{run.rstrip('/')}/heartbeat/"


def sign_of_life(
    store: Store,
    run: str,
    position: Position,
    stale_seconds: float = STALE_SECONDS,
    is_dead: Callable[[Owner], bool] = is_seen_dead,
) -> Liveness:
    """Judge the owner of the epoch at a position."""
    if position.epoch == 0:
        return Liveness(LivenessState.NOBODY, None, None)
    key = heartbeat_key(run, position.epoch)
    beat = _read(store, key)
    if beat is not None and beat.has_left:
        return Liveness(LivenessState.LEFT, None, position.owner)
    if position.owner is not None and is_dead(position.owner):
        return Liveness(LivenessState.DEAD, None, position.owner)
    times = [store.modified(key), store.modified(folder_of(run) + name_of(position.sequence))]
    newest = max((time for time in times if time is not None), default=None)
    age = None if newest is None else max(0.0, store.now() - newest)
    is_stale = age is None or age > stale_seconds
    return Liveness(LivenessState.STALE if is_stale else LivenessState.LIVING, age, position.owner)


def refuse_loss(store: Store, run: str, position: Position) -> None:
    """Raise `JournalRefused` where the newest heartbeat knows acknowledged records that are not there any more. Its
    master may have been one whose opening record is lost, too: its attempts must never be numbered again."""
    names = store.list_after(_beats_of(run))
    beat = _read(store, _beats_of(run) + names[-1]) if names else None
    if beat is None or (beat.sequence <= position.kept and beat.epoch <= position.epoch):
        return
    if store.get(folder_of(run) + name_of(position.sequence + 1)) is not None:
        return
    raise JournalRefused(
        f"run {run} had {beat.sequence} records and now has {position.kept}: the storage lost records",
        (TextRemedy("restore the objects of its journal folder"), new_run("or start over")),
    )


def _read(store: Store, key: str) -> Heartbeat | None:
    """A heartbeat is no fact: one that cannot be read is one that is not there."""
    data = store.get(key)
    try:
        return None if data is None else msgspec.json.decode(data, type=Heartbeat)
    except msgspec.MsgspecError:
        return None


class Lease:
    """Keeps the heartbeat of one journal's epoch, in a thread of its own or beat by beat."""

    def __init__(
        self,
        journal: Journal[Any],
        on_fenced: Callable[[Fenced], None] = lambda error: None,
        beat_seconds: float = BEAT_SECONDS,
    ) -> None:
        self._journal = journal
        self._on_fenced = on_fenced
        self._beat_seconds = beat_seconds
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.fenced: Fenced | None = None
        self.failure: StoreFailed | None = None

    def beat(self) -> None:
        """Look for a successor, then show life. Raises `Fenced` or `StoreFailed`."""
        self._journal.look()
        self._write(has_left=False)

    def start(self) -> None:
        """Beat once now, then in the background until `stop`."""
        self.beat()
        self._thread = threading.Thread(target=self._run, name="rekindle-heartbeat", daemon=True)
        self._thread.start()

    def stop(self, has_left: bool = True) -> None:
        """End the thread. A master that leaves says so, and the next one need not wait; a store that does not
        take this last word makes it wait, and nothing worse."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        if has_left and self.fenced is None:
            try:
                self._write(has_left=True)
            except StoreFailed as error:
                self.failure = error

    def _run(self) -> None:
        """A beat that the store did not take is tried again; `failure` shows it meanwhile."""
        while not self._stop.wait(self._beat_seconds):
            try:
                self.beat()
                self.failure = None
            except StoreFailed as error:
                self.failure = error
            except Fenced as error:
                self.fenced = error
                self._on_fenced(error)
                return

    def _write(self, has_left: bool) -> None:
        position = self._journal.position
        beat = Heartbeat(position.epoch, self._journal.writer, position.sequence, position.owner, has_left)
        key = heartbeat_key(self._journal.run, position.epoch)
        self._journal.store.put(key, msgspec.json.encode(beat))
