"""Open a run of the batch master, new or old, as its one owner: probe the store, and give the first stimulus.

It holds what began, what died with the old application, what changed in the code. `ownership.py` does the rest.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from rekindle.engine.port import Engine
from rekindle.errors import JournalRefused, RunClosed, StillOwned
from rekindle.journal.codec import Codec
from rekindle.journal.history import History, read
from rekindle.journal.lease import STALE_SECONDS, Liveness, sign_of_life
from rekindle.journal.owner import this_process
from rekindle.journal.prune import prune
from rekindle.master.facts.config import MasterConfig
from rekindle.master.facts.events import Event
from rekindle.master.facts.run_spec import RunSpec, UserDecisions
from rekindle.master.facts.stimuli import CloseRun, ReusedResult, StartRun, Stimulus, TakeOver
from rekindle.master.machine import BATCH
from rekindle.master.state.run_state import RunState
from rekindle.pipeline.table_versions import unversioned
from rekindle.remedies import StartRemedy, new_run
from rekindle.runtime.ownership import JournalRead, codec_of, now_ms, run_as_owner
from rekindle.runtime.pins import find_pin
from rekindle.runtime.snapshots import StateKeeper
from rekindle.runtime.watcher import Watcher, ignore
from rekindle.storage.probe import probe
from rekindle.storage.store import Store


def codec() -> Codec[Event]:
    """How the master's events are stored. A record with `RunClosed` is the tombstone of its run."""
    return codec_of(BATCH)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunIntent:
    """What the user wants to run: the pipeline as its code is now, and what they say about changes."""

    pipeline: str
    run: str
    spec: RunSpec
    decisions: UserDecisions = field(default_factory=UserDecisions)
    order: int = 0
    config: MasterConfig = field(default_factory=MasterConfig)
    constants: RunConstants | None = None
    reused: tuple[ReusedResult, ...] = ()


@dataclass(frozen=True, slots=True)
class RunConstants:
    """What is the same in every attempt and driver of a run: chosen when it starts, read from its journal later."""

    run_time_ms: int
    seed: int
    settings: Mapping[str, str] = field(default_factory=dict)

    def is_of_the_run(self, known: RunConstants) -> bool:
        """Whether they are those that its journal has, but for the versions at which it reads tables."""
        mine, its = (replace(one, settings=unversioned(one.settings)) for one in (self, known))
        return mine == its

    @classmethod
    def fresh(cls, settings: Mapping[str, str] | None = None) -> RunConstants:
        return cls(now_ms(), random.getrandbits(63), settings or {})

    @classmethod
    def of(cls, state: RunState) -> RunConstants:
        return cls(state.run_time_ms, state.seed, state.settings)


@dataclass(frozen=True, slots=True)
class JournalView(JournalRead[RunState]):
    """What the journal of a run said when it was read; `state` is None where there was none. `events` are all of them,
    or None where a snapshot stood for the first. A master that opens the run reads on from here."""

    name: str
    events: tuple[Event, ...] | None


def look(store: Store, pipeline: str, run: str) -> JournalView:
    """Read the journal of a run without owning it. A run that gc closed has nothing left to say."""
    name = f"{pipeline}/{run}"
    keeper = StateKeeper(BATCH, store, name)
    after, base = keeper.load()
    history = read(store, name, codec(), after=after)
    if history.position.is_closed:
        raise RunClosed(f"run {run} is closed", hint=new_run())
    state = state_of(history, base)
    if state is not None and (state.pipeline, state.run) != (pipeline, run):
        raise JournalRefused(f"the journal of {name} belongs to {state.pipeline}/{state.run}: it was copied or forged")
    events = None if after else tuple(history.events)
    return JournalView(state, history.position, keeper, name, events)


def peek(store: Store, pipeline: str, run: str) -> RunState | None:
    """What the journal of a run says now; None where there is none."""
    return look(store, pipeline, run).state


def sign_of(store: Store, seen: JournalView, stale_seconds: float = STALE_SECONDS) -> Liveness:
    """Whether the master that a run had when it was looked at lives now."""
    return sign_of_life(store, seen.name, seen.position, stale_seconds)


def state_of(history: History[Event], base: RunState | None = None) -> RunState | None:
    """The fold of a journal, from its beginning or from a snapshot's state, checked."""
    state = BATCH.fold(base, history.events)
    if state is not None:
        BATCH.invariants(state)
    return state


def execute(
    store: Store,
    intent: RunIntent,
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

    return run_as_owner(
        BATCH,
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
        run_as_owner(BATCH, store, run, first, engine, force=force, stale_seconds=stale_seconds, watcher=watcher)
    return prune(store, run)


def release(
    store: Store,
    run: str,
    engine: Engine,
    *,
    stale_seconds: float = STALE_SECONDS,
    check: Callable[[RunState | None], None] = lambda state: None,
) -> None:
    """gc of the results of a run that succeeded, as its master: what nobody keeps for ever is released and deleted,
    if its time is over. The run stays done."""

    def first(state: RunState | None) -> Stimulus:
        check(state)
        assert state is not None, "only a run that succeeded is released"
        return TakeOver(application=engine.application, owner=str(this_process()), spec=state.spec)

    run_as_owner(BATCH, store, run, first, engine, stale_seconds=stale_seconds, watcher=ignore)


def opening_of(intent: RunIntent, application: str, state: RunState | None) -> StartRun | TakeOver:
    """What a master is told first: a plan is made from the same. `state` is what the journal says."""
    constants = intent.constants or RunConstants.fresh()
    if state is not None:
        if intent.constants is not None and not constants.is_of_the_run(RunConstants.of(state)):
            raise StillOwned(f"run {intent.run} was started by another process a moment ago", hint=StartRemedy())
        return TakeOver(
            application=application,
            owner=str(this_process()),
            spec=intent.spec,
            decisions=intent.decisions,
            settings=None if constants.settings == state.settings else dict(constants.settings),
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
        reused=intent.reused,
    )
