"""The search for the record that fails: what is tried next, and in how many tries it is named."""

from __future__ import annotations

import pytest

from rekindle.streams.poison_search import PoisonSearch, RecordRange, UnitRange, unit_ranges


def tries_max(records: int) -> int:
    """Half of them each time, and once the record alone."""
    return max(0, records - 1).bit_length() + 1


def searched(records: int, bad: set[int]) -> tuple[int | None, int]:
    """What is named, and after how many tries."""
    search, tries = PoisonSearch(0, records), 0
    while (asked := search.asked) is not None:
        assert 0 <= asked.low < asked.high <= records
        search = search.answered(any(asked.low <= one < asked.high for one in bad))
        tries += 1
    return search.named, tries


@pytest.mark.parametrize("records", [1, 2, 3, 4, 7, 8, 9, 100])
def test_every_record_is_named_within_the_bound(records: int) -> None:
    for bad in range(records):
        named, tries = searched(records, {bad})
        assert named == bad and tries <= tries_max(records)


def test_the_first_of_several_is_named() -> None:
    assert searched(100_000, {70_001, 25_000, 99_999}) == (25_000, 17)
    assert tries_max(100_000) == 18


def test_where_nothing_fails_nothing_is_named() -> None:
    assert searched(1000, set())[0] is None
    assert searched(0, set()) == (None, 0)


def test_what_fails_only_together_is_not_named() -> None:
    search = PoisonSearch(0, 4)
    while (asked := search.asked) is not None:
        search = search.answered(asked == RecordRange(0, 2))
    assert search.named is None


def test_a_range_is_cut_by_files() -> None:
    sizes = [3, 0, 4, 2]
    assert list(unit_ranges(sizes, RecordRange(0, 9))) == [UnitRange(0, 0, 3), UnitRange(2, 0, 4), UnitRange(3, 0, 2)]
    assert list(unit_ranges(sizes, RecordRange(2, 5))) == [UnitRange(0, 2, 3), UnitRange(2, 0, 2)]
    assert list(unit_ranges(sizes, RecordRange(7, 8))) == [UnitRange(3, 0, 1)]
