"""The chain of pointers beside a target's versions: numbered objects, each put if absent, the highest decides.

Rules
- Comparing and acting are one: a publisher that read number n, with a lower fence than its own, puts number n+1. If
  anybody published meanwhile the number is taken, and it reads again. Whoever slept through a later publication finds
  its number taken and a higher fence on top, and stops.
- What overwrites is compared with everything that is there, so its fences grow along the chain. What appends is
  compared with the rows of its own key (pipeline and parameters) and with what overwrote last: appends of different
  keys do not fence each other, whatever order they end in. A later run of a key replaces the part of that key only.
- What replaces directories (Hive's) is compared with the parts that have files there, whoever brought them; of those
  parts the rest stays.
- A part without a key was appended before parts had one. It stays; only the run that brought it can replace it.
- Everything a pointer names is complete before the pointer is put, and never changes afterwards.
- A number with an unknown answer is tried again with the same bytes until the answer is certain.
- Where a version need not be one directory (`files`), each part stays in the directory that it was published to, and a
  pointer names it there: a night costs what it brings, however many were before.
- A pointer is a whole version: its parts, one per key that published into it. A run has one part however often its
  masters publish: a later fence of the same run replaces it, or keeps it if it was copied from the same files and
  notes that fence as `claimed`, so that an earlier master of the run stays fenced.
- Only fences of one place can be compared: two locations count their runs each for itself. A publication from another
  place goes on top only on the user's word; then those of the old place are refused.
- After a put the top is read again: a number below the top may be free where old pointers were removed.
- Removing is gc's, not ours. It may remove pointers and versions below the top that are older than readers live.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterable
from functools import lru_cache
from urllib.parse import unquote

import msgspec

from rekindle.errors import Refused, StoreFailed
from rekindle.master.facts.events import Fence
from rekindle.publish.target import PointerStore

# What lies in a target with versions: the chain, the files, a directory of links for each version whose files lie in
# several (on a disk), and what is not published yet.
POINTERS = "pointers/"
VERSIONS, VIEWS, SCRATCH = "versions", "views", "scratch"
# Of what was overwritten, of what was appended, of files in Hive's directories, of parts that stay where they are, and
# of files that are not Parquet: whoever does not know keys, lists of files, directories of parts, or formats of files,
# would drop them, or not read them.
OVERWRITING, ADDING, LISTING, IN_PLACE, OF_FILES = 1, 2, 3, 4, 5
FORMAT = OF_FILES
ADDED_TO = "-on-"
# What `version_of` makes.
VERSION = re.compile(r"v(\d+)-(\d+)-(\d+)(?:-([0-9a-f]+))?")
ROUNDS_MAX = 100
UNKNOWN_TRIES_MAX = 6
UNKNOWN_WAIT_SECONDS = 0.2


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """What one run brought: `source` identifies the committed files, `bytes` are their lengths, in their order; `holes`
    names the partitions that its user left out, of this result and of those it was made from; `place` is where its
    pipeline's runs are counted; `key` tells the parameters of the run, empty where that was not noted; `claimed` is the
    fence of the newest master of the run that published the same files. `listed` are files (path in the version
    directory, bytes) in Hive's directories, which have names of their own; `directories` are those that it replaced.
    `by_directory`: it replaces nothing but those, none if it has no rows. `folder` is the version directory in which
    its files lie, empty if that is the one of the pointer."""

    fence: Fence
    source: str
    bytes: tuple[int, ...]
    holes: str = ""
    place: str = ""
    key: str = ""
    claimed: Fence | None = None
    listed: tuple[tuple[str, int], ...] = ()
    directories: tuple[str, ...] = ()
    folder: str = ""
    by_directory: bool = False

    @property
    def version(self) -> str:
        return version_of(self.fence, self.place)

    @property
    def run(self) -> tuple[str, int]:
        """The run that brought it, among those of all places."""
        return self.place, self.fence.order

    @property
    def newest_fence(self) -> Fence:
        return self.fence if self.claimed is None else max(self.fence, self.claimed)

    @property
    def is_listed(self) -> bool:
        """Its files lie in Hive's directories."""
        return bool(self.listed or self.directories)

    def replaces(self, other: Part) -> bool:
        """Rows of the other one give way to these: both are of one run; or this one replaced directories, and the other
        has some of them; or both are of one key."""
        if self.run == other.run:
            return True
        if self.by_directory or self.directories:
            names = (*(name for name, _ in other.listed), *other.directories)
            return any(is_below(name, self.directories) for name in names)
        return self.key != "" and self.key == other.key

    def left_by(self, newer: Part) -> Part | None:
        """What stays of it beside a newer one; None if nothing does. A directory that it emptied, and nobody replaced
        since, stays: whoever is older must not fill it."""
        if not newer.replaces(self):
            return self
        if self.run == newer.run or not newer.directories:
            return None
        listed = tuple(file for file in self.listed if not is_below(file[0], newer.directories))
        directories = tuple(one for one in self.directories if not is_below(one, newer.directories))
        if not listed and not directories:
            return None
        return msgspec.structs.replace(self, listed=listed, directories=directories)

    def files(self) -> list[tuple[str, int]]:
        """(name, bytes) in a version directory. No two publications use the same name."""
        if self.is_listed:
            return list(self.listed)
        version = self.version
        return [(f"part-{index:05d}-{version}.parquet", length) for index, length in enumerate(self.bytes)]

    def is_same(self, other: Part) -> bool:
        """The same run brought the same files, whichever of its masters did it."""
        return self.source == other.source and self.run == other.run


