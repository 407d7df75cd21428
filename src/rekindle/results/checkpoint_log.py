"""What Spark's logs in the checkpoint of a region say: which batches it planned and committed, and what each one reads.

Reading only, also beside a query that is writing. What cannot be read is left out: a log is Spark's, and another
release may write it in another way.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from rekindle.streams.planned_batch import PlannedBatch

COMMITS, OFFSETS, SOURCES = "commits/", "offsets/", "sources/"
# Of an entry of the log of offsets: the version of its format, and what Spark notes of the batch as a whole.
HEAD_LINES = 2
# The version of the format in which each position has the name of its stream before it.
NAMED = "v2"
FILES_MAX = 5
# So many entries of the log of a file source are looked at for one batch.
ENTRIES_MAX = 20
COMPACT = ".compact"


class LogStore(Protocol):
    """What reading a checkpoint needs of the storage."""

    def get(self, key: str) -> bytes | None: ...

    def list_after(self, folder: str, after: str = "") -> list[str]: ...


class _FileOffset(msgspec.Struct, frozen=True):
    at: int = msgspec.field(name="logOffset")


class _SeenFile(msgspec.Struct, frozen=True):
    path: str
    batch: int = msgspec.field(name="batchId")


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
        last, first = _file_offset(position), _file_offset(before.get(stream, ""))
        if last is not None:
            files += _files(store, f"{checkpoint}/{SOURCES}{stream}/", -1 if first is None else first, last)
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


def _file_offset(position: str) -> int | None:
    try:
        return msgspec.json.decode(position, type=_FileOffset).at
    except msgspec.MsgspecError:
        return None


def _files(store: LogStore, folder: str, after: int, last: int) -> list[str]:
    """Those of the entries behind `after`; every tenth entry has all files before it, too."""
    found = []
    for number in range(max(after + 1, last + 1 - ENTRIES_MAX), last + 1):
        body = store.get(f"{folder}{number}") or store.get(f"{folder}{number}{COMPACT}") or b""
        for line in body.splitlines()[1:]:
            try:
                seen = msgspec.json.decode(line, type=_SeenFile)
            except msgspec.MsgspecError:
                continue
            if seen.batch == number:
                found.append(seen.path)
    return found
