"""A run without end: its journal goes on from a base, older records go, and who slept through it stays fenced."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rekindle.errors import Fenced, StoreFailed
from rekindle.journal import prune as prune_module
from rekindle.journal import takeover as takeover_module
from rekindle.journal.history import History, folder_of, read
from rekindle.journal.journal import Journal
from rekindle.journal.lease import LivenessState, sign_of_life
from rekindle.journal.prune import cut
from rekindle.journal.takeover import take_over
from rekindle.model.machine import Key, Machine, Stop, Wire
from rekindle.runtime import loop as loop_module
from rekindle.runtime.loop import Loop
from rekindle.runtime.ownership import codec_of
from rekindle.storage.local_disk import LocalDisk
from rekindle.storage.memory import MemoryStore
from rekindle.storage.store import Store

RUN = "endless/run-1"
EVERY = 10


class Added(msgspec.Struct, frozen=True, tag=True):
    number: int


class Summed(msgspec.Struct, frozen=True, tag=True):
    total: int


class Add(msgspec.Struct, frozen=True):
    number: int


AnyEvent = Added | Summed
AdderLoop = Loop[int, AnyEvent, Add, Stop]


def fold(state: int | None, events: Iterable[AnyEvent]) -> int | None:
    for event in events:
        match event:
            case Added(number):
                state = (state or 0) + number
            case Summed(total):
                state = total
    return state


def decide(
    state: int | None, stimulus: Add, now_ms: int, jitter: float = 0.0, is_pinned: bool | None = None
) -> tuple[AnyEvent, ...]:
    return (Added(stimulus.number),)


def commands(state: int, sent: Container[Key] = (), left: frozenset[Any] = frozenset()) -> Sequence[Stop]:
    return ()


ADDER: Machine[int, AnyEvent, Add, Stop] = Machine(
    decide=decide,
    fold=fold,
    commands=commands,
    invariants=lambda state: None,
    tick=Add(0),
    wire=Wire(events=AnyEvent, state=int, base=Summed),
    base=Summed,
)


class NoWorld:
    def send(self, command: Stop) -> None:
        raise AssertionError("nothing is to be done")

    def poll(self, timeout_ms: int) -> Sequence[Add]:
        return ()

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "BASE_RECORDS", EVERY)
    monkeypatch.setattr(takeover_module, "Journal", partial(Journal, pauses_seconds=(0.0, 0.0)))


@pytest.fixture(params=["disk", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return LocalDisk(tmp_path) if request.param == "disk" else MemoryStore()


def master(store: Store) -> AdderLoop:
    """Reads the journal as it is, and opens the next epoch."""

    def opening(history: History[AnyEvent], epoch: int) -> Sequence[AnyEvent]:
        return (Added(0),)

    journal, history = take_over(store, RUN, codec_of(ADDER), opening, force=True)
    state = fold(None, history.events)
    assert state is not None
    return Loop(
        ADDER,
        journal,
        state,
        NoWorld(),
        lambda: 1,
        lambda: 0.0,
        watcher=lambda events, state: None,
        remember=lambda position, state: None,
    )


def add(loop: AdderLoop, times: int) -> None:
    for _ in range(times):
        loop.take(Add(1))


def sequences(store: Store) -> list[int]:
    return [int(name) for name in store.list_after(folder_of(RUN))]


def test_only_what_follows_the_last_base_but_one_is_kept(store: Store) -> None:
    add(master(store), 100)
    # Record 1 opened the epoch; bases are 11, 21, …, 111, one behind each tenth record.
    assert sequences(store) == [1, *range(101, 113)]
    history = read(store, RUN, codec_of(ADDER))
    assert fold(None, history.events) == 100
    assert [record.sequence for record in history.records] == [111, 112]
    assert history.position.sequence == 112 and history.position.epoch == 1


def test_the_next_master_goes_on_from_the_base_and_opens_the_next_epoch(store: Store) -> None:
    add(master(store), 25)
    second = master(store)
    assert second.state == 25
    add(second, 40)
    assert fold(None, read(store, RUN, codec_of(ADDER)).events) == 65
    assert read(store, RUN, codec_of(ADDER)).position.epoch == 2


def test_a_base_tells_who_owns_its_epoch(store: Store) -> None:
    add(master(store), 20)
    position = read(store, RUN, codec_of(ADDER)).position
    assert position.owner is not None
    assert sign_of_life(store, RUN, position, is_dead=lambda owner: True).life is LivenessState.DEAD


@pytest.mark.parametrize("times", [3, 8, 9, 10, 15])
def test_a_master_that_slept_through_the_cut_finds_its_number_taken(store: Store, times: int) -> None:
    asleep = master(store)
    add(asleep, times)
    add(master(store), 60)
    with pytest.raises(Fenced, match="epoch 2"):
        add(asleep, 1)


def test_without_the_records_that_fence_sleepers_one_of_them_would_go_on(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prune_module, "_for_sleepers", lambda names, found: set())
    asleep = master(store)
    add(asleep, 3)
    add(master(store), 60)
    add(asleep, 1)
    assert asleep.state == 4, "it believes what nobody will ever read"


def test_whoever_read_the_names_before_the_cut_still_finds_a_base(store: Store) -> None:
    """The listing is that of a reader who then sleeps while the master puts one more base, and cuts."""
    loop = master(store)
    add(loop, 30)
    names = store.list_after(folder_of(RUN))
    add(loop, 10)
    kept = [name for name in names if store.get(folder_of(RUN) + name) is not None]
    late = MemoryStore()
    for name in kept:
        late.put_if_absent(folder_of(RUN) + name, store.get(folder_of(RUN) + name) or b"")
    total = fold(None, read(late, RUN, codec_of(ADDER)).events)
    assert total is not None and 30 <= total <= 40


def test_a_torn_base_leaves_the_one_before_it(store: Store) -> None:
    loop = master(store)
    add(loop, 29)
    last = sequences(store)[-1]
    store.put(folder_of(RUN) + f"{last + 1:020d}", b"RK1 99")
    assert fold(None, read(store, RUN, codec_of(ADDER)).events) == 29
    assert master(store).state == 29


def test_a_cut_that_died_halfway_is_read_and_ended_by_the_next(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = master(store)
    monkeypatch.setattr(loop_module, "cut", lambda store, run: 0)
    add(loop, 50)
    gone = sequences(store)[1:17:2]
    for number in gone:
        store.delete(folder_of(RUN) + f"{number:020d}")
    assert fold(None, read(store, RUN, codec_of(ADDER)).events) == 50
    assert cut(store, RUN) > 0
    assert fold(None, read(store, RUN, codec_of(ADDER)).events) == 50


def test_a_journal_without_two_bases_loses_nothing(store: Store) -> None:
    loop = master(store)
    add(loop, 12)
    before = sequences(store)
    assert cut(store, RUN) == 0 and sequences(store) == before


def test_storage_that_does_not_delete_ends_no_run(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(store: Store, run: str) -> int:
        raise StoreFailed("it does not delete")

    monkeypatch.setattr(loop_module, "cut", refuses)
    loop = master(store)
    add(loop, 30)
    assert loop.state == 30


def test_a_base_that_does_not_hold_the_state_is_not_written(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "BASE_RECORDS", 2)
    loop = master(store)
    monkeypatch.setattr(loop, "_machine", replace(ADDER, base=lambda state: Summed(state - 1)))
    with pytest.raises(AssertionError, match="whole state"):
        add(loop, 1)
    assert sequences(store) == [1, 2]


def test_a_listing_that_misses_a_fresh_record_of_a_cut_journal_is_completed(store: Store) -> None:
    loop = master(store)
    add(loop, 200)
    hidden = folder_of(RUN) + f"{sequences(store)[-2]:020d}"

    class LateListing(MemoryStore):
        """Has all that the store has, and does not list one of it."""

        def list_after(self, folder: str, after: str = "") -> list[str]:
            return [name for name in super().list_after(folder, after) if folder + name != hidden]

    late = LateListing()
    for number in sequences(store):
        key = folder_of(RUN) + f"{number:020d}"
        late.put_if_absent(key, store.get(key) or b"")
    assert fold(None, read(late, RUN, codec_of(ADDER)).events) == 200


def test_a_master_behind_two_torn_records_finds_its_number_taken(store: Store) -> None:
    """Two masters that died while they wrote: nobody may use their numbers, nor the one before them."""
    asleep = master(store)
    add(asleep, 3)
    last = sequences(store)[-1]
    for number in (last + 1, last + 2):
        store.put(folder_of(RUN) + f"{number:020d}", b"RK1 99")
    add(master(store), 60)
    assert {last, last + 1, last + 2, last + 3} <= set(sequences(store))
