"""Open a run, new or old, as its one master: probe the store, take the next epoch, fold what is there.

The opening record holds the decision that a new master makes first: what began, what died with the old application,
what changed in the code. It is decided on the history it follows, and counts only if nobody came in between.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from rekindle.engine.port import Engine
from rekindle.errors import JournalRefused, RunClosed, StillOwned
from rekindle.journal.codec import Codec
from rekindle.journal.history import History, Position, confirm, read
from rekindle.journal.lease import STALE_SECONDS, Lease, Sign, sign_of_life
from rekindle.journal.owner import this_process
from rekindle.journal.prune import prune
from rekindle.journal.takeover import take_over
from rekindle.master.facts.config import MasterConfig
from rekindle.master.facts.events import Event
from rekindle.master.facts.events import RunClosed as Tombstone
from rekindle.master.facts.run_spec import RunSpec, UserDecisions
from rekindle.master.facts.stimuli import CloseRun, StartRun, Stimulus, TakeOver
from rekindle.master.state.apply import fold
from rekindle.master.state.invariants import check_invariants
from rekindle.master.state.run_state import RunState
from rekindle.master.state.wire import dec_hook, enc_hook
from rekindle.remedies import StartRemedy, new_run
from rekindle.runtime.loop import Loop, Watcher, decide_asking, ignore
from rekindle.runtime.pins import find_pin
from rekindle.runtime.snapshots import StateKeeper
from rekindle.storage.probe import probe
from rekindle.storage.store import Store


def codec() -> Codec[Event]:
    """How the master's events are stored. A record with `RunClosed` is the tombstone of its run."""
    return Codec(Event, enc_hook=enc_hook, dec_hook=dec_hook, closing=Tombstone)


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """What the user wants to run: the pipeline as its code is now, and what they say about changes."""

    pipeline: str
    run: str
    spec: RunSpec
    decisions: UserDecisions = field(default_factory=UserDecisions)
    order: int = 0
    config: MasterConfig = field(default_factory=MasterConfig)
    constants: Constants | None = None


@dataclass(frozen=True, slots=True)
class Constants:
    """What is the same in every attempt and driver of a run: chosen when it starts, read from its journal later."""

    run_time_ms: int
    seed: int
    settings: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def fresh(cls, settings: Mapping[str, str] | None = None) -> Constants:
        return cls(_now_ms(), random.getrandbits(63), settings or {})

    @classmethod
    def of(cls, state: RunState) -> Constants:
        return cls(state.run_time_ms, state.seed, state.settings)


@dataclass(frozen=True, slots=True)
class JournalView:
    """What the journal of a run said when it was read; `state` is None where there was none. `events` are all of them,
    or None where a snapshot stood for the first. A master that opens the run reads on from here."""

    name: str
    state: RunState | None
    position: Position
    events: tuple[Event, ...] | None
    keeper: StateKeeper

    @property
    def can_be_followed(self) -> bool:
        """What follows a record that was cut off is judged by what stands before it."""
        return self.state is not None and self.position.kept == self.position.sequence


def look(store: Store, pipeline: str, run: str) -> JournalView:
    """Read the journal of a run without owning it. A run that gc closed has nothing left to say."""
    name = f"{pipeline}/{run}"
    keeper = StateKeeper(store, name)
    after, base = keeper.load()
    history = read(store, name, codec(), after=after)
    if history.position.is_closed:
        raise RunClosed(f"run {run} is closed", hint=new_run())
    state = state_of(history, base)
    if state is not None and (state.pipeline, state.run) != (pipeline, run):
        raise JournalRefused(f"the journal of {name} belongs to {state.pipeline}/{state.run}: it was copied or forged")
    return JournalView(name, state, history.position, None if after else tuple(history.events), keeper)


def peek(store: Store, pipeline: str, run: str) -> RunState | None:
    """What the journal of a run says now; None where there is none."""
    return look(store, pipeline, run).state


def sign_of(store: Store, seen: JournalView, stale_seconds: float = STALE_SECONDS) -> Sign:
    """Whether the master that a run had when it was looked at lives now."""
    return sign_of_life(store, seen.name, seen.position, stale_seconds)


def state_of(history: History[Event], base: RunState | None = None) -> RunState | None:
    """The fold of a journal, from its beginning or from a snapshot's state, checked."""
    state = fold(base, history.events)
    if state is not None:
        check_invariants(state)
    return state


