"""Keep one result of a script: as it is, continued where it stopped, or anew, with the difference named.

Rules
- A result is a run of its own: one kept step, under the key of the script's parameters. Journal, lease, attempts,
  restarts and adoption are those of every run.
- A run that is done is looked at like any other: what is not proved to be the same is not reused. Proof is an equal
  fingerprint and every file in its place; a source that cannot be pinned proves nothing without the user's word.
- A change opens a new generation in a run that is not done, and a new run otherwise. Nothing of the old one is deleted
  by it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rekindle.engine.port import Engine
from rekindle.errors import RunClosed
from rekindle.journal.keys import claim, find_claim
from rekindle.journal.takeover import refuse_living
from rekindle.master.rules.opening import changed_parts
from rekindle.master.state.run_state import Phase, RunState, Segment
from rekindle.model.partitions import EMPTY
from rekindle.observe.script import EarlierResult, KeptResult
from rekindle.observe.summary import SummaryBuilder
from rekindle.observe.words import count_text
from rekindle.pipeline.identity.changes import describe_change
from rekindle.runtime.opening import look, peek, sign_of
from rekindle.service.running import (
    MakeAdapter,
    PreparedRun,
    RunRequest,
    fresh_name,
    make_ready,
    order_of,
    perform,
    sum_up,
)
from rekindle.storage.store import Store

INPUT, LAYOUT, UNPINNED = "input", "layout", "unpinned: "

# The committed files of a step as a frame of the user's session.
Opened = Callable[[Engine, str, Sequence[Segment], Any], Any]
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class KeptFrame:
    """A result that is complete, and the frame to go on with; None for one that was published."""

    result: KeptResult
    frame: Any


@dataclass(frozen=True, slots=True)
class _Start:
    """What was decided: the run to go on with, or a new one, and why."""

    ready: PreparedRun
    changes: tuple[str, ...] = ()
    is_accepted: bool = False


def keep(wish: RunRequest, make: MakeAdapter, opened: Opened, tell: Tell) -> KeptFrame:
    """Until the one kept step of the wish is complete, and published where it has a target."""
    name, start = wish.steps[0].name, _decide(wish, make)
    known, ready = start.ready.known, start.ready
    if start.changes and not start.is_accepted:
        tell(f"{name}: recomputed: {' · '.join(start.changes)}")
    if known is not None and known.phase is Phase.SUCCEEDED:
        ready.prepared.engine.close()
        state, tally = known, SummaryBuilder()
    else:
        state, tally = perform(wish, ready)
    summary = sum_up(wish, ready, state, tally)
    frame = None if wish.targets else opened(ready.prepared.engine, name, state.steps[name].segments, wish.session)
    return KeptFrame(KeptResult(name, summary, start.changes, start.is_accepted), frame)


def find(store: Store, pipeline: str, name: str, key: Mapping[str, str]) -> EarlierResult | None:
    """What an earlier start left of a result."""
    held = find_claim(store, pipeline, key)
    try:
        state = peek(store, pipeline, held.run) if held else None
    except RunClosed:
        return None
    if state is None or name not in state.steps:
        return None
    total, step = state.layout.graph.steps[name].partitions, state.steps[name]
    is_done = state.phase is Phase.SUCCEEDED
    return EarlierResult(name, total, total if is_done else len(step.committed), is_done)


def _decide(wish: RunRequest, make: MakeAdapter) -> _Start:
    store, options = wish.store, wish.options
    run = claim(store, wish.pipeline, wish.key, fresh_name(), is_new=options.new).run
    try:
        seen = look(store, wish.pipeline, run)
    except RunClosed:
        return _anew(wish, make, ("the run that kept it is closed",))
    known = seen.state
    if known is not None and known.phase is Phase.CLOSING:
        return _anew(wish, make, ("the run that kept it is being deleted",))
    if known is None:
        return _Start(make_ready(wish, make, run, seen, order_of(store, wish.pipeline, None)))
    if known.phase is not Phase.SUCCEEDED and not options.force:
        refuse_living(run, sign_of(store, seen, options.stale_seconds), options.stale_seconds)
    ready = make_ready(wish, make, run, seen, order_of(store, wish.pipeline, known))
    changes, hard = _changes(wish, known, ready), _must_be_new(wish, known, ready)
    is_accepted = wish.steps[0].name in options.accept_change and not hard
    is_settled = known.phase is Phase.SUCCEEDED or bool(known.possibly_published)
    if not hard and (not changes or is_accepted or not is_settled):
        return _Start(ready, changes, is_accepted and bool(changes))
    ready.prepared.engine.close()
    return _anew(wish, make, (*changes, *hard))


def _anew(wish: RunRequest, make: MakeAdapter, changes: tuple[str, ...]) -> _Start:
    store = wish.store
    run = claim(store, wish.pipeline, wish.key, fresh_name(), is_new=True).run
    seen = look(store, wish.pipeline, run)
    return _Start(make_ready(wish, make, run, seen, order_of(store, wish.pipeline, seen.state)), changes)


def _changes(wish: RunRequest, known: RunState, ready: PreparedRun) -> tuple[str, ...]:
    """Every difference between what the journal says of the result and what it is now."""
    name = wish.steps[0].name
    old, new = known.spec.fingerprints[name], ready.prepared.spec.fingerprints[name]
    return tuple(describe_change(old, new)) if changed_parts(old, new) else ()


def _must_be_new(wish: RunRequest, known: RunState, ready: PreparedRun) -> tuple[str, ...]:
    """Why the run itself cannot go on, and its files cannot count, whatever the user says."""
    step, prepared = wish.steps[0], ready.prepared
    old, new = known.spec.fingerprints[step.name], prepared.spec.fingerprints[step.name]
    found = []
    if known.spec.graph.difference(prepared.spec.graph) or old.get(LAYOUT) != new.get(LAYOUT):
        found.append("its partitioning changed")
    if known.gave_up_for_good is not None:
        found.append(f"the previous run failed: {known.gave_up_for_good}")
    is_loose = new.get(INPUT, "").startswith(UNPINNED) and step.declared_deterministic is not True
    if is_loose and step.name not in wish.options.accept_change:
        what = new[INPUT].removeprefix(UNPINNED)
        found.append(f"its input may have changed ({what}); if it never changes, pass deterministic=True")
    gone = prepared.missing({step.name: known.steps[step.name].segments}).get(step.name, EMPTY)
    if gone:
        found.append(f"{count_text(len(gone), 'file of it is', 'files of it are')} missing")
    return tuple(found)
