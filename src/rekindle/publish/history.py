"""Which version of a target somebody reads: the newest, one of old, or the one before their own.

Rules
- Whoever reads outside of a run reads the newest version, or the one that was named.
- A run that reads a target to which it publishes finds what was on top before it published, in every driver and after
  it is done. Whether it did is told by the chain: its journal may end before that.
- `previous` is for what is made from its own last version, such as a slowly changing dimension. The keys of such a
  target (the parameters of its runs) have an order: that of their first publications. The version before a key is the
  newest one of the key before it. So a day that is run again does not read the days after it.
- A version is stale if it was made from a version that its key has replaced since. No run reads a stale version.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise

import msgspec

from rekindle.errors import Refused
from rekindle.publish.pointers import POINTERS, Pointer, decode, newest
from rekindle.publish.target import PointerStore
from rekindle.remedies import CommandRemedy, TextRemedy


class Reader(msgspec.Struct, frozen=True, kw_only=True):
    """A run that reads: its pipeline, where its runs are counted, its number, whether it has published anything, and
    its key."""

    owner: str
    place: str
    order: int
    has_published: bool
    key: str = ""

    def has_made(self, pointer: Pointer) -> bool:
        return (pointer.owner, pointer.place, pointer.fence.order) == (self.owner, self.place, self.order)


def newest_before(store: PointerStore, reader: Reader) -> Pointer | None:
    """What a run finds that reads a target to which it publishes."""
    top, is_below_own = newest(store).pointer, False
    for _, pointer in _downwards(store):
        is_own = reader.has_made(pointer)
        if not is_own and (is_below_own or not reader.has_published):
            return pointer
        is_below_own = is_below_own or is_own
    return None if is_below_own else top


def previous(store: PointerStore, key: str, shown: str) -> Pointer | None:
    """The version before a key; None if it is the first. Refuses a stale one."""
    past = past_of(newest(store).pointer)
    before = past[: past.index(key)] if key in past else past
    if not before:
        return None
    found = _newest_by_key(store)
    stale = [one for one in _stale(found, past) if one.key in before]
    if stale:
        raise _made_from_replaced(shown, stale[0])
    chosen = found.get(before[-1])
    if chosen is not None and len(chosen.parts) > 1:
        raise Refused(
            f"{shown} holds the rows of several runs side by side: rk.previous reads what is overwritten as a whole",
            'publish it with mode="overwrite", or read it with rk.read_newest',
        )
    if chosen is None:
        raise Refused(
            f"{shown}: the version before this run's parameters is not there any more",
            TextRemedy("gc removed it: set gc.versions_hours higher before the next time"),
        )
    return chosen


def is_previous(store: PointerStore, key: str, read: frozenset[str]) -> bool:
    """Whether these directories are the version before a key, so that the key may be published anew."""
    try:
        before = previous(store, key, "")
    except Refused:
        return False
    return before is not None and read == frozenset(before.folders)


def stale_after(store: PointerStore, key: str) -> list[Pointer]:
    """The versions of later keys that were made from one that this key, or one of them, has replaced; the first first.
    They must be made again, in this order."""
    past = past_of(newest(store).pointer)
    behind = past[past.index(key) + 1 :] if key in past else ()
    if not behind:
        return []  # Nearly always: the chain need not be read.
    return [one for one in _stale(_newest_by_key(store), past) if one.key in behind]


def past_of(pointer: Pointer | None) -> tuple[str, ...]:
    """The keys of a target in their order, where it was made from itself; else the last one alone."""
    if pointer is None:
        return ()
    return pointer.past or (pointer.key,)


def with_past(pointer: Pointer, top: Pointer | None, read: frozenset[str]) -> Pointer:
    """A version with what it was made from, where that is the target itself."""
    if top is None or not (read or top.past):
        return pointer
    past = past_of(top)
    return msgspec.structs.replace(
        pointer, read=tuple(sorted(read)), past=past if pointer.key in past else (*past, pointer.key)
    )


def at_version(store: PointerStore, version: str | int, path: str) -> Pointer:
    """A version by its name, by the mark of its publication (`rekindle show` prints that), or by the number of it."""
    for number, pointer in _downwards(store):
        if version in (pointer.version, pointer.mark, number):
            return pointer
    raise _not_there(f"{path} has no version {version}", store)


def as_of(store: PointerStore, moment: datetime | str, path: str) -> Pointer:
    """The version that was the newest at a moment, by the clocks of those who published."""
    wanted = _moment(moment)
    for _, pointer in _downwards(store):
        if 0 < pointer.at <= wanted.timestamp():
            return pointer
    raise _not_there(f"{path} has no version of {wanted.isoformat()}", store)


def _moment(given: datetime | str) -> datetime:
    try:
        moment = datetime.fromisoformat(given) if isinstance(given, str) else given
    except ValueError:
        raise Refused(f"as_of={given!r} is not a time", 'write "2026-11-01T06:00:00+00:00"') from None
    if moment.tzinfo is None:
        raise Refused(f"as_of={given!s} has no time zone", f'write it with one: "{moment.isoformat()}+00:00"')
    return moment


def _not_there(told: str, store: PointerStore) -> Refused:
    known = [f"{number} ({pointer.version})" for number, pointer in _downwards(store)][:5]
    return Refused(told, f"the newest ones are {', '.join(known)}" if known else "nothing is published there")


def _downwards(store: PointerStore) -> Iterator[tuple[int, Pointer]]:
    """The publications with their numbers, the newest first. gc may remove old ones meanwhile."""
    for name in reversed(store.list_after(POINTERS)):
        body = store.get(POINTERS + name)
        if body is not None:
            yield int(name), decode(body)


def _newest_by_key(store: PointerStore) -> dict[str, Pointer]:
    found: dict[str, Pointer] = {}
    for _, pointer in _downwards(store):
        found.setdefault(pointer.key, pointer)
    return found


def _stale(found: dict[str, Pointer], past: tuple[str, ...]) -> list[Pointer]:
    """Of the newest versions of each key, those that were made from a version that is not the newest of the key before
    any more, or from one that is stale itself. What gc removed is taken for right: nobody can ask it."""
    stale: list[Pointer] = []
    for before, key in pairwise(past):
        source, made = found.get(before), found.get(key)
        if source is None or made is None:
            continue
        if (stale and stale[-1].key == before) or made.read != tuple(sorted(source.folders)):
            stale.append(made)
    return stale


def _made_from_replaced(shown: str, stale: Pointer) -> Refused:
    return Refused(
        f"{shown}: run {stale.fence.order} published what it made from a version that was replaced since",
        (
            TextRemedy(f"run it again first, with the parameters of run {stale.fence.order} and --new"),
            CommandRemedy("runs", "see its parameters"),
        ),
    )
