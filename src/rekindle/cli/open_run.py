"""One run, read whole: for `show`, `explain` and `graph`. Reading only."""

from __future__ import annotations

from dataclasses import dataclass

from rekindle.cli.catalog import Named, find_batch, find_run
from rekindle.cli.options import Settings
from rekindle.journal.history import History
from rekindle.master.facts.events import Event
from rekindle.master.state.run_state import RunState
from rekindle.observe.show import RunView
from rekindle.service.looking import look
from rekindle.service.stream_looking import SeenStream, see
from rekindle.storage.stores import open_store


@dataclass(frozen=True, slots=True)
class OpenRun:
    """A run with its whole journal, the view of it, and the state it folds to."""

    named: Named
    history: History[Event]
    view: RunView
    state: RunState


def open_run(settings: Settings, word: str | None) -> OpenRun:
    """Find and read the run that a user means."""
    config = settings.located()
    store = open_store(config.location, config.storage)
    named = find_batch(store, word)
    found = look(store, named.pipeline, named.run, str(named), config.stale_seconds)
    return OpenRun(named, found.history, found.view, found.state)


def open_stream(settings: Settings, word: str | None) -> SeenStream | None:
    """The stream that a user means; None if they mean another run."""
    config = settings.located()
    store = open_store(config.location, config.storage)
    named = find_run(store, word)
    if not named.is_stream:
        return None
    return see(store, named.pipeline, named.run, named.number, config.stale_seconds)
