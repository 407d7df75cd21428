"""The entries of streams in a target: one object for each batch that counts (java/StreamFiles puts them).

`entries/REGION/GENERATION/BATCH` has lines: the number of the query that put it, the digest of the batch's offsets, the
directory of its files, then name and length of each file. What no entry names does not count.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rekindle.errors import Refused
from rekindle.publish.target import PointerStore

ENTRIES = "entries/"
HEAD_LINES = 3


class BatchFile(NamedTuple):
    """A file of a batch: its directory below the target, its name there, its length."""

    directory: str
    name: str
    bytes: int


def generations(store: PointerStore) -> list[tuple[str, str]]:
    """Who has entries in a target: regions, with the generations of their checkpoints."""
    regions = store.list_folders(ENTRIES)
    return [(region, one) for region in regions for one in store.list_folders(f"{ENTRIES}{region}/")]


def batch_files(store: PointerStore) -> Iterator[BatchFile]:
    """The files that count, by region, generation and batch."""
    for region, generation in generations(store):
        folder = f"{ENTRIES}{region}/{generation}/"
        for batch in sorted((name for name in store.list_after(folder) if name.isdecimal()), key=int):
            yield from _files(store.get(f"{folder}{batch}"), f"{folder}{batch}")


def _files(body: bytes | None, key: str) -> Iterator[BatchFile]:
    lines = (body or b"").decode().splitlines()
    if len(lines) < HEAD_LINES or not lines[2].startswith("directory\t"):
        raise Refused(f"{key} is damaged: it does not name the files of its batch", "restore it from a backup")
    directory = lines[2].partition("\t")[2]
    for line in lines[HEAD_LINES:]:
        if line:
            name, _, length = line.partition("\t")
            yield BatchFile(directory, name, int(length))
