"""Compactions of a stream's target: few files that stand for the files of many batches.

`compactions/REGION/GENERATION/NUMBER`, put if absent, says of all batches up to one which files have their rows. The
highest number counts, and it counts alone: it names also what earlier ones made and what it leaves as it is. So a
reader sees the files of before or those of after, never both and never neither; of two compactors that began with the
same number one puts the next; and one that wakes up late, after gc removed the number that it has, puts what nobody
reads.

It has lines. `range FIRST LAST DIRECTORY` begins the files of some batches, in whose directory `_offsets` has a line
for each batch: the digest of its offsets, as its entry had it. `DIRECTORY NAME BYTES` is a file. The last line is
`end`. Ranges follow each other from batch 0 on. Entries of batches that a compaction has are not read any more, also
where one is put again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from rekindle.errors import Refused, StoreFailed
from rekindle.publish.target import PUT_TRIES_MAX, PointerStore

COMPACTIONS = "compactions/"
DATA = "data/"
OFFSETS = "_offsets"
RANGE, END = "range", "end"
FIELDS = 4
ROUNDS_MAX = 20


class BatchFile(NamedTuple):
    """A file of a batch, or of many: its directory below the target, its name there, its length."""

    directory: str
    name: str
    bytes: int


class CompactedRange(NamedTuple):
    """Batches in a row, and the files that have their rows. `_offsets` of them lies in `directory`."""

    first: int
    last: int
    directory: str
    files: tuple[BatchFile, ...]

    @property
    def batches(self) -> int:
        return self.last - self.first + 1


class Compaction(NamedTuple):
    """All batches up to one. Number 0 is what was before the first: it has none."""

    number: int
    ranges: tuple[CompactedRange, ...]

    @property
    def through(self) -> int:
        """The last batch that it has, -1 for none."""
        return self.ranges[-1].last if self.ranges else -1

    @property
    def files(self) -> list[BatchFile]:
        return [one for span in self.ranges for one in span.files]


NONE = Compaction(0, ())


def compactions_folder(region: str, generation: str) -> str:
    return f"{COMPACTIONS}{region}/{generation}/"


def compaction_numbers(store: PointerStore, region: str, generation: str) -> list[int]:
    """Those that are there, in their order."""
    names = store.list_after(compactions_folder(region, generation))
    return sorted(int(name) for name in names if name.isdecimal())


def find_compaction(store: PointerStore, region: str, generation: str, number: int) -> Compaction | None:
    """None where it is not there. Raises `Refused` where it is damaged."""
    key = _key(region, generation, number)
    body = store.get(key)
    return None if body is None else Compaction(number, _ranges(body, key))


def newest_compaction(store: PointerStore, region: str, generation: str) -> Compaction:
    """The one that counts. One that gc removes while we look is not the newest any more."""
    for _ in range(ROUNDS_MAX):
        numbers = compaction_numbers(store, region, generation)
        if not numbers:
            return NONE
        found = find_compaction(store, region, generation, numbers[-1])
        if found is not None:
            return found
    raise StoreFailed(f"the compactions of {region} cannot be read: each is gone when it is read")


def is_counted(store: PointerStore, region: str, generation: str, made: Compaction) -> bool:
    """Put a compaction; whether it is the one that counts now. Its directory has a name of its own: whatever has the
    same bytes is ours."""
    key, body = _key(region, generation, made.number), _body(made.ranges)
    for _ in range(PUT_TRIES_MAX):
        store.put_if_absent(key, body)
        found = store.get(key)
        if found is not None:
            return found == body and compaction_numbers(store, region, generation)[-1] == made.number
    raise StoreFailed(f"compaction {made.number} of {region} was not certainly put")


def _key(region: str, generation: str, number: int) -> str:
    return f"{compactions_folder(region, generation)}{number:010d}"


def _body(ranges: Iterable[CompactedRange]) -> bytes:
    lines = []
    for span in ranges:
        lines.append(f"{RANGE}\t{span.first}\t{span.last}\t{span.directory}")
        lines += [f"{one.directory}\t{one.name}\t{one.bytes}" for one in span.files]
    return "\n".join([*lines, END, ""]).encode()


def _ranges(body: bytes, key: str) -> tuple[CompactedRange, ...]:
    *lines, end = body.decode(errors="replace").splitlines() or [""]
    ranges: list[CompactedRange] = []
    files: list[list[BatchFile]] = []
    try:
        for fields in (line.split("\t") for line in lines):
            if fields[0] == RANGE and len(fields) == FIELDS:
                ranges.append(CompactedRange(int(fields[1]), int(fields[2]), fields[3], ()))
                files.append([])
            else:
                directory, name, length = fields
                files[-1].append(BatchFile(directory, name, int(length)))
        follow = [0, *(span.last + 1 for span in ranges)]
        is_whole = end == END and bool(ranges) and [span.first for span in ranges] == follow[:-1]
    except (ValueError, IndexError):
        is_whole = False
    if not is_whole:
        raise Refused(f"{key} is damaged: it does not name the files of its batches", "restore it from a backup")
    return tuple(span._replace(files=tuple(some)) for span, some in zip(ranges, files, strict=True))
