"""One run as gc sees it: how it was found, what its journal says of its attempts. Reading only."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import msgspec

from rekindle.errors import RekindleError, StoreFailed
from rekindle.gc.policy import AttemptFacts, RunCondition, RunFacts
from rekindle.journal.frame import name_of
from rekindle.journal.history import Position, folder_of, read
from rekindle.journal.lease import LivenessState, heartbeat_key, refuse_loss, sign_of_life
from rekindle.journal.owner import Owner, is_seen_alive
from rekindle.master.machine import BATCH
from rekindle.master.state.run_state import Phase, RunState, Segment
from rekindle.model.ids import AttemptId
from rekindle.model.kinds import KeepUntil
from rekindle.runtime.opening import codec, state_of
from rekindle.runtime.snapshots import StateKeeper
from rekindle.storage.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInspection:
    """A run at one moment. `epoch` is the newest; whoever opens a later one came after this look."""

    folder: str
    facts: RunFacts
    known: AttemptFacts = field(default_factory=AttemptFacts)
    epoch: int = 0
    state: RunState | None = None
    trouble: str = ""

    def segments_of(self, attempt: AttemptId) -> list[Segment]:
        steps = self.state.steps if self.state is not None else {}
        step = steps.get(attempt.step)
        return [] if step is None else [one for one in step.segments if one.attempt == attempt]


def look_at(
    store: Store,
    folder: str,
    now_seconds: float,
    stale_seconds: float,
    *,
    is_pinned: bool = False,
    is_asked: bool = False,
) -> RunInspection:
    """A journal that cannot be read is found as such: the others must be looked at too. A store that fails is not."""
    try:
        position, state = _read(store, folder)
    except StoreFailed:
        raise
    except (RekindleError, msgspec.MsgspecError, AssertionError, ValueError, KeyError) as error:
        return RunInspection(
            folder=folder, facts=RunFacts(found=RunCondition.UNREADABLE), trouble=str(error).split("\n")[0]
        )
    if position.is_closed:
        return RunInspection(
            folder=folder,
            facts=RunFacts(found=RunCondition.CLOSED),
            known=AttemptFacts(is_run_closed=True),
            epoch=position.epoch,
        )
    if state is None:
        return RunInspection(folder=folder, facts=RunFacts(found=RunCondition.NEVER_BEGAN))
    found = _found(store, folder, position, state, stale_seconds)
    silent_ms = _silent_ms(store, folder, position, now_seconds) if found is RunCondition.UNFINISHED else 0
    facts = RunFacts(
        found=found,
        silent_ms=silent_ms,
        is_pinned=is_pinned,
        is_asked=is_asked,
        is_kept_forever=_is_kept_forever(state),
        is_kept_too_long=_is_kept_too_long(state, now_seconds),
    )
    return RunInspection(folder=folder, facts=facts, known=known_of(state), epoch=position.epoch, state=state)


def known_of(state: RunState) -> AttemptFacts:
    """What the journal says of attempts, as a value."""
    return AttemptFacts(
        open=frozenset(state.attempts),
        read=frozenset(read for one in state.attempts.values() for read in one.reads),
        counted=frozenset(one.attempt for step in state.steps.values() for one in step.segments),
        closed=state.undeleted,
    )


def _is_kept_forever(state: RunState) -> bool:
    steps = state.layout.graph.steps
    return any(step.committed and steps[name].keep is KeepUntil.FOREVER for name, step in state.steps.items())


def _is_kept_too_long(state: RunState, now_seconds: float) -> bool:
    """Something is there that nobody keeps for ever: it should have gone when the run ended, or by now."""
    steps = state.layout.graph.steps
    is_there = any(step.committed and steps[name].keep is not KeepUntil.FOREVER for name, step in state.steps.items())
    return is_there and state.ended_ms > 0 and now_seconds * 1000 >= state.ended_ms + state.config.keep_ms


def _read(store: Store, folder: str) -> tuple[Position, RunState | None]:
    """A journal whose end was lost knows too little: what it does not know may be what a restored one needs."""
    after, base = StateKeeper(BATCH, store, folder).load()
    history = read(store, folder, codec(), after=after)
    if history.position.is_closed:
        return history.position, None
    refuse_loss(store, folder, history.position)
    return history.position, state_of(history, base)


def _found(store: Store, folder: str, position: Position, state: RunState, stale_seconds: float) -> RunCondition:
    """A run that succeeded has a living driver until it has deleted what it released. A driver that is seen here lives,
    however long its last sign is ago: a clock may have jumped."""
    sign = sign_of_life(store, folder, position, stale_seconds)
    if sign.life is LivenessState.LIVING or (sign.life is LivenessState.STALE and _is_seen(sign.owner)):
        return RunCondition.LIVING
    ended = {Phase.SUCCEEDED: RunCondition.SUCCEEDED, Phase.CLOSING: RunCondition.CLOSING}
    return ended.get(state.phase, RunCondition.UNFINISHED)


def _is_seen(owner: Owner | None) -> bool:
    """As another process of this host: one of its own old runs is no driver to it."""
    return owner is not None and owner.pid != os.getpid() and is_seen_alive(owner)


def _silent_ms(store: Store, folder: str, position: Position, now_seconds: float) -> int:
    """Since the last record or heartbeat, by the store's clock; nothing where it does not tell."""
    keys = (heartbeat_key(folder, position.epoch), folder_of(folder) + name_of(position.sequence))
    times = [time for key in keys if (time := store.modified(key)) is not None]
    return max(0, round((now_seconds - max(times)) * 1000)) if times else 0
