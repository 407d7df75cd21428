"""Snapshots of a run's state: the fold of its journal, kept so that a long one opens fast.

- The name of the fold is a digest of the code that folds: after any change of it, old snapshots are worth nothing.
- They are saved ever more rarely as the journal grows, so that their cost stays a small share of the appends.
- One that could not be saved is no loss.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Generic

import msgspec

from rekindle.errors import StoreFailed
from rekindle.journal.history import Position
from rekindle.journal.snapshot import Snapshots
from rekindle.model.machine import Machine, StateT
from rekindle.storage.store import Store

RECORDS_MIN = 250
GROWTH = 0.25
FOLDING_ROOMS = ("master", "streams", "failover", "model")


@cache
def fold_name() -> str:
    """The digest of all code that the fold can call."""
    return digest_of_code(files("rekindle"))


def digest_of_code(package: Traversable) -> str:
    """A digest of the files of the folding rooms, those of rooms inside of them included, by path and content."""
    digest = blake2b(digest_size=16)
    for room in FOLDING_ROOMS:
        for path, text in _code(package / room, room):
            digest.update(path.encode() + b"\0" + text)
    return digest.hexdigest()


def _code(folder: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    for one in sorted(folder.iterdir(), key=lambda one: one.name):
        if one.is_dir():
            yield from _code(one, f"{path}/{one.name}")
        elif one.name.endswith(".py"):
            yield f"{path}/{one.name}", one.read_bytes()


class StateKeeper(Generic[StateT]):
    """Loads and saves the snapshots of one run of a machine."""

    def __init__(self, machine: Machine[StateT, Any, Any, Any], store: Store, run: str) -> None:
        self._decoder = msgspec.msgpack.Decoder(machine.wire.state, dec_hook=machine.wire.dec_hook)
        self._encoder = msgspec.msgpack.Encoder(enc_hook=machine.wire.enc_hook)
        self._snapshots: Snapshots[StateT] = Snapshots(
            store, run, fold_name(), self._encoder.encode, self._decoder.decode
        )
        self._saved = 0

    def load(self) -> tuple[Position | None, StateT | None]:
        """Where to go on reading, and the state there; None, None where no snapshot counts."""
        found = self._snapshots.load()
        if found is None:
            return None, None
        self._saved = found[0].sequence
        return found

    def remember(self, position: Position, state: StateT) -> None:
        """Save where enough was appended since the last one. For the loop."""
        if position.sequence - self._saved >= max(RECORDS_MIN, GROWTH * self._saved):
            self._save(position, state)

    def remember_end(self, position: Position, state: StateT) -> None:
        """Save how a run ended, however short it was: whoever lists runs reads this instead of each record. A closed
        run has nothing left to say."""
        if position.sequence > self._saved and not position.is_closed:
            self._save(position, state)

    def _save(self, position: Position, state: StateT) -> None:
        self._saved = position.sequence
        try:
            self._snapshots.save(position, state)
        except StoreFailed:
            return
