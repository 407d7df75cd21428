"""`current` of a stream's target on a disk, for readers that know no entries (java/StreamView has its rules).

A view is a folder in `views` with a hard link to each file that counts; `current` is a link to one of them. A
compaction gets a new view, whose name nobody used before: REGION-GENERATION-NUMBER and some letters. Nobody reads it
before it is complete and `current` leads to it. The time of `NAME.shown` beside it is when it took the place of the one
before.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from rekindle.publish.stream_compactions import DATA, BatchFile
from rekindle.storage.schemes import plain_path

CURRENT = "current"
VIEWS = "views/"
SHOWN = ".shown"
COMPACTED = "compacted"


def is_shown(base: str, region: str, generation: str, number: int) -> bool:
    """Whether `current` leads to a view of this compaction."""
    return shown_view(base).rpartition("-")[0] == _name(region, generation, number)


def new_view(base: str, region: str, generation: str, number: int) -> str:
    """An empty one. It is young from before its first link on: gc removes no view that is."""
    name = f"{_name(region, generation, number)}-{secrets.token_hex(8)}"
    view = root_of(base) / VIEWS / name
    view.mkdir(parents=True)
    view.with_name(name + SHOWN).touch()
    return name


def shown_view(base: str) -> str:
    """The name of the view that `current` leads to; empty where it is no link."""
    link = root_of(base) / CURRENT
    return link.readlink().name if link.is_symlink() else ""


def link_all(base: str, view: str, files: Iterable[BatchFile]) -> None:
    """What is linked already stays as it is."""
    root = root_of(base)
    for one in files:
        with contextlib.suppress(FileExistsError):
            os.link(root / one.directory / one.name, root / VIEWS / view / link_name(one))


def link_name(file: BatchFile) -> str:
    """As java/StreamView calls it: a file of a batch by the number of that, others by their directory."""
    region, generation, made = file.directory.removeprefix(DATA).rsplit("/", 2)
    label = made if made.startswith(COMPACTED) else made.partition("-")[0]
    return f"{region}-{generation}-{label}-{file.name}"


def root_of(base: str) -> Path:
    return Path(f"/{plain_path(base).strip('/')}")


def _name(region: str, generation: str, number: int) -> str:
    return f"{region}-{generation}-{number:010d}"
