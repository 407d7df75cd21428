"""Sinks: published together, fenced, and tried again within the limits of the restart backoff."""

from __future__ import annotations

from rekindle.master.facts.events import Fence, PublicationOpened, RunSucceeded, SinkPublished, SinkUntouched
from rekindle.master.facts.stimuli import SinkDone, SinkFailed, SinkFenced
from rekindle.master.facts.stimuli import SinkUnchanged as NothingWritten
from rekindle.master.rules.decision import Decision
from rekindle.master.rules.handle_failure import give_up, handle


def sink_done(draft: Decision, report: SinkDone) -> None:
    if report.fence == draft.state.publication and report.sink not in draft.state.published:
        draft.add(SinkPublished(report.sink, report.fence))


def sink_failed(draft: Decision, report: SinkFailed) -> None:
    if report.fence == draft.state.publication:
        handle(draft, report.failure.step, (report.failure,))


def sink_untouched(draft: Decision, report: NothingWritten) -> None:
    if report.fence in draft.state.publications_unconfirmed.get(report.sink, ()):
        draft.add(SinkUntouched(report.sink, report.fence))


def sink_fenced(draft: Decision, report: SinkFenced) -> None:
    """Another run, or a later master of this one, published meanwhile. It wins, for ever."""
    if report.fence == draft.state.publication:
        runs = f"run {report.newer.order}; this is run {draft.state.order}"
        sentence = f"{report.sink} already holds what a later run published ({runs})"
        give_up(draft, report.because or sentence, is_resumable=False)


def publish(draft: Decision) -> None:
    """Everything is committed and nothing runs: publish what is not yet published, or be done."""
    state = draft.state
    waiting = [sink for sink in state.sinks if sink not in state.published]
    if not waiting:
        draft.add(RunSucceeded(draft.now_ms))
    elif state.publication is None and draft.now_ms >= max(draft.step(sink).due_ms for sink in waiting):
        number = state.publication_number + 1
        draft.add(PublicationOpened(Fence(state.order, state.epoch, number), draft.now_ms))
