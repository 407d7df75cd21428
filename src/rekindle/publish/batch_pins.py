"""Pins of batches: who reads the result of a step of a stream as a batch keeps its batches there, for a while.

`pins/REGION/GENERATION/AFTER.UNTIL.ID`, below the result, says that the batches after one are read until a time, in
seconds. A reader that dies leaves nothing behind for ever, and one that is done leaves its pin to its time: a run that
reads may be resumed. What a pin says stands in its name, so that a listing is enough.
"""

from __future__ import annotations

import re
import uuid
from typing import NamedTuple

from rekindle.errors import StoreFailed
from rekindle.publish.target import PointerStore, is_certainly_put

PINS = "pins/"
NAME = re.compile(r"(-?\d+)\.(\d+)\.\w+$")


class BatchPin(NamedTuple):
    """The batches after one, until a time."""

    after: int
    until: float


def pins_folder(region: str, generation: str) -> str:
    return f"{PINS}{region}/{generation}/"


def put_pin(store: PointerStore, region: str, generation: str, pin: BatchPin) -> None:
    """It is there when this returns."""
    name = f"{pin.after}.{round(pin.until)}.{uuid.uuid4().hex[:16]}"
    if not is_certainly_put(store, f"{pins_folder(region, generation)}{name}", b"read as a batch\n"):
        raise StoreFailed(f"batches of the result of {region} were not certainly pinned")


def pin_of(name: str) -> BatchPin | None:
    """None where this is not the name of a pin."""
    told = NAME.match(name)
    return None if told is None else BatchPin(int(told.group(1)), float(told.group(2)))
