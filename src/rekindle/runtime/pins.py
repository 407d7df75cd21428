"""Pins: a record beside the runs of a pipeline, by which a run is kept for ever.

`<pipeline>/_pins/<run>` says who pinned it, when and why. gc puts `<pipeline>/_closing/<run>` before it looks for a pin
for the last time, and takes it away when the journal says what became of the run. Whoever pins looks for that sign and
at the journal after the pin is there: each writes before it reads, so that never both believe that they were first.
"""

from __future__ import annotations

import msgspec

from rekindle.errors import AppendUnknown, Refused
from rekindle.storage.store import Put, Store

TRIES = 5
CLOSING_SECONDS_MAX = 600.0  # A gc that is still not done then died.


class RunPin(msgspec.Struct, frozen=True):
    """Who keeps a run, since when, and why."""

    by: str
    at_ms: int
    why: str = ""

    def __str__(self) -> str:
        return f"pinned by {self.by}{f': {self.why}' if self.why else ''}"


def find_pin(store: Store, pipeline: str, run: str) -> RunPin | None:
    data = store.get(_key(pipeline, run))
    return None if data is None else _decode(data)


def all_pins(store: Store, pipeline: str) -> dict[str, RunPin]:
    """Run to its pin."""
    names = store.list_after(_folder(pipeline))
    bodies = zip(names, store.get_many(_folder(pipeline), names), strict=True)
    return {name: _decode(data) for name, data in bodies if data is not None}


def put_pin(store: Store, pipeline: str, run: str, pin: RunPin) -> RunPin:
    """The pin that stands there now: the first one stays."""
    for _ in range(TRIES):
        answer = store.put_if_absent(_key(pipeline, run), msgspec.json.encode(pin))
        if answer is Put.CREATED:
            return pin
        found = find_pin(store, pipeline, run)
        if answer is Put.EXISTS and found is not None:
            return found
    raise AppendUnknown(f"{store.name} gave no definite answer for the pin of run {run}", "try again")


def remove_pin(store: Store, pipeline: str, run: str) -> None:
    store.delete(_key(pipeline, run))


def begin_closing(store: Store, pipeline: str, run: str) -> None:
    """Say that a run is about to be closed. No fact: what counts is what the journal says then."""
    store.put(_sign(pipeline, run), b"")


def end_closing(store: Store, pipeline: str, run: str) -> None:
    store.delete(_sign(pipeline, run))


def refuse_closing(store: Store, pipeline: str, run: str) -> None:
    """Raise `Refused` while a gc may be putting the record that closes the run."""
    begun = store.modified(_sign(pipeline, run))
    if begun is not None and store.now() - begun < CLOSING_SECONDS_MAX:
        raise Refused(f"gc is closing run {run}: it can no longer be pinned safely", "type the same again")


def _sign(pipeline: str, run: str) -> str:
    return f"{pipeline}/_closing/{run}"


def _folder(pipeline: str) -> str:
    return f"{pipeline}/_pins/"


def _key(pipeline: str, run: str) -> str:
    return _folder(pipeline) + run


def _decode(data: bytes) -> RunPin:
    """A pin that cannot be read is a pin: somebody meant the run to stay."""
    try:
        return msgspec.json.decode(data, type=RunPin)
    except msgspec.MsgspecError:
        return RunPin("somebody", 0, "the pin cannot be read")
