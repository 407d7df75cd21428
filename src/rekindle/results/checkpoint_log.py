"""What Spark's logs in the checkpoint of a region say: which batches it planned and committed, and what each one reads.

Reading only, also beside a query that is writing. What cannot be read is left out: a log is Spark's, and another
release may write it in another way.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Protocol

import msgspec

from rekindle.errors import Refused
from rekindle.streams.planned_batch import PlannedBatch
from rekindle.streams.shard_splits import FrozenRegion

COMMITS, OFFSETS, SOURCES = "commits/", "offsets/", "sources/"
# Of an entry of the log of offsets: the version of its format, and what Spark notes of the batch as a whole.
HEAD_LINES = 2
# The version of the format in which each position has the name of its stream before it.
NAMED = "v2"
FILES_MAX = 5
# So many entries of the log of a file source are looked at for one batch.
ENTRIES_MAX = 20
COMPACT = ".compact"
# So many batches tell how long the next ones take.
LATELY = 10


class LogStore(Protocol):
    """What reading a checkpoint needs of the storage."""

    def get(self, key: str) -> bytes | None: ...

    def list_after(self, folder: str, after: str = "") -> list[str]: ...


class LogEntry(Protocol):
    """An entry with its name and the time at which it was written."""

    @property
    def name(self) -> str: ...

    @property
    def modified(self) -> float: ...


class LogEntryStore(Protocol):
    """What it needs of the storage to know when entries were written."""

    def walk(self, folder: str) -> Iterator[Sequence[LogEntry]]: ...


class _FileOffset(msgspec.Struct, frozen=True):
    at: int = msgspec.field(name="logOffset")


class ResultPosition(msgspec.Struct, frozen=True):
    """The last batch of the result of a region that was read, as java/StreamSegments writes it."""

    entry: int
    result: str


class ListedFile(msgspec.Struct, frozen=True):
    """A file that a source has listed, with its path as a URI has it."""

    path: str
    modified_ms: int = msgspec.field(name="timestamp")
    at: int = msgspec.field(name="batchId")


def checkpoint_folder(region: str, replaced: int = 0) -> str:
    """Where the checkpoint of a region lies in the directory of its stream; `replaced` are those that it had before."""
    return f"checkpoints.{replaced}/{region}" if replaced else f"checkpoints/{region}"


def last_commit(store: LogStore, checkpoint: str = "") -> int:
    """The last batch that a checkpoint has committed, -1 for none. Without a folder the store is that of the
    checkpoint."""
    return _last(store, f"{checkpoint}/{COMMITS}".lstrip("/"))


def last_planned(store: LogStore, checkpoint: str) -> int:
    """The last batch of which a checkpoint says what it reads, -1 for none. It may not be committed."""
    return _last(store, f"{checkpoint}/{OFFSETS}")


def frozen_region(store: LogStore, checkpoint: str) -> FrozenRegion:
    """Where a checkpoint stands, to which nothing is added any more."""
    committed = last_commit(store, checkpoint)
    told = map(result_position, (positions(store, checkpoint, committed) or {}).values())
    read = {one.result: one.entry for one in told if one is not None}
    return FrozenRegion(last_planned(store, checkpoint), committed, read)


def _last(store: LogStore, folder: str) -> int:
    return max((int(name) for name in store.list_after(folder) if name.isdecimal()), default=-1)


def planned(store: LogStore, checkpoint: str, number: int) -> PlannedBatch | None:
    """A batch with what it reads; None where the checkpoint has no such batch."""
    upto = positions(store, checkpoint, number)
    if upto is None:
        return None
    before = (positions(store, checkpoint, number - 1) if number else None) or {}
    files: list[str] = []
    for stream, position in upto.items():
        last, first = file_position(position), file_position(before.get(stream, ""))
        if last is not None:
            files += _known_files(store, f"{checkpoint}/{SOURCES}{stream}", -1 if first is None else first, last)
    return PlannedBatch(
        number=number,
        streams=tuple(upto),
        before=tuple(before.get(stream, "") for stream in upto),
        upto=tuple(upto.values()),
        files=tuple(files[:FILES_MAX]),
        file_count=len(files),
    )


def positions(store: LogStore, checkpoint: str, number: int) -> dict[str, str] | None:
    """Up to where a batch reads each stream, by its number, or by its name where all have one; None where the
    checkpoint has no such batch."""
    body = store.get(f"{checkpoint}/{OFFSETS}{number}")
    if body is None:
        return None
    lines = body.decode(errors="replace").splitlines()
    told = lines[HEAD_LINES:]
    if lines[:1] != [NAMED]:
        return {str(stream): position for stream, position in enumerate(told)}
    named = (line.partition(":") for line in told)
    return {stream: position for stream, _, position in named}


def result_position(position: str) -> ResultPosition | None:
    """None for a position in something else."""
    try:
        return msgspec.json.decode(position, type=ResultPosition)
    except msgspec.MsgspecError:
        return None


def file_position(position: str) -> int | None:
    """Up to where a batch reads the log of a source of files; None for a position in something else."""
    try:
        return msgspec.json.decode(position, type=_FileOffset).at
    except msgspec.MsgspecError:
        return None


def listed_files(store: LogStore, log: str, after: int, last: int) -> Iterator[ListedFile]:
    """The files that a source has listed between two positions, by its log. Every tenth object has those of all
    before it, which go. Raises `Refused` for a position that the log no longer tells of."""
    names = frozenset(store.list_after(f"{log}/"))
    compacted = sorted(int(name.removesuffix(COMPACT)) for name in names if name.endswith(COMPACT))
    wanted: dict[str, set[int]] = defaultdict(set)
    for number in range(after + 1, last + 1):
        name = str(number)
        if name not in names:
            found = next((one for one in compacted if one >= number), None)
            if found is None:
                raise Refused(f"{log} lacks position {number}", "name a later batch: --batch")
            name = f"{found}{COMPACT}"
        wanted[name].add(number)
    for name, numbers in wanted.items():
        for line in (store.get(f"{log}/{name}") or b"").splitlines()[1:]:
            listed = msgspec.json.decode(line, type=ListedFile)
            if listed.at in numbers:
                yield listed


def _known_files(store: LogStore, log: str, after: int, last: int) -> list[str]:
    """Those of the newest entries, as far as they can be read."""
    found: list[str] = []
    with suppress(Refused, msgspec.MsgspecError):
        found.extend(one.path for one in listed_files(store, log, max(after, last - ENTRIES_MAX), last))
    return found


def batch_ms(store: LogEntryStore, checkpoint: str) -> int | None:
    """How long a batch took lately, from its plan to its commit, by the times at which the store has them: the median
    of the newest ones. None where there are none."""
    times = [
        {
            int(one.name): one.modified
            for page in store.walk(f"{checkpoint}/{kind}")
            for one in page
            if one.name.isdecimal()
        }
        for kind in (OFFSETS, COMMITS)
    ]
    both = sorted(times[0].keys() & times[1].keys())[-LATELY:]
    took = sorted(times[1][one] - times[0][one] for one in both)
    return round(took[len(took) // 2] * 1000) if took else None
