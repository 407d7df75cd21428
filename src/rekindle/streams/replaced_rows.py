"""Whether rows that were made again may take the place of a batch of a result. Values in, values out.

Rules
- Equal rows may: nobody can tell them from the first ones.
- Other rows may only where no reader has read the first ones, and none may be reading them now: every reader sees one
  version of a batch.
- What a reader did with a batch is unknown where its target does not say what it has: unknown counts as read.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class ReaderPlace(Enum):
    """Where a reader is, as seen from one batch of a result that it reads."""

    BEFORE = "has not read it"
    MAY_READ = "may be reading it"
    BEYOND = "has read it"


def refused_replacement(batch: int, region: str, readers: Mapping[str, ReaderPlace], *, is_equal: bool) -> str:
    """Why rows made again may not take the place of a batch; empty if they may."""
    if is_equal:
        return ""
    for name, place in readers.items():
        if place is not ReaderPlace.BEFORE:
            return f"batch {batch} of {region} was made again with other rows, and {name} {place.value}"
    return ""
