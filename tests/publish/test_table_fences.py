"""Fences in the log of a table: who may replace what, row by row, without a table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rekindle.errors import Refused
from rekindle.master.facts.events import Fence
from rekindle.publish.table_fences import (
    AlreadyThere,
    Earlier,
    Later,
    Replaces,
    SameFiles,
    TableClaim,
    Verdict,
    merge_key,
    numbers_after,
    numbers_of_same,
    owners,
    packed,
    partition_key,
    unpacked,
    verdict,
    watched,
)

CLAIM = TableClaim(owner="daily", place="abc", key="k", fence=Fence(5, 1, 1), source="a" * 32, overwrites=False)


class Log:
    """The numbers of a log, as commits set them."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def publish(self, claim: TableClaim, files: int = 3) -> Verdict:
        found = verdict(self.numbers, claim)
        match found:
            case Replaces():
                self.numbers |= numbers_after(self.numbers, claim, files)
            case SameFiles():
                self.numbers |= numbers_of_same(claim)
        return found


def of(order: int, key: str = "k", *, epoch: int = 1, **more: Any) -> TableClaim:
    """Each run has files of its own."""
    return replace(CLAIM, fence=Fence(order, epoch, 1), key=key, **{"source": f"{order:032x}", **more})


def overwriting(order: int, key: str = "k", **more: Any) -> TableClaim:
    return of(order, key, overwrites=True, **more)


MERGE = merge_key("k")
DAY, OTHER_DAY = partition_key({"day": "7"}), partition_key({"day": "8"})
PART_OF_DAY = partition_key({"country": "AT", "day": "7"})
HELD = Earlier("abc", 5, 3)

# What was published before, what comes, and what becomes of it.
ROWS: dict[str, tuple[list[TableClaim], TableClaim, Verdict]] = {
    "the first of all": ([], of(5), Replaces()),
    "the same again": ([of(5)], of(5), AlreadyThere()),
    "a later run of the key": ([of(5)], of(6), Replaces((HELD,))),
    "an earlier run of the key": ([of(5)], of(4), Later(Fence(5, 1, 1))),
    "an earlier run of another key": ([of(5)], of(4, "other"), Replaces()),
    "a later master with the same files": ([of(5)], of(5, epoch=2), SameFiles()),
    "a later master with other files": ([of(5)], of(5, epoch=2, source="f" * 32), Replaces((HELD,))),
    "the earlier master after it": ([of(5), of(5, epoch=2)], of(5), Later(Fence(5, 2, 1))),
    "an earlier master with other files": ([of(5, epoch=2)], of(5, source="f" * 32), Later(Fence(5, 2, 1))),
    "an overwrite after keys": ([of(5), of(7, "other")], overwriting(8), Replaces((HELD,))),
    "an overwrite before a key": ([of(5), of(7, "other")], overwriting(6), Later(Fence(7, 1, 1))),
    "an append before an overwrite": ([overwriting(5)], of(4, "other"), Later(Fence(5, 1, 1))),
    "an append after an overwrite": ([overwriting(5)], of(6, "other"), Replaces()),
    "a key that was overwritten": ([of(4), overwriting(5, "other")], of(6), Replaces()),
    "a key that was overwritten by itself": ([overwriting(5)], of(6), Replaces((HELD,))),
    "the same overwritten again": ([overwriting(5)], overwriting(5), AlreadyThere()),
    "a later master of an overwrite": ([overwriting(5)], overwriting(5, epoch=2), SameFiles()),
    "what was overwritten comes again": ([of(4), overwriting(5, "other")], of(4), Later(Fence(5, 1, 1))),
    "an earlier run of the same partition": ([of(5, DAY)], of(4, DAY), Later(Fence(5, 1, 1))),
    "an earlier run of another partition": ([of(5, DAY)], of(4, OTHER_DAY), Replaces()),
    "an earlier run of a part of it": ([of(5, DAY)], of(4, PART_OF_DAY), Later(Fence(5, 1, 1))),
    "an earlier run of more than it": ([of(5, PART_OF_DAY)], of(4, DAY), Later(Fence(5, 1, 1))),
    "an earlier run of a key beside a partition": ([of(5, DAY)], of(4, "other"), Replaces()),
}


@pytest.mark.parametrize("row", list(ROWS))
def test_who_may_replace_what(row: str) -> None:
    before, comes, expected = ROWS[row]
    log = Log()
    for one in before:
        assert isinstance(log.publish(one), Replaces | SameFiles)
    assert verdict(log.numbers, comes) == expected


def test_the_files_of_a_key_count_once() -> None:
    log = Log()
    log.publish(of(5), files=3)
    log.publish(of(6), files=0)
    assert verdict(log.numbers, of(7)) == Replaces(), "it published no file, so none can be missing"
    log.publish(of(7), files=2)
    log.publish(of(7, epoch=2))
    assert verdict(log.numbers, of(8)) == Replaces((Earlier("abc", 7, 2),)), "the later master had the same two"


def test_two_publications_at_once_depend_on_each_other() -> None:
    """Also two that know nothing of each other: neither has an id of the other one's."""
    first, second = of(5), of(5, "other", place="def", owner="weekly")
    assert set(numbers_after({}, first, 1)) & set(watched({}, numbers_after({}, second, 1)))


def test_a_place_that_takes_the_table_closes_the_other_one() -> None:
    log = Log()
    log.publish(of(5))
    assert list(owners(log.numbers)) == [("abc", "daily", Fence(5, 1, 1))]
    taking = of(1, place="def", takes="abc")
    assert log.publish(taking) == Replaces((HELD,)), "rows of its key are those of the old place, too"
    assert list(owners(log.numbers)) == [("def", "daily", Fence(1, 1, 1))]
    assert isinstance(verdict(log.numbers, of(99)), Later), "whatever the old place computes"
    assert log.publish(of(6, takes="def")) == Replaces((Earlier("def", 1, 3),)), "it can be taken back"
    assert [place for place, _, _ in owners(log.numbers)] == ["abc"]


def test_a_fence_is_one_number_in_the_same_order() -> None:
    fences = [Fence(1, 0, 0), Fence(1, 0, 9), Fence(1, 2, 1), Fence(2, 1, 1), Fence(2**24 - 1, 2**15 - 1, 2**24 - 1)]
    numbers = [packed(one) for one in fences]
    assert numbers == sorted(numbers) and numbers[-1] < 2**63
    assert [unpacked(one) for one in numbers] == fences
    with pytest.raises(Refused, match="the fence 16777216-1-1 does not fit into the log of a table"):
        packed(Fence(2**24, 1, 1))


def test_names_with_slashes_stay_apart() -> None:
    log = Log()
    log.publish(of(5, "a/b", owner="x/y"))
    assert verdict(log.numbers, of(4, "a", owner="x/y")) == Replaces()
    assert list(owners(log.numbers)) == [("abc", "x/y", Fence(5, 1, 1))]


@pytest.mark.parametrize("other", ["k", merge_key("another"), DAY])
def test_a_merge_may_have_rows_in_common_with_everything(other: str) -> None:
    log = Log()
    log.publish(of(7, other))
    assert log.publish(of(6, MERGE)) == Later(Fence(7, 1, 1))
    assert log.publish(of(8, MERGE)) == Replaces()
    assert log.publish(of(7, other, epoch=2)) == Later(Fence(8, 1, 1))
