"""Look at one run without being its master: its whole journal, folded to what can be shown. Nothing is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from rekindle.errors import NotFound, Refused, RunClosed, StoreFailed
from rekindle.journal.history import History, read
from rekindle.journal.keys import find_claim, find_identity, parameters_of, streams_of
from rekindle.journal.lease import LivenessState, sign_of_life
from rekindle.master.facts.events import Event
from rekindle.master.state.run_state import RunState
from rekindle.observe.show import RunView, view_of
from rekindle.publish.pointers import version_of
from rekindle.remedies import CommandRemedy, TextRemedy
from rekindle.runtime.opening import codec
from rekindle.service.life import life_text
from rekindle.storage.store import Store

if TYPE_CHECKING:
    from rekindle.service.running import RunRequest


@dataclass(frozen=True, slots=True)
class RunHistory:
    """A run with its whole journal, the view of it, and the state it folds to."""

    history: History[Event]
    view: RunView
    state: RunState


def show(wish: RunRequest) -> RunView:
    """The run that holds the key of a wish, or the one that its options name."""
    store = wish.store
    held = find_claim(store, wish.pipeline, wish.key)
    name = wish.options.run or (held.run if held else "")
    if not name:
        given = " ".join(f"{key}={value}" for key, value in wish.key.items())
        raise NotFound(
            f"{wish.pipeline} has no run{f' of {given}' if given else ''} at {store.name}",
            (TextRemedy("`pipeline.run` starts one"), CommandRemedy("runs", "or see those that there are")),
        )
    return look(store, wish.pipeline, name, name, wish.options.stale_seconds).view


def look(store: Store, pipeline: str, run: str, shown: str, stale_seconds: float) -> RunHistory:
    """Read one run; `shown` is what a user calls it."""
    folder = f"{pipeline}/{run}"
    history = read(store, folder, codec())
    if not history.records and run in streams_of(store, pipeline):
        raise Refused(f"run {shown} is a stream", CommandRemedy("show", "see it", run=run))
    if not history.records:
        raise NotFound(f"run {shown} has no journal: it never began", CommandRemedy("runs"))
    if history.position.is_closed:
        raise RunClosed(f"run {shown} is closed: its results and its journal are deleted", CommandRemedy("runs"))
    parameters = parameters_of(store, pipeline).get(run)
    life, is_alone = _life(store, folder, history, stale_seconds)
    view, state = view_of((record.events for record in history.records), parameters, life, is_alone)
    place = find_identity(store, pipeline) or ""
    sinks = tuple(
        msgspec.structs.replace(one, version=version_of(state.published[one.name], place)) if one.is_published else one
        for one in view.sinks
    )
    return RunHistory(history, msgspec.structs.replace(view, sinks=sinks), state)


def _life(store: Store, folder: str, history: History[Event], stale_seconds: float) -> tuple[str, bool]:
    """Whether the driver lives, in words; and whether it certainly does not."""
    try:
        sign = sign_of_life(store, folder, history.position, stale_seconds)
    except StoreFailed:
        return "driver unknown: the store does not tell the time", False
    return life_text(sign), sign.life is not LivenessState.LIVING
