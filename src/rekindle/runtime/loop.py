"""Decide, append, apply, dispatch: the only place where a decision becomes an act.

Rules
- The loop runs any machine (`model/machine.py`), and knows none: what is decided, and what is done, is the machine's.
- Nothing is dispatched before the record that holds the decision is acknowledged. While an append is unknown the
  same bytes are tried again and the world is left alone.
- A command is sent once per process. A new process learns from the journal what older ones may have started.
- Before anything is released it is looked whether somebody pinned the run meanwhile.
- Deleting never ends a run: what the storage does not delete, or not in time once the run succeeded, is left to gc.
- A run without end is cut: every so many records its machine gives its state in one event, the base, and what was said
  before the base before that one goes.
- A master that was taken over, or that cannot write facts any more, stops at once: its Spark jobs are cancelled,
  and it says so. A certain "not written" is decided and tried again a few times first.
"""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable
from typing import Any, Generic

from rekindle.errors import AppendUnknown, Fenced, RekindleError, StoreFailed
from rekindle.journal.history import Position
from rekindle.journal.journal import Journal, Pause
from rekindle.journal.prune import cut
from rekindle.model.machine import (
    CommandPort,
    CommandT,
    EventT,
    Key,
    Machine,
    StateT,
    StimulusT,
    Stop,
    WakeAt,
)

POLL_MS = 200
SETTLE_TRIES_MAX = 20
APPEND_TRIES_MAX = 5
PAUSE_SECONDS = 1.0
DELETING_MS_MAX = 600_000
BASE_RECORDS = 500


def decide_asking(
    machine: Machine[StateT, EventT, StimulusT, CommandT],
    state: StateT | None,
    stimulus: StimulusT,
    now_ms: int,
    jitter: float,
    is_pinned: Callable[[], bool] | None,
) -> tuple[EventT, ...]:
    """A decision. Where something is about to go, or stays because somebody keeps the run for ever, it is asked whether
    that is so."""
    events = machine.decide(state, stimulus, now_ms, jitter)
    if state is None or is_pinned is None:
        return events
    was_pinned = machine.is_pinned(state)
    if not (machine.lets_go(events) or (was_pinned and events)):
        return events
    try:
        is_kept = is_pinned()
    except StoreFailed:
        if machine.lets_go(events):
            raise
        return events  # Whoever keeps it may have let go; the next decision asks again.
    return events if is_kept == was_pinned else machine.decide(state, stimulus, now_ms, jitter, is_kept)


class Loop(Generic[StateT, EventT, StimulusT, CommandT]):
    """One master of one run, from its opening record until nothing is left to do or somebody else took over."""

    def __init__(
        self,
        machine: Machine[StateT, EventT, StimulusT, CommandT],
        journal: Journal[EventT],
        state: StateT,
        port: CommandPort[CommandT, StimulusT],
        now_ms: Callable[[], int],
        jitter: Callable[[], float],
        *,
        watcher: Callable[[tuple[EventT, ...], StateT], None],
        remember: Callable[[Position, StateT], None],
        pause: Pause = time.sleep,
        is_pinned: Callable[[], bool] | None = None,
    ) -> None:
        self._machine = machine
        self._journal = journal
        self._state = state
        self._port = port
        self._now_ms = now_ms
        self._jitter = jitter
        self._watcher = watcher
        self._remember = remember
        self._pause = pause
        self._is_pinned = is_pinned
        self._sent: set[Key] = set()
        self._due_ms: set[int] = set()
        self._last_ms = 0
        self._left: frozenset[Any] = frozenset()
        self._fenced: Fenced | None = None
        self._is_stopped = False
        self._done_ms: int | None = None

    @property
    def state(self) -> StateT:
        return self._state

    def run(self) -> StateT:
        """Until the run is over. Raises `Fenced` when another master owns it."""
        try:
            self._dispatch()
            while not self._is_stopped:
                for stimulus in self._stimuli():
                    self.take(stimulus)
        except RekindleError:
            self._port.close()
            raise
        return self._state

    def take(self, stimulus: StimulusT) -> None:
        """One stimulus through decide, append, apply, dispatch."""
        given_up = self._machine.given_up(stimulus)
        if given_up is not None:
            warnings.warn(given_up.warning, RuntimeWarning, stacklevel=2)
            self._leave(frozenset({given_up.left}))
            return
        events = decide_asking(self._machine, self._state, stimulus, self._time(), self._jitter(), self._is_pinned)
        if not events:
            return
        self._append(events)
        state = self._machine.fold(self._state, events)
        assert state is not None
        self._state = state
        self._watcher(events, self._state)
        self._dispatch()
        if self._machine.base is not None and self._journal.position.sequence % BASE_RECORDS == 0:
            self._begin_anew(self._machine.base(self._state))
        self._remember(self._journal.position, self._state)

    def fence(self, reason: Fenced) -> None:
        """From the heartbeat's thread: somebody else is the master. The world stops now, the loop at its next turn."""
        self._fenced = reason
        self._port.close()

    def _stimuli(self) -> list[StimulusT]:
        if self._fenced is not None:
            raise self._fenced
        found = list(self._port.poll(POLL_MS))
        now_ms = self._time()
        if self._machine.is_done(self._state):
            self._done_ms = now_ms if self._done_ms is None else self._done_ms
            if now_ms - self._done_ms > DELETING_MS_MAX:
                self._leave(self._machine.leftovers(self._state))
        if any(due_ms <= now_ms for due_ms in self._due_ms):
            self._due_ms = {due_ms for due_ms in self._due_ms if due_ms > now_ms}
            found.append(self._machine.tick)
        return found

    def _leave(self, leftovers: frozenset[Any]) -> None:
        """To gc."""
        self._left |= leftovers
        self._dispatch()

    def _append(self, events: tuple[EventT, ...]) -> None:
        """Return when the record is acknowledged. Unknown is settled with the same bytes, before anything else."""
        for number in range(1, APPEND_TRIES_MAX + 1):
            try:
                self._journal.append(*events)
                return
            except AppendUnknown:
                self._settle()
                return
            except StoreFailed:
                if number == APPEND_TRIES_MAX:
                    raise
                self._pause(PAUSE_SECONDS * number)

    def _begin_anew(self, base: EventT) -> None:
        """From this event on. Records that the storage does not delete now go with the next base."""
        assert self._machine.fold(None, (self._journal.as_read(base),)) == self._state, "a base holds the whole state"
        self._append((base,))
        with contextlib.suppress(StoreFailed):
            cut(self._journal.store, self._journal.run)

    def _settle(self) -> None:
        for number in range(1, SETTLE_TRIES_MAX + 1):
            try:
                self._journal.settle()
                return
            except AppendUnknown:
                if number == SETTLE_TRIES_MAX:
                    raise

    def _dispatch(self) -> None:
        for command in self._machine.commands(self._state, self._sent, self._left):
            if self._fenced is not None:
                raise self._fenced
            match command:
                case Stop():
                    self._is_stopped = True
                case WakeAt(due_ms):
                    self._sent.add(command.key)
                    self._due_ms.add(due_ms)
                case _:
                    self._sent.add(command.key)
                    self._port.send(command)

    def _time(self) -> int:
        """Milliseconds that never go back, whatever the clock does."""
        self._last_ms = max(self._last_ms, self._now_ms())
        return self._last_ms
