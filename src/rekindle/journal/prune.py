"""End a run for good: a tombstone at the next number, then the space of its journal comes back.

A master that sleeps through all of this wakes up at a number it knows: the one where the next epoch was opened,
or the one before, if it never learned that its own record landed. Those records stay, and the tombstone does, so
that no number a sleeper can try is ever free again; and the record that the tombstone stands on. Everything else is
deleted: snapshots first, since a reader that begins at one would find a gap behind it; then records, oldest last, so
that a journal that is half deleted still ends with its tombstone; heartbeats last: they tell that something is to do.
"""

from __future__ import annotations

from rekindle.journal.frame import NAME, WholeFrame, find, name_of
from rekindle.journal.history import folder_of
from rekindle.storage.store import Store


def prune(store: Store, run: str) -> int:
    """Delete what a closed run does not need, also after a crash in the middle of it; returns how many objects.
    A run without a tombstone loses nothing."""
    folder = folder_of(run)
    names = [name for name in store.list_after(folder) if NAME.fullmatch(name)]
    found = [find(data or b"") for data in store.get_many(folder, names)]
    last = found[-1] if found else None
    if not (isinstance(last, WholeFrame) and last.frame.is_closed):
        return 0
    opened = {item.frame.sequence for item in found if isinstance(item, WholeFrame) and item.frame.owner is not None}
    earlier = [name for name, item in zip(names, found, strict=True) if isinstance(item, WholeFrame)][:-1]
    stays = {name_of(n) for n in opened} | {name_of(n - 1) for n in opened} | {*earlier[-1:], names[-1]}
    records = [folder + name for name in reversed(names) if name not in stays]
    goes = [*_all(store, run, "snapshot"), *records, *_all(store, run, "heartbeat")]
    for key in goes:
        store.delete(key)
    return len(goes)


def _all(store: Store, run: str, folder: str) -> list[str]:
    prefix = f"{run.rstrip('/')}/{folder}/"
    return [prefix + name for name in store.list_after(prefix)]
