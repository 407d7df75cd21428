"""Watch a run that another process is the master of: its records as they appear, folded. Nothing is written."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from rekindle.journal.history import catch_up, read
from rekindle.journal.lease import STALE_SECONDS, LivenessState, sign_of_life
from rekindle.master.facts.events import Event
from rekindle.master.state.apply import fold
from rekindle.master.state.run_state import Phase, RunState
from rekindle.runtime.opening import codec
from rekindle.storage.store import Store

POLL_SECONDS = 1.0
LOOK_SECONDS = 10.0
OVER = (Phase.SUCCEEDED, Phase.FAILED, Phase.CLOSED)


def watch(
    store: Store,
    pipeline: str,
    run: str,
    *,
    stale_seconds: float = STALE_SECONDS,
    pause: Callable[[float], None] = time.sleep,
) -> Iterator[tuple[tuple[Event, ...], RunState]]:
    """Each record with the state behind it, those that are there first. Ends when the run is over, or when its master
    is no more: the last phase tells which."""
    name = f"{pipeline}/{run}"
    history, seen, state = read(store, name, codec()), 0, None
    quiet = 0.0
    while True:
        for record in history.records[seen:]:
            state = fold(state, record.events)
            assert state is not None, "a run begins with its first record"
            yield record.events, state
        quiet = 0.0 if len(history.records) > seen else quiet + POLL_SECONDS
        seen = len(history.records)
        if state is not None and state.phase in OVER:
            return
        if quiet >= LOOK_SECONDS:
            if sign_of_life(store, name, history.position, stale_seconds).life is not LivenessState.LIVING:
                return
            quiet = 0.0
        pause(POLL_SECONDS)
        history = catch_up(store, name, codec(), history)
