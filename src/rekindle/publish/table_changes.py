"""What happened to the rows of a table since a version of it was read, and whether a publication would undo it: pure.

Rules
- What was made by looking at a table is right for the rows that were looked at. If it replaces rows that came or went
  since, it undoes that: another run's publication, or what somebody deleted.
- A commit that moves rows to other files, and changes none, is no change. Nor is what the run itself published.
- A publication that replaces the rows with some values undoes nothing that happened to rows with others.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rekindle.master.facts.events import Fence
from rekindle.publish.pointers import VERSION, fence_in
from rekindle.publish.table_files import Has, TableFile, has_all, read_files

GONE = "gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedFile:
    """A file whose rows came or went with a commit: the commit in words, and the publication that it names, if any."""

    commit: str
    publication: str
    file: TableFile

    @property
    def run(self) -> tuple[str, Fence] | None:
        """The place and the fence of the run that committed it, None for somebody else."""
        match = VERSION.fullmatch(self.publication)
        return fence_in(match) if match is not None else None


def read_changes(lines: Sequence[str]) -> list[ChangedFile] | None:
    """As a format tells them: publication, commit and file, by tabs. None if the log does not go back so far."""
    if lines == [GONE]:
        return None
    split = [line.split("\t", 2) for line in lines]
    files = read_files(file for _, _, file in split)
    return [
        ChangedFile(commit=commit, publication=_publication(told), file=file)
        for (told, commit, _), file in zip(split, files, strict=True)
    ]


def undone(
    changes: Iterable[ChangedFile], place: str, order: int, wanted: Mapping[str, tuple[str, Any]]
) -> ChangedFile | None:
    """A change that is undone by what this run publishes over the rows that have these values, over all if none is
    named."""
    for one in changes:
        run = one.run
        is_own = run is not None and (run[0], run[1].order) == (place, order)
        if not is_own and has_all(one.file, wanted) is not Has.NONE:
            return one
    return None


def _publication(told: str) -> str:
    """Delta has one text of the writer for all that it tells, and others tell something else in it."""
    try:
        found = json.loads(told)["rekindle"]["publication"] if told.startswith("{") else told
    except (ValueError, KeyError, TypeError):
        return ""
    return str(found)
