"""Targets refuse what cannot be kept; the chain of pointers never goes back, whoever sleeps."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rekindle.engine.spark.publish import sinks
from rekindle.engine.spark.publish.stream_targets import STREAMS
from rekindle.errors import Refused
from rekindle.master.facts.events import Fence
from rekindle.publish import pointers
from rekindle.publish.pointers import POINTERS, NewestPointer, Part, Pointer, advance, compose, decode, encode, newest
from rekindle.publish.target import PointerStore, PublishTarget, same_place, url
from rekindle.publish.targets import EachBatch, Kafka, Target, directory, files, replace, table
from rekindle.storage.local_disk import LocalDisk
from rekindle.storage.memory import MemoryStore
from rekindle.storage.object_store import ObjectStorage
from rekindle.testing.faulty_store import FaultyStore, StoreFault
from support.s3 import S3Server

YESTERDAY, TODAY = Fence(7, 1, 1), Fence(8, 1, 1)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pointers, "UNKNOWN_WAIT_SECONDS", 0.0)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        pytest.param(lambda: replace("/out"), "cannot be replaced in one instant", id="replace without atomic=False"),
        pytest.param(lambda: table("a.b.c"), "not in Spark's session catalog", id="another catalog"),
        pytest.param(lambda: table("gold.`daily`"), "not a table name", id="quotes"),
        pytest.param(lambda: table("daily", mode="upsert"), "mode 'upsert' is not known", id="unknown mode"),
        pytest.param(lambda: table("daily", location="gold"), "not an absolute path", id="relative table location"),
        pytest.param(lambda: files("out/daily"), "not an absolute path", id="relative path"),
        pytest.param(lambda: directory("s3a://bucket/"), "root of its storage", id="a whole bucket"),
        pytest.param(lambda: replace("/", atomic=False), "root of its storage", id="a whole disk"),
    ],
)
def test_refused_where_it_is_written(make: Callable[[], Target], sentence: str) -> None:
    with pytest.raises(Refused, match=sentence):
        make()


def test_a_plan_can_say_what_readers_see() -> None:
    lines = [one.seen for one in (table("t"), files("/a"), directory("/a"), replace("/a", atomic=False))]
    assert all(line and "\n" not in line for line in lines)
    assert "old and the new result together" in lines[3]
    assert "one by one" in directory("s3a://bucket/day").seen and "one rename" in directory("/day").seen


def test_a_target_says_of_itself_what_others_must_know() -> None:
    every: tuple[PublishTarget, ...] = (table("t"), files("/a"), directory("/a"), replace("/a", atomic=False))
    assert [one.is_versioned for one in every] == [True, True, False, False]
    assert [one.is_written_once for one in every] == [False, False, True, False]
    assert table("gold.t").spelling != table("t").spelling and files("/a/").spelling == directory("file:/a").spelling


def test_every_kind_of_target_has_a_publisher() -> None:
    """For batches, for streams, or for both."""
    assert set(sinks.PUBLISHERS) | set(STREAMS) == set(get_args(Target))
    assert set(STREAMS) - set(sinks.PUBLISHERS) == {Kafka, EachBatch}


@pytest.mark.parametrize(
    ("given_path", "expected"),
    [
        ("/data/out/", "file:/data/out"),
        ("file:///data/out", "file:/data/out"),
        ("file:/data/out", "file:/data/out"),
        ("s3a://lake/out/", "s3a://lake/out"),
    ],
)
def test_one_spelling(given_path: str, expected: str) -> None:
    assert url(given_path) == expected


def part(fence: Fence, source: str = "", place: str = "", key: str = "") -> Part:
    return Part(fence=fence, source=source or f"files of run {fence.order}", bytes=(10, 20), place=place, key=key)


def put(
    store: PointerStore, fence: Fence, *, adds: bool = False, source: str = "", place: str = "", key: str = ""
) -> Pointer:
    """One publication; what is on top afterwards."""
    mine = part(fence, source, place, key)
    return advance(store, mine, lambda top: compose(top, mine, "daily", "{}", adds=adds), adds=adds)


def chain(store: MemoryStore) -> list[Fence]:
    bodies = store.get_many(POINTERS, store.list_after(POINTERS))
    return [decode(body).fence for body in bodies if body is not None]


def test_whoever_slept_through_a_later_publication_stops() -> None:
    store = MemoryStore()

    def sleep_through_today(top: NewestPointer) -> Pointer:
        if top.number == 0:
            put(store, TODAY)
        return compose(top, part(YESTERDAY), "daily", "{}", adds=False)

    assert advance(store, part(YESTERDAY), sleep_through_today).fence == TODAY
    assert chain(store) == [TODAY]


def test_control_without_the_comparison_yesterday_is_put_back() -> None:
    store = MemoryStore()
    put(store, TODAY)
    late = compose(newest(store), part(YESTERDAY), "daily", "{}", adds=False)
    store.put_if_absent(f"{POINTERS}{newest(store).number + 1:020d}", encode(late))
    top = newest(store).pointer
    assert top is not None and top.fence == YESTERDAY


FENCES = st.lists(st.builds(Fence, st.integers(1, 4), st.integers(1, 3), st.integers(1, 2)), min_size=1, max_size=8)
FAULTS = st.lists(
    st.sampled_from([StoreFault.NONE, StoreFault.UNACKNOWLEDGED, StoreFault.LOST, StoreFault.DELAYED]), max_size=20
)


@settings(deadline=None)
@given(FENCES, FAULTS, st.lists(st.booleans(), max_size=20), st.booleans())
def test_the_chain_never_goes_back(fences: list[Fence], faults: list[StoreFault], naps: list[bool], adds: bool) -> None:
    """Publishers that fall asleep between looking and acting while others publish, over a store that does not always
    answer, and writes that land late. Runs 1 and 3 are of one key, 2 and 4 of another: what overwrites never goes back
    as a whole, what appends never within a key, and no key removes another."""
    plan, asleep, waiting = deque(faults), deque(naps), deque(dict.fromkeys(fences))
    store = FaultyStore(lambda key: plan.popleft() if plan else StoreFault.NONE)
    sure: list[Fence] = []

    def publish(fence: Fence) -> None:
        mine = part(fence, key=key_of(fence))

        def prepare(top: NewestPointer) -> Pointer:
            while waiting and asleep and asleep.popleft():
                publish(waiting.popleft())
            return compose(top, mine, "daily", "{}", adds=adds)

        try:
            top = advance(store, mine, prepare, adds=adds)
        except TimeoutError:
            return
        sure.append(fence)
        assert (latest(top, key_of(fence)) if adds else top.fence) >= fence

    while waiting:
        publish(waiting.popleft())
    while store.delayed:
        store.deliver()
    found = chain(store)
    for key in ("odd", "even"):
        of_key = [fence for fence in found if not adds or key_of(fence) == key]
        assert of_key == sorted(set(of_key))
    top = newest(store).pointer
    if not adds:
        assert not sure or found[-1] >= max(sure)
    elif top is not None:
        assert len({one.key for one in top.parts}) == len(top.parts), "no key has rows twice"
        assert all(latest(top, key_of(fence)) >= fence for fence in sure)


def key_of(fence: Fence) -> str:
    return "odd" if fence.order % 2 else "even"


def latest(pointer: Pointer, key: str) -> Fence:
    return max(one.newest_fence for one in pointer.parts if one.key == key)


def test_a_free_number_below_the_top_counts_for_nothing() -> None:
    """Old pointers were removed while a publisher slept: its number is free again."""
    store = MemoryStore()
    put(store, Fence(1, 1, 1))

    def sleep_across_a_gc(top: NewestPointer) -> Pointer:
        for order in (3, 4, 5):
            put(store, Fence(order, 1, 1))
        for name in store.list_after(POINTERS)[:-1]:
            store.delete(POINTERS + name)
        return compose(top, part(Fence(2, 1, 1)), "daily", "{}", adds=False)

    assert advance(store, part(Fence(2, 1, 1)), sleep_across_a_gc).fence == Fence(5, 1, 1)
    top = newest(store).pointer
    assert top is not None and top.fence == Fence(5, 1, 1)


def orders(pointer: Pointer) -> list[tuple[int, int]]:
    return [(one.fence.order, one.fence.epoch) for one in pointer.parts]


def test_a_run_has_one_part_however_often_its_masters_publish() -> None:
    store = MemoryStore()
    put(store, Fence(1, 1, 1), adds=True)
    first = put(store, Fence(2, 1, 1), adds=True)
    again = put(store, Fence(2, 2, 1), adds=True)
    assert orders(first) == orders(again) == [(1, 1), (2, 1)]
    assert (again.version, again.fence) == (first.version, Fence(2, 2, 1)), "the same files: nothing to copy"
    other = put(store, Fence(2, 3, 1), adds=True, source="a partition was made again")
    assert orders(other) == [(1, 1), (2, 3)] and other.version != first.version


def test_an_addition_that_others_built_upon_is_done() -> None:
    store = MemoryStore()
    put(store, YESTERDAY, adds=True)
    put(store, TODAY, adds=True)
    top = put(store, YESTERDAY, adds=True)
    assert top.fence == TODAY and top.holds(part(YESTERDAY))
    assert not put(store, YESTERDAY, adds=True, source="other files").holds(part(YESTERDAY, "other files"))


def keys(pointer: Pointer) -> list[tuple[str, int]]:
    return [(one.key, one.fence.order) for one in pointer.parts]


def test_appends_of_different_keys_do_not_fence_each_other() -> None:
    """Day 1 failed, day 2 was appended, day 1 is resumed: its run is the older one."""
    store = MemoryStore()
    put(store, TODAY, adds=True, key="day 2")
    late = put(store, YESTERDAY, adds=True, key="day 1")
    assert keys(late) == [("day 2", 8), ("day 1", 7)]
    assert put(store, YESTERDAY, adds=True, key="day 1").version == late.version, "and once more is nothing more"


def test_a_key_that_is_published_again_replaces_its_own_part_alone() -> None:
    store = MemoryStore()
    put(store, Fence(1, 1, 1), adds=True, key="day 1")
    put(store, Fence(2, 1, 1), adds=True, key="day 2")
    again = put(store, Fence(3, 1, 1), adds=True, key="day 1")
    assert keys(again) == [("day 2", 2), ("day 1", 3)]
    slept = part(Fence(1, 2, 1), "made again", key="day 1")
    top = put(store, Fence(1, 2, 1), adds=True, key="day 1", source="made again")
    assert not top.holds(slept) and top.fences(slept, adds=True) == Fence(3, 1, 1), "within a key the later run wins"


def test_an_earlier_master_stays_fenced_by_one_that_published_the_same_files() -> None:
    store = MemoryStore()
    put(store, Fence(1, 1, 1), adds=True, key="day 1")
    put(store, Fence(1, 2, 1), adds=True, key="day 1")
    put(store, Fence(2, 1, 1), adds=True, key="day 2")
    top = put(store, Fence(1, 1, 2), adds=True, key="day 1", source="a zombie's")
    assert not top.holds(part(Fence(1, 1, 2), "a zombie's"))


def test_a_part_without_a_key_stays_and_only_its_own_run_replaces_it() -> None:
    """As earlier releases wrote them; their pointers are read as they are."""
    store = MemoryStore()
    old = b'{"fence":{"order":7,"epoch":1,"number":1},"owner":"daily","version":"v7-1-1-on-0","schema":"{}","parts":'
    old += b'[{"fence":{"order":7,"epoch":1,"number":1},"source":"a","bytes":[10],"holes":"","place":""}],"format":1}'
    store.put_if_absent(f"{POINTERS}{1:020d}", old)
    top = put(store, Fence(6, 1, 1), adds=True, key="day 6")
    assert keys(top) == [("", 7), ("day 6", 6)], "an append is no fence, whoever wrote it"
    assert keys(put(store, Fence(9, 1, 1), adds=True, key="day 7")) == [("", 7), ("day 6", 6), ("day 7", 9)]
    resumed = put(store, Fence(7, 2, 1), adds=True, key="day 5", source="made again")
    assert keys(resumed) == [("day 6", 6), ("day 7", 9), ("day 5", 7)]


def test_what_overwrites_fences_older_appends_and_is_fenced_by_later_ones() -> None:
    store = MemoryStore()
    put(store, Fence(2, 1, 1), key="all")
    assert keys(put(store, Fence(1, 1, 1), adds=True, key="day 1")) == [("all", 2)]
    put(store, Fence(4, 1, 1), adds=True, key="day 4")
    top = put(store, Fence(3, 1, 1), adds=True, key="day 3")
    assert keys(top) == [("all", 2), ("day 4", 4), ("day 3", 3)]
    assert keys(put(store, Fence(1, 2, 1), adds=True, key="day 1")) == keys(top), "the floor is remembered"
    assert keys(put(store, Fence(3, 2, 1), key="all")) == keys(top), "run 4 is later, although run 3 is on top"
    assert keys(put(store, Fence(5, 1, 1), key="all")) == [("all", 5)]


def test_an_overwrite_with_what_the_same_run_appended_is_a_floor() -> None:
    """Its version is the one that was there, under a name that tells of an append."""
    store = MemoryStore()
    put(store, Fence(2, 1, 1), adds=True, key="all")
    top = put(store, Fence(2, 2, 1), key="all")
    assert top.overwritten == ("", Fence(2, 2, 1))
    late = put(store, Fence(1, 1, 1), adds=True, key="day 1")
    assert keys(late) == [("all", 2)], "an append of an older run comes too late"
    later = put(store, Fence(3, 1, 1), adds=True, key="day 3")
    assert keys(later) == [("all", 2), ("day 3", 3)] and later.overwritten == ("", Fence(2, 2, 1))


def test_whoever_does_not_know_keys_refuses_what_was_appended() -> None:
    assert compose(NewestPointer(0, None), part(TODAY), "daily", "{}", adds=True).format == 2
    assert compose(NewestPointer(0, None), part(TODAY), "daily", "{}", adds=False).format == 1


def test_an_append_below_the_top_is_put_again() -> None:
    """Old pointers were removed while it slept: the number that it put is below the top, and nobody reads it."""
    store = MemoryStore()
    put(store, Fence(1, 1, 1), adds=True, key="day 1")
    slept: list[int] = []

    def sleep_across_a_gc(top: NewestPointer) -> Pointer:
        if not slept:
            slept.append(top.number)
            for order in (3, 4, 5):
                put(store, Fence(order, 1, 1), adds=True, key=f"day {order}")
            for name in store.list_after(POINTERS)[:-1]:
                store.delete(POINTERS + name)
        return compose(top, mine, "daily", "{}", adds=True)

    mine = part(Fence(2, 1, 1), key="day 2")
    top = advance(store, mine, sleep_across_a_gc, adds=True)
    assert sorted(keys(top)) == [(f"day {order}", order) for order in (1, 2, 3, 4, 5)]


def test_versions_that_add_are_named_after_what_they_add_to() -> None:
    """Lost the race to a lower fence: the directory that was filled for the older top is never used."""
    mine = part(TODAY)
    assert (
        compose(NewestPointer(0, None), mine, "daily", "{}", adds=True).version
        != compose(
            NewestPointer(1, compose(NewestPointer(0, None), part(YESTERDAY), "daily", "{}", adds=True)),
            mine,
            "daily",
            "{}",
            adds=True,
        ).version
    )


def test_fences_of_two_places_are_not_compared() -> None:
    """A location that was emptied counts from one again: its first run is not the one that is on top."""
    store = MemoryStore()
    put(store, Fence(41, 1, 1), place="aa")
    late = put(store, Fence(1, 1, 1), place="aa", source="a late one")
    assert late.fence == Fence(41, 1, 1), "within a place the later one stays"
    top = put(store, Fence(1, 1, 1), place="bb")
    assert (top.place, top.fence) == ("bb", Fence(1, 1, 1)) and top.version == "v1-1-1-bb"
    assert newest(store).number == 2


def test_an_addition_keeps_what_another_place_brought() -> None:
    store = MemoryStore()
    put(store, Fence(1, 1, 1), adds=True, place="aa")
    top = put(store, Fence(1, 2, 1), adds=True, place="bb")
    assert [one.place for one in top.parts] == ["aa", "bb"]
    assert len({name for name, _ in top.files()}) == 4, "no two have one name"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/out", "file:///out/"),
        ("/out//day", "/out/day"),
        ("s3://lake/out", "s3a://lake//out/"),
        ("S3N://lake/out", "s3a://lake/out"),
        ("FILE:/out", "/out"),
    ],
)
def test_two_spellings_of_one_place(one: str, other: str) -> None:
    assert same_place(url(one)) == same_place(url(other))
    assert same_place(url(one)) != same_place(url(f"{one}2"))


def race(store: PointerStore) -> None:
    """Eight publishers at once: each is on top or sees a later one, and the latest is on top in the end."""
    fences = [Fence(1, epoch, 1) for epoch in range(1, 9)]
    with ThreadPoolExecutor(8) as pool:
        tops = list(pool.map(lambda fence: put(store, fence), fences))
    assert all(top.fence >= fence for top, fence in zip(tops, fences, strict=True))
    names = store.list_after(POINTERS)
    found = [decode(store.get(POINTERS + name) or b"").fence for name in names]
    assert found == sorted(set(found)) and found[-1] == fences[-1]


def test_a_race_on_disk(tmp_path: Path) -> None:
    race(LocalDisk(tmp_path))


@pytest.mark.s3
def test_a_race_on_s3(s3: S3Server) -> None:
    race(ObjectStorage(f"s3://{s3.bucket}/race", s3.store_settings))


def test_a_newer_format_is_refused() -> None:
    store = MemoryStore()
    body = encode(Pointer(fence=TODAY, owner="daily", version="v", schema="{}", parts=(), format=pointers.FORMAT + 1))
    store.put_if_absent(f"{POINTERS}{1:020d}", body)
    with pytest.raises(Refused, match="newer Rekindle"):
        newest(store)


def hive_part(fence: Fence, *directories: str, named: tuple[str, ...] = (), key: str = "") -> Part:
    """One file in each directory; `named` are replaced, those with files where nothing is named."""
    listed = tuple((f"{one}/part-{fence.order}.parquet", 10) for one in directories)
    source = f"files of run {fence.order}"
    return Part(fence=fence, source=source, bytes=(), key=key, listed=listed, directories=named or directories)


def put_hive(store: PointerStore, mine: Part) -> Pointer:
    return advance(store, mine, lambda top: compose(top, mine, "daily", "{}", adds=True), adds=True)


def held(pointer: Pointer) -> dict[str, int]:
    """The run that each directory is of."""
    return {name.rpartition("/")[0]: one.fence.order for one in pointer.parts for name, _ in one.files()}


def test_directories_that_are_named_are_replaced_and_no_others() -> None:
    store = MemoryStore()
    put_hive(store, hive_part(Fence(1, 1, 1), "day=1/c=a", "day=1/c=b", named=("day=1",)))
    put_hive(store, hive_part(Fence(2, 1, 1), "day=10/c=a", named=("day=10",)))
    assert held(newest(store).pointer or pytest.fail()) == {"day=1/c=a": 1, "day=1/c=b": 1, "day=10/c=a": 2}
    again = put_hive(store, hive_part(Fence(3, 1, 1), "day=1/c=a", named=("day=1",)))
    assert held(again) == {"day=1/c=a": 3, "day=10/c=a": 2} and again.format == pointers.LISTING
    empty = put_hive(store, hive_part(Fence(4, 1, 1), named=("day=1",)))
    assert held(empty) == {"day=10/c=a": 2}
    slept = hive_part(Fence(3, 2, 1), "day=1/c=z", named=("day=1",))
    assert held(put_hive(store, slept)) == {"day=10/c=a": 2}, "a day without rows is a publication, and fences"
    late = put_hive(store, hive_part(Fence(1, 2, 1), "day=2/c=a", named=("day=2",)))
    assert held(late) == {"day=10/c=a": 2, "day=2/c=a": 1}, "other days fence nobody"


@example([(5, {"a"}, {"b"}), (6, {"a"}, set()), (3, {"b"}, set())])
@given(
    st.lists(
        st.tuples(st.integers(1, 6), st.sets(st.sampled_from("abcd"), max_size=3), st.sets(st.sampled_from("abcd"))),
        max_size=8,
    )
)
def test_each_directory_is_of_the_last_run_that_replaced_it(drawn: list[tuple[int, set[str], set[str]]]) -> None:
    """Runs come in any order, each once. A run is fenced by a later one that replaced one of its directories."""
    store = MemoryStore()
    model: dict[str, int] = {}
    replaced: dict[str, int] = {}
    seen: set[int] = set()
    for order, files_in, more in drawn:
        named = sorted(files_in | more)
        if order in seen or not named:
            continue
        seen.add(order)
        top = put_hive(store, hive_part(Fence(order, 1, 1), *sorted(files_in), named=tuple(named)))
        if all(replaced.get(one, 0) < order for one in named):
            model = {one: by for one, by in model.items() if one not in named} | dict.fromkeys(files_in, order)
            replaced |= dict.fromkeys(named, order)
        assert held(top) == model
