"""The entries of streams in a target: one object for each batch that counts (java/StreamFiles puts them).

`entries/REGION/GENERATION/BATCH` has lines: the number of the query that put it, the digest of the batch's offsets, the
directory of its files, then name and length of each file. What no entry names does not count. Batches that a compaction
has (stream_compactions.py) count by that alone, whether their entries are still there or not.

The entries of a result between regions also have the digest of the rows, the application that has them where they are
blocks on executors, or the topic where they are records, with the bytes of their keys and values. A batch of a result
that was made again has `replays/REGION/GENERATION/BATCH.NUMBER`, put if absent: of these and the entry the highest
number counts.

`owners/NUMBER`, put if absent, says which region and generation the target has from then on; the highest number counts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rekindle.errors import Refused, StoreFailed
from rekindle.publish.stream_compactions import (
    COMPACTIONS,
    DATA,
    BatchFile,
    Compaction,
    compaction_numbers,
    newest_compaction,
)
from rekindle.publish.target import PointerStore, is_certainly_put
from rekindle.remedies import StartRemedy

ENTRIES = "entries/"
OWNERS = "owners/"
REPLAYS = "replays/"
# Where a stream has the results that its regions read from each other, below its own files.
RESULTS = "results"
REPLACED = "@"
# In place of a try, of which there was none.
BEGUN = "0-begun"
HEAD_LINES = 3
# Words of lines that only results have.
ROWS, BLOCKS, TOPIC, BYTES = "rows", "blocks", "topic", "bytes"
# Of records of a topic: between which offsets they are, and which attempts at their partitions count.
OF_RECORDS = ("from", "to", "tasks", BYTES)
ROUNDS_MAX = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchEntry:
    """A batch that counts: the directory of its files below the target, the length of each by its name, the digest of
    its offsets, and that of its rows, empty where none was made. `elsewhere` has its rows, where they are
    in no file: an application or a topic. `record_bytes` are those of the keys and values that a topic has of it."""

    directory: str
    files: dict[str, int]
    offsets: str = ""
    rows: str = ""
    elsewhere: str = ""
    record_bytes: int = 0

    @property
    def bytes(self) -> int:
        return sum(self.files.values()) + self.record_bytes

    @property
    def listed(self) -> list[BatchFile]:
        return [BatchFile(self.directory, name, length) for name, length in self.files.items()]


class CountedBatches(NamedTuple):
    """What counts of one generation of a region: its newest compaction, the last batch, and the files of all."""

    compaction: Compaction
    last: int
    files: list[BatchFile]


class StreamOwner(NamedTuple):
    """Who has a target: a region with the generation of its checkpoint, by its number among all that had it."""

    number: int
    region: str
    generation: str


def owner_of(store: PointerStore) -> StreamOwner | None:
    """The stream that has a target now; None if none ever had."""
    found = owners(store)
    return found[-1] if found else None


def owners(store: PointerStore) -> list[StreamOwner]:
    """All that had it, in their order."""
    numbers = sorted(int(name) for name in store.list_after(OWNERS) if name.isdecimal())
    bodies = ((number, (store.get(f"{OWNERS}{number}") or b"").decode()) for number in numbers)
    return [StreamOwner(number, *body.split("\t", 1)) for number, body in bodies if "\t" in body]


def take(
    store: PointerStore, region: str, generation: str, *, is_taken_over: bool, older: Collection[str] = ()
) -> StreamOwner:
    """Make the target that of this stream, if it is nobody's, if it is that of an `older` generation of this region, or
    if the user says so. Raises `Refused`."""
    for _ in range(ROUNDS_MAX):
        held = owner_of(store)
        if held is not None and (held.region, held.generation) == (region, generation):
            return held
        is_older = held is not None and held.region == region and held.generation in older
        if held is not None and not is_taken_over and not is_older:
            raise Refused(
                f"{held.region} of stream {held.generation} has this target; this stream would add to its rows",
                StartRemedy(to="add to them all the same", take_target=(region,)),
            )
        number = held.number + 1 if held is not None else 1
        store.put_if_absent(f"{OWNERS}{number}", f"{region}\t{generation}".encode())
    raise StoreFailed(f"the target of {region} could not be taken")


def generation_of(run: str, replaced: int) -> str:
    """What tells the entries of a checkpoint from those of every other one; `replaced` are those that its region had
    before. No name of a run has the character between them: a run may be called `daily.1`."""
    return f"{run}{REPLACED}{replaced}" if replaced else run


def run_of(generation: str) -> str:
    """The stream that a generation is of."""
    return generation.partition(REPLACED)[0]


def has_entry(store: PointerStore, region: str, generation: str, batch: int) -> bool:
    """Whether a batch counts."""
    if store.get(f"{entries_folder(region, generation)}{batch}") is not None:
        return True
    return newest_compaction(store, region, generation).through >= batch


def find_entry(store: PointerStore, region: str, generation: str, batch: int) -> BatchEntry | None:
    """What a batch consists of; None while it does not count. Raises `Refused` where its entry is damaged."""
    key = f"{entries_folder(region, generation)}{batch}"
    body = store.get(key)
    return None if body is None else entry_of(body, key)


class CountedEntry(NamedTuple):
    """What counts of a batch of a result: its entry, or the last one of those that were made again, by its number."""

    entry: BatchEntry
    number: int = 0


def counted_entry(store: PointerStore, region: str, generation: str, batch: int) -> CountedEntry | None:
    """What counts of a batch of a result; None while it does not."""
    number = replays(store, region, generation).get(batch, 0)
    key = replay_key(region, generation, batch, number) if number else f"{entries_folder(region, generation)}{batch}"
    body = store.get(key)
    return None if body is None else CountedEntry(entry_of(body, key), number)


def counted_entries(
    store: PointerStore, region: str, generation: str, batches: Sequence[int]
) -> Iterator[BatchEntry | None]:
    """What counts of each of these batches of a result, None for one that is gone."""
    again = replays(store, region, generation)
    for batch, entry in zip(batches, entries_of(store, region, generation, batches), strict=True):
        key = replay_key(region, generation, batch, again.get(batch, 0))
        body = store.get(key) if batch in again and entry is not None else None
        yield entry if body is None else entry_of(body, key)


def replays(store: PointerStore, region: str, generation: str) -> dict[int, int]:
    """The batches of a result that were made again, each with the number of the last time."""
    found: dict[int, int] = {}
    for name in store.list_after(replays_folder(region, generation)):
        batch, _, number = name.partition(".")
        if batch.isdecimal() and number.isdecimal():
            found[int(batch)] = max(found.get(int(batch), 0), int(number))
    return found


def replay_key(region: str, generation: str, batch: int, number: int) -> str:
    return f"{replays_folder(region, generation)}{batch}.{number}"


def replays_folder(region: str, generation: str) -> str:
    return f"{REPLAYS}{region}/{generation}/"


def entry_body(entry: BatchEntry, epoch: int) -> bytes:
    """As java/BatchRecord writes it."""
    lines = [f"epoch\t{epoch}", f"offsets\t{entry.offsets}", f"directory\t{entry.directory}"]
    lines += [f"{ROWS}\t{entry.rows}"] if entry.rows else []
    lines += [f"{name}\t{length}" for name, length in entry.files.items()]
    return "".join(f"{line}\n" for line in lines).encode()


def put_begun(store: PointerStore, region: str, generation: str, offsets: Sequence[bytes]) -> None:
    """The entries of the first batches of a checkpoint that goes on where another one stood: they have no rows."""
    for batch, body in enumerate(offsets):
        directory = f"{generation_folder(region, generation)}{batch}-{BEGUN}"
        entry = BatchEntry(directory=directory, files={}, offsets=hashlib.sha256(body).hexdigest())
        if not is_certainly_put(store, f"{entries_folder(region, generation)}{batch}", entry_body(entry, 0)):
            raise StoreFailed(f"the first batch of {region} was not certainly put")


def generation_folder(region: str, generation: str) -> str:
    """Where the directories of the tries of all batches are: `BATCH-EPOCH-UUID`."""
    return f"{DATA}{region}/{generation}/"


def data_folders(store: PointerStore) -> list[tuple[str, str]]:
    """The regions and generations that wrote files, whether any of them counts or not."""
    return [(region, one) for region in store.list_folders(DATA) for one in store.list_folders(f"{DATA}{region}/")]


def generations(store: PointerStore) -> list[tuple[str, str]]:
    """Who has entries in a target: regions, with the generations of their checkpoints, in the order in which they had
    it."""
    found = {
        (region, one)
        for folder in (ENTRIES, COMPACTIONS)
        for region in store.list_folders(folder)
        for one in store.list_folders(f"{folder}{region}/")
    }
    order = {(one.region, one.generation): one.number for one in owners(store)}
    return sorted(found, key=lambda one: (order.get(one, 0), one))


def batch_files(store: PointerStore) -> Iterator[BatchFile]:
    """The files that count, by region, generation and batch."""
    for region, generation in generations(store):
        yield from counted_batches(store, region, generation).files


def batches_after(store: PointerStore, region: str, generation: str, through: int) -> list[int]:
    """The batches after one that have entries, in their order."""
    names = store.list_after(entries_folder(region, generation))
    return sorted(batch for name in names if name.isdecimal() and (batch := int(name)) > through)


def entries_of(
    store: PointerStore, region: str, generation: str, batches: Sequence[int]
) -> Iterator[BatchEntry | None]:
    """Their entries, None for one that is gone. Raises `Refused` where one is damaged."""
    folder = entries_folder(region, generation)
    bodies = store.get_many(folder, [str(one) for one in batches])
    for batch, body in zip(batches, bodies, strict=True):
        yield None if body is None else entry_of(body, f"{folder}{batch}")


def entries_folder(region: str, generation: str) -> str:
    return f"{ENTRIES}{region}/{generation}/"


def counted_batches(store: PointerStore, region: str, generation: str) -> CountedBatches:
    """Of one moment. Entries may go while we look, once a newer compaction has their batches: then we look again."""
    for _ in range(ROUNDS_MAX):
        made = newest_compaction(store, region, generation)
        batches = batches_after(store, region, generation, made.through)
        entries = list(entries_of(store, region, generation, batches))
        found = [one for one in entries if one is not None]
        if len(found) == len(entries) and _newest_number(store, region, generation) == made.number:
            files = [*made.files, *(file for one in found for file in one.listed)]
            return CountedBatches(made, batches[-1] if batches else made.through, files)
    raise StoreFailed(f"the entries of {region} in {generation} cannot be read: they change all the time")


def _newest_number(store: PointerStore, region: str, generation: str) -> int:
    return max(compaction_numbers(store, region, generation), default=0)


def entry_of(body: bytes, key: str) -> BatchEntry:
    """The entry in an object. Raises `Refused` where it is damaged."""
    lines = body.decode(errors="replace").splitlines()
    rest = [line.partition("\t") for line in lines[HEAD_LINES:] if line]
    more = {word: value for word, _, value in rest if word in (ROWS, BLOCKS, TOPIC, *OF_RECORDS)}
    files = [one for one in rest if one[0] not in more]
    is_whole = len(lines) >= HEAD_LINES and lines[2].startswith(f"directory\t{DATA}")
    if not is_whole or not all(length.isdecimal() for _, _, length in files):
        raise Refused(f"{key} is damaged: it does not name the files of its batch", "restore it from a backup")
    lengths = {name: int(length) for name, _, length in files}
    directory, offsets = lines[2].partition("\t")[2], lines[1].partition("\t")[2]
    place = more.get(BLOCKS) or more.get(TOPIC, "")
    return BatchEntry(
        directory=directory,
        files=lengths,
        offsets=offsets,
        rows=more.get(ROWS, ""),
        elsewhere=place,
        record_bytes=int(more.get(BYTES, 0)),
    )
