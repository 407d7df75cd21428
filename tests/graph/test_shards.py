"""Copies of declared steps for the shards of a stream."""

from __future__ import annotations

from typing import Any

import pytest

import rekindle as rk
from rekindle.errors import GraphRefused
from rekindle.pipeline.check import check
from rekindle.pipeline.declared import Declared, Shard
from rekindle.pipeline.shards import with_shards


def declared(orders: int, others: int, *, is_joined: bool) -> tuple[Declared, ...]:
    pipeline = rk.Pipeline("live")
    pipeline.add_source(lambda spark: None, name="orders", shards=orders)
    pipeline.add_source(lambda spark: None, name="others", shards=others)
    pipeline.add_step(lambda orders: None, name="priced")

    def joined(priced: Any, others: Any) -> None: ...
    def alone(priced: Any) -> None: ...

    pipeline.add_sink(joined if is_joined else alone, rk.files("/lake/out"), name="out")
    return check(pipeline._declared)


def test_all_that_reads_a_source_in_shards_is_there_once_for_each() -> None:
    made = {one.name: one for one in with_shards(declared(2, 0, is_joined=True))}
    assert sorted(made) == ["orders.0", "orders.1", "others", "out.0", "out.1", "priced.0", "priced.1"]
    assert made["out.1"].inputs == ("priced.1", "others") and made["priced.0"].inputs == ("orders.0",)
    assert made["out.1"].shard == Shard(1, 2) and made["out.1"].shard_of == "out"
    assert made["out.0"].target is made["out.1"].target


def test_without_shards_nothing_changes() -> None:
    for count in (0, 1):
        steps = declared(count, 0, is_joined=True)
        assert with_shards(steps) == steps


def test_other_numbers_of_shards_do_not_meet() -> None:
    with pytest.raises(
        GraphRefused, match=r"out reads priced \(2\), others \(3\), which are in other numbers of shards"
    ):
        with_shards(declared(2, 3, is_joined=True))
    assert len(with_shards(declared(2, 3, is_joined=False))) == 2 + 3 + 2 + 2


def test_shards_stand_at_sources_and_are_few() -> None:
    pipeline = rk.Pipeline("live")
    pipeline.add_source(lambda spark: None, name="orders", shards=65)
    pipeline.add_step(lambda orders: None, name="priced", shards=2)
    with pytest.raises(GraphRefused, match=r"(?s)shards=65 of orders: must be from 1 to 64.*shards of priced is not"):
        check(pipeline._declared)
