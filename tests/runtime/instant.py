"""An engine that does everything at once and remembers what it was told, with what the journal held then."""

from __future__ import annotations

from rekindle.journal.history import read
from rekindle.journal.store import Store
from rekindle.master import commands as cmd
from rekindle.master import stimuli as st
from rekindle.master.events import AttemptOpened
from rekindle.model.ids import AttemptId
from rekindle.runtime.opening import codec

RUN = "daily/run-1"


class InstantEngine:
    """Commits whatever is started. `unjournaled` are attempts that were started before they were facts."""

    def __init__(self, store: Store, application: str = "app-1", dies_after: int = 10**9) -> None:
        self._store = store
        self._application = application
        self._dies_after = dies_after
        self.told: list[cmd.Command] = []
        self.unjournaled: list[AttemptId] = []
        self.is_closed = False
        self._happened: list[st.Stimulus] = []

    @property
    def application(self) -> str:
        return self._application

    def send(self, command: cmd.Command) -> None:
        self.told.append(command)
        if len(self.told) > self._dies_after:
            raise KeyboardInterrupt
        match command:
            case cmd.StartAttempt(attempt, partitions):
                opened = {e.attempt for e in read(self._store, RUN, codec()).events if isinstance(e, AttemptOpened)}
                if attempt not in opened:
                    self.unjournaled.append(attempt)
                self._happened += [
                    st.CommitsSeen(attempt, partitions, b"files", None, command.exchange_version),
                    st.AttemptEnded(attempt),
                ]
            case cmd.SealAttempt(attempt):
                self._happened.append(st.AttemptSealed(attempt))
            case cmd.CancelAttempt(attempt):
                self._happened.append(st.AttemptEnded(attempt, was_cancelled=True))
            case cmd.PublishSink(sink, fence):
                self._happened.append(st.SinkDone(sink, fence))
            case cmd.DeleteAttempt(attempt):
                self._happened.append(st.DeletionDone(attempt))
            case cmd.WakeAt() | cmd.Stop():
                raise AssertionError("the loop keeps these to itself")

    def poll(self, timeout_ms: int) -> list[st.Stimulus]:
        happened, self._happened = self._happened, []
        return happened

    def close(self) -> None:
        self.is_closed = True