class Pointer(msgspec.Struct, frozen=True, kw_only=True):
    """One publication: who may replace it, where its files are, and what they hold. The part that it brought is the
    last one. `floor` is the fence of what overwrote last, of this publication itself if it did, and `floor_place`
    where its run is counted. `handed` are files (name, bytes) of a directory that is replaced which were there
    before its first publication: whoever asked for that handed them over. `at` is when it was published, in seconds, by
    the clock of the publisher; 0 where that was not noted. `read` are the version directories of the same target that
    its run read, and `past` the keys that published before it and with it, in the order in which each of them was
    first: noted where a publication is made from the one before it. `files_format` is how Spark calls the format of its
    files, and `options` are those that it reads them with."""

    fence: Fence
    owner: str
    version: str
    schema: str
    parts: tuple[Part, ...]
    format: int = OVERWRITING
    floor: Fence | None = None
    floor_place: str = ""
    handed: tuple[tuple[str, int], ...] = ()
    at: float = 0.0
    read: tuple[str, ...] = ()
    past: tuple[str, ...] = ()
    files_format: str = "parquet"
    options: tuple[tuple[str, str], ...] = ()

    @property
    def key(self) -> str:
        """Of the parameters of the run that published it."""
        return self.parts[-1].key if self.parts else ""

    @property
    def place(self) -> str:
        """Where the runs are counted that its fence is of."""
        return self.parts[-1].place if self.parts else ""

    @property
    def mark(self) -> str:
        """Its fence as text, told from those of other places."""
        return version_of(self.fence, self.place)

    @property
    def overwritten(self) -> tuple[str, Fence | None]:
        """Which publication overwrote last: its place and its fence. One that overwrote and does not tell is older:
        then the name of its version says whether it was added to another one."""
        if self.format == ADDING or self.floor is not None:
            return self.floor_place, self.floor
        return self.place, None if ADDED_TO in self.version else self.fence

    def fences(self, part: Part, *, adds: bool) -> Fence | None:
        """What `part` must be later than to go on top: the latest of its place that it would replace."""
        mine = [one for one in self.parts if one.place == part.place]
        if adds:
            found = [one.newest_fence for one in mine if part.replaces(one)]
            place, fence = self.overwritten
            found += [fence] if fence is not None and place == part.place else []
        elif self.place == part.place:
            found = [self.fence, *(one.newest_fence for one in mine)]
        else:
            found = []
        return max(found, default=None)

    def files(self) -> list[tuple[str, int]]:
        return [file for part in self.parts for file in part.files()]

    @property
    def has_files(self) -> bool:
        return any(part.listed or part.bytes for part in self.parts)

    def folder_of(self, part: Part) -> str:
        """The version directory in which the files of a part lie."""
        return part.folder or self.version

    @property
    def folders(self) -> tuple[str, ...]:
        """The version directories in which its files lie, each once, in the order of its parts."""
        return tuple(dict.fromkeys(self.folder_of(part) for part in self.parts))

    @property
    def is_one_directory(self) -> bool:
        """Its files are all that lies in its version directory."""
        return self.folders in ((), (self.version,))

    @property
    def holes(self) -> str:
        """What is missing in this version, by run; empty if nothing is."""
        return "; ".join(f"run {part.fence.order} without {part.holes}" for part in self.parts if part.holes)

    def holds(self, part: Part) -> bool:
        return any(part.is_same(one) for one in self.parts)


class NewestPointer(msgspec.Struct, frozen=True):
    """The highest number, and its pointer; 0 and None before the first publication."""

    number: int
    pointer: Pointer | None


def version_of(fence: Fence, place: str = "") -> str:
    """Part of the names of everything that one publication writes: no other one has it."""
    return f"v{fence.order}-{fence.epoch}-{fence.number}{f'-{place}' if place else ''}"


def fence_in(version: re.Match[str]) -> tuple[str, Fence]:
    """The place and the fence in a name that `VERSION` matched."""
    *numbers, counted_in = version.groups(default="")
    return counted_in, Fence(*map(int, numbers))


def identify(files: Iterable[tuple[str, int]]) -> str:
    """Paths of committed files are never used again, so path and length say which bytes they are."""
    lines = "".join(f"{path}\t{length}\n" for path, length in files)
    return hashlib.sha256(lines.encode()).hexdigest()[:32]


