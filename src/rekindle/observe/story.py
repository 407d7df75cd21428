"""The story of a step or of one of its vertices: every fact of the journal that concerns it, as a sentence, and whether
it will run again.

- A sentence is made from the event alone, so that it says what was known and decided then.
- The outlook is asked of the master's own rule for the work that is left; it is what `plan` would print.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import assert_never

import msgspec

from rekindle.failover.restart_set import RestartSet
from rekindle.master.facts import events as ev
from rekindle.master.rules.advance import work_left
from rekindle.master.rules.poison_beside import blocked, poisoned
from rekindle.master.state.run_state import Phase, RunState
from rekindle.model.ids import AttemptId
from rekindle.model.kinds import Determinism
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.model.reasons import taken_from
from rekindle.observe.show import record_ms
from rekindle.observe.show_words import brief, clock, joined, one_line, reasons_of
from rekindle.observe.words import count_text, escape


class Line(msgspec.Struct, frozen=True):
    """One fact: the record it stands in, when that was written, by which epoch, and what it says."""

    sequence: int
    at_ms: int
    epoch: int
    text: str


class RunStory(msgspec.Struct, frozen=True):
    """What happened to a step, or to one partition of it, and what will."""

    run: str
    subject: str
    lines: tuple[Line, ...]
    outlook: tuple[str, ...]

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><td>{clock(line.at_ms)}</td><td>{escape(line.text)}</td></tr>" for line in self.lines)
        ends = "".join(f"<p>{escape(text)}</p>" for text in self.outlook)
        return f"<div><b>{escape(self.subject)} in run {escape(self.run)}</b><table>{rows}</table>{ends}</div>"


Told = tuple[int, int, Sequence[ev.Event]]


def story_of(records: Iterable[Told], state: RunState, step: str, partition: int | None = None) -> RunStory:
    """The story of `step`, or of one partition of it, from (sequence, epoch, events) of each record."""
    subject = step if partition is None else f"{step}[{partition}]"
    about = _About(step, None if partition is None else Partitions((partition,)), state)
    lines: list[Line] = []
    at_ms = 0
    for sequence, epoch, events in records:
        at_ms = record_ms(events, at_ms)
        for event in events:
            text = about.sentence(event)
            if text:
                lines.append(Line(sequence, at_ms, epoch, text))
    return RunStory(state.run, subject, tuple(lines), tuple(_outlook(state, step, about.wanted)))


class _About:
    """Picks what concerns one step, or one of its partitions."""

    def __init__(self, step: str, wanted: Partitions | None, state: RunState) -> None:
        self.step = step
        self.wanted = wanted
        self._begun = EMPTY
        self._taken: set[AttemptId] = set()
        self._inputs = frozenset(state.layout.producers[step])
        self._sinks = frozenset(state.sinks)

    def _touches(self, partitions: Partitions) -> bool:
        return bool(partitions) and (self.wanted is None or not self.wanted.is_disjoint(partitions))

    def _cut(self, partitions: Partitions) -> Partitions:
        return partitions if self.wanted is None else partitions & self.wanted

    def _these(self, partitions: Partitions) -> str:
        """`3 partitions (4-6)`, or `it` in the story of one vertex."""
        if self.wanted is not None:
            return "it"
        return f"{count_text(len(partitions), 'partition')} ({brief(partitions)})"

    def _of(self, partitions: Partitions) -> str:
        """`: 3 partitions (4-6)` at the end of a sentence; nothing in the story of one vertex."""
        return f": {self._these(partitions)}" if self.wanted is None else ""

    def _why(self, why: ev.Reasons, started: Partitions = EMPTY) -> str:
        reasons = reasons_of(why, started)
        if self.wanted is not None:
            return "; ".join(one.sentence for one in reasons if self._touches(one.partitions))
        return joined(reasons)

    def sentence(self, event: ev.Event) -> str:
        """The event as a sentence; empty if it does not concern us."""
        match event:
            case ev.RunStarted():
                return self._started(event)
            case ev.EpochOpened():
                strategy = f", with the failover strategy {event.strategy.value}" if event.strategy else ""
                return f"driver {event.epoch} owns the run: {event.owner}{strategy}"
            case ev.ChangeAccepted() | ev.CodeReplaced():
                return self._changed(event)
            case ev.GenerationOpened():
                return self._generation(event)
            case ev.AttemptOpened() | ev.PartitionsCommitted() | ev.AttemptClosed() | ev.AttemptDeleted():
                return self._attempt(event) if event.attempt.step == self.step else ""
            case ev.ExchangeCarried():
                if event.step != self.step:
                    return ""
                return f"its exchange was recomputed; kept partitions stay valid (proof: {event.proof.value})"
            case ev.FailureHandled():
                return "; ".join(self._failures(event))
            case ev.PartitionsLost() | ev.PartitionsReleased():
                return self._gone(event)
            case ev.ExchangesReleased():
                return "Spark released the shuffle files behind it" if event.step == self.step else ""
            case ev.PinNoticed():
                return "the run was pinned: nothing of it is deleted" if event.is_pinned else "the run was unpinned"
            case ev.HoleAccepted():
                return self._left_out(event)
            case ev.ExchangesLost():
                mine = [(exchange, parts) for exchange, parts in event.lost if exchange.consumer == self.step]
                return "; ".join(
                    f"exchange {exchange} lost {count_text(len(parts), 'map output')}" for exchange, parts in mine
                )
            case ev.PublicationOpened():
                return "all partitions are committed, and the publication began" if self.step in self._sinks else ""
            case ev.SinkPublished():
                return "published" if event.sink == self.step else ""
            case ev.SinkUntouched():
                return "not published; the target was not changed" if event.sink == self.step else ""
            case ev.RepublishAccepted():
                return f"{event.who} asked to publish it again" if self.step in event.sinks else ""
            case ev.RunFailing():
                return f"the run gave up: {one_line(event.gave_up)}"
            case ev.RunStopped():
                return "the run stopped; committed results are kept"
            case ev.RunSucceeded():
                return "the run succeeded"
            case ev.RunClosing() | ev.TombstoneWritten():
                return "the run is being deleted" if isinstance(event, ev.RunClosing) else "the run is closed"
            case _:  # pragma: no cover
                assert_never(event)

    def _started(self, event: ev.RunStarted) -> str:
        spec = event.graph.step(self.step)
        reads = f", reads {', '.join(sorted(self._inputs))}" if self._inputs else ""
        doubts = event.doubts.get(self.step, ()) if spec.determinism is not Determinism.DETERMINATE else ()
        why = f" ({', '.join(doubts)})" if doubts else ""
        return (
            f"run {event.run} started; {self.step}: {count_text(spec.partitions, 'partition')}, "
            f"{spec.kind.value}, {spec.determinism.value}{why}{reads}"
        )

    def _changed(self, event: ev.ChangeAccepted | ev.CodeReplaced) -> str:
        parts = ", ".join(event.parts)
        if event.step != self.step:
            return ""
        if isinstance(event, ev.ChangeAccepted):
            return f"changed ({parts}); the user accepted the change, and committed results are kept"
        return f"changed since its results were written: {parts}"

    def _generation(self, event: ev.GenerationOpened) -> str:
        if event.step != self.step:
            return ""
        self._begun = self._begun - event.dropped
        told = [f"generation {event.generation} opened"]
        if self._touches(event.dropped):
            told.append(f"results no longer valid ({self._why(event.because)})")
        if self._touches(event.carried) and event.proof is not None:
            told.append(f"carried over (proof: {event.proof.value}){self._of(event.carried)}")
        return "; ".join(told)

    def _attempt(self, event: ev.AttemptOpened | ev.PartitionsCommitted | ev.AttemptClosed | ev.AttemptDeleted) -> str:
        name = f"attempt {event.attempt.number}"
        match event:
            case ev.AttemptOpened():
                return self._opened(event, name)
            case ev.PartitionsCommitted():
                return self._committed(event, name)
            case ev.AttemptClosed():
                return f"{name} ended: {event.outcome.value}" if self.wanted is None else ""
            case ev.AttemptDeleted():
                return f"the files of {name} were deleted: they hold no valid result" if self.wanted is None else ""

    def _opened(self, event: ev.AttemptOpened, name: str) -> str:
        before, self._begun = self._begun, self._begun | event.partitions
        if taken_from(event.because):
            self._taken.add(event.attempt)
        if not self._touches(event.partitions):
            return ""
        subject = "it" if self.wanted is not None else count_text(len(event.partitions), "partition")
        return f"{name} opened for {subject} ({self._why(event.because, before)})"

    def _committed(self, event: ev.PartitionsCommitted, name: str) -> str:
        if not self._touches(event.partitions):
            return ""
        how = f"adopted from {name}, whose driver died" if event.is_adopted else f"committed by {name}"
        if event.attempt in self._taken:
            how = f"counts as {name}, with files of its own"
        text = f"{how}{self._of(event.partitions)}"
        if self._touches(event.changed):
            text += f"; differs from the lost result, or may differ{self._of(event.changed)}"
        return text

    def _failures(self, event: ev.FailureHandled) -> Iterator[str]:
        for failure in event.failures:
            if failure.step != self.step or (failure.partitions and not self._touches(failure.partitions)):
                continue
            root = failure.cause.root
            who = (
                self._these(self._cut(failure.partitions))
                if failure.partitions
                else "a Spark task that feeds its partitions"
            )
            wait = event.due_ms - event.at_ms
            text = f": {one_line(root.text)}" if root.text else ""
            yield f"{who} failed ({root.kind.value}){text}" + (f"; retried after {wait / 1000:g} s" if wait > 0 else "")

    def _gone(self, event: ev.PartitionsLost | ev.PartitionsReleased) -> str:
        is_input = event.step in self._inputs and isinstance(event, ev.PartitionsLost)
        if is_input:
            return f"its input {event.step} lost {count_text(len(event.partitions), 'partition')}"
        if event.step != self.step or not self._touches(event.partitions):
            return ""
        if isinstance(event, ev.PartitionsLost):
            return f"result lost ({event.domain.value} failure){self._of(event.partitions)}"
        why = "not needed now, and the run is over its budget" if event.is_for_budget else "no longer needed"
        return f"released ({why}){self._of(event.partitions)}"

    def _left_out(self, event: ev.HoleAccepted) -> str:
        if event.step in self._inputs:
            return f"it reads {event.step} without {brief(event.partitions)}, which the user left out"
        if event.step != self.step or not self._touches(event.partitions):
            return ""
        return f"left out by {event.who}, consumers read no rows of it{self._of(event.partitions)}"


def _outlook(state: RunState, name: str, wanted: Partitions | None) -> Iterator[str]:
    """Whether it will run again, and why or why not. Empty sets say nothing."""
    if state.phase in (Phase.CLOSING, Phase.CLOSED):
        yield "nothing will run again: the run is closed and its results are deleted"
        return
    step, whole = state.steps[name], state.layout.graph.whole[name]
    subject = _Subject(name, is_one=wanted is not None)
    left = whole if wanted is None else wanted
    counts = left & step.committed
    if counts:
        by = sorted({s.attempt.number for s in step.segments if not s.partitions.is_disjoint(counts)})
        attempts = ", ".join(map(str, by[:3])) + (f" and {len(by) - 3} more" if len(by) > 3 else "")
        yield f"{subject(counts)} will not run again: committed by attempt {attempts}"
    if holes := left & step.holes:
        again = "a new run" if state.phase is Phase.SUCCEEDED else "a resume with other code or input"
        yield f"{subject(holes)} will not run again: left out by the user; {again} tries it again"
    for one in state.attempts_of(name):
        if running := left & one.partitions:
            yield f"{subject(running)} in progress: attempt {one.attempt.number} is {one.status.value}"
    yield from _unmade(state, name, left - counts - holes - state.running(name), subject)


def _unmade(state: RunState, name: str, left: Partitions, subject: _Subject) -> Iterator[str]:
    plan = work_left(state) if state.phase is not Phase.SUCCEEDED else RestartSet()
    is_stopped = state.phase is Phase.FAILED
    poison = EMPTY if is_stopped else left & poisoned(state, name)
    if poison:
        yield f"{subject(poison)} will not be retried by this driver (poison), only by a resume"
    stuck = EMPTY if is_stopped else (left & blocked(state).get(name, EMPTY)) - poison
    if stuck:
        yield f"{subject(stuck)} cannot run: an input is poison"
    due = (left & plan.partitions(name)) - poison - stuck
    why = tuple((reason, part & due) for reason, part in plan.steps[name].because) if due else ()
    for one in reasons_of(why, state.steps[name].started):
        when = " when the run is resumed" if is_stopped else ""
        yield f"{subject(one.partitions)} will run{when}: {one.sentence}"
    released = (left - plan.partitions(name)) & state.steps[name].released
    if released:
        yield f"{subject(released)} will not run again: released, no longer needed"
    idle = left - plan.partitions(name) - poison - stuck - released
    if idle:
        yield f"{subject(idle)} will not run: no missing result needs it"


class _Subject:
    """Names a set in a sentence: by its step and number where the story is about one vertex."""

    def __init__(self, name: str, *, is_one: bool) -> None:
        self._name = name
        self._is_one = is_one

    def __call__(self, partitions: Partitions) -> str:
        text = f"{self._name}[{brief(partitions)}]"
        return text if self._is_one else f"{text} ({count_text(len(partitions), 'partition')})"
