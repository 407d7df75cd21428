"""Give the space of records back: those of a run that ended for good, by a tombstone at the next number, and those
before the last two bases of a run without end.

A master that sleeps through all of this wakes up at a number it knows: the one where the next epoch was opened,
or the one before, if it never learned that its own record landed. Those records stay, and the tombstone does, so
that no number a sleeper can try is ever free again; and the record that the tombstone stands on. Everything else is
deleted: snapshots first, since a reader that begins at one would find a gap behind it; then records, oldest last, so
that a journal that is half deleted still ends with its tombstone; heartbeats last: they tell that something is to do.
"""

from __future__ import annotations

from collections.abc import Sequence

from rekindle.journal.frame import NAME, Found, WholeFrame, find, name_of
from rekindle.journal.history import folder_of
from rekindle.storage.store import Store

BASES_KEPT = 2


def prune(store: Store, run: str) -> int:
    """Delete what a closed run does not need, also after a crash in the middle of it; returns how many objects.
    A run without a tombstone loses nothing."""
    folder = folder_of(run)
    names, found = _records(store, folder)
    last = found[-1] if found else None
    if not (isinstance(last, WholeFrame) and last.frame.is_closed):
        return 0
    earlier = [name for name, item in zip(names, found, strict=True) if isinstance(item, WholeFrame)][:-1]
    stays = _for_sleepers(names, found) | {*earlier[-1:], names[-1]}
    records = [folder + name for name in reversed(names) if name not in stays]
    goes = [*_all(store, run, "snapshot"), *records, *_all(store, run, "heartbeat")]
    for key in goes:
        store.delete(key)
    return len(goes)


def cut(store: Store, run: str) -> int:
    """Delete the records before the last base but one; returns how many. Nobody begins to read before the last base;
    whoever began when it was not there yet finds the other one."""
    folder = folder_of(run)
    names, found = _records(store, folder)
    whole = [one.frame for one in found if isinstance(one, WholeFrame)]
    bases = [name_of(one.sequence) for one in whole if one.is_base]
    if len(bases) < BASES_KEPT:
        return 0
    stays = _for_sleepers(names, found)
    goes = [folder + name for name in names if name < bases[-BASES_KEPT] and name not in stays]
    for key in goes:
        store.delete(key)
    return len(goes)


def _records(store: Store, folder: str) -> tuple[list[str], list[Found]]:
    names = [name for name in store.list_after(folder) if NAME.fullmatch(name)]
    return names, [find(data or b"") for data in store.get_many(folder, names)]


def _for_sleepers(names: Sequence[str], found: Sequence[Found]) -> set[str]:
    """The numbers that a master can try that was taken over: where the next epoch was opened, the one before, and all
    that are torn before it."""
    stays: set[str] = set()
    for index, item in enumerate(found):
        if isinstance(item, WholeFrame) and item.frame.opens_epoch:
            stays |= {names[index], name_of(item.frame.sequence - 1)}
            while index and not isinstance(found[index - 1], WholeFrame):
                index -= 1
                stays |= {names[index], name_of(int(names[index]) - 1)}
    return stays


def _all(store: Store, run: str, folder: str) -> list[str]:
    prefix = f"{run.rstrip('/')}/{folder}/"
    return [prefix + name for name in store.list_after(prefix)]
