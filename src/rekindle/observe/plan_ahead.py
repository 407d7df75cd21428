"""What a run will do if nothing fails: its own master is asked, in a world that obeys at once.

Rules
- Every decision is `master.decide`, and the first stimulus is the one that the run itself opens with. There is no
  second set of rules that could disagree with the run.
- Nothing is written and nothing is started. What a dead driver left behind is told by `look`, which only lists.
- An exchange that is made again is taken to come back as it was, where its checksums are known: `doubtful` names those.
- Files that may go are gone at once, as the engine does it beside its Spark jobs.
- For each attempt it is also asked what a new driver would find if this one died just before the end of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

from rekindle.master.decide import decision
from rekindle.master.dispatch import commands
from rekindle.master.facts import stimuli as st
from rekindle.master.facts.events import AttemptOpened, Event, PartitionsCommitted, PartitionsLost, SinkPublished
from rekindle.master.rules.releasing import kept_bytes, over_budget
from rekindle.master.state import commands as cmd
from rekindle.master.state.apply import fold
from rekindle.master.state.run_state import Phase, RunState
from rekindle.model.ids import AttemptId
from rekindle.model.kinds import FailureDomain
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.observe.plan import Loss

COMMANDS_MAX = 100_000

# What a listing of a dead driver's attempt shows, without touching it.
Look = Callable[[AttemptId], st.AttemptSealed]
# The bytes that so many partitions of a step will take; None where nobody knows.
Expected = Callable[[str, int], int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedRun:
    """The whole way: where it begins, every event that is decided on it, where it ends. `listed` is what was found of
    each attempt that a dead driver left; `started` are the attempts; `losses` has one entry for each of them.
    `peak_bytes` is the most that is kept at once, None where a result of unknown size is made; `short_bytes` is by how
    much the budget is exceeded at the worst. `unread` is what is gone, and nobody reads on this way."""

    opening: RunState
    end: RunState
    events: tuple[Event, ...]
    listed: Mapping[AttemptId, Partitions]
    started: tuple[cmd.StartAttempt, ...]
    doubtful: tuple[str, ...]
    losses: tuple[Loss, ...]
    peak_bytes: int | None = None
    short_bytes: int = 0
    unread: Mapping[str, Partitions] = field(default_factory=dict)

    @property
    def opened(self) -> tuple[AttemptOpened, ...]:
        return tuple(event for event in self.events if isinstance(event, AttemptOpened))

    @property
    def lost(self) -> dict[str, Partitions]:
        """What was found to be gone before anything began, or went with the last application. Nothing is lost later:
        every attempt succeeds here."""
        found = dict(self.unread)
        for event in self.events:
            if isinstance(event, PartitionsLost):
                found[event.step] = found.get(event.step, EMPTY) | event.partitions
        return found

    @property
    def adopted(self) -> dict[str, Partitions]:
        found: dict[str, Partitions] = {}
        for event in self.events:
            if isinstance(event, PartitionsCommitted) and event.is_adopted:
                step = event.attempt.step
                found[step] = found.get(step, EMPTY) | event.partitions
        return found


@dataclass(slots=True, kw_only=True)
class _Play:
    """One way through the master, as it is walked."""

    state: RunState
    events: list[Event]
    now_ms: int
    look: Look
    expected: Expected
    peak_bytes: int = 0
    short_bytes: int = 0
    is_sized: bool = True
    sent: set[cmd.Key] = field(default_factory=set)
    listed: dict[AttemptId, Partitions] = field(default_factory=dict)
    started: list[cmd.StartAttempt] = field(default_factory=list)
    doubtful: list[str] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)

    def take(self, stimulus: st.Stimulus) -> None:
        events, self.state = decision(self.state, stimulus, self.now_ms)
        self.events.extend(events)
        self.weigh()

    def weigh(self) -> None:
        if self.state.phase is Phase.RUNNING:
            self.peak_bytes = max(self.peak_bytes, kept_bytes(self.state))
            self.short_bytes = max(self.short_bytes, over_budget(self.state).short_bytes)

    def obey(self, command: cmd.Command) -> None:
        self.sent.add(command.key)
        match command:
            case cmd.StartAttempt():
                self._start(command)
            case cmd.SealAttempt(attempt):
                sealed = self.look(attempt)
                self.listed[attempt] = sealed.partitions
                self.take(sealed)
            case cmd.CancelAttempt(attempt):
                self.take(st.AttemptEnded(attempt=attempt, was_cancelled=True))
            case cmd.PublishSink(sink, fence):
                self.take(st.SinkDone(sink, fence))
            case cmd.DeleteAttempt(attempt):
                self.take(st.DeletionDone(attempt))
            case cmd.ReleaseExchanges():
                pass
            case cmd.WakeAt(due_ms):
                self.now_ms = max(self.now_ms, due_ms)
                self.take(st.Tick())
            case cmd.Stop():
                pass
            case _:  # pragma: no cover
                assert_never(command)

    def _start(self, command: cmd.StartAttempt) -> None:
        if command.exchange_checksum is not None and not command.is_first:
            self.doubtful.append(command.attempt.step)
        self.started.append(command)
        self.losses.append(_loss(self.state, command, self.now_ms))
        size = self.expected(command.attempt.step, len(command.partitions))
        self.is_sized = self.is_sized and size is not None
        self.take(_commits(command, command.partitions, size or 0))
        self.take(st.AttemptEnded(attempt=command.attempt))


def play(
    state: RunState | None,
    first: st.Stimulus,
    now_ms: int,
    look: Look,
    lost: Mapping[str, Partitions] | None = None,
    expected: Expected = lambda step, count: None,
) -> SimulatedRun:
    """From the opening decision to the end of the run. `lost` is what the engine no longer finds: the run learns it
    when it reads, and what nobody reads it never learns; of what is read, this knows from the start. Raises what the
    run would refuse."""
    hits = {name: at & state.steps[name].committed for name, at in (lost or {}).items()} if state is not None else {}
    known: dict[str, Partitions] = {}
    while True:
        walked = _walk(state, first, now_ms, look, known, expected)
        read = _read(walked)
        found = {name: at & read.get(name, EMPTY) | known.get(name, EMPTY) for name, at in hits.items()}
        if found == known or not any(found.values()):
            unread = {name: rest for name, at in hits.items() if (rest := at - known.get(name, EMPTY))}
            return replace(walked, unread=unread)
        known = found


def _read(walked: SimulatedRun) -> dict[str, Partitions]:
    """The kept partitions that attempts read, and those that are published."""
    layout = walked.end.layout
    found = {event.sink: layout.graph.whole[event.sink] for event in walked.events if isinstance(event, SinkPublished)}
    for command in walked.started:
        for name, partitions in layout.read_by(command.attempt.step, command.partitions).items():
            found[name] = found.get(name, EMPTY) | partitions
    return found


def _walk(
    state: RunState | None,
    first: st.Stimulus,
    now_ms: int,
    look: Look,
    lost: Mapping[str, Partitions],
    expected: Expected,
) -> SimulatedRun:
    gone = tuple(PartitionsLost(name, at, FailureDomain.STORAGE) for name, at in lost.items() if at)
    events, opening = decision(fold(state, gone), first, now_ms)
    walk = _Play(state=opening, events=[*gone, *events], now_ms=now_ms, look=look, expected=expected)
    walk.weigh()
    for _ in range(COMMANDS_MAX):
        waiting = commands(walk.state, walk.sent)
        if not waiting or isinstance(waiting[0], cmd.Stop):
            break
        walk.obey(next((one for one in waiting if isinstance(one, cmd.DeleteAttempt)), waiting[0]))
    doubtful = tuple(dict.fromkeys(walk.doubtful))
    return SimulatedRun(
        opening=opening,
        end=walk.state,
        events=tuple(walk.events),
        listed=walk.listed,
        started=tuple(walk.started),
        doubtful=doubtful,
        losses=tuple(walk.losses),
        peak_bytes=walk.peak_bytes if walk.is_sized else None,
        short_bytes=walk.short_bytes,
    )


def _commits(command: cmd.StartAttempt, partitions: Partitions, size_bytes: int = 0) -> st.CommitsSeen:
    return st.CommitsSeen(
        attempt=command.attempt,
        partitions=partitions,
        exchange_version=command.exchange_version,
        exchange_checksum=command.exchange_checksum,
        size_bytes=size_bytes,
    )


def _loss(state: RunState, command: cmd.StartAttempt, now_ms: int) -> Loss:
    """The driver dies when all but one partition of the attempt are committed, and a new application takes over."""
    done = command.partitions - Partitions((command.partitions.highest,))
    if done:
        _, state = decision(state, _commits(command, done), now_ms)
    before = state
    take_over = st.TakeOver(application=f"{state.application}?", owner="", spec=state.spec)
    _, state = decision(state, take_over, now_ms)
    for attempt in tuple(state.attempts):
        if attempt.epoch != state.epoch:
            _, state = decision(state, st.AttemptSealed(attempt=attempt), now_ms)
    gone = {name: step.committed - state.steps[name].committed for name, step in before.steps.items()}
    return Loss(command.attempt.step, {name: partitions for name, partitions in gone.items() if partitions})
