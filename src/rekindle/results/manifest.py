"""Which file holds which partition of an attempt: small enough for one journal record to name a million of them.

A file's name follows from the partition and the Spark task attempt, so a manifest keeps those numbers as columns, and
the schema once. An empty partition has no file and a length of -1.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator

import msgspec

from rekindle.errors import JournalRefused
from rekindle.master.state.run_state import Segment
from rekindle.model.partitions import Partitions

LABEL = "_attempt"
DATA = re.compile(r"part-(\d+)_(\d+)(\.[^/]*)$")
BLOCK = re.compile(r"\.rdd\d+$")
# The rows are not told by the markers of earlier releases.
MARKER = re.compile(r"_committed/(\d+)-(\d+)-(\d+)-(\d+)(?:r(\d+))?(?:-([0-9a-f]+))?$")
VIOLATED = "_violated"


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """One committed partition: the Spark task that wrote it and its file, if it has rows. The digest is hexadecimal,
    empty where none was made; it is no part of a manifest, because the journal has a field for it. Nor is the number of
    rows, which the laws are about while the Spark job runs: -1 if it is not told."""

    partition: int
    task: int
    name: str
    bytes: int
    digest: str = ""
    rows: int = -1

    @property
    def has_rows(self) -> bool:
        """And so a file."""
        return self.bytes >= 0


class Label(msgspec.Struct, frozen=True):
    """What stands in an attempt directory before its Spark job starts, so that it can be understood without the code
    that made it: which partitions were asked for, and the schema of the result."""

    partitions: str
    schema: str


class _Columns(msgspec.Struct, frozen=True, array_like=True):
    partitions: list[int]
    tasks: list[int]
    bytes: list[int]
    ending: str
    schema: str


def number_of(path: str) -> int:
    """The partition that a data file holds."""
    match = DATA.search(path)
    assert match is not None, f"not a file of a kept result: {path}"
    return int(match.group(2))


def pack(commits: Iterable[Commit], schema: str) -> bytes:
    rows = sorted(commits, key=lambda commit: commit.partition)
    endings = {match.group(3) for commit in rows if (match := DATA.search(commit.name))}
    assert len(endings) <= 1, f"files of one attempt end alike, found {endings}"
    columns = _Columns(
        [row.partition for row in rows],
        [row.task for row in rows],
        [row.bytes for row in rows],
        endings.pop() if endings else "",
        schema,
    )
    return zlib.compress(msgspec.json.encode(columns), 1)


def digests(commits: Iterable[Commit], nothing: str) -> bytes | None:
    """The digests of these partitions as the journal has them, in order of partition: None unless all are known. The
    digest of a partition without a file is that of `nothing`."""
    rows = sorted(commits, key=lambda commit: commit.partition)
    found = [commit.digest or ("" if commit.has_rows else nothing) for commit in rows]
    return bytes.fromhex("".join(found)) if found and all(found) else None


def joined(segments: Iterable[Segment]) -> tuple[bytes, bytes | None, int] | None:
    """All that counts of a result as if one attempt had written it: its manifest, its digests (None unless all are
    known) and its bytes. None where files of one attempt could not be called like that."""
    parts = [(segment, counted(segment.manifest, segment.partitions)) for segment in segments]
    rows = [(commit, segment.digests) for segment, some in parts for commit in some]
    rows.sort(key=lambda row: row[0].partition)
    commits = [commit for commit, _ in rows]
    endings = {match.group(3) for commit in commits if (match := DATA.search(commit.name))}
    if len(endings) > 1 or not commits:
        return None
    told = [its.digest(commit.partition) for commit, its in rows]
    known = [one for one in told if one is not None]
    packed = b"".join(known) if len(known) == len(told) else None
    return pack(commits, schema_of(parts[0][0].manifest)), packed, size_of(commits)


def size_of(commits: Iterable[Commit]) -> int:
    """The bytes of the files of these partitions."""
    return sum(commit.bytes for commit in commits if commit.bytes > 0)


def rows_of(commits: Iterable[Commit]) -> int | None:
    """How many rows these partitions have; None unless it was told of each."""
    told = [commit.rows if commit.has_rows else 0 for commit in commits]
    return sum(told) if all(rows >= 0 for rows in told) else None


def schema_of(packed: bytes) -> str:
    """The schema of the result as Spark's JSON, so that a consumer can be planned without its producer's code."""
    return _columns(packed).schema


def is_in_blocks(packed: bytes) -> bool:
    """Are these the names of blocks on executors, and not of files?"""
    return is_block(_columns(packed).ending) if packed else False


def is_block(name: str) -> bool:
    return BLOCK.search(name) is not None


def _columns(packed: bytes) -> _Columns:
    return msgspec.json.decode(zlib.decompress(packed), type=_Columns)


def bytes_of(packed: bytes, partitions: Partitions) -> int | None:
    """The bytes of the files of these partitions; None where this is no manifest of ours."""
    try:
        columns = _columns(packed)
    except (zlib.error, msgspec.MsgspecError):
        return None
    if len(partitions) == len(columns.partitions):
        return sum(length for length in columns.bytes if length > 0)
    rows = zip(columns.partitions, columns.bytes, strict=True)
    return sum(length for number, length in rows if length > 0 and number in partitions)


def unpack(packed: bytes) -> list[Commit]:
    """The files that a manifest names. All of them lie in the directory of their attempt."""
    columns = _columns(packed)
    if "/" in columns.ending:
        raise JournalRefused(f"a manifest names files that end in {columns.ending!r}: they would lie elsewhere")
    return [
        Commit(
            partition=partition,
            task=task,
            name="" if length < 0 else f"part-{task}_{partition:05d}{columns.ending}",
            bytes=length,
        )
        for partition, task, length in zip(columns.partitions, columns.tasks, columns.bytes, strict=True)
    ]


def counted(packed: bytes, partitions: Partitions) -> list[Commit]:
    """Of the commits of a manifest those that count: of `partitions`."""
    return [commit for commit in unpack(packed) if commit.partition in partitions]


def with_rows(packed: bytes, partitions: Partitions) -> list[Commit]:
    """Those that count and have rows."""
    return [commit for commit in counted(packed, partitions) if commit.has_rows]


def from_driver(lines: str) -> list[Commit]:
    """What the commit protocol reported: partition, task attempt, rows, then name and length of at most one file, and
    its digest if one was made."""
    found = []
    for line in lines.splitlines():
        partition, task, rows, *files = line.split("\t")
        assert len(files) <= 3, f"one file per partition, found {files}"
        name, length, digest = (*files, "")[:3] if files else ("", "-1", "")
        found.append(
            Commit(
                partition=int(partition), task=int(task), name=name, bytes=int(length), digest=digest, rows=int(rows)
            )
        )
    return found


def from_listing(lines: str) -> list[Commit]:
    """What a listing of the attempt directory proves: a marker, and the one file it speaks of at its full length. It
    proves nothing if a task found rows where they must not be, or not all of them.

    Of two Spark task attempts that both committed a partition the lower one counts; nobody has read either.
    """
    data: dict[tuple[int, int], tuple[str, int]] = {}
    markers: list[tuple[int, int, int, int, int, str]] = []
    for path, length in _listed(lines):
        if match := DATA.fullmatch(path):
            data[int(match.group(2)), int(match.group(1))] = (path, length)
        elif path == VIOLATED:
            return []
        elif match := MARKER.fullmatch(path):
            partition, task, count, size = map(int, match.groups()[:4])
            markers.append((partition, task, count, size, int(match.group(5) or -1), match.group(6) or ""))
    found: dict[int, Commit] = {}
    for partition, task, count, size, rows, digest in sorted(markers):
        name, length = data.get((partition, task), ("", -1)) if count else ("", -1)
        if partition in found or count > 1 or (count == 1 and length != size):
            continue
        found[partition] = Commit(partition=partition, task=task, name=name, bytes=length, digest=digest, rows=rows)
    return list(found.values())


def _listed(lines: str) -> Iterator[tuple[str, int]]:
    for line in lines.splitlines():
        path, length = line.rsplit("\t", 1)
        yield path, int(length)
