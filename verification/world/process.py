"""A driver process: the machine that `runtime/loop.py` runs, with every place where a process can die, sleep or wait.

Decide, append, apply, dispatch, in that order. After an append with an unknown answer only the same record is tried
again, and nothing else happens meanwhile. A record that lost its number ends the process: it cancels what it runs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from rekindle.errors import Refused
from rekindle.master.facts import stimuli as st
from rekindle.master.facts.events import Fence
from rekindle.master.machine import BATCH
from rekindle.master.state.commands import Command, Key
from rekindle.master.state.run_state import RunState
from world.engine import Application
from world.storage import Events, Ledger, Put, Record

Opening = Callable[["RunState | None", str], st.Stimulus]


class Watcher(Protocol):
    """What a process asks of the world around it."""

    now: int
    ledger: Ledger

    def later(self, delay: int, act: Callable[..., None], *args: Any) -> None: ...

    def put(self, process: Process, number: int, record: Record) -> Put: ...

    def jitter(self) -> float: ...

    def check_state(self, process: Process, record: Record) -> None: ...

    def gone(self, process: Process, why: str) -> None: ...


class Process:
    """One master in one driver. It is dead for ever once it is dead."""

    def __init__(self, world: Watcher, number: int, clock_ms: int) -> None:
        self.world = world
        self.number = number
        self.is_alive = True
        self.is_asleep = False
        self.clock_ms = clock_ms
        self.dies: str = ""
        self.inbox: deque[st.Stimulus] = deque()
        self.outbox: deque[Command] = deque()
        self.sent: set[Key] = set()
        self.state: RunState | None = None
        self.next_number = 0
        self.pending: tuple[int, Record, RunState] | None = None
        self.application: Application | None = None

    # ------------------------------------------------------------------ life

    def open(self, application: Application, opening: Opening) -> None:
        """Read the journal, and take the run."""
        self.application = application
        ledger = self.world.ledger
        self.state = BATCH.fold(None, ledger.events())
        self.next_number = len(ledger.records)
        try:
            self._handle(opening(self.state, application.name))
        except Refused as refused:
            self.die(f"refused: {refused.message}")

    @property
    def fence(self) -> Fence | None:
        """The publication that is open, as far as this process knows."""
        return None if self.state is None else self.state.publication

    def now_ms(self) -> int:
        """The wall clock as it was at the start, and monotonic from there: it may be wrong, but never goes back."""
        return self.world.now + self.clock_ms

    def sleep(self, duration: int) -> None:
        self.is_asleep = True
        self.world.later(duration, self._wake)

    def _wake(self) -> None:
        self.is_asleep = False
        self._dispatch()
        self._drain()

    def die(self, why: str) -> None:
        if self.is_alive:
            self.is_alive = False
            if self.application is not None:
                self.application.die()
            self.world.gone(self, why)

    def leave(self) -> None:
        """The master has nothing left to do."""
        self.die("done")

    # ------------------------------------------------------------------ the loop

    def tell(self, stimulus: st.Stimulus) -> None:
        if self.is_alive:
            self.inbox.append(stimulus)
            self._drain()

    def _drain(self) -> None:
        while self.inbox and self._is_free():
            self._handle(self.inbox.popleft())

    def _is_free(self) -> bool:
        return self.is_alive and not self.is_asleep and not self.outbox and self.pending is None

    def _handle(self, stimulus: st.Stimulus) -> None:
        events = BATCH.decide(self.state, stimulus, self.now_ms(), self.world.jitter())
        if events:
            state = BATCH.fold(self.state, events)
            assert state is not None
            self._append(events, state)

    def _append(self, events: Events, state: RunState) -> None:
        if self.dies == "before append":
            self.die("killed before an append")
            return
        self._try(self.next_number, Record(self.number, events), state)

    def _try(self, number: int, record: Record, state: RunState) -> None:
        match self.world.put(self, number, record):
            case Put.CREATED:
                self._acknowledged(number, record, state)
            case Put.EXISTS:
                if self.world.ledger.holds(number, record):
                    self._acknowledged(number, record, state)
                else:
                    self.die("fenced")
            case Put.UNKNOWN:
                self.pending = (number, record, state)
                self.world.later(15, self._try_again)

    def _try_again(self) -> None:
        if not self.is_alive or self.pending is None:
            return
        if self.is_asleep:
            self.world.later(15, self._try_again)
            return
        pending, self.pending = self.pending, None
        self._try(*pending)
        self._drain()

    def _acknowledged(self, number: int, record: Record, state: RunState) -> None:
        if self.dies == "after append":
            self.die("killed after an append")
            return
        self.state = state
        self.next_number = number + 1
        self.world.check_state(self, record)
        self.outbox.extend(BATCH.commands(state, self.sent))
        self.sent.update(command.key for command in self.outbox)
        self._dispatch()

    def _dispatch(self) -> None:
        """Send what is to be sent. A process that is stopped here goes on here, however long it slept."""
        assert self.application is not None
        while self.outbox and self.is_alive and not self.is_asleep:
            if self.dies == "between commands":
                self.die("killed between commands")
                return
            self.application.send(self.outbox.popleft())
