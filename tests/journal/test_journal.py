"""Appending under every fault a store can have: unknown stays unknown, and nothing is lost or doubled."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rekindle.errors import AppendRejected, AppendUnknown, Fenced, JournalRefused, RunClosed, StoreFailed
from rekindle.journal.frame import name_of
from rekindle.journal.history import folder_of, read
from rekindle.journal.owner import Owner
from rekindle.journal.prune import prune
from rekindle.storage.memory import MemoryStore
from rekindle.testing.faulty_store import FaultyStore, StoreFault
from support.facts import CODEC, RUN, Closed, Noted, Opened, journal_at, open_run, texts


def faulty(*faults: StoreFault) -> FaultyStore:
    """A store with one opened epoch whose next put-if-absents meet these faults, and then none."""
    store = FaultyStore()
    open_run(store)
    queue: Iterator[StoreFault] = iter(faults)
    store.plan = lambda key: next(queue, StoreFault.NONE)
    return store


@pytest.mark.parametrize(
    "faults",
    [
        [StoreFault.LOST],
        [StoreFault.UNACKNOWLEDGED],
        [StoreFault.DUPLICATED],
        [StoreFault.DELAYED],
        [StoreFault.LOST, StoreFault.LOST, StoreFault.UNACKNOWLEDGED],
        [StoreFault.UNACKNOWLEDGED, StoreFault.LOST],
        [StoreFault.LOST, StoreFault.REFUSED],
        [StoreFault.DELAYED, StoreFault.DUPLICATED],
    ],
)
def test_an_unknown_answer_is_settled_by_the_same_bytes(faults: list[StoreFault]) -> None:
    store = faulty(*faults)
    journal = journal_at(store, read(store, RUN, CODEC).position)
    journal.append(Noted("a"))
    while store.delayed:
        store.deliver()
    journal.append(Noted("b"))
    assert texts(read(store, RUN, CODEC)) == ["a", "b"]


def test_nothing_follows_a_record_that_is_still_unknown() -> None:
    store = faulty(*[StoreFault.LOST] * 6)
    journal = journal_at(store, read(store, RUN, CODEC).position)
    with pytest.raises(AppendUnknown, match="record 2 "):
        journal.append(Noted("a"))
    with pytest.raises(AppendUnknown, match="no other record can follow"):
        journal.append(Noted("b"))
    record = journal.settle()
    assert record is not None and record.events == (Noted("a"),)
    journal.append(Noted("b"))
    assert texts(read(store, RUN, CODEC)) == ["a", "b"]
    assert journal.settle() is None


def test_a_certain_no_leaves_the_number_free() -> None:
    store = faulty(StoreFault.REFUSED)
    journal = journal_at(store, read(store, RUN, CODEC).position)
    with pytest.raises(StoreFailed):
        journal.append(Noted("a"))
    journal.append(Noted("b"))
    assert texts(read(store, RUN, CODEC)) == ["b"]


def test_a_certain_no_after_an_unknown_is_still_unknown() -> None:
    store = faulty(StoreFault.DELAYED, *[StoreFault.REFUSED] * 5)
    journal = journal_at(store, read(store, RUN, CODEC).position)
    with pytest.raises(AppendUnknown):
        journal.append(Noted("a"))
    store.deliver()
    journal.settle()
    assert texts(read(store, RUN, CODEC)) == ["a"]


def test_an_unknown_append_that_lands_late_meets_the_next_master() -> None:
    store = faulty(*[StoreFault.DELAYED] * 6)
    old = journal_at(store, read(store, RUN, CODEC).position)
    with pytest.raises(AppendUnknown):
        old.append(Noted("late"))
    new, _ = open_run(store)
    while store.delayed:
        store.deliver()
    new.append(Noted("after"))
    assert texts(read(store, RUN, CODEC)) == ["after"]
    with pytest.raises(Fenced, match="epoch 2"):
        old.settle()
    with pytest.raises(Fenced):
        old.append(Noted("zombie"))


def test_an_unknown_append_that_landed_first_is_part_of_the_takeover() -> None:
    store = faulty(StoreFault.UNACKNOWLEDGED, *[StoreFault.LOST] * 5)
    old = journal_at(store, read(store, RUN, CODEC).position)
    with pytest.raises(AppendUnknown):
        old.append(Noted("landed"))
    _, history = open_run(store)
    assert texts(history) == ["landed"]
    assert history.position.sequence == 3


def test_a_torn_write_ends_the_master_and_the_next_one_goes_on() -> None:
    store = faulty(StoreFault.TORN)
    old = journal_at(store, read(store, RUN, CODEC).position)
    with pytest.raises(AppendRejected, match=r"record 2 .* was not written: another record has its number"):
        old.append(Noted("torn"))
    new, history = open_run(store)
    assert history.cut == (2,)
    new.append(Noted("next"))
    assert texts(read(store, RUN, CODEC)) == ["next"]


def test_the_heartbeats_look_sees_a_successor_but_not_itself() -> None:
    store = MemoryStore()
    old, _ = open_run(store)
    old.look()
    old.append(Noted("a"))
    old.look()
    open_run(store)
    with pytest.raises(Fenced):
        old.look()
    with pytest.raises(Fenced):
        old.append(Noted("b"))


def test_a_closed_run_takes_nothing_more() -> None:
    store = MemoryStore()
    journal, _ = open_run(store)
    journal.append(Noted("gone"), Closed())
    with pytest.raises(RunClosed):
        journal.append(Noted("more"))
    with pytest.raises(RunClosed, match="tombstone"):
        open_run(store)
    assert read(store, RUN, CODEC).position.is_closed


def test_the_events_of_one_record_become_true_together() -> None:
    store = MemoryStore()
    journal, _ = open_run(store)
    record = journal.append(Noted("a"), Noted("b"))
    assert record.sequence == 2
    assert [len(found.events) for found in read(store, RUN, CODEC).records] == [1, 2]
    store.delete(folder_of(RUN) + name_of(2))
    assert texts(read(store, RUN, CODEC)) == []


def test_a_retired_run_keeps_every_number_a_sleeper_could_try() -> None:
    store = MemoryStore()
    sleepers = []
    for epoch in range(1, 4):
        journal, _ = open_run(store)
        for word in "abcde":
            journal.append(Noted(f"{word}{epoch}"))
        sleepers.append(journal)
    gc, _ = open_run(store)
    gc.append(Noted("released"), Closed())
    assert prune(store, RUN) > 0
    before = dict(store.objects)
    for sleeper in sleepers:
        with pytest.raises(Fenced):
            sleeper.append(Noted("zombie"))
    with pytest.raises(RunClosed):
        open_run(store)
    assert store.objects == before
    history = read(store, RUN, CODEC)
    assert history.position.is_closed and texts(history) == ["released"]


def test_a_sleeper_that_never_learned_its_last_answer_is_fenced_at_the_next_number() -> None:
    store = faulty(StoreFault.UNACKNOWLEDGED, *[StoreFault.LOST] * 5)
    sleeper = journal_at(store, read(store, RUN, CODEC).position)
    with pytest.raises(AppendUnknown):
        sleeper.append(Noted("landed"))
    gc, _ = open_run(store)
    gc.append(Closed())
    prune(store, RUN)
    sleeper.settle()
    with pytest.raises(Fenced):
        sleeper.append(Noted("zombie"))
    assert read(store, RUN, CODEC).position.is_closed


def test_pruning_an_open_run_does_nothing_and_pruning_twice_is_harmless() -> None:
    store = MemoryStore()
    journal, _ = open_run(store)
    journal.append(Noted("a"))
    journal.append(Noted("b"))
    assert prune(store, RUN) == 0
    journal.append(Closed())
    assert prune(store, RUN) == 1
    assert prune(store, RUN) == 0


def test_a_run_may_be_closed_by_the_record_that_opens_an_epoch() -> None:
    store = MemoryStore()
    open_run(store)
    journal = journal_at(store, read(store, RUN, CODEC).position)
    journal.open_epoch(Owner("gc", 1), [Opened(2), Closed()])
    assert journal.position.is_closed and read(store, RUN, CODEC).position.is_closed


def test_a_pruned_tombstone_still_stands_on_the_record_before_it() -> None:
    store = MemoryStore()
    journal, _ = open_run(store)
    for word in "abc":
        journal.append(Noted(word))
    journal.append(Closed())
    prune(store, RUN)
    assert read(store, RUN, CODEC).position.is_closed
    store.delete(folder_of(RUN) + name_of(4))
    with pytest.raises(JournalRefused):
        read(store, RUN, CODEC)


def test_a_run_that_was_closed_behind_a_torn_record_can_be_pruned() -> None:
    store = MemoryStore()
    journal, _ = open_run(store)
    for word in "abc":
        journal.append(Noted(word))
    store.put(folder_of(RUN) + name_of(5), b"RK1 ")
    journal_at(store, read(store, RUN, CODEC).position).open_epoch(Owner("gc", 1), [Opened(2), Closed()])
    assert prune(store, RUN) == 2
    assert read(store, RUN, CODEC).position.is_closed
