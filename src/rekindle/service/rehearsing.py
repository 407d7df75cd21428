"""A rehearsal: the same pipeline, whose sinks publish below a folder, so that no target of theirs is touched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rekindle.engine.adapter import NEWEST
from rekindle.engine.engine_adapter import EngineAdapter
from rekindle.errors import NotFound
from rekindle.journal.keys import find_claim
from rekindle.pipeline.declared import Declared
from rekindle.pipeline.step_trial import RowsCompared
from rekindle.publish.targets import files
from rekindle.runtime.opening import RunConstants, peek
from rekindle.service.running import RunRequest, wanted_of


def publishing_below(steps: Sequence[Declared], folder: str) -> tuple[Declared, ...]:
    """The steps of a run, each target of which is known, with sinks that publish files below the folder."""
    return tuple(one if one.target is None else replace(one, target=files(f"{folder}/{one.name}")) for one in steps)


def compare(wish: RunRequest, folder: str, adapter: EngineAdapter) -> dict[str, RowsCompared]:
    """Of a rehearsed run that is done: the rows that each sink published, compared with those of plain Spark."""
    held = find_claim(wish.store, wish.pipeline, wish.key)
    state = peek(wish.store, wish.pipeline, held.run) if held is not None else None
    if state is None:
        raise NotFound(f"{wish.pipeline} has no rehearsed run")
    session = wish.session() if callable(wish.session) else wish.session
    wanted = wanted_of(wish, state.run, state.order, RunConstants.of(state))
    published = {
        one.name: adapter.read_newest(session, f"{folder}/{one.name}", wanted.stores, NEWEST)
        for one in wish.steps
        if one.target is not None
    }
    return adapter.compare(session, replace(wanted, published=frozenset(state.sinks)), published)
