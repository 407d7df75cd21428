"""One run, read whole: for `show`, `explain` and `graph`. Reading only."""

from __future__ import annotations

from dataclasses import dataclass

from rekindle.cli.briefs import life_text
from rekindle.cli.catalog import Named, find_run
from rekindle.cli.options import Settings
from rekindle.errors import NotFound, RunClosed, StoreFailed
from rekindle.journal.history import History, read
from rekindle.journal.keys import parameters_of
from rekindle.journal.lease import Life, sign_of_life
from rekindle.journal.store import Store
from rekindle.journal.stores import open_store
from rekindle.master.events import Event
from rekindle.master.state import RunState
from rekindle.observe.show import RunView, view_of
from rekindle.runtime.opening import codec


@dataclass(frozen=True, slots=True)
class Opened:
    """A run with its whole journal, the view of it, and the state it folds to."""

    named: Named
    history: History[Event]
    view: RunView
    state: RunState


def open_run(settings: Settings, word: str | None) -> Opened:
    """Find and read the run that a user means."""
    config = settings.located()
    store = open_store(config.location, config.storage)
    named = find_run(store, word)
    history = read(store, named.folder, codec())
    if not history.records:
        raise NotFound(f"run {named} has no journal: it never began", "rekindle runs")
    if history.position.is_closed:
        raise RunClosed(f"run {named} is closed: its results and its journal are deleted", "rekindle runs")
    parameters = parameters_of(store, named.pipeline).get(named.run)
    life, is_alone = _life(store, named, history, config.stale_seconds)
    view, state = view_of((record.events for record in history.records), parameters, life, is_alone)
    return Opened(named, history, view, state)


def _life(store: Store, named: Named, history: History[Event], stale_seconds: float) -> tuple[str, bool]:
    """Whether the driver lives, in words; and whether it certainly does not."""
    try:
        sign = sign_of_life(store, named.folder, history.position, stale_seconds)
    except StoreFailed:
        return "driver not known: the store has no clock for us", False
    return life_text(sign), sign.life is not Life.LIVING
