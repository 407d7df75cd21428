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
from rekindle.journal.store import Store

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
        self._folder = f"{run.rstrip('/')}/snapshot/"
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
        return [name for name in self._store.list_after(self._folder) if NAME.fullmatch(name)][::-1]


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
