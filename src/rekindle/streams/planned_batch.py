"""A batch as a checkpoint has it before it is committed: what it reads. Nothing of it is a fact of ours."""

from __future__ import annotations

import msgspec


class PlannedBatch(msgspec.Struct, frozen=True, kw_only=True):
    """A batch of which the checkpoint has the positions: those that its `streams`, by number or name, had `before` it,
    and those that it reads up to, in the words of each stream. `files` are the first of `file_count`, where its streams
    are files."""

    number: int
    streams: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    upto: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    file_count: int = 0
