"""A small union of events for tests: the journal must carry any union."""

from __future__ import annotations

import msgspec

from rekindle.journal.codec import Codec
from rekindle.journal.history import History, Position
from rekindle.journal.journal import Journal
from rekindle.journal.takeover import take_over
from rekindle.storage.store import Store


class Opened(msgspec.Struct, frozen=True, tag=True):
    epoch: int


class Noted(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    text: str


class Closed(msgspec.Struct, frozen=True, tag=True):
    pass


Fact = Opened | Noted | Closed
CODEC: Codec[Fact] = Codec(Fact, closing=Closed)
RUN = "daily/run-1"


def opening(history: History[Fact], epoch: int) -> list[Fact]:
    return [Opened(epoch)]


def no_pause(seconds: float) -> None:
    """Tests of unknown answers do not wait."""


def open_run(store: Store, run: str = RUN, force: bool = True) -> tuple[Journal[Fact], History[Fact]]:
    """Take a run over, by default without asking whether its master lives."""
    return take_over(store, run, CODEC, opening, force=force, pause=no_pause)


def texts(history: History[Fact]) -> list[str]:
    return [event.text for event in history.events if isinstance(event, Noted)]


def journal_at(store: Store, position: Position) -> Journal[Fact]:
    return Journal(store, RUN, CODEC, position, pause=no_pause)
