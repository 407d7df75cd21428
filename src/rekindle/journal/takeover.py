"""Become the master of a run: read it, see that nobody else is, open the next epoch.

- The opening record is put under the next number. Whoever gets it is the master; the others read again and
  find a living owner. No lock is needed, and nothing is ever waited for that a dead process would have to
  do.
- `force` skips only the question whether the master seen first lives, not one that came in between.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from rekindle.errors import AppendRejected, Fenced, RunClosed, StillOwned
from rekindle.journal.codec import Codec
from rekindle.journal.history import History, Position, catch_up, read
from rekindle.journal.journal import Journal, Pause
from rekindle.journal.lease import STALE_SECONDS, Liveness, refuse_loss, sign_of_life
from rekindle.journal.owner import Owner, is_seen_dead, this_process
from rekindle.remedies import StartRemedy, TextRemedy, new_run
from rekindle.storage.store import Store

E = TypeVar("E")
TRIES = 20

# The events that open an epoch, from the history so far and the number of the new epoch.
Opening = Callable[[History[E], int], Sequence[E]]


def take_over(
    store: Store,
    run: str,
    codec: Codec[E],
    opening: Opening[E],
    *,
    after: Position | None = None,
    force: bool = False,
    stale_seconds: float = STALE_SECONDS,
    owner: Owner | None = None,
    is_dead: Callable[[Owner], bool] = is_seen_dead,
    pause: Pause = time.sleep,
    writer: str = "",
) -> tuple[Journal[E], History[E]]:
    """Open the next epoch of a run, new or old. The history returned ends with the opening record.

    `writer` must be unique among all masters there will ever be; a simulator names its own."""
    me = owner if owner is not None else this_process()
    history = read(store, run, codec, after)
    forced = history.position.epoch if force else None
    refuse_loss(store, run, history.position)
    for _ in range(TRIES):
        position = history.position
        _refuse_closed(run, position)
        if forced != position.epoch:
            refuse_living(run, sign_of_life(store, run, position, stale_seconds, is_dead), stale_seconds)
        events = opening(history, position.epoch + 1)
        journal = Journal(store, run, codec, position, pause=pause, writer=writer)
        try:
            record = journal.open_epoch(me, events)
        except (Fenced, AppendRejected):
            history = catch_up(store, run, codec, history)
            continue
        return journal, History((*history.records, record), journal.position, history.cut)
    raise StillOwned(
        f"run {_short(run)} could not be taken over: another process appended first {TRIES} times in a row",
        StartRemedy(to="stop its master, then"),
    )


def _refuse_closed(run: str, position: Position) -> None:
    if position.is_closed:
        raise RunClosed(f"run {_short(run)} is closed: it has a tombstone", new_run())


def refuse_living(run: str, sign: Liveness, stale_seconds: float) -> None:
    """Raise `StillOwned` where the master of a run lives."""
    if sign.life.may_be_taken_over:
        return
    age = 0.0 if sign.age_seconds is None else sign.age_seconds
    raise StillOwned(
        f"run {_short(run)} belongs to {sign.owner}, whose last heartbeat was {age:.0f} s ago",
        (
            TextRemedy(f"wait until it is silent for {stale_seconds:.0f} s"),
            StartRemedy(to="or take it over now", force=True),
        ),
    )


def _short(run: str) -> str:
    return run.rstrip("/").rsplit("/", 1)[-1]