class _Folding:
    """The state of a history that grows while others append: each record is folded once."""

    def __init__(self, base: RunState | None) -> None:
        self._state = base
        self._folded = 0

    def __call__(self, history: History[Event]) -> RunState | None:
        for record in history.records[self._folded :]:
            self._state = fold(self._state, record.events)
        self._folded = len(history.records)
        if self._state is not None:
            check_invariants(self._state)
        return self._state


def execute(
    store: Store,
    intent: Intent,
    engine: Engine,
    *,
    seen: JournalView | None = None,
    force: bool = False,
    stale_seconds: float = STALE_SECONDS,
    watcher: Watcher = ignore,
) -> RunState:
    """Run or resume until the run is over. Raises `StillOwned` before, and `Fenced` while, another master owns it. Of a
    journal that was `seen` only the rest is read."""
    probe(store)

    def first(state: RunState | None) -> Stimulus:
        return opening_of(intent, engine.application, state)

    def is_pinned() -> bool:
        return find_pin(store, intent.pipeline, intent.run) is not None

    return _master(
        store,
        f"{intent.pipeline}/{intent.run}",
        first,
        engine,
        seen=seen,
        force=force,
        stale_seconds=stale_seconds,
        watcher=watcher,
        is_pinned=is_pinned,
    )


def close(
    store: Store,
    run: str,
    engine: Engine,
    *,
    force: bool = False,
    stale_seconds: float = STALE_SECONDS,
    watcher: Watcher = ignore,
    check: Callable[[RunState | None], None] = lambda state: None,
) -> int:
    """gc of one run, as its master: release and delete everything, leave the tombstone, give the journal's space back.
    Returns how many objects of the journal went. A run that is closed already is only tidied up. `check` is given the
    state that would be closed and raises where it is not the one that was meant."""
    stimulus = CloseRun(engine.application, str(this_process()))

    def first(state: RunState | None) -> Stimulus:
        check(state)
        return stimulus

    with contextlib.suppress(RunClosed):
        _master(store, run, first, engine, force=force, stale_seconds=stale_seconds, watcher=watcher)
    return prune(store, run)


def _master(
    store: Store,
    run: str,
    first: Callable[[RunState | None], Stimulus],
    engine: Engine,
    *,
    force: bool,
    stale_seconds: float,
    watcher: Watcher,
    seen: JournalView | None = None,
    is_pinned: Callable[[], bool] | None = None,
) -> RunState:
    after: Position | None
    if seen is not None and seen.can_be_followed and confirm(store, run, seen.position):
        keeper, after, base = seen.keeper, seen.position, seen.state
    else:
        keeper = StateKeeper(store, run)
        after, base = keeper.load()
    folding = _Folding(base)

    def opening(history: History[Event], epoch: int) -> Sequence[Event]:
        state = folding(history)
        return decide_asking(state, first(state), _now_ms(), 0.0, is_pinned)

    journal, history = take_over(store, run, codec(), opening, after=after, force=force, stale_seconds=stale_seconds)
    state = folding(history)
    assert state is not None, "the opening record makes a state"
    watcher(history.records[-1].events, state)
    loop = Loop(
        journal,
        state,
        engine,
        _now_ms,
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
        engine.close()


def opening_of(intent: Intent, application: str, state: RunState | None) -> StartRun | TakeOver:
    """What a master is told first: a plan is made from the same. `state` is what the journal says."""
    constants = intent.constants or Constants.fresh()
    if state is not None:
        if intent.constants is not None and constants != Constants.of(state):
            raise StillOwned(f"run {intent.run} was started by another process a moment ago", hint=StartRemedy())
        return TakeOver(
            application=application, owner=str(this_process()), spec=intent.spec, decisions=intent.decisions
        )
    return StartRun(
        run=intent.run,
        pipeline=intent.pipeline,
        order=intent.order,
        spec=intent.spec,
        config=intent.config,
        run_time_ms=constants.run_time_ms,
        seed=constants.seed,
        application=application,
        owner=str(this_process()),
        settings=dict(constants.settings),
    )


_BASE_NS = time.time_ns() - time.monotonic_ns()


def _now_ms() -> int:
    """The wall clock as it was when the process began, and monotonic from there: a clock that is set back must not make
    a restart wait for it."""
    return (_BASE_NS + time.monotonic_ns()) // 1_000_000
