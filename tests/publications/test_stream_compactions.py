"""What counts in the target of a stream once batches are compacted, and which are compacted next. No Spark."""

from __future__ import annotations

import pytest

from rekindle.errors import Refused, StoreFailed
from rekindle.publish.compaction_plan import PlannedCompaction, planned_compaction
from rekindle.publish.stream_compactions import (
    NONE,
    BatchFile,
    CompactedRange,
    Compaction,
    is_counted,
    newest_compaction,
)
from rekindle.publish.stream_entries import batch_files, counted_batches, generations, has_entry
from rekindle.storage.memory import MemoryStore
from rekindle.storage.store import Put

HEAD = "epoch\t1\noffsets\tabc\ndirectory\tdata/gold/g1/{0}-1-x\npart-{0}\t7\n"
FOLDER = "data/gold/g1/compacted-"


def filled(batches: int) -> MemoryStore:
    store = MemoryStore()
    for batch in range(batches):
        store.put_if_absent(f"entries/gold/g1/{batch}", HEAD.format(batch).encode())
    return store


def made(number: int, last: int, name: str = "x") -> Compaction:
    directory = f"{FOLDER}{number}-{name}"
    return Compaction(number, (CompactedRange(0, last, directory, (BatchFile(directory, "part", 9),)),))


def read(store: MemoryStore) -> list[str]:
    return [f"{one.directory}/{one.name}" for one in batch_files(store)]


def test_a_compaction_counts_in_place_of_its_batches_whether_their_entries_are_there_or_not() -> None:
    store = filled(5)
    assert newest_compaction(store, "gold", "g1") == NONE and NONE.through == -1
    assert is_counted(store, "gold", "g1", made(1, 3)), "it is the first"
    after = [f"{FOLDER}1-x/part", "data/gold/g1/4-1-x/part-4"]
    assert read(store) == after and newest_compaction(store, "gold", "g1") == made(1, 3)
    for batch in range(4):
        store.delete(f"entries/gold/g1/{batch}")
    assert read(store) == after and has_entry(store, "gold", "g1", 2) and not has_entry(store, "gold", "g1", 5)
    store.put_if_absent("entries/gold/g1/2", HEAD.format(2).encode())
    assert read(store) == after, "a driver that wakes up late puts an entry again: nobody reads it"
    store.delete("entries/gold/g1/4")
    store.delete("entries/gold/g1/2")
    assert generations(store) == [("gold", "g1")] and read(store) == after[:1], "without any entry"


def test_of_two_compactors_one_counts_and_a_late_one_never() -> None:
    store = filled(5)
    assert is_counted(store, "gold", "g1", made(1, 3, "first")) and not is_counted(store, "gold", "g1", made(1, 4, "b"))
    assert is_counted(store, "gold", "g1", made(1, 3, "first")), "a put that was answered with a failure is ours"
    assert is_counted(store, "gold", "g1", made(2, 4))
    store.delete("compactions/gold/g1/0000000001")
    assert not is_counted(store, "gold", "g1", made(1, 2, "frozen")), "gc removed its number meanwhile"
    assert read(store) == [f"{FOLDER}2-x/part"]


def test_entries_that_go_while_they_are_read_are_looked_for_again() -> None:
    class Compacted(MemoryStore):
        """A compaction comes, and its entries go, between listing and reading."""

        def list_after(self, folder: str, after: str = "") -> list[str]:
            found = super().list_after(folder, after)
            if folder.startswith("entries/") and not super().list_after("compactions/gold/g1/"):
                assert is_counted(self, "gold", "g1", made(1, 3))
                for batch in range(3):
                    self.delete(f"entries/gold/g1/{batch}")
            return found

    store = Compacted()
    for batch in range(5):
        store.put_if_absent(f"entries/gold/g1/{batch}", HEAD.format(batch).encode())
    assert counted_batches(store, "gold", "g1").compaction == made(1, 3)
    assert read(store) == [f"{FOLDER}1-x/part", "data/gold/g1/4-1-x/part-4"]


def test_entries_that_are_listed_after_they_went_are_not_missed() -> None:
    class Fast(MemoryStore):
        """A compaction comes, and its entries go, before they are listed."""

        def list_after(self, folder: str, after: str = "") -> list[str]:
            if folder.startswith("entries/") and not super().list_after("compactions/gold/g1/"):
                assert is_counted(self, "gold", "g1", made(1, 3))
                for batch in range(4):
                    self.delete(f"entries/gold/g1/{batch}")
            return super().list_after(folder, after)

    store = Fast()
    for batch in range(5):
        store.put_if_absent(f"entries/gold/g1/{batch}", HEAD.format(batch).encode())
    assert read(store) == [f"{FOLDER}1-x/part", "data/gold/g1/4-1-x/part-4"], "not the last batch alone"


@pytest.mark.parametrize(
    "body",
    ["", "end\n", "range\t0\t3\td\n", "range\t1\t3\td\nend\n", "d\tpart\t1\nend\n", "range\t0\t3\td\nd\tpart\nend"],
)
def test_a_damaged_compaction_is_refused(body: str) -> None:
    store = filled(1)
    store.put_if_absent("compactions/gold/g1/0000000001", body.encode())
    with pytest.raises(Refused, match="compactions/gold/g1/0000000001 is damaged"):
        read(store)


def test_a_store_that_gives_no_answer_is_told() -> None:
    class Silent(MemoryStore):
        def put_if_absent(self, key: str, body: bytes) -> Put:
            return Put.UNKNOWN

    with pytest.raises(StoreFailed, match="compaction 1 of gold was not certainly put"):
        is_counted(Silent(), "gold", "g1", made(1, 3))


def test_nothing_is_planned_before_there_are_enough_batches() -> None:
    assert planned_compaction([], -1, 8, 10) is None and planned_compaction([], -1, 100, 0) is None
    assert planned_compaction([], -1, 9, 10) == PlannedCompaction(0, 9, 0)
    assert planned_compaction([], -1, 5000, 10) == PlannedCompaction(0, 99, 0), "in pieces"


def test_a_row_is_written_again_as_often_as_the_number_of_batches_has_digits() -> None:
    ranges, through, written, every = list[int](), -1, 0, 10
    for last in range(100_000):
        plan = planned_compaction(ranges, through, last, every)
        if plan is None:
            continue
        absorbed = sum(ranges[len(ranges) - plan.absorbed :])
        ranges[len(ranges) - plan.absorbed :] = [absorbed + plan.last - plan.first + 1]
        written += ranges[-1]
        through = plan.last
        assert sum(ranges) == through + 1 and len(ranges) <= 9 * 4
    assert through == 99_999 and written <= 5 * 100_000 and ranges == [100_000]
