"""What every store must do, as checks that take a store. Used by the tests and by `make stores`."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from rekindle.storage.store import PAGE, Put, Store

Check = Callable[[Store], None]


def _key(name: str = "object") -> str:
    return f"check/{uuid.uuid4().hex}/{name}"


def what_was_created_is_read_back(store: Store) -> None:
    key = _key()
    assert store.get(key) is None
    assert store.put_if_absent(key, b"one") is Put.CREATED
    assert store.get(key) == b"one"


def a_second_writer_is_told_that_it_exists(store: Store) -> None:
    key = _key()
    assert store.put_if_absent(key, b"one") is Put.CREATED
    assert store.put_if_absent(key, b"two") is Put.EXISTS
    assert store.put_if_absent(key, b"one") is Put.EXISTS
    assert store.get(key) == b"one"


def an_empty_object_is_exclusive_too(store: Store) -> None:
    key = _key()
    assert store.put_if_absent(key, b"") is Put.CREATED
    assert store.put_if_absent(key, b"two") is Put.EXISTS
    assert store.put_if_absent(key, b"") is Put.EXISTS
    assert store.get(key) == b""


def a_large_object_comes_back_whole(store: Store) -> None:
    key, body = _key(), bytes(range(256)) * 8192
    assert store.put_if_absent(key, body) is Put.CREATED
    assert store.get(key) == body


def put_replaces(store: Store) -> None:
    key = _key()
    store.put(key, b"one")
    store.put(key, b"two")
    assert store.get(key) == b"two"
    assert store.put_if_absent(key, b"three") is Put.EXISTS


def a_deleted_key_is_free_and_deleting_twice_is_harmless(store: Store) -> None:
    key = _key()
    store.put_if_absent(key, b"one")
    store.delete(key)
    store.delete(key)
    assert store.get(key) is None
    assert store.put_if_absent(key, b"two") is Put.CREATED


def a_listing_is_sorted_flat_and_starts_behind_a_name(store: Store) -> None:
    folder = _key("")
    for name in ("03", "01", "02", "deeper/04"):
        store.put_if_absent(folder + name, b"x")
    assert store.list_after(folder) == ["01", "02", "03"]
    assert store.list_after(folder, "01") == ["02", "03"]
    assert store.list_after(folder, "03") == []
    assert store.list_folders(folder) == ["deeper"]


def a_folder_that_is_not_there_is_empty(store: Store) -> None:
    folder = _key("nothing/")
    assert store.list_after(folder) == []
    assert store.list_folders(folder) == []
    assert store.modified(folder + "x") is None


def a_walk_shows_everything_with_sizes_and_times(store: Store) -> None:
    folder = _key("")
    wanted = {"01": 1, ".hidden": 2, "deeper/02": 3, "deeper/still/.03": 0}
    before = store.now()
    for name, size in wanted.items():
        store.put_if_absent(folder + name, b"x" * size)
    found = [entry for page in store.walk(folder) for entry in page]
    assert {entry.name: entry.bytes for entry in found} == wanted and len(found) == len(wanted)
    assert all(before - 1.0 <= entry.modified <= store.now() + 1.0 for entry in found)
    assert list(store.walk(folder + "nothing/")) == []


def a_walk_comes_in_pages(store: Store) -> None:
    folder = _key("")
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda n: store.put(f"{folder}{n % 3}/{n}", b""), range(PAGE + 5)))
    sizes = [len(page) for page in store.walk(folder)]
    assert sum(sizes) == PAGE + 5 and max(sizes) <= PAGE


def many_are_deleted_and_the_rest_stays(store: Store) -> None:
    folder = _key("")
    names = [f"{n % 3}/{n}" for n in range(50)]
    for name in (*names, "1/stays"):
        store.put(folder + name, b"x")
    store.delete_many(folder, names)
    store.delete_many(folder, names)
    assert [entry.name for page in store.walk(folder) for entry in page] == ["1/stays"]
    assert store.list_folders(folder) == ["1"]


def many_are_read_in_order(store: Store) -> None:
    folder = _key("")
    names = [f"{n:04d}" for n in range(100)]
    for name in names:
        store.put_if_absent(folder + name, name.encode())
    assert list(store.get_many(folder, names)) == [name.encode() for name in names]
    assert list(store.get_many(folder, ["none"])) == [None]


def time_is_the_stores_and_moves_with_writes(store: Store) -> None:
    key = _key()
    before = store.now()
    store.put(key, b"one")
    written = store.modified(key)
    after = store.now()
    assert written is not None
    assert before <= written + 1.0 and written <= after + 1.0


CHECKS: tuple[Check, ...] = (
    what_was_created_is_read_back,
    a_second_writer_is_told_that_it_exists,
    an_empty_object_is_exclusive_too,
    a_large_object_comes_back_whole,
    put_replaces,
    a_deleted_key_is_free_and_deleting_twice_is_harmless,
    a_listing_is_sorted_flat_and_starts_behind_a_name,
    a_folder_that_is_not_there_is_empty,
    a_walk_shows_everything_with_sizes_and_times,
    a_walk_comes_in_pages,
    many_are_deleted_and_the_rest_stays,
    many_are_read_in_order,
    time_is_the_stores_and_moves_with_writes,
)


def races(store: Store, writers: int, count: int) -> tuple[int, int]:
    """Race writers for one key after the other; every third race is for an empty body.

    Returns how many races had exactly one winner, and in how many the object is the winner's."""
    single, right = 0, 0
    with ThreadPoolExecutor(writers) as pool:
        for number in range(count):
            bodies = [b"" if number % 3 == 2 else b"writer %d" % n for n in range(writers)]
            winners, found = _race(store, pool, bodies)
            single += len(winners) == 1
            right += len(winners) == 1 and found == bodies[winners[0]]
    return single, right


def _race(store: Store, pool: ThreadPoolExecutor, bodies: list[bytes]) -> tuple[list[int], bytes | None]:
    key, gate = _key(), threading.Barrier(len(bodies))

    def write(number: int) -> Put:
        gate.wait()
        return store.put_if_absent(key, bodies[number])

    answers = list(pool.map(write, range(len(bodies))))
    return [n for n, answer in enumerate(answers) if answer is Put.CREATED], store.get(key)
