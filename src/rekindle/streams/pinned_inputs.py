"""Batch inputs of a stream, as they were pinned: what every region that reads them goes on to read.

Rules
- A pin belongs to the step that reads the input, so that all regions read the same.
- It is made at the first start. After that only the user changes it, by name: no restart and no new driver does.
- A batch that was planned before a newer input was taken reads the earlier one, if that is still there: it may have
  been computed already.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class EarlierInput(msgspec.Struct, frozen=True):
    """What batches up to `batch` of one region read: the list with this digest."""

    batch: int
    digest: str


class PinnedInput(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The batch input of one step. `digest` is that of the list of its `files`, which lies beside the checkpoints of
    the stream; empty where nothing can be pinned. `place` is where they were found, in words; `loose` is what is read
    anew at each start; `earlier` is by region."""

    digest: str = ""
    files: int = 0
    bytes: int = 0
    place: str = ""
    loose: tuple[str, ...] = ()
    earlier: dict[str, EarlierInput] = {}

    def list_of(self, region: str, batch: int) -> str:
        """The digest of the list that a batch of a region reads."""
        held = self.earlier.get(region)
        return held.digest if held is not None and batch <= held.batch else self.digest


class InputLook(msgspec.Struct, frozen=True, kw_only=True):
    """A batch input at one start. `pin` is what is read from now on; `was` is what the journal has, None before the
    first start. `changed` says what is not as it was pinned, a line each; `newer` is what there is beside it. With
    `is_taken` the user takes what there is. `told` are sentences for the plan."""

    step: str
    pin: PinnedInput
    was: PinnedInput | None = None
    changed: tuple[str, ...] = ()
    newer: PinnedInput | None = None
    is_taken: bool = False
    told: tuple[str, ...] = ()


def earlier_left(pin: PinnedInput, committed: Mapping[str, int]) -> dict[str, EarlierInput]:
    """What batches that are not committed yet still need; `committed` are the last ones of each region."""
    return {name: one for name, one in pin.earlier.items() if one.batch > committed.get(name, -1)}


def earlier_of(pin: PinnedInput, region: str, planned: int) -> EarlierInput:
    """What a planned batch of a region goes on to read when a newer input takes the place of this pin."""
    return EarlierInput(planned, pin.list_of(region, planned))
