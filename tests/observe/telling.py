"""Journals to tell of: those that were recorded, record by record."""

from __future__ import annotations

from pathlib import Path

from rekindle.journal.frame import WholeFrame, find
from rekindle.journal.history import Record, folder_of, read
from rekindle.master.facts.events import Event
from rekindle.runtime.opening import codec
from rekindle.storage.memory import MemoryStore
from support.recorded import HERE, RUN, load

RECORDINGS = sorted(HERE.glob("*/*.journal"))


def records_in(path: Path) -> tuple[Record[Event], ...]:
    return read(load(path), RUN, codec()).records


def frames_in(store: MemoryStore) -> list[WholeFrame]:
    found = [find(store.objects[key][0]) for key in sorted(store.objects) if key.startswith(folder_of(RUN))]
    return [one for one in found if isinstance(one, WholeFrame)]


def name_of(path: Path) -> str:
    return f"{path.parent.name}-{path.stem}"
