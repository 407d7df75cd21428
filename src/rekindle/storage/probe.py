"""Prove at start-up that a store keeps its word, before a run depends on it.

Some stores accept a condition and ignore it: every writer is told that it won. A key written twice under
the condition shows it, also with an empty body, also in a race. A store that fails is refused by name; the
probe leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from rekindle.errors import RekindleError, StoreFailed, StoreRefused
from rekindle.storage.store import Put, Store

RACERS = 4


def probe(store: Store) -> None:
    """Raise `StoreRefused` unless put-if-absent is exclusive, readable and listed at once."""
    folder, mark = "_probe/", uuid.uuid4().hex
    keys = [f"{folder}{mark}-{name}" for name in ("empty", "race", "second")]
    try:
        _second_writer_loses(store, keys[2], b"first", b"second")
        _second_writer_loses(store, keys[0], b"", b"second")
        _one_racer_wins(store, keys[1])
        if store.list_after(folder, mark)[:3] != [key.removeprefix(folder) for key in keys]:
            raise _refuse(store, "does not list what was just written")
    except RekindleError:
        with contextlib.suppress(StoreFailed):  # The first error is the one to be told.
            _clean(store, keys)
        raise
    _clean(store, keys)


def _clean(store: Store, keys: Sequence[str]) -> None:
    for key in keys:
        store.delete(key)


def _second_writer_loses(store: Store, key: str, first: bytes, second: bytes) -> None:
    _certain(store, lambda: store.put_if_absent(key, first))
    answer = _certain(store, lambda: store.put_if_absent(key, second))
    if answer is not Put.EXISTS or store.get(key) != first:
        what = "an empty object" if not first else "an object"
        raise _refuse(store, f"let a second writer overwrite {what} with a conditional write")


def _one_racer_wins(store: Store, key: str) -> None:
    with ThreadPoolExecutor(RACERS) as pool:
        answers = list(pool.map(lambda n: store.put_if_absent(key, b"%d" % n), range(RACERS)))
    winners = [n for n, answer in enumerate(answers) if answer is Put.CREATED]
    found = store.get(key)
    if len(winners) > 1 or (winners and found != b"%d" % winners[0]):
        raise _refuse(store, f"let {len(winners)} of {RACERS} concurrent writers succeed")


def _certain(store: Store, act: Callable[[], Put]) -> Put:
    for _ in range(3):
        answer = act()
        if answer is not Put.UNKNOWN:
            return answer
    raise _refuse(store, "gave no definite answer to a conditional write in three tries")


def _refuse(store: Store, what: str) -> StoreRefused:
    return StoreRefused(
        f"the store {store.name} {what}. Two masters could both own a run on it.",
        "use a store with conditional writes (S3, GCS, Azure, MinIO, Ceph 17 or newer, a local or NFS disk)",
    )
