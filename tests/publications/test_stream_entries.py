"""Whose a target of streams is, and which files count in it: by the objects alone."""

from __future__ import annotations

import pytest

from rekindle.errors import Refused
from rekindle.publish.stream_entries import (
    batch_files,
    counted_entries,
    generation_of,
    generations,
    has_entry,
    owner_of,
    run_of,
    take,
)
from rekindle.storage.memory import MemoryStore

HEAD = "epoch\t1\noffsets\tabc\ndirectory\tdata/gold/g1/0-1-x\n"


def test_a_target_has_one_stream_at_a_time_and_the_user_may_give_it_to_another() -> None:
    store = MemoryStore()
    assert owner_of(store) is None
    first = take(store, "gold", "g1", is_taken_over=False)
    assert first.number == 1 and take(store, "gold", "g1", is_taken_over=False) == first == owner_of(store)
    with pytest.raises(Refused, match="gold of stream g1 has this target"):
        take(store, "gold", "g2", is_taken_over=False)
    assert take(store, "gold", "g2", is_taken_over=True).number == 2
    with pytest.raises(Refused, match="gold of stream g2 has this target"):
        take(store, "gold", "g1", is_taken_over=False)


def test_a_new_checkpoint_takes_the_target_of_the_one_that_it_replaced_and_of_no_other() -> None:
    store = MemoryStore()
    first, second = generation_of("r.1", 0), generation_of("r.1", 1)
    assert run_of(first) == run_of(second) == "r.1" and generation_of("r", 1) != first, "a name may end with a number"
    take(store, "gold", first, is_taken_over=False)
    assert take(store, "gold", second, is_taken_over=False, older=(first,)).number == 2
    with pytest.raises(Refused, match=r"gold of stream r\.1@1 has this target"):
        take(store, "gold", first, is_taken_over=False)
    take(store, "gold", "other", is_taken_over=True)
    with pytest.raises(Refused, match="gold of stream other has this target"):
        take(store, "gold", second, is_taken_over=False, older=(first,))


def test_files_count_by_their_entries_in_the_order_of_owners_and_batches() -> None:
    store = MemoryStore()
    take(store, "gold", "g2", is_taken_over=False)
    take(store, "gold", "g1", is_taken_over=True)
    for batch in (2, 10):
        store.put_if_absent(f"entries/gold/g1/{batch}", f"{HEAD}part-{batch}\t7\n".encode())
    store.put_if_absent("entries/gold/g2/0", HEAD.encode())
    store.put_if_absent("data/gold/g1/9-1-y/part-9", b"nobody names it")
    assert generations(store) == [("gold", "g2"), ("gold", "g1")]
    assert [(one.directory, one.name, one.bytes) for one in batch_files(store)] == [
        ("data/gold/g1/0-1-x", "part-2", 7),
        ("data/gold/g1/0-1-x", "part-10", 7),
    ]
    assert has_entry(store, "gold", "g1", 10) and not has_entry(store, "gold", "g1", 3)


def test_a_damaged_entry_is_refused() -> None:
    store = MemoryStore()
    store.put_if_absent("entries/gold/g1/0", b"epoch\t1\n")
    with pytest.raises(Refused, match="entries/gold/g1/0 is damaged"):
        list(batch_files(store))


def test_of_a_batch_of_a_result_that_was_made_again_the_highest_number_counts() -> None:
    store = MemoryStore()
    for batch in (0, 1):
        store.put_if_absent(f"entries/made/g/{batch}", f"{HEAD}part-{batch}\t7\n".encode())
    for number in (2, 10):
        store.put_if_absent(f"replays/made/g/1.{number}", f"{HEAD}again-{number}\t7\n".encode())
    found = [None if one is None else [*one.files] for one in counted_entries(store, "made", "g", [0, 1, 2])]
    assert found == [["part-0"], ["again-10"], None]
