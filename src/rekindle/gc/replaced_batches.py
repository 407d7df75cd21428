"""What compactions made superfluous in the target of a stream: which entries, compactions and files may go.

Rules
- The newest compaction that is as old as the grace time decides. Whoever began to read before it was put has had that
  time; whoever began later read no entry of its batches, and no compaction before it.
- So entries of its batches go, compactions of lower numbers go, and files of its batches go that neither it nor a newer
  one names. The entry of its last batch stays: the folder of a living stream is never empty.
- A directory of a compactor goes when the number that it has in its name was put, and no compaction that stays names
  it: it was replaced, or another compactor came first. One whose number nobody put may still count.
- Nothing goes where a compaction that stays is damaged, or a file that it names is not there as it says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rekindle.publish.stream_compactions import (
    NONE,
    OFFSETS,
    Compaction,
    compactions_folder,
    find_compaction,
)
from rekindle.publish.stream_entries import entries_folder
from rekindle.publish.stream_view import COMPACTED, SHOWN, VIEWS, shown_view
from rekindle.results.leftovers import without_checksum
from rekindle.storage.store import Store, StoredObject

# COMPACTED-NUMBER-UUID, made by engine/spark/publish/stream_compaction.py.
MADE = re.compile(COMPACTED + r"-(\d+)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")

# Whether something of this time is older than the grace time.
IsRipe = Callable[[float], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacedBatches:
    """Of one generation of a region: the newest compaction, the newest one that decides, all files that stay by their
    paths below the target (None where the length is not known), and objects that are read by nobody any more."""

    newest: Compaction
    decides: Compaction
    needed: Mapping[str, int | None]
    objects: tuple[StoredObject, ...]

    def is_needed(self, directory: str, name: str) -> bool:
        return f"{directory}/{without_checksum(name)}" in self.needed

    def is_left(self, made: int) -> bool:
        """Whether a directory of a compactor, by its number, counts only if it is needed."""
        return made <= self.newest.number

    def missing(self, seen: Mapping[str, int]) -> str:
        """A file that must be there and is not as it must be; empty if there is none."""
        return next(
            (path for path, length in self.needed.items() if length not in (None, seen.get(path)) or path not in seen),
            "",
        )


def replaced_batches(store: Store, region: str, generation: str, is_ripe: IsRipe) -> ReplacedBatches:
    """Raises `Refused` where a compaction that stays is damaged."""
    folder = compactions_folder(region, generation)
    put = {int(one.name): one for page in store.walk(folder) for one in page if one.name.isdecimal()}
    ripe = max((number for number, one in put.items() if is_ripe(one.modified)), default=0)
    found = [find_compaction(store, region, generation, number) for number in sorted(put) if number >= ripe]
    stays = [one for one in found if one is not None] or [NONE]
    decides = stays[0] if ripe else NONE
    needed: dict[str, int | None] = {}
    for one in stays:
        needed |= {f"{span.directory}/{OFFSETS}": None for span in one.ranges}
        needed |= {f"{file.directory}/{file.name}": file.bytes for file in one.files}
    old = [_below(folder, put[number]) for number in sorted(put) if number < decides.number]
    return ReplacedBatches(
        newest=stays[-1],
        decides=decides,
        needed=needed,
        objects=(*_old_entries(store, entries_folder(region, generation), decides.through), *old),
    )


def _old_entries(store: Store, folder: str, through: int) -> list[StoredObject]:
    if through < 0:
        return []
    return [
        _below(folder, one)
        for page in store.walk(folder)
        for one in page
        if one.name.isdecimal() and int(one.name) < through
    ]


def old_views(store: Store, base: str, is_ripe: IsRipe) -> list[StoredObject]:
    """Links in views that were replaced before the grace time, after the times of these views: without its time nobody
    shows a view again. Bytes are those of the files, and are not counted."""
    times = {
        name: modified
        for name in store.list_folders(VIEWS)
        if (modified := store.modified(f"{VIEWS}{name}{SHOWN}")) is not None
    }
    newest = max((modified for modified in times.values() if is_ripe(modified)), default=0.0)
    shown = shown_view(base)
    old = [name for name, modified in times.items() if modified < newest and name != shown]
    return [
        StoredObject(name, 0, times[view])
        for view in old
        for name in (
            f"{VIEWS}{view}{SHOWN}",
            *(f"{VIEWS}{view}/{one.name}" for page in store.walk(f"{VIEWS}{view}/") for one in page),
        )
    ]


def _below(folder: str, one: StoredObject) -> StoredObject:
    return StoredObject(folder + one.name, one.bytes, one.modified)
