"""Open a run, new or old, as its one master: probe the store, take the next epoch, fold what is there.

The opening record holds the decision that a new master makes first: what began, what died with the old application,
what changed in the code. It is decided on the history it follows, and counts only if nobody came in between.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rekindle.engine.port import Engine
from rekindle.journal.codec import Codec
from rekindle.journal.history import History
from rekindle.journal.lease import STALE_SECONDS, Lease
from rekindle.journal.owner import this_process
from rekindle.journal.store import Store
from rekindle.journal.takeover import take_over
from rekindle.master.apply import fold
from rekindle.master.config import MasterConfig
from rekindle.master.decide import decide
from rekindle.master.events import Event, Fingerprint, RunClosed
from rekindle.master.invariants import check_invariants
from rekindle.master.state import RunState
from rekindle.master.stimuli import StartRun, TakeOver
from rekindle.master.wire import dec_hook, enc_hook
from rekindle.model.graph import Graph
from rekindle.runtime.loop import Loop, Watcher, ignore
from rekindle.runtime.snapshots import StateKeeper


def codec() -> Codec[Event]:
    """How the master's events are stored. A record with `RunClosed` is the tombstone of its run."""
    return Codec(Event, enc_hook=enc_hook, dec_hook=dec_hook, closing=RunClosed)


@dataclass(frozen=True, slots=True)
class Intent:
    """What the user wants to run: the pipeline as its code is now, and what they say about changes."""

    pipeline: str
    run: str
    graph: Graph
    fingerprints: Mapping[str, Fingerprint]
    sinks: tuple[str, ...] = ()
    order: int = 0
    config: MasterConfig = field(default_factory=MasterConfig)
    accepted: frozenset[str] = frozenset()
    replaced: frozenset[str] = frozenset()


def state_of(history: History[Event], base: RunState | None = None) -> RunState | None:
    """The fold of a journal, from its beginning or from a snapshot's state, checked."""
    state = fold(base, history.events)
    if state is not None:
        check_invariants(state)
    return state


def execute(
    store: Store,
    intent: Intent,
    engine: Engine,
    *,
    force: bool = False,
    stale_seconds: float = STALE_SECONDS,
    watcher: Watcher = ignore,
) -> RunState:
    """Run or resume until the run is over. Raises `StillOwned` before, and `Fenced` while, another master owns it."""

    run = f"{intent.pipeline}/{intent.run}"
    keeper = StateKeeper(store, run)
    after, base = keeper.load()

    def opening(history: History[Event], epoch: int) -> Sequence[Event]:
        state = state_of(history, base)
        return decide(state, _first(intent, engine, state), _now_ms(), 0.0)

    journal, history = take_over(store, run, codec(), opening, after=after, force=force, stale_seconds=stale_seconds)
    state = state_of(history, base)
    assert state is not None, "the opening record makes a state"
    watcher(history.records[-1].events, state)
    loop = Loop(journal, state, engine, _now_ms, lambda: random.uniform(-1, 1), watcher, keeper.remember)
    lease = Lease(journal, on_fenced=loop.fence)
    lease.start()
    try:
        return loop.run()
    finally:
        lease.stop()


def _first(intent: Intent, engine: Engine, state: RunState | None) -> StartRun | TakeOver:
    if state is not None:
        return TakeOver(
            engine.application,
            str(this_process()),
            intent.graph,
            dict(intent.fingerprints),
            intent.accepted,
            intent.replaced,
        )
    return StartRun(
        intent.run,
        intent.pipeline,
        intent.order,
        intent.graph,
        intent.sinks,
        dict(intent.fingerprints),
        intent.config,
        _now_ms(),
        random.getrandbits(63),
        engine.application,
        str(this_process()),
    )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
