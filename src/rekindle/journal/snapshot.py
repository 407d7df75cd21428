"""Snapshots: a cache of the fold, so that a long journal opens fast.

- A snapshot names the position it was folded up to and the fold that made it. It counts only while the
  record at that position is the one it names, and the fold is the one of this code.
- Anything else about it (missing, torn, damaged, newer, older) means one thing: fold from the beginning.
- Deleting all snapshots changes nothing but time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from rekindle.errors import RekindleError
from rekindle.journal.frame import NAME, checksum_of, name_of
from rekindle.journal.history import Position, confirm
from rekindle.storage.store import Store

S = TypeVar("S")
KEPT = 2
PREFIX = b"RKS1 "


class _Stored(msgspec.Struct, frozen=True):
    position: Position
    fold: str
    state: bytes


class Snapshots(Generic[S]):
    """The snapshots of one run. `fold` names the code that folds: another name makes old ones worthless."""

    def __init__(
        self, store: Store, run: str, fold: str, encode: Callable[[S], bytes], decode: Callable[[bytes], S]
    ) -> None:
        self._store = store
        self._run = run
        self._folder = _folder(run)
        self._fold = fold
        self._encode = encode
        self._decode = decode

    def save(self, position: Position, state: S) -> None:
        """Store the fold up to a position, and drop all but the newest two."""
        body = msgspec.msgpack.encode(_Stored(position, self._fold, self._encode(state)))
        data = PREFIX + checksum_of(body).encode() + b"\n" + body
        self._store.put_if_absent(self._folder + name_of(position.sequence), data)
        for name in self._names()[KEPT:]:
            self._store.delete(self._folder + name)

    def load(self) -> tuple[Position, S] | None:
        """The newest snapshot that still counts."""
        for name in self._names()[:KEPT]:
            stored = _parse(self._store.get(self._folder + name))
            if stored is None or stored.fold != self._fold:
                continue
            state = self._state(stored)
            if state is not None:
                return stored.position, state
        return None

    def _state(self, stored: _Stored) -> S | None:
        try:
            if not confirm(self._store, self._run, stored.position):
                return None
            return self._decode(stored.state)
        except (RekindleError, msgspec.MsgspecError, ValueError, KeyError, TypeError):
            return None

    def _names(self) -> list[str]:
        return _names(self._store, self._folder)


def newest(store: Store, run: str) -> tuple[Position, bytes] | None:
    """The newest snapshot as it is stored, whichever code made it, and without a look at the record it names: for a
    line in a list. Whoever decides anything uses `Snapshots.load`."""
    folder = _folder(run)
    names = _names(store, folder)
    stored = _parse(store.get(folder + names[0])) if names else None
    return None if stored is None else (stored.position, stored.state)


def _folder(run: str) -> str:
    return f"{run.rstrip('/')}/snapshot/"


def _names(store: Store, folder: str) -> list[str]:
    """Newest first."""
    return [name for name in store.list_after(folder) if NAME.fullmatch(name)][::-1]


def _parse(data: bytes | None) -> _Stored | None:
    if data is None or not data.startswith(PREFIX):
        return None
    header, _, body = data.partition(b"\n")
    if header != PREFIX + checksum_of(body).encode():
        return None
    try:
        return msgspec.msgpack.decode(body, type=_Stored)
    except msgspec.MsgspecError:
        return None
