"""Which file holds which partition of an attempt: small enough for one journal record to name a million of them.

A file's name follows from the attempt directory, the Spark task index, the task attempt and the bucket, so a
manifest keeps those numbers as columns, and the schema once. An empty partition has no file and a length of -1.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator

import msgspec

from rekindle.model.partitions import Partitions

LABEL = "_attempt"
DATA = re.compile(r"part-(\d+)-(\d+)_(\d+)(\.[^/]*)$")
MARKER = re.compile(r"_committed/(\d+)-(\d+)-(\d+)-(\d+)$")


class Commit(msgspec.Struct, frozen=True):
    """One committed partition: the Spark task that wrote it and its file, if it has rows."""

    partition: int
    index: int
    task: int
    name: str
    bytes: int


class Label(msgspec.Struct, frozen=True):
    """What stands in an attempt directory before its Spark job starts, so that a later driver can read the rest: which
    partitions were asked for (Spark task i wrote the i-th of them) and the schema of the result."""

    partitions: str
    schema: str


class _Columns(msgspec.Struct, frozen=True, array_like=True):
    partitions: list[int]
    indices: list[int]
    tasks: list[int]
    bytes: list[int]
    ending: str
    schema: str


def pack(commits: Iterable[Commit], schema: str) -> bytes:
    rows = sorted(commits, key=lambda commit: commit.partition)
    endings = {match.group(4) for commit in rows if (match := DATA.search(commit.name))}
    assert len(endings) <= 1, f"files of one attempt end alike, found {endings}"
    columns = _Columns(
        [row.partition for row in rows],
        [row.index for row in rows],
        [row.task for row in rows],
        [row.bytes for row in rows],
        endings.pop() if endings else "",
        schema,
    )
    return zlib.compress(msgspec.json.encode(columns), 1)


def schema_of(packed: bytes) -> str:
    """The schema of the result as Spark's JSON, so that a consumer can be planned without its producer's code."""
    return _columns(packed).schema


def _columns(packed: bytes) -> _Columns:
    return msgspec.json.decode(zlib.decompress(packed), type=_Columns)


def unpack(packed: bytes) -> list[Commit]:
    columns = _columns(packed)
    rows = zip(columns.partitions, columns.indices, columns.tasks, columns.bytes, strict=True)
    return [
        Commit(partition, index, task, _name(partition, index, task, length, columns.ending), length)
        for partition, index, task, length in rows
    ]


def _name(partition: int, index: int, task: int, length: int, ending: str) -> str:
    return "" if length < 0 else f"part-{index:05d}-{task}_{partition:05d}{ending}"


def from_driver(lines: str, asked: Partitions) -> list[Commit]:
    """What the commit protocol reported: index, task attempt, then name and length of at most one file."""
    numbers = list(asked)
    found = []
    for line in lines.splitlines():
        index, task, *files = line.split("\t")
        found.append(_commit(numbers, int(index), int(task), files[0] if files else "", files[1::2]))
    return found


def from_listing(lines: str, asked: Partitions) -> list[Commit]:
    """What a listing of the attempt directory proves: a marker, and the one file it speaks of at its full length.

    Of two Spark task attempts that both committed a partition the lower one counts; nobody has read either.
    """
    numbers = list(asked)
    data: dict[tuple[int, int], tuple[str, int]] = {}
    markers = []
    for path, length in _listed(lines):
        if match := DATA.fullmatch(path):
            data[int(match.group(1)), int(match.group(2))] = (path, length)
        elif match := MARKER.fullmatch(path):
            markers.append(tuple(int(group) for group in match.groups()))
    found: dict[int, Commit] = {}
    for index, task, count, size in sorted(markers):
        name, length = data.get((index, task), ("", 0)) if count else ("", 0)
        if index in found or count > 1 or length != size or bool(count) != bool(name):
            continue
        found[index] = _commit(numbers, index, task, name, [str(length)] if count else [])
    return list(found.values())


def _listed(lines: str) -> Iterator[tuple[str, int]]:
    for line in lines.splitlines():
        path, length = line.rsplit("\t", 1)
        yield path, int(length)


def _commit(numbers: list[int], index: int, task: int, name: str, lengths: list[str]) -> Commit:
    assert len(lengths) <= 1, f"one file per partition, found {len(lengths)} for {name}"
    partition = numbers[index]
    match = DATA.search(name)
    assert match is None or int(match.group(3)) == partition, f"{name} is not partition {partition}"
    return Commit(partition, index, task, name, int(lengths[0]) if lengths else -1)
