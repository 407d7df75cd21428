"""The loop runs any machine: a counter of batches, with events, commands and a codec of its own, over real journals."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rekindle.errors import Fenced, NewerJournal, RunClosed, StillOwned
from rekindle.journal import takeover as takeover_module
from rekindle.journal.history import read
from rekindle.journal.journal import Journal
from rekindle.journal.takeover import take_over
from rekindle.master.machine import BATCH
from rekindle.model.machine import GivenUp, Key, Machine, Stop, WakeAt, Wire
from rekindle.runtime import loop as loop_module
from rekindle.runtime.loop import Loop
from rekindle.runtime.ownership import codec_of, run_as_owner
from rekindle.storage.local_disk import LocalDisk
from rekindle.storage.memory import MemoryStore
from rekindle.storage.store import Store

RUN = "counter/run-1"
BATCHES = 5


class Opened(msgspec.Struct, frozen=True, tag=True):
    epoch: int


class Counted(msgspec.Struct, frozen=True, tag=True):
    batch: int
    took: timedelta


class Waited(msgspec.Struct, frozen=True, tag=True):
    until_ms: int


class Ended(msgspec.Struct, frozen=True, tag=True):
    pass


class Dropped(msgspec.Struct, frozen=True, tag=True):
    pass


CounterEvent = Opened | Counted | Waited | Ended | Dropped


class Begin(msgspec.Struct, frozen=True):
    pass


class Done(msgspec.Struct, frozen=True):
    batch: int


class Undone(msgspec.Struct, frozen=True):
    batch: int


class Clock(msgspec.Struct, frozen=True):
    pass


CounterStimulus = Begin | Done | Undone | Clock


class Count(msgspec.Struct, frozen=True):
    batch: int
    epoch: int

    @property
    def key(self) -> Key:
        return "count", (self.batch, self.epoch)


class Clean(msgspec.Struct, frozen=True):
    batch: int

    @property
    def key(self) -> Key:
        return "clean", self.batch


CounterCommand = Count | Clean | WakeAt | Stop


class Counter(msgspec.Struct, frozen=True):
    epoch: int = 0
    counted: tuple[int, ...] = ()
    due_ms: int = 0
    is_ended: bool = False
    is_pinned: bool = False


def decide(
    state: Counter | None, stimulus: CounterStimulus, now_ms: int, jitter: float = 0.0, is_pinned: bool | None = None
) -> tuple[CounterEvent, ...]:
    """One batch after the other; a pause before the last, and nothing is dropped while somebody keeps the run."""
    match stimulus:
        case Begin():
            return (Opened(1 if state is None else state.epoch + 1),)
        case Done(batch) if state is not None and batch == len(state.counted):
            counted = Counted(batch, timedelta(milliseconds=7))
            if batch == BATCHES - 2:
                return counted, Waited(now_ms + 1)
            if batch == BATCHES - 1:
                return (counted, Ended()) if is_pinned else (counted, Dropped(), Ended())
            return (counted,)
        case Clock() if state is not None and 0 < state.due_ms <= now_ms:
            return (Waited(0),)
        case _:
            return ()


def fold(state: Counter | None, events: Iterable[CounterEvent]) -> Counter | None:
    for event in events:
        state = state or Counter()
        match event:
            case Opened(epoch):
                state = msgspec.structs.replace(state, epoch=epoch)
            case Counted(batch):
                state = msgspec.structs.replace(state, counted=(*state.counted, batch))
            case Waited(until_ms):
                state = msgspec.structs.replace(state, due_ms=until_ms)
            case Ended():
                state = msgspec.structs.replace(state, is_ended=True)
            case Dropped():
                pass
    return state


def commands(state: Counter, sent: Container[Key] = (), left: frozenset[Any] = frozenset()) -> Sequence[CounterCommand]:
    found: list[CounterCommand] = []
    if state.is_ended:
        found = [Clean(0)] if 0 not in left else [Stop()]
    elif state.due_ms:
        found = [WakeAt(state.due_ms)]
    else:
        found = [Count(len(state.counted), state.epoch)]
    return [command for command in found if command.key not in sent]


def invariants(state: Counter) -> None:
    assert state.counted == tuple(range(len(state.counted))), "a batch counts once and in its order"


COUNTER: Machine[Counter, CounterEvent, CounterStimulus, CounterCommand] = Machine(
    decide=decide,
    fold=fold,
    commands=commands,
    invariants=invariants,
    tick=Clock(),
    wire=Wire(events=CounterEvent, state=Counter, closing=Dropped),
    given_up=lambda stimulus: GivenUp(stimulus.batch, "batch 0 stays") if isinstance(stimulus, Undone) else None,
)


class CounterWorld:
    """Counts whatever it is told to, with what the journal held then. `dies_at` is a batch that kills the process."""

    def __init__(self, store: Store, dies_at: int = -1, before: Callable[[int], None] = lambda batch: None) -> None:
        self._store = store
        self._dies_at = dies_at
        self._before = before
        self._happened: list[CounterStimulus] = []
        self.told: list[int] = []
        self.is_closed = False

    def send(self, command: CounterCommand) -> None:
        match command:
            case Count(batch):
                state = fold(None, read(self._store, RUN, codec_of(COUNTER)).events)
                assert state is not None and len(state.counted) == batch, "sent before the record was there"
                self.told.append(batch)
                self._before(batch)
                if batch == self._dies_at:
                    raise KeyboardInterrupt
                self._happened += [Done(batch), Done(batch)]
            case Clean(batch):
                self._happened.append(Undone(batch))
            case WakeAt() | Stop():
                raise AssertionError("the loop keeps these to itself")

    def poll(self, timeout_ms: int) -> Sequence[CounterStimulus]:
        happened, self._happened = self._happened, []
        return happened

    def close(self) -> None:
        self.is_closed = True


def run(store: Store, world: CounterWorld, force: bool = False) -> Counter:
    seen: list[CounterEvent] = []

    def watch(events: tuple[CounterEvent, ...], state: Counter) -> None:
        seen.extend(events)

    state = run_as_owner(COUNTER, store, RUN, lambda state: Begin(), world, watcher=watch, force=force)
    assert fold(None, read(store, RUN, codec_of(COUNTER)).events) == state
    return state


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(takeover_module, "Journal", partial(Journal, pauses_seconds=(0.0, 0.0)))
    monkeypatch.setattr(loop_module, "PAUSE_SECONDS", 0.0)


@pytest.fixture(params=["disk", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return LocalDisk(tmp_path) if request.param == "disk" else MemoryStore()


@pytest.mark.filterwarnings("ignore:batch 0 stays")
def test_another_machine_runs_to_its_end_and_leaves_its_tombstone(store: Store) -> None:
    world = CounterWorld(store)
    state = run(store, world)
    assert state.counted == tuple(range(BATCHES)) == tuple(world.told) and state.is_ended and world.is_closed
    history = read(store, RUN, codec_of(COUNTER))
    assert history.position.is_closed and Counted(1, timedelta(milliseconds=7)) in history.events
    with pytest.raises(RunClosed):
        run(store, CounterWorld(store))


@pytest.mark.filterwarnings("ignore:batch 0 stays")
@pytest.mark.parametrize("dies_at", range(BATCHES))
def test_a_second_loop_goes_on_from_the_journal(store: Store, dies_at: int) -> None:
    first = CounterWorld(store, dies_at)
    with pytest.raises(KeyboardInterrupt):
        run(store, first)
    second = CounterWorld(store)
    state = run(store, second, force=True)
    assert state.epoch == 2 and state.counted == tuple(range(BATCHES))
    assert first.told == list(range(dies_at + 1)) and second.told == list(range(dies_at, BATCHES))


@pytest.mark.filterwarnings("ignore:batch 0 stays")
def test_a_loop_that_was_taken_over_is_fenced_and_acts_no_more(store: Store) -> None:
    second = CounterWorld(store)

    def usurp(batch: int) -> None:
        if batch == 2:
            run(store, second, force=True)

    first = CounterWorld(store, before=usurp)
    with pytest.raises(Fenced, match="epoch 2"):
        run(store, first)
    assert first.told == [0, 1, 2] and second.told == [2, 3, 4] and first.is_closed


def test_a_living_owner_is_left_alone(store: Store) -> None:
    def second(batch: int) -> None:
        with pytest.raises(StillOwned):
            run(store, CounterWorld(store))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(store, CounterWorld(store, before=second))


def test_a_state_that_breaks_a_rule_of_its_machine_is_not_run(store: Store) -> None:
    wrong = Counted(3, timedelta(0))
    journal, _ = take_over(store, RUN, codec_of(COUNTER), lambda history, epoch: (Opened(1), wrong))
    with pytest.raises(AssertionError, match="counts once"):
        run(store, CounterWorld(store), force=True)
    assert journal.position == read(store, RUN, codec_of(COUNTER)).position


def test_a_journal_of_one_machine_is_no_journal_of_another(store: Store) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(store, CounterWorld(store, dies_at=1))
    with pytest.raises(NewerJournal):
        read(store, RUN, codec_of(BATCH))


def test_it_is_asked_who_keeps_the_run_before_something_goes(store: Store) -> None:
    careful: Machine[Counter, CounterEvent, CounterStimulus, CounterCommand] = Machine(
        decide=decide,
        fold=fold,
        commands=commands,
        invariants=invariants,
        tick=Clock(),
        wire=COUNTER.wire,
        lets_go=lambda events: any(isinstance(event, Dropped) for event in events),
    )
    journal, history = take_over(store, RUN, codec_of(careful), lambda history, epoch: (Opened(1),))
    state = fold(None, history.events)
    assert state is not None
    loop = Loop(
        careful,
        journal,
        state,
        CounterWorld(store),
        lambda: 1,
        lambda: 0.0,
        watcher=lambda events, state: None,
        remember=lambda position, state: None,
        is_pinned=lambda: True,
    )
    for batch in range(BATCHES):
        loop.take(Done(batch))
    assert loop.state.is_ended and not journal.position.is_closed
