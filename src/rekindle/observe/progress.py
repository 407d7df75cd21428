"""How far a run is, folded from its events as they become facts.

Rules
- Pure: events and states in, rows and lines out; the time is an argument.
- A row per kept step: what counts (of that, what was there before), what runs, what was made more than once.
- A line per thing that a person wants to know when it happens: a failure and when it is tried again, a loss, a new
  generation with its reason, what was adopted, the end. Commits are no news: they are in the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rekindle.master.facts import events as ev
from rekindle.master.state.run_state import AttemptStatus, RunState
from rekindle.model.failures import Failure
from rekindle.model.ids import AttemptId
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.model.reasons import AnyReason, NotYetRun, sentence, taken_from
from rekindle.observe.plan import numbers_text
from rekindle.observe.plan_times import Clock, StepRate
from rekindle.observe.words import count_text, time_text


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressRow:
    """One kept step. `kept` counted when this process began; `again` are vertices that it started more than once."""

    step: str
    total: int
    done: int
    kept: int
    running: int
    again: int

    @property
    def is_done(self) -> bool:
        return self.done == self.total


class Progress:
    """Folds what a watcher is told. `earlier` is how fast steps were before this process."""

    def __init__(self, earlier: Mapping[str, StepRate] | None = None) -> None:
        self._earlier = dict(earlier or {})
        self._clock = Clock()
        self._state: RunState | None = None
        self._kept: dict[str, Partitions] = {}
        self._started: dict[str, Partitions] = {}
        self._again: dict[str, int] = {}
        self._taken: dict[AttemptId, int] = {}
        self._gives_up = False

    def take(self, events: tuple[ev.Event, ...], state: RunState) -> list[str]:
        """The news in these events."""
        if self._state is None:
            self._kept = {name: step.committed for name, step in state.steps.items()}
        self._state = state
        self._gives_up = any(isinstance(event, ev.RunFailing) for event in events)
        self._clock.take(events)
        return [line for event in events for line in self._news(event)]

    def rows(self) -> list[ProgressRow]:
        if self._state is None:
            return []
        return [self._row(self._state, name) for name in self._state.steps]

    def left_ms(self) -> int | None:
        """How long until all is computed, one step after the other, by the pace of this run and those before. None
        where a step that is left was never seen."""
        found = 0
        known = {**self._earlier, **self._clock.paces()}
        for row in self.rows():
            left = row.total - row.done
            if left and row.step not in known:
                return None
            found += known[row.step].of(left) if left else 0
        return found

    def _row(self, state: RunState, name: str) -> ProgressRow:
        step, total = state.steps[name], state.layout.graph.steps[name].partitions
        done = step.available | step.released
        open_now = (one for one in state.attempts_of(name) if one.status is AttemptStatus.RUNNING)
        running = Partitions.union(one.partitions for one in open_now)
        kept = self._kept.get(name, EMPTY) & done
        return ProgressRow(
            step=name, total=total, done=len(done), kept=len(kept), running=len(running), again=self._again.get(name, 0)
        )

    def _news(self, event: ev.Event) -> Iterator[str]:
        match event:
            case ev.EpochOpened(epoch=epoch) if epoch > 1:
                yield f"driver {epoch} of this run takes over"
            case ev.AttemptOpened(attempt, partitions):
                if number := taken_from(event.because):
                    self._taken[attempt] = number
                else:
                    yield from self._started_again(attempt.step, partitions, event.because)
            case ev.PartitionsCommitted(attempt=attempt, partitions=partitions) if event.is_adopted:
                name = attempt.step
                self._kept[name] = self._kept.get(name, EMPTY) | partitions
                whose = (
                    f"of run {self._taken[attempt]}" if attempt in self._taken else "that the previous driver finished"
                )
                how = "reuses" if attempt in self._taken else "adopted"
                yield f"{name}: {how} {count_text(len(partitions), 'partition')} {whose}"
            case ev.FailureHandled():
                is_retried = event.due_ms > event.at_ms and not self._gives_up
                wait = f"; retried in {time_text(event.due_ms - event.at_ms)}" if is_retried else ""
                yield from (f"{_vertex(one)} failed: {_cause(one)}{wait}" for one in event.failures)
            case ev.PartitionsLost(step, partitions, domain):
                yield f"{step}: {numbers_text(partitions)} lost ({domain.value} failure), recomputed if needed"
            case ev.GenerationOpened(step=step):
                why = " · ".join(dict.fromkeys(sentence(reason) for reason, _ in event.because))
                stay = count_text(len(event.carried), "partition stays", "partitions stay")
                valid = f"; {stay} valid" if event.carried else ""
                yield f"{step}: recomputes {count_text(len(event.dropped), 'partition')}: {why}{valid}"
            case ev.ChangeAccepted(step, parts):
                yield f"{step}: committed results are kept; you accepted the change ({', '.join(parts)})"
            case ev.HoleAccepted(step, partitions):
                yield f"{step}: {numbers_text(partitions)} left out, as you asked: consumers read no rows of it"
            case ev.RepublishAccepted(sinks):
                yield f"{' and '.join(sinks)}: will be published again, as you asked"
            case ev.RunFailing(gave_up):
                yield f"giving up: {gave_up}"
            case _:
                return

    def _started_again(self, name: str, partitions: Partitions, why: ev.Reasons) -> Iterator[str]:
        before = self._started.get(name, EMPTY)
        self._started[name] = before | partitions
        again = partitions & before
        if again:
            self._again[name] = self._again.get(name, 0) + len(again)
        if again or not all(isinstance(one, NotYetRun) for one, _ in why):
            reasons = " · ".join(f"{numbers_text(at)}: {_reason(one)}" for one, at in why)
            yield f"{name}: starts {count_text(len(partitions), 'partition')} ({reasons})"


def _reason(reason: AnyReason) -> str:
    """What was started before and has no result is not simply "not yet run"."""
    return "not finished" if isinstance(reason, NotYetRun) else sentence(reason)


def _vertex(failure: Failure) -> str:
    return f"{failure.step}[{numbers_text(failure.partitions)}]" if failure.partitions else failure.step


def _cause(failure: Failure) -> str:
    return failure.cause.root.text or failure.cause.root.kind.value


def left_text(progress: Progress) -> str:
    """How long it may still take, to be put behind something; empty where that is not known."""
    left_ms = progress.left_ms()
    said = time_text(left_ms)
    return f", {'' if said.startswith('under') else 'about '}{said} left" if left_ms else ""


def notes_text(row: ProgressRow, *, is_short: bool = False) -> str:
    """What was kept, runs, and was restarted."""
    found = [f"{row.kept} kept"] if row.kept else []
    found += [f"{row.running} running"] if row.running and not is_short else []
    found += [f"{row.again} restarted"] if row.again else []
    said = " · ".join(found)
    return f" ({said})" if is_short and said else said


def kept_text(state: RunState | None) -> str:
    """What an interrupted run leaves, in words."""
    if state is None:
        return "nothing was started"
    total = sum(state.layout.graph.steps[name].partitions for name in state.steps)
    done = sum(len(step.committed) for step in state.steps.values())
    return f"{done:,} of {count_text(total, 'partition')} are kept"
