"""Run keys find each other; a snapshot is only ever a cache of the fold."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from rekindle.errors import AppendUnknown
from rekindle.journal.frame import name_of
from rekindle.journal.history import folder_of, read, start_of
from rekindle.journal.keys import Claim, claim, enlist, find_claim
from rekindle.journal.snapshot import Snapshots
from rekindle.storage.local_disk import LocalDisk
from rekindle.storage.memory import MemoryStore
from rekindle.storage.store import Store
from rekindle.testing.faulty_store import FaultyStore, StoreFault
from support.facts import CODEC, RUN, Noted, no_pause, open_run, texts


def test_two_starts_of_the_same_work_find_each_other() -> None:
    store = MemoryStore()
    day = {"day": "2026-01-01", "region": "eu"}
    assert claim(store, "daily", day, "run-1") == Claim("run-1", 1, True)
    assert claim(store, "daily", dict(reversed(day.items())), "run-2") == Claim("run-1", 1, False)
    assert claim(store, "daily", {"day": "2026-01-02"}, "run-3").is_ours
    assert find_claim(store, "daily", day) == Claim("run-1", 1)
    assert find_claim(store, "weekly", day) is None


def test_new_takes_the_key_and_later_starts_find_the_new_run() -> None:
    store = MemoryStore()
    claim(store, "daily", {}, "run-1")
    assert claim(store, "daily", {}, "run-2", is_new=True) == Claim("run-2", 2, True)
    assert claim(store, "daily", {}, "run-2", is_new=True).number == 2, "said again, it is the same run"
    assert claim(store, "daily", {}, "run-3") == Claim("run-2", 2, False)


def test_of_many_starts_at_once_one_wins_and_all_agree(tmp_path: Path) -> None:
    store = LocalDisk(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        claims = list(pool.map(lambda n: claim(store, "daily", {}, f"run-{n}"), range(8)))
    assert len({found.run for found in claims}) == 1
    assert sum(found.is_ours for found in claims) == 1


@pytest.mark.parametrize("fault", [StoreFault.LOST, StoreFault.UNACKNOWLEDGED, StoreFault.DUPLICATED])
def test_an_unknown_claim_is_settled(fault: StoreFault) -> None:
    faults = iter([fault])
    store = FaultyStore(lambda key: next(faults, StoreFault.NONE))
    assert claim(store, "daily", {}, "run-1", pause=no_pause).is_ours


def test_a_claim_that_stays_unknown_says_so() -> None:
    with pytest.raises(AppendUnknown):
        claim(FaultyStore(lambda key: StoreFault.LOST), "daily", {}, "run-1", pause=no_pause)


def test_runs_are_numbered_in_the_order_they_began(tmp_path: Path) -> None:
    store = LocalDisk(tmp_path)
    assert [enlist(store, "daily", run) for run in ("run-1", "run-2")] == [1, 2]
    assert enlist(store, "weekly", "run-1") == 1
    with ThreadPoolExecutor(8) as pool:
        numbers = list(pool.map(lambda n: enlist(store, "daily", f"run-{n}"), range(3, 11)))
    assert sorted(numbers) == list(range(3, 11))


@pytest.mark.parametrize("fault", [StoreFault.LOST, StoreFault.UNACKNOWLEDGED, StoreFault.DUPLICATED])
def test_a_number_of_which_nothing_is_known_is_settled(fault: StoreFault) -> None:
    faults = iter([fault])
    store = FaultyStore(lambda key: next(faults, StoreFault.NONE))
    assert enlist(store, "daily", "run-1", pause=no_pause) == 1


def test_a_number_that_stays_unknown_says_so() -> None:
    with pytest.raises(AppendUnknown):
        enlist(FaultyStore(lambda key: StoreFault.LOST), "daily", "run-1", pause=no_pause)


def snapshots(store: Store, fold: str = "words/1") -> Snapshots[list[str]]:
    return Snapshots(store, RUN, fold, msgspec.json.encode, lambda data: msgspec.json.decode(data, type=list[str]))


def resumed(store: Store, fold: str = "words/1") -> tuple[list[str], int]:
    """The folded words, and how many records had to be read for them."""
    position, words = snapshots(store, fold).load() or (start_of(RUN), [])
    history = read(store, RUN, CODEC, position)
    return [*words, *texts(history)], len(history.records)


def journal_with_snapshot() -> MemoryStore:
    """Words a to d; the snapshot was taken after c."""
    store = MemoryStore()
    journal, _ = open_run(store)
    for word in "abc":
        journal.append(Noted(word))
    snapshots(store).save(journal.position, ["a", "b", "c"])
    journal.append(Noted("d"))
    return store


def test_a_snapshot_saves_reading_and_changes_nothing_else() -> None:
    store = journal_with_snapshot()
    assert resumed(store) == (["a", "b", "c", "d"], 1)
    store.delete(f"{RUN}/snapshot/{name_of(4)}")
    assert resumed(store) == (["a", "b", "c", "d"], 5)


def test_a_snapshot_of_another_fold_does_not_count() -> None:
    assert resumed(journal_with_snapshot(), "words/2") == (["a", "b", "c", "d"], 5)


def test_a_damaged_snapshot_does_not_count() -> None:
    store = journal_with_snapshot()
    key = f"{RUN}/snapshot/{name_of(4)}"
    body = store.objects[key][0]
    for position in range(len(body)):
        store.put(key, body[:position] + bytes([body[position] ^ 1]) + body[position + 1 :])
        assert resumed(store) == (["a", "b", "c", "d"], 5)
        store.put(key, body[:position])
        assert resumed(store) == (["a", "b", "c", "d"], 5)


def test_a_snapshot_of_another_journal_does_not_count() -> None:
    store, other = journal_with_snapshot(), journal_with_snapshot()
    key = f"{RUN}/snapshot/{name_of(4)}"
    store.objects[key] = other.objects[key]
    assert snapshots(store).load() is None


def test_a_snapshot_counts_only_while_its_record_is_there() -> None:
    store = journal_with_snapshot()
    store.delete(folder_of(RUN) + name_of(4))
    assert snapshots(store).load() is None


def test_only_the_newest_two_are_kept() -> None:
    store = MemoryStore()
    journal, _ = open_run(store)
    for number in range(4):
        journal.append(Noted(str(number)))
        snapshots(store).save(journal.position, [])
    assert store.list_after(f"{RUN}/snapshot/") == [name_of(4), name_of(5)]
