"""Every combination of the five questions meets exactly one row."""

from __future__ import annotations

from itertools import product

import pytest

from rekindle.errors import Fenced, JournalRefused, NewerJournal
from rekindle.journal.frame import find, name_of
from rekindle.journal.history import folder_of, read
from rekindle.journal.journal import Journal
from rekindle.journal.tail import TABLE, TailAction, TailFacts, judge
from rekindle.storage.memory import MemoryStore
from support.facts import CODEC, RUN, Fact, Noted, open_run, texts


@pytest.mark.parametrize("answers", list(product((False, True), repeat=5)))
def test_exactly_one_row(answers: tuple[bool, ...]) -> None:
    seen = TailFacts(*answers)
    assert [row for row in TABLE if row.meets(seen)] == [judge(seen)]


def test_only_a_torn_last_record_is_cut_and_only_a_sound_one_is_kept() -> None:
    for answers in product((False, True), repeat=5):
        seen = TailFacts(*answers)
        verdict = judge(seen).verdict
        assert (verdict is TailAction.CUT) == (not seen.complete and seen.last)
        assert (verdict is TailAction.KEEP) == (seen.complete and seen.checksum and seen.chained and not seen.newer)


def journal_of(*words: str) -> tuple[MemoryStore, Journal[Fact]]:
    """Record 1 opens epoch 1; word n is record n + 2."""
    store = MemoryStore()
    journal, _ = open_run(store)
    for word in words:
        journal.append(Noted(word))
    return store, journal


def key(sequence: int) -> str:
    return folder_of(RUN) + name_of(sequence)


def damage(store: MemoryStore, sequence: int, body: bytes) -> None:
    store.objects[key(sequence)] = (body, 0.0)


def half(store: MemoryStore, sequence: int) -> None:
    body = store.objects[key(sequence)][0]
    damage(store, sequence, body[: len(body) // 2])


def test_a_torn_last_record_is_cut_and_its_number_is_never_used_again() -> None:
    store, _ = journal_of("a", "b")
    half(store, 3)
    history = read(store, RUN, CODEC)
    assert texts(history) == ["a"] and history.cut == (3,)
    journal, _ = open_run(store)
    journal.append(Noted("c"))
    again = read(store, RUN, CODEC)
    assert texts(again) == ["a", "c"] and again.cut == (3,)
    assert [record.sequence for record in again.records] == [1, 2, 4, 5]


def test_two_masters_in_a_row_may_tear() -> None:
    store, _ = journal_of("a")
    damage(store, 3, b"")
    damage(store, 4, b"RK1 2")
    open_run(store)
    history = read(store, RUN, CODEC)
    assert history.cut == (3, 4) and history.position.sequence == 5


def test_the_same_epoch_never_goes_on_behind_a_cut() -> None:
    store, _ = journal_of("a", "b", "c")
    body = store.objects[key(4)][0]
    store, _ = journal_of("a")
    damage(store, 3, b"")
    damage(store, 4, body)
    with pytest.raises(JournalRefused, match="record 3 "):
        read(store, RUN, CODEC)


@pytest.mark.parametrize(
    ("sequence", "says"),
    [(1, "record 1 .* incomplete"), (2, "record 2 .* incomplete"), (3, "record 3 .* incomplete")],
)
def test_a_torn_record_in_the_middle_is_refused(sequence: int, says: str) -> None:
    store, _ = journal_of("a", "b", "c")
    half(store, sequence)
    with pytest.raises(JournalRefused, match=says):
        read(store, RUN, CODEC)


@pytest.mark.parametrize("sequence", [1, 2, 3, 4])
def test_every_flipped_bit_is_refused(sequence: int) -> None:
    store, _ = journal_of("a", "b", "c")
    body = store.objects[key(sequence)][0]
    for position in range(len(body)):
        for bit in (0, 3, 7):
            flipped = bytearray(body)
            flipped[position] ^= 1 << bit
            damage(store, sequence, bytes(flipped))
            with pytest.raises((JournalRefused, NewerJournal)):
                read(store, RUN, CODEC)


def test_a_gap_is_refused() -> None:
    store, _ = journal_of("a", "b", "c")
    store.delete(key(3))
    with pytest.raises(JournalRefused, match=r"record 4 .* does not follow"):
        read(store, RUN, CODEC)


def test_a_torn_record_behind_a_gap_is_refused() -> None:
    store, _ = journal_of("a", "b", "c")
    store.delete(key(3))
    half(store, 4)
    with pytest.raises(JournalRefused, match="record 4 "):
        read(store, RUN, CODEC)


def test_a_record_of_another_run_is_refused() -> None:
    store, _ = journal_of("a", "b")
    other, _ = journal_of("a", "x")
    damage(store, 3, other.objects[key(3)][0])
    with pytest.raises(JournalRefused, match="record 3 "):
        read(store, RUN, CODEC)


def test_names_that_are_no_number_do_not_count() -> None:
    store, _ = journal_of("a")
    for name in ("_SUCCESS", "0003", name_of(3) + ".crc", "x" * 20):
        store.put(folder_of(RUN) + name, b"junk")
    assert texts(read(store, RUN, CODEC)) == ["a"]


def test_a_reader_with_an_epoch_is_fenced_by_a_newer_one() -> None:
    store, journal = journal_of("a")
    position = journal.position
    open_run(store)
    with pytest.raises(Fenced, match="epoch 2"):
        read(store, RUN, CODEC, position, own_epoch=1)
    assert read(store, RUN, CODEC, position, own_epoch=2).position.epoch == 2


def test_a_newer_format_is_refused_with_a_sentence() -> None:
    store, _ = journal_of("a")
    damage(store, 2, store.objects[key(2)][0].replace(b"RK1", b"RK2", 1))
    with pytest.raises(NewerJournal, match="format 2, this Rekindle reads up to 1"):
        read(store, RUN, CODEC)


def test_every_beginning_of_a_record_is_torn_and_never_anything_else() -> None:
    store, _ = journal_of("a")
    body = store.objects[key(2)][0]
    kinds = {type(find(body[:length])).__name__ for length in range(len(body))}
    assert kinds == {"TornFrame"}


class ListsLate(MemoryStore):
    """A listing that does not show one object although it shows a later one."""

    hidden = ""

    def list_after(self, folder: str, after: str = "") -> list[str]:
        return [name for name in super().list_after(folder, after) if name != self.hidden]


def test_a_listing_made_during_an_append_is_completed_by_name() -> None:
    store = ListsLate()
    journal, _ = open_run(store)
    for word in "abc":
        journal.append(Noted(word))
    store.hidden = name_of(3)
    assert texts(read(store, RUN, CODEC)) == ["a", "b", "c"]