def newest(store: PointerStore, folder: str = POINTERS) -> NewestPointer:
    """What readers should read now."""
    for _ in range(ROUNDS_MAX):
        names = store.list_after(folder)
        if not names:
            return NewestPointer(0, None)
        body = store.get(folder + names[-1])
        if body is not None:
            return NewestPointer(int(names[-1]), decode(body))
    raise StoreFailed(f"{folder}{names[-1]} is listed and cannot be read")


def top_of(store: PointerStore, folder: str = POINTERS) -> Pointer:
    """The newest pointer, after somebody published."""
    pointer = newest(store, folder).pointer
    assert pointer is not None, "somebody published, and the top is never removed"
    return pointer


def compose(
    top: NewestPointer, part: Part, owner: str, schema: str, *, adds: bool, at: float = 0.0, stays: bool = False
) -> Pointer:
    """The version that follows `top`. It has a directory of its own unless it is the version that is there; where
    parts stay (`stays`), the directory of an addition holds this part alone."""
    old = top.pointer.parts if top.pointer is not None else ()
    if adds and stays:
        part = msgspec.structs.replace(part, folder=part.version)
        old = _where_they_are(top.pointer) if top.pointer is not None else ()
    ours = next((one for one in old if one.is_same(part)), part)
    if adds and ours is not part:
        ours = msgspec.structs.replace(ours, key=part.key, claimed=part.fence)
    kept = tuple(left for one in old if (left := one.left_by(part)) is not None) if adds else ()
    parts = (*kept, ours)
    if top.pointer is not None and _names(parts) == _names(old):
        version = top.pointer.version
    else:
        version = f"{part.version}{ADDED_TO}{top.number}" if adds else part.version
    if adds:
        place, floor = top.pointer.overwritten if top.pointer is not None else ("", None)
    else:
        place, floor = part.place, part.fence
    return Pointer(
        fence=part.fence,
        owner=owner,
        version=version,
        schema=schema,
        parts=parts,
        format=_format(parts, adds=adds),
        floor=floor,
        floor_place=place,
        at=at,
    )


def _format(parts: Iterable[Part], *, adds: bool) -> int:
    """The oldest that tells all of it."""
    if any(one.folder for one in parts):
        return IN_PLACE
    if any(one.is_listed for one in parts):
        return LISTING
    return ADDING if adds else OVERWRITING


def _where_they_are(pointer: Pointer) -> tuple[Part, ...]:
    """Its parts, each with the directory that its files lie in."""
    return tuple(msgspec.structs.replace(one, folder=pointer.folder_of(one)) for one in pointer.parts)


def _names(parts: Iterable[Part]) -> set[tuple[str, str]]:
    """Of which publications a version is made, and of which of their files."""
    found = ((one.version, one.listed) for one in parts)
    return {(version, name) for version, listed in found for name, _ in (*listed, ("", 0))}


def is_below(name: str, directories: Iterable[str]) -> bool:
    """Whether a file, or a directory, is or lies in one of these directories."""
    return any(f"{name}/".startswith(f"{one}/") for one in directories)


def hive_columns(pointer: Pointer) -> tuple[str, ...]:
    """The columns whose values are directories in a version; none where it has no such directories."""
    names = [name for part in pointer.parts for name, _ in part.listed][:1]
    return tuple(unquote(one.partition("=")[0]) for name in names for one in name.split("/")[:-1])


def advance(
    store: PointerStore,
    part: Part,
    prepare: Callable[[NewestPointer], Pointer],
    folder: str = POINTERS,
    *,
    adds: bool = False,
) -> Pointer:
    """Put a publication on top, unless it or a later one that it would replace is there. Returns what is on top in the
    end.

    `prepare` makes everything the pointer will name, and refuses a top of another place; it is called again if another
    publication came first."""
    for _ in range(ROUNDS_MAX):
        top = newest(store, folder)
        if top.pointer is not None and _is_fenced(top.pointer, part, adds=adds):
            return top.pointer
        body = encode(prepare(top))
        if put_certainly(store, f"{folder}{top.number + 1:020d}", body):
            now = newest(store, folder).pointer
            assert now is not None, "a pointer that was put is listed"
            if not adds or now.holds(part) or _is_fenced(now, part, adds=adds):
                return now
    raise StoreFailed(f"{ROUNDS_MAX} other publications came first, one after the other")


def _is_fenced(pointer: Pointer, part: Part, *, adds: bool) -> bool:
    fence = pointer.fences(part, adds=adds)
    return fence is not None and fence >= part.fence


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


@lru_cache(maxsize=4)
def decode(body: bytes) -> Pointer:
    """A publication looks at the newest pointer again and again: one of a year has thousands of files."""
    pointer = msgspec.json.decode(body, type=Pointer)
    if pointer.format > FORMAT:
        raise Refused("the target was published by a newer Rekindle", "upgrade this one")
    return pointer
