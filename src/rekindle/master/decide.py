"""What the master decides when something reaches it.

Rules
- Pure: a state, a stimulus, the time and a jitter in; events out. Nothing is done and nothing is stored.
- The events of one answer are appended as one record. Only then is the state folded and anything dispatched.
- A stimulus that is late, doubled or foreign gives no event. `Refused` is raised where starting could be wrong.
- `now_ms` never goes back within one process, and goes on: the wall clock at its start, monotonic from there.
"""

from __future__ import annotations

from typing import assert_never

from rekindle.master.facts import stimuli as st
from rekindle.master.facts.events import AttemptDeleted, Event, PartitionsReleased, PinNoticed
from rekindle.master.rules import opening, publishing, reports
from rekindle.master.rules.advance import advance
from rekindle.master.rules.decision import Decision
from rekindle.master.rules.handle_failure import give_up
from rekindle.master.state.apply import apply, fold
from rekindle.master.state.run_state import Phase, RunState


def decide(
    state: RunState | None,
    stimulus: st.Stimulus,
    now_ms: int,
    jitter: float = 0.0,
    is_pinned: bool | None = None,
) -> tuple[Event, ...]:
    """The events that follow from this stimulus. `jitter` is drawn by the caller from [-1, 1]. `is_pinned` tells if
    somebody keeps the run for ever; without it the run believes what it was told last."""
    if state is None or is_pinned in (None, state.is_pinned):
        return decision(state, stimulus, now_ms, jitter)[0]
    noticed = PinNoticed(bool(is_pinned))
    return (noticed, *decision(apply(state, noticed), stimulus, now_ms, jitter)[0])


def lets_go(events: tuple[Event, ...]) -> bool:
    """Results are about to go: the caller looks for a pin first, and asks again."""
    return any(isinstance(event, PartitionsReleased) for event in events)


def decision(
    state: RunState | None, stimulus: st.Stimulus, now_ms: int, jitter: float = 0.0
) -> tuple[tuple[Event, ...], RunState]:
    """The same, with the state that folding these events gives: it was needed on the way."""
    first: tuple[Event, ...] = ()
    if isinstance(stimulus, st.StartRun):
        assert state is None, "a run starts once"
        first = opening.start_run(stimulus, now_ms)
        state = fold(None, first)
    assert state is not None, "nothing can reach a run that never started"
    draft = Decision(state, now_ms, jitter)
    _react(draft, stimulus)
    if first or draft.events or isinstance(stimulus, st.Tick):
        advance(draft)
    return (*first, *draft.events), draft.state


def _react(draft: Decision, stimulus: st.Stimulus) -> None:
    match stimulus:
        case st.TakeOver():
            opening.take_over(draft, stimulus)
        case st.CommitsSeen():
            reports.commits_seen(draft, stimulus)
        case st.AttemptEnded():
            reports.attempt_ended(draft, stimulus)
        case st.AttemptSealed():
            reports.attempt_sealed(draft, stimulus)
        case st.PartsLost():
            reports.parts_lost(draft, stimulus)
        case st.SinkDone():
            publishing.sink_done(draft, stimulus)
        case st.SinkFailed():
            publishing.sink_failed(draft, stimulus)
        case st.SinkUnchanged():
            publishing.sink_untouched(draft, stimulus)
        case st.SinkFenced():
            publishing.sink_fenced(draft, stimulus)
        case st.DeletionDone(attempt):
            if attempt in draft.state.undeleted:
                draft.add(AttemptDeleted(attempt))
        case st.CancelRun(who):
            if draft.state.phase is Phase.RUNNING:
                give_up(draft, f"cancelled by {who}")
        case st.CloseRun():
            opening.close_run(draft, stimulus)
        case st.StartRun():
            opening.reuse(draft, stimulus)
        case st.Tick() | st.DeletionFailed():
            pass
        case _:  # pragma: no cover
            assert_never(stimulus)
