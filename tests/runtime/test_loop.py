"""Decide, append, apply, dispatch: nothing acts before its record is acknowledged, whatever the store answers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from doubles.stores import IgnoresConditions
from rekindle.errors import AppendUnknown, Fenced, RunClosed, StillOwned, StoreFailed, StoreRefused
from rekindle.journal import takeover as takeover_module
from rekindle.journal.history import read
from rekindle.journal.journal import Journal
from rekindle.master.facts.events import AttemptDeleted, Event
from rekindle.master.facts.graph_spec import GraphSpec
from rekindle.master.facts.run_spec import RunSpec
from rekindle.master.facts.stimuli import DeletionFailed
from rekindle.master.machine import BATCH
from rekindle.master.state.apply import fold
from rekindle.master.state.commands import Command, DeleteAttempt, StartAttempt
from rekindle.master.state.run_state import Phase, RunState
from rekindle.runtime import loop as loop_module
from rekindle.runtime import ownership
from rekindle.runtime import snapshots as snapshots_module
from rekindle.runtime.opening import RunConstants, RunIntent, close, codec, execute, peek
from rekindle.runtime.snapshots import StateKeeper
from rekindle.storage.local_disk import LocalDisk
from rekindle.storage.memory import MemoryStore
from rekindle.storage.store import Store
from rekindle.testing.drawing import draw
from rekindle.testing.faulty_store import FaultyStore, StoreFault
from support.instant import RUN, InstantEngine

GRAPH = draw("a[4] =blocking=> b[4] =blocking all=> c[3]")
INTENT = RunIntent(pipeline="daily", run="run-1", spec=RunSpec(graph=GraphSpec.of(GRAPH), sinks=("c",)))


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(takeover_module, "Journal", partial(Journal, pauses_seconds=(0.0, 0.0)))
    monkeypatch.setattr(loop_module, "PAUSE_SECONDS", 0.0)


def refolded(store: Store) -> RunState | None:
    return fold(None, read(store, RUN, codec()).events)


def started(engine: InstantEngine) -> list[StartAttempt]:
    return [command for command in engine.told if isinstance(command, StartAttempt)]


def test_a_clock_that_is_set_back_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    before = ownership.now_ms()
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    assert before <= ownership.now_ms() <= before + 60_000


def test_a_run_ends_and_its_journal_folds_to_the_same_state(tmp_path: Path) -> None:
    store = LocalDisk(tmp_path)
    engine = InstantEngine(store)
    state = execute(store, INTENT, engine)
    assert state.phase is Phase.SUCCEEDED
    assert refolded(store) == state
    assert engine.unjournaled == []


def faults(*first: StoreFault) -> MemoryStore:
    queue: Iterator[StoreFault] = iter(first)
    return FaultyStore(lambda key: next(queue, StoreFault.NONE) if "/journal/" in key else StoreFault.NONE)


@pytest.mark.parametrize(
    "fault", [StoreFault.LOST, StoreFault.UNACKNOWLEDGED, StoreFault.DUPLICATED, StoreFault.DELAYED]
)
@pytest.mark.parametrize("at", range(8))
def test_an_answer_that_is_unknown_for_a_while_changes_nothing(fault: StoreFault, at: int) -> None:
    store = faults(*[StoreFault.NONE] * at, fault)
    engine = InstantEngine(store)
    state = execute(store, INTENT, engine)
    assert state.phase is Phase.SUCCEEDED
    assert engine.unjournaled == []
    assert len({command.attempt for command in started(engine)}) == len(started(engine)) == 3
    assert refolded(store) == state


def test_a_certain_no_is_tried_again() -> None:
    store = faults(StoreFault.NONE, StoreFault.REFUSED, StoreFault.REFUSED)
    assert execute(store, INTENT, InstantEngine(store)).phase is Phase.SUCCEEDED


def test_a_store_that_fails_for_good_stops_the_engine() -> None:
    store = faults(StoreFault.NONE, *[StoreFault.REFUSED] * 99)
    engine = InstantEngine(store)
    with pytest.raises(StoreFailed):
        execute(store, INTENT, engine)
    assert engine.is_closed


def test_an_answer_that_stays_unknown_dispatches_nothing_and_stops_the_engine() -> None:
    store = faults(StoreFault.NONE, *[StoreFault.LOST] * 999)
    engine = InstantEngine(store)
    with pytest.raises(AppendUnknown):
        execute(store, INTENT, engine)
    assert engine.is_closed
    assert [command.attempt.step for command in started(engine)] == ["a"]


class Undeleting(InstantEngine):
    """A storage that refuses to delete, or never answers."""

    def __init__(self, store: Store, answers: bool) -> None:
        super().__init__(store)
        self._answers = answers

    def send(self, command: Command) -> None:
        if not isinstance(command, DeleteAttempt):
            super().send(command)
        elif self._answers:
            self._happened.append(DeletionFailed(command.attempt, "403 Forbidden"))


@pytest.mark.filterwarnings("ignore:files of")
@pytest.mark.parametrize("answers", [True, False], ids=["refuses", "never answers"])
def test_a_storage_that_does_not_delete_holds_no_run_up(answers: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "DELETING_MS_MAX", 0)
    store = MemoryStore()
    state = execute(store, INTENT, Undeleting(store, answers))
    assert state.phase is Phase.SUCCEEDED and len(state.undeleted) == 3, "gc knows them"


class Usurped(InstantEngine):
    """While it works, somebody else takes the run over."""

    def send(self, command: object) -> None:
        super().send(command)  # type: ignore[arg-type]
        if isinstance(command, StartAttempt) and command.attempt.step == "b":
            with pytest.raises(KeyboardInterrupt):
                execute(self._store, INTENT, InstantEngine(self._store, "app-2", dies_after=0), force=True)


def test_a_master_that_was_taken_over_stops_and_says_so() -> None:
    store = MemoryStore()
    engine = Usurped(store)
    with pytest.raises(Fenced, match="epoch 2"):
        execute(store, INTENT, engine)
    assert engine.is_closed
    state = refolded(store)
    assert state is not None and state.epoch == 2


@pytest.mark.parametrize("crash_after", range(6))
def test_a_new_driver_goes_on_where_the_old_one_died(crash_after: int) -> None:
    store = MemoryStore()
    with pytest.raises(KeyboardInterrupt):
        execute(store, INTENT, InstantEngine(store, "app-1", crash_after))
    engine = InstantEngine(store, "app-2")
    state = execute(store, INTENT, engine, force=True)
    assert state.phase is Phase.SUCCEEDED
    assert refolded(store) == state


def test_the_constants_of_a_run_are_those_it_started_with() -> None:
    store = MemoryStore()
    assert peek(store, "daily", "run-1") is None
    chosen = RunConstants(12, 34, {"spark.sql.files.minPartitionNum": "2"})
    with pytest.raises(KeyboardInterrupt):
        execute(store, replace(INTENT, constants=chosen), InstantEngine(store, "app-1", 2))
    state = peek(store, "daily", "run-1")
    assert state is not None and RunConstants.of(state) == chosen
    execute(store, replace(INTENT, constants=RunConstants.of(state)), InstantEngine(store, "app-2"), force=True)


def test_a_run_that_began_meanwhile_with_other_constants_is_not_taken_over() -> None:
    store = MemoryStore()
    execute(store, replace(INTENT, constants=RunConstants(1, 2)), InstantEngine(store, "app-1"))
    with pytest.raises(StillOwned, match="a moment ago"):
        execute(store, replace(INTENT, constants=RunConstants(1, 3)), InstantEngine(store, "app-2"), force=True)


def test_a_snapshot_opens_to_the_same_state_and_reads_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots_module, "RECORDS_MIN", 2)
    store = MemoryStore()
    seen: list[RunState] = []

    def watch(events: tuple[Event, ...], state: RunState) -> None:
        seen.append(state)

    execute(store, INTENT, InstantEngine(store), watcher=watch)
    position, state = StateKeeper(BATCH, store, RUN).load()
    assert position is not None and position.sequence > 2
    assert state == seen[position.sequence - 1]
    history = read(store, RUN, codec(), position)
    assert fold(state, history.events) == refolded(store)


def test_how_a_run_ended_is_read_without_its_records() -> None:
    store = MemoryStore()
    state = execute(store, INTENT, InstantEngine(store))
    position, remembered = StateKeeper(BATCH, store, RUN).load()
    assert position is not None and remembered == state
    assert position.sequence == read(store, RUN, codec()).position.sequence
    assert not read(store, RUN, codec(), position).records


def test_gc_is_a_master_that_deletes_everything_and_leaves_a_tombstone() -> None:
    store = MemoryStore()
    first = InstantEngine(store, "app-1", 2)
    with pytest.raises(KeyboardInterrupt):
        execute(store, INTENT, first)
    sleeper = Journal(store, RUN, codec(), read(store, RUN, codec()).position, pauses_seconds=())
    engine = InstantEngine(store, "gc")
    assert close(store, RUN, engine) > 0
    deleted = {command.attempt for command in engine.told if isinstance(command, DeleteAttempt)}
    assert deleted == {command.attempt for command in started(first)}
    assert read(store, RUN, codec()).position.is_closed
    with pytest.raises(Fenced):
        sleeper.append(AttemptDeleted(started(first)[0].attempt))
    with pytest.raises(RunClosed):
        execute(store, INTENT, InstantEngine(store, "app-3"))
    with pytest.raises(RunClosed):
        peek(store, "daily", "run-1")
    assert close(store, RUN, engine) == 0


def test_gc_of_a_run_that_a_living_master_owns_is_refused() -> None:
    store = MemoryStore()
    with pytest.raises(KeyboardInterrupt):
        execute(store, INTENT, Silent(store, "app-1", 2))
    with pytest.raises(StillOwned):
        close(store, RUN, InstantEngine(store, "gc"))


class Silent(InstantEngine):
    """Dies without a word: its lease is not given back, as after kill -9 on another host."""

    def send(self, command: object) -> None:
        try:
            super().send(command)  # type: ignore[arg-type]
        except KeyboardInterrupt:
            self._store.put = lambda key, body: None  # type: ignore[method-assign]
            raise


def test_nothing_starts_on_a_store_that_ignores_conditions() -> None:
    store = IgnoresConditions()
    engine = InstantEngine(store)
    with pytest.raises(StoreRefused):
        execute(store, INTENT, engine)
    assert store.list_folders("daily/") == [] and engine.told == []
