"""Every mapping, on whole sets, against its definition for one partition at a time."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rekindle.model.edges import ALL, BROADCAST, IDENTITY, INTERVAL, Interval, Mapping, Offset
from rekindle.model.partitions import EMPTY, Partitions

Case = tuple[Mapping, int, int, frozenset[int], frozenset[int]]


def reads(mapping: Mapping, partition: int, producers: int, consumers: int) -> set[int]:
    if mapping == IDENTITY:
        return {partition}
    if isinstance(mapping, Offset):
        return {partition - mapping.by} & set(range(producers))
    if isinstance(mapping, Interval):
        total = mapping.of or producers
        piece = range(partition * total // consumers, (partition + 1) * total // consumers)
        return {at - mapping.by for at in piece} & set(range(producers))
    return set(range(producers))


@st.composite
def cases(draw: st.DrawFn) -> Case:
    producers = draw(st.integers(1, 70))
    kind = draw(st.sampled_from(("identity", "offset", "interval", "side", "all", "broadcast")))
    mapping: Mapping
    if kind == "offset":
        mapping = Offset(draw(st.integers(0, 9)))
        consumers = producers + mapping.by + draw(st.integers(0, 9))
    elif kind == "side":
        by = draw(st.integers(0, 9))
        total = producers + by + draw(st.integers(0, 9))
        mapping, consumers = Interval(by, total), draw(st.integers(1, total))
    else:
        whole: dict[str, Mapping] = {"identity": IDENTITY, "interval": INTERVAL, "all": ALL, "broadcast": BROADCAST}
        mapping = whole[kind]
        consumers = producers if kind == "identity" else draw(st.integers(1, producers))
    up = draw(st.frozensets(st.integers(0, producers - 1)))
    down = draw(st.frozensets(st.integers(0, consumers - 1)))
    return mapping, producers, consumers, up, down


@given(cases())
@settings(deadline=None)
def test_sets_map_as_their_members_do(case: Case) -> None:
    mapping, producers, consumers, up, down = case
    assert mapping.mismatch(producers, consumers) == ""
    hit = {at for at in range(consumers) if reads(mapping, at, producers, consumers) & up}
    read = {at for consumer in down for at in reads(mapping, consumer, producers, consumers)}
    assert set(mapping.downstream(Partitions(up), producers, consumers)) == hit
    assert set(mapping.upstream(Partitions(down), producers, consumers)) == read


@given(cases())
@settings(deadline=None)
def test_every_producer_partition_is_read(case: Case) -> None:
    mapping, producers, consumers, _, _ = case
    for at in range(producers):
        assert mapping.downstream(Partitions((at,)), producers, consumers)


@pytest.mark.parametrize("mapping", [IDENTITY, Offset(1), INTERVAL, Interval(1, 4), ALL, BROADCAST], ids=str)
def test_nothing_maps_to_nothing(mapping: Mapping) -> None:
    assert mapping.downstream(EMPTY, 3, 2) == mapping.upstream(EMPTY, 3, 2) == EMPTY


@pytest.mark.parametrize(
    ("mapping", "producers", "consumers", "says"),
    [
        pytest.param(IDENTITY, 2, 3, "one to one", id="identity needs equal counts"),
        pytest.param(Offset(2), 2, 3, "do not fit", id="a union's side must fit"),
        pytest.param(Offset(-1), 2, 3, "do not fit", id="an offset is not negative"),
        pytest.param(INTERVAL, 2, 3, "cannot be coalesced", id="a coalesce never grows"),
        pytest.param(Interval(1, 3), 3, 2, "do not fit", id="a side of a union that is coalesced must fit"),
    ],
)
def test_counts_that_do_not_match(mapping: Mapping, producers: int, consumers: int, says: str) -> None:
    assert says in mapping.mismatch(producers, consumers)


@pytest.mark.parametrize("consumers", [70_000, 200_000, 799_999])
def test_a_coalesce_of_many_scattered_partitions(consumers: int) -> None:
    scattered = Partitions(range(0, 800_000, 7)) | Partitions.span(100_000, 160_000)
    down = INTERVAL.downstream(scattered, 800_000, consumers)
    assert set(down) == {((at + 1) * consumers - 1) // 800_000 for at in scattered}
    up = INTERVAL.upstream(down, 800_000, consumers)
    assert scattered <= up
    assert INTERVAL.downstream(up, 800_000, consumers) == down
