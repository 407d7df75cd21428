"""gc of the results between regions of a stream: batches that every reader has passed.

Rules
- A reader has passed a batch when its own commit log says so: its last committed batch read up to there. A region that
  the code no longer has is not waited for; if it comes back, the batches that it misses are named.
- The last batch that the producer committed stays, with all after it: its checkpoint is compared with its result.
- Positions only grow, and a batch is read again only behind the last committed one: what was passed is never read
  again, whoever runs meanwhile. A new reader, or a new checkpoint of one, begins with the oldest batch that is there.
- Of a result in a topic the entries say how many bytes its batches have; how long records stay is the topic's setting.
- What is read as a batch is pinned until the time that its reader said (publish/batch_pins.py). The pin goes after it.
- Entries go before their files: a reader finds a batch with all its files, or not at all.
- Nothing younger than the grace time goes, and nothing before the audit log says what and why.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rekindle.gc.replaced_batches import IsRipe
from rekindle.publish.batch_pins import BatchPin, pin_of, pins_folder
from rekindle.publish.stream_entries import (
    RESULTS,
    entries_folder,
    entry_of,
    generation_folder,
    generation_of,
    replays_folder,
)
from rekindle.results.checkpoint_log import checkpoint_folder, last_commit, positions, result_position
from rekindle.storage.store import Store, StoredObject
from rekindle.streams.stream_state import StreamState

NO_BATCH = -1
# In place of the name of a reader.
PINNED = "a batch"
# BATCH, and BATCH-EPOCH-UUID, made by java/StreamFiles.
OF_ENTRY, OF_FILES = re.compile(r"(\d+)$"), re.compile(r"(\d+)-")
# BATCH.NUMBER of a batch that was made again.
OF_REPLAY = re.compile(r"(\d+)\.\d+$")


@dataclass(frozen=True, slots=True)
class ResultLook:
    """Of a result: what may go, by names below the folder of its stream, entries first; and what stays of it. All
    batches up to `through` go, -1 for none."""

    objects: list[StoredObject]
    bytes_left: int
    through: int = NO_BATCH


@dataclass(frozen=True, slots=True, kw_only=True)
class PassedBatches:
    """Of the result of one region in one generation: all batches up to `through` may go; -1 for none. `slowest` is the
    reader that is furthest behind, and `behind` is by how many batches. `is_topic` where its rows are records."""

    region: str
    generation: str
    through: int
    slowest: str = ""
    behind: int = 0
    is_topic: bool = False

    def look(self, store: Store, folder: str, is_ripe: IsRipe, known: dict[int, int] | None = None) -> ResultLook:
        """Entries were put in their order, and after their files: files go whose entry goes, or went before. `known`
        are the bytes of batches that a look before had read of their entries; those of this one are added."""
        base = f"{RESULTS}/{self.region}/"
        kinds = ((entries_folder, OF_ENTRY), (replays_folder, OF_REPLAY), (generation_folder, OF_FILES))
        entries, again, data = (
            [*_numbered(store, folder, f"{base}{kind(self.region, self.generation)}", pattern)]
            for kind, pattern in kinds
        )
        ripe = [number for number, one in entries if number <= self.through and is_ripe(one.modified)]
        through = max(ripe, default=NO_BATCH)
        every = (*entries, *again, *data)
        goes = [one for number, one in every if number <= through and is_ripe(one.modified)]
        size = sum(one.bytes for _, one in every)
        left = size - sum(one.bytes for one in goes)
        if self.is_topic:
            stay = [number for number, _ in entries if number > through]
            left += self._record_bytes(store, folder, stay, {} if known is None else known)
        over = [one for pin, one in pins_of(store, folder, self.region, self.generation) if pin.until < store.now()]
        return ResultLook([*goes, *over], left, through)

    def _record_bytes(self, store: Store, folder: str, batches: Sequence[int], known: dict[int, int]) -> int:
        """An entry that goes meanwhile has none."""
        below = f"{folder}{RESULTS}/{self.region}/{entries_folder(self.region, self.generation)}"
        new = [one for one in batches if one not in known]
        for batch, body in zip(new, store.get_many(below, [str(one) for one in new]), strict=True):
            known[batch] = 0 if body is None else entry_of(body, f"{below}{batch}").record_bytes
        for gone in known.keys() - set(batches):
            del known[gone]
        return sum(known.values())


def passed_batches(store: Store, folder: str, state: StreamState) -> list[PassedBatches]:
    """What every reader has passed, of each result of a stream whose files lie in `folder`, which ends with a slash."""
    found = []
    for producer in state.spec.regions:
        readers = [one.name for one in state.spec.regions if producer.name in one.reads]
        if not readers:
            continue
        number = state.regions[producer.name].generation
        last = last_commit(store, f"{folder}{checkpoint_folder(producer.name, number)}")
        generation = generation_of(state.run, number)
        pinned = [pin for pin, _ in pins_of(store, folder, producer.name, generation) if pin.until >= store.now()]
        read = [(_position(store, folder, state, reader, producer.name), reader) for reader in readers]
        passed, slowest = min([*read, *((pin.after, PINNED) for pin in pinned)])
        found.append(
            PassedBatches(
                region=producer.name,
                generation=generation,
                through=min(passed, last - 1),
                slowest=slowest,
                behind=last - passed,
                is_topic=bool(producer.topic),
            )
        )
    return found


def pins_of(store: Store, folder: str, region: str, generation: str) -> list[tuple[BatchPin, StoredObject]]:
    """Who reads batches of a result as a batch, of a stream whose files lie in `folder`, which ends with a slash."""
    below = f"{RESULTS}/{region}/{pins_folder(region, generation)}"
    every = (one for page in store.walk(folder + below) for one in page)
    found = ((pin_of(one.name), StoredObject(below + one.name, one.bytes, one.modified)) for one in every)
    return [(pin, one) for pin, one in found if pin is not None]


def _position(store: Store, folder: str, state: StreamState, reader: str, producer: str) -> int:
    """The last batch of a result that the last committed batch of a reader has read, -1 for none."""
    checkpoint = f"{folder}{checkpoint_folder(reader, state.regions[reader].generation)}"
    read = positions(store, checkpoint, last_commit(store, checkpoint)) or {}
    entries = [one.entry for one in map(result_position, read.values()) if one is not None and one.result == producer]
    return min(entries, default=NO_BATCH)


def _numbered(store: Store, folder: str, below: str, pattern: re.Pattern[str]) -> Iterator[tuple[int, StoredObject]]:
    """Objects of batches, with the numbers of these."""
    for page in store.walk(folder + below):
        for one in page:
            told = pattern.match(one.name)
            if told is not None:
                yield int(told.group(1)), StoredObject(below + one.name, one.bytes, one.modified)
