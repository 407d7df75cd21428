"""Recorded journals, one file each: the records of a run as they were stored, one after the other.

A recording is made once per release and never changed: `python tests/replay/record.py` refuses to write over one.
Beside each stands what it folded to, in words that do not depend on how the state is kept in memory.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from rekindle.journal.frame import HEADER, name_of
from rekindle.journal.history import folder_of, read
from rekindle.master.facts.events import Event
from rekindle.master.state.run_state import RunState
from rekindle.runtime.opening import codec
from rekindle.storage.memory import MemoryStore

HERE = Path(__file__).parents[2] / "tests" / "replay"
RUN = "pipeline/run"


class Summary(msgspec.Struct, frozen=True):
    """What a recorded journal folds to."""

    phase: str
    epoch: int
    generations: dict[str, int]
    committed: dict[str, str]
    open_attempts: int
    published: list[str]
    left_out: dict[str, str] = {}


def summary_of(state: RunState) -> Summary:
    return Summary(
        state.phase.value,
        state.epoch,
        {name: step.generation for name, step in state.steps.items()},
        {name: str(step.committed) for name, step in state.steps.items()},
        len(state.attempts),
        sorted(state.published),
        {name: str(holes) for name, holes in state.holes().items()},
    )


def save(path: Path, bodies: list[bytes]) -> None:
    """Each record ends with a line break of its own, so that the file can be read and compared as text."""
    path.write_bytes(b"".join(body + b"\n" for body in bodies))


def load(path: Path) -> MemoryStore:
    """A store that holds the recorded journal."""
    data, store, at = path.read_bytes(), MemoryStore(), 0
    while at < len(data):
        header = HEADER.match(data, at)
        assert header is not None, f"{path.name} is damaged at byte {at}"
        end = header.end() + int(header[2])
        store.put(folder_of(RUN) + name_of(len(store.objects) + 1), data[at:end])
        at = end + 1
    return store


def events_in(store: MemoryStore) -> list[Event]:
    return list(read(store, RUN, codec()).events)
