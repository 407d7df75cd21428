"""The chain of pointers beside a target's versions: numbered objects, each put if absent, the highest decides.

Rules
- Comparing and acting are one: a publisher that read number n, with a lower fence than its own, puts number n+1. If
  anybody published meanwhile the number is taken, and it reads again. So fences grow along the chain, and whoever
  slept through a later publication finds its number taken and a higher fence on top, and stops.
- Everything a pointer names is complete before the pointer is put, and never changes afterwards.
- A number with an unknown answer is tried again with the same bytes until the answer is certain.
- A pointer is a whole version: its parts, one per run that published into it. A run has one part however often its
  masters publish: a later fence of the same run replaces it, or keeps it if it was copied from the same files.
- Only fences of one place can be compared: two locations count their runs each for itself. A publication from another
  place goes on top only on the user's word; then those of the old place are refused.
- After a put the top is read again: a number below the top may be free where old pointers were removed.
- Removing is gc's, not ours. It may remove pointers and versions below the top that are older than readers live.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable

import msgspec

from rekindle.engine.targets import PointerStore
from rekindle.errors import Refused, StoreFailed
from rekindle.master.events import Fence

POINTERS = "pointers/"
FORMAT = 1
ROUNDS_MAX = 100
UNKNOWN_TRIES_MAX = 6
UNKNOWN_WAIT_SECONDS = 0.2


class Part(msgspec.Struct, frozen=True):
    """What one run brought: `source` identifies the committed files, `bytes` are their lengths, in their order; `holes`
    names the partitions that its user left out, of this result and of those it was made from; `place` is where its
    pipeline's runs are counted."""

    fence: Fence
    source: str
    bytes: tuple[int, ...]
    holes: str = ""
    place: str = ""

    @property
    def version(self) -> str:
        return version_of(self.fence, self.place)

    @property
    def run(self) -> tuple[str, int]:
        """The run that brought it, among those of all places."""
        return self.place, self.fence.order

    def files(self) -> list[tuple[str, int]]:
        """(name, bytes) in a version directory. No two publications use the same name."""
        return [(f"part-{index:05d}-{self.version}.parquet", length) for index, length in enumerate(self.bytes)]

    def is_same(self, other: Part) -> bool:
        """The same run brought the same files, whichever of its masters did it."""
        return self.run == other.run and self.source == other.source


class Pointer(msgspec.Struct, frozen=True):
    """One publication: who may replace it, where its files are, and what they hold. The part that it brought is the
    last one."""

    fence: Fence
    owner: str
    version: str
    schema: str
    parts: tuple[Part, ...]
    format: int = FORMAT

    @property
    def place(self) -> str:
        """Where the runs are counted that its fence is of."""
        return self.parts[-1].place if self.parts else ""

    @property
    def mark(self) -> str:
        """Its fence as text, told from those of other places."""
        return version_of(self.fence, self.place)

    def files(self) -> list[tuple[str, int]]:
        return [file for part in self.parts for file in part.files()]

    @property
    def holes(self) -> str:
        """What is missing in this version, by run; empty if nothing is."""
        return "; ".join(f"run {part.fence.order} without {part.holes}" for part in self.parts if part.holes)

    def holds(self, part: Part) -> bool:
        return any(part.is_same(one) for one in self.parts)


class Top(msgspec.Struct, frozen=True):
    """The highest number, and its pointer; 0 and None before the first publication."""

    number: int
    pointer: Pointer | None


def version_of(fence: Fence, place: str = "") -> str:
    """Part of the names of everything that one publication writes: no other one has it."""
    return f"v{fence.order}-{fence.epoch}-{fence.number}{f'-{place}' if place else ''}"


def identify(files: Iterable[tuple[str, int]]) -> str:
    """Paths of committed files are never used again, so path and length say which bytes they are."""
    lines = "".join(f"{path}\t{length}\n" for path, length in files)
    return hashlib.sha256(lines.encode()).hexdigest()[:32]


def newest(store: PointerStore, folder: str = POINTERS) -> Top:
    """What readers should read now."""
    for _ in range(ROUNDS_MAX):
        names = store.list_after(folder)
        if not names:
            return Top(0, None)
        body = store.get(folder + names[-1])
        if body is not None:
            return Top(int(names[-1]), decode(body))
    raise StoreFailed(f"{folder}{names[-1]} is listed and cannot be read")


def compose(top: Top, part: Part, owner: str, schema: str, *, adds: bool) -> Pointer:
    """The version that follows `top`. It has a directory of its own unless it is the version that is there."""
    old = top.pointer.parts if top.pointer is not None else ()
    same = next((one for one in old if one.is_same(part)), part)
    kept = tuple(one for one in old if one.run != part.run) if adds else ()
    parts = (*kept, same)
    if top.pointer is not None and parts == old:
        version = top.pointer.version
    else:
        version = f"{part.version}-on-{top.number}" if adds else part.version
    return Pointer(part.fence, owner, version, schema, parts)


def advance(store: PointerStore, part: Part, prepare: Callable[[Top], Pointer], folder: str = POINTERS) -> Pointer:
    """Put a publication on top, unless it or a later one of its place is there. Returns what is on top in the end.

    `prepare` makes everything the pointer will name, and refuses a top of another place; it is called again if another
    publication came first."""
    for _ in range(ROUNDS_MAX):
        top = newest(store, folder)
        if top.pointer is not None and top.pointer.place == part.place and top.pointer.fence >= part.fence:
            return top.pointer
        body = encode(prepare(top))
        if put_certainly(store, f"{folder}{top.number + 1:020d}", body):
            now = newest(store, folder).pointer
            assert now is not None, "a pointer that was put is listed"
            return now
    raise StoreFailed(f"{ROUNDS_MAX} other publications came first, one after the other")


def put_certainly(store: PointerStore, key: str, body: bytes) -> bool:
    """True if `key` holds these bytes, False if it holds others. "Maybe" is asked again, with the same bytes."""
    for round_ in range(UNKNOWN_TRIES_MAX):
        answer = store.put_if_absent(key, body).value
        if answer == "created":
            return True
        if answer == "exists":
            return store.get(key) == body
        time.sleep(UNKNOWN_WAIT_SECONDS * 2**round_)
    raise TimeoutError(f"the storage does not say whether {key} was written")


def encode(pointer: Pointer) -> bytes:
    return msgspec.json.encode(pointer)


def decode(body: bytes) -> Pointer:
    pointer = msgspec.json.decode(body, type=Pointer)
    if pointer.format > FORMAT:
        raise Refused("the target was published by a newer Rekindle", "upgrade this one")
    return pointer
