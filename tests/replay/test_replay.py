"""Journals recorded by every release fold to what they folded to then, for ever."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import msgspec
import pytest

from rekindle.errors import NewerJournal
from rekindle.master.facts.events import Event
from rekindle.master.state.apply import fold
from rekindle.master.state.invariants import check_invariants
from rekindle.runtime.opening import codec
from support.recorded import HERE, Summary, events_in, load, summary_of

RECORDINGS = sorted(HERE.glob("*/*.journal"))


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_recorded_journal_replays(path: Path) -> None:
    state = fold(None, events_in(load(path)))
    assert state is not None
    check_invariants(state)
    assert summary_of(state) == msgspec.json.decode(path.with_suffix(".json").read_bytes(), type=Summary)


def test_the_recordings_hold_every_type_of_event() -> None:
    found = {type(event) for path in RECORDINGS for event in events_in(load(path))}
    assert found == set(get_args(Event))


@pytest.mark.parametrize("kind", get_args(Event), ids=lambda kind: str(kind.__name__))
def test_a_fact_with_a_field_of_a_newer_release_is_refused(kind: type) -> None:
    """An older release would otherwise leave out what a newer one said, and go on from something untrue."""
    found = next(event for path in RECORDINGS for event in events_in(load(path)) if isinstance(event, kind))
    name, raw = codec().encode(found)
    newer = msgspec.Raw(msgspec.json.encode(msgspec.json.decode(raw) | {"since_the_next_release": True}))
    assert codec().decode(name, raw) == found
    with pytest.raises(NewerJournal, match="since_the_next_release"):
        codec().decode(name, newer)
