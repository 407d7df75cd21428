"""Pins: a record beside the runs of a pipeline, by which a run is kept for ever.

`<pipeline>/_pins/<run>` says who pinned it, when and why. gc looks for it once more in the moment in which it takes a
run; whoever pins looks at the journal after the pin is there, and is told if it came too late.
"""

from __future__ import annotations

import msgspec

from rekindle.errors import AppendUnknown
from rekindle.journal.store import Put, Store

TRIES = 5


class Pin(msgspec.Struct, frozen=True):
    """Who keeps a run, since when, and why."""

    by: str
    at_ms: int
    why: str = ""

    def __str__(self) -> str:
        return f"pinned by {self.by}{f': {self.why}' if self.why else ''}"


def find_pin(store: Store, pipeline: str, run: str) -> Pin | None:
    data = store.get(_key(pipeline, run))
    return None if data is None else _decode(data)


def all_pins(store: Store, pipeline: str) -> dict[str, Pin]:
    """Run to its pin."""
    names = store.list_after(_folder(pipeline))
    bodies = zip(names, store.get_many(_folder(pipeline), names), strict=True)
    return {name: _decode(data) for name, data in bodies if data is not None}


def put_pin(store: Store, pipeline: str, run: str, pin: Pin) -> Pin:
    """The pin that stands there now: the first one stays."""
    for _ in range(TRIES):
        answer = store.put_if_absent(_key(pipeline, run), msgspec.json.encode(pin))
        if answer is Put.CREATED:
            return pin
        found = find_pin(store, pipeline, run)
        if answer is Put.EXISTS and found is not None:
            return found
    raise AppendUnknown(f"{store.name} gave no certain answer for the pin of run {run}", "try again")


def remove_pin(store: Store, pipeline: str, run: str) -> None:
    store.delete(_key(pipeline, run))


def _folder(pipeline: str) -> str:
    return f"{pipeline}/_pins/"


def _key(pipeline: str, run: str) -> str:
    return _folder(pipeline) + run


def _decode(data: bytes) -> Pin:
    """A pin that cannot be read is a pin: somebody meant the run to stay."""
    try:
        return msgspec.json.decode(data, type=Pin)
    except msgspec.MsgspecError:
        return Pin("somebody", 0, "the pin cannot be read")
