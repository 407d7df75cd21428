"""Own a run and run its machine to the end: take the next epoch, fold what is there, beat, decide, let go.

The opening record holds the decision that a new master makes first. It is decided on the history it follows, and counts
only if nobody came in between. Nothing here knows which machine it is.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic

from rekindle.journal.codec import Codec
from rekindle.journal.history import History, Position, confirm, read
from rekindle.journal.lease import STALE_SECONDS, Lease
from rekindle.journal.takeover import take_over
from rekindle.model.machine import CommandPort, CommandT, EventT, Machine, StateT, StimulusT
from rekindle.runtime.loop import Loop, decide_asking
from rekindle.runtime.snapshots import StateKeeper
from rekindle.storage.store import Store


def codec_of(machine: Machine[StateT, EventT, StimulusT, CommandT]) -> Codec[EventT]:
    """How the events of a machine are stored."""
    wire = machine.wire
    return Codec(wire.events, enc_hook=wire.enc_hook, dec_hook=wire.dec_hook, closing=wire.closing, base=wire.base)


@dataclass(frozen=True, slots=True)
class JournalRead(Generic[StateT]):
    """A journal as it was when somebody read it: its fold and where that ends."""

    state: StateT | None
    position: Position
    keeper: StateKeeper[StateT]

    @property
    def can_be_followed(self) -> bool:
        """What follows a record that was cut off is judged by what stands before it."""
        return self.state is not None and self.position.kept == self.position.sequence


def look_at_journal(
    machine: Machine[StateT, EventT, StimulusT, CommandT], store: Store, run: str
) -> JournalRead[StateT]:
    """Read the journal of a run without owning it. One that was closed has no state: its records are gone."""
    keeper = StateKeeper(machine, store, run)
    after, base = keeper.load()
    history = read(store, run, codec_of(machine), after=after)
    state = None if history.position.is_closed else _Folding(machine, base)(history)
    return JournalRead(state, history.position, keeper)


class _Folding(Generic[StateT, EventT, StimulusT, CommandT]):
    """The state of a history that grows while others append: each record is folded once."""

    def __init__(self, machine: Machine[StateT, EventT, StimulusT, CommandT], base: StateT | None) -> None:
        self._machine = machine
        self._state = base
        self._folded = 0

    def __call__(self, history: History[EventT]) -> StateT | None:
        for record in history.records[self._folded :]:
            self._state = self._machine.fold(self._state, record.events)
        self._folded = len(history.records)
        if self._state is not None:
            self._machine.invariants(self._state)
        return self._state


def run_as_owner(
    machine: Machine[StateT, EventT, StimulusT, CommandT],
    store: Store,
    run: str,
    first: Callable[[StateT | None], StimulusT],
    port: CommandPort[CommandT, StimulusT],
    *,
    watcher: Callable[[tuple[EventT, ...], StateT], None],
    seen: JournalRead[StateT] | None = None,
    force: bool = False,
    stale_seconds: float = STALE_SECONDS,
    is_pinned: Callable[[], bool] | None = None,
) -> StateT:
    """The state in which the run of a machine ended. `first` gives the stimulus that opens the epoch, from what the
    journal says. Of a journal that was `seen` only the rest is read. Raises `StillOwned` before, and `Fenced` while,
    another master owns it."""
    after: Position | None
    if seen is not None and seen.can_be_followed and confirm(store, run, seen.position):
        keeper, after, base = seen.keeper, seen.position, seen.state
    else:
        keeper = StateKeeper(machine, store, run)
        after, base = keeper.load()
    folding = _Folding(machine, base)

    def opening(history: History[EventT], epoch: int) -> Sequence[EventT]:
        state = folding(history)
        return decide_asking(machine, state, first(state), now_ms(), 0.0, is_pinned)

    journal, history = take_over(
        store, run, codec_of(machine), opening, after=after, force=force, stale_seconds=stale_seconds
    )
    state = folding(history)
    assert state is not None, "the opening record makes a state"
    watcher(history.records[-1].events, state)
    loop = Loop(
        machine,
        journal,
        state,
        port,
        now_ms,
        lambda: random.uniform(-1, 1),
        watcher=watcher,
        remember=keeper.remember,
        is_pinned=is_pinned,
    )
    lease = Lease(journal, on_fenced=loop.fence)
    lease.start()
    try:
        ended = loop.run()
        keeper.remember_end(journal.position, ended)
        return ended
    finally:
        lease.stop()
        port.close()


def close_journal(
    machine: Machine[StateT, EventT, StimulusT, CommandT],
    store: Store,
    run: str,
    closing: Callable[[StateT | None], StimulusT],
    *,
    stale_seconds: float = STALE_SECONDS,
) -> StateT:
    """The state of a run that nobody goes on with from here: its last record is the decision about `closing`. Raises
    `StillOwned` where it has a living master, and `RunClosed` where it is closed."""
    keeper = StateKeeper(machine, store, run)
    after, base = keeper.load()
    folding = _Folding(machine, base)

    def opening(history: History[EventT], epoch: int) -> Sequence[EventT]:
        state = folding(history)
        return machine.decide(state, closing(state), now_ms())

    _, history = take_over(store, run, codec_of(machine), opening, after=after, stale_seconds=stale_seconds)
    state = folding(history)
    assert state is not None, "only a run that began is closed"
    return state


_BASE_NS = time.time_ns() - time.monotonic_ns()


def now_ms() -> int:
    """The wall clock as it was when the process began, and monotonic from there: a clock that is set back must not make
    a restart wait for it."""
    return (_BASE_NS + time.monotonic_ns()) // 1_000_000
