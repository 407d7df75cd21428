"""An engine that does everything at once and remembers what it was told, with what the journal held then."""

from __future__ import annotations

from collections.abc import Callable

from rekindle.journal.history import read
from rekindle.master.facts import stimuli as st
from rekindle.master.facts.events import AttemptOpened
from rekindle.master.state import commands as cmd
from rekindle.model.failures import Cause, Failure, FailureKind
from rekindle.model.ids import AttemptId
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.runtime.opening import codec
from rekindle.storage.store import Store

RUN = "daily/run-1"
# What a partition that breaks says.
TEXT = "daily.py:12: ValueError: no such customer"
Breaks = Callable[[AttemptId, Partitions], Partitions]


def nothing(attempt: AttemptId, partitions: Partitions) -> Partitions:
    return EMPTY


class Instant:
    """Commits whatever is started, except what `breaks` says of an attempt and its partitions."""

    def __init__(self, application: str = "app-1", dies_after: int = 10**9, breaks: Breaks = nothing) -> None:
        self._application = application
        self._dies_after = dies_after
        self._breaks = breaks
        self.told: list[cmd.Command] = []
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
            case cmd.StartAttempt():
                self._start(command)
            case cmd.SealAttempt(attempt):
                self._happened.append(st.AttemptSealed(attempt=attempt))
            case cmd.CancelAttempt(attempt):
                self._happened.append(st.AttemptEnded(attempt=attempt, was_cancelled=True))
            case cmd.PublishSink(sink, fence):
                self._happened.append(st.SinkDone(sink, fence))
            case cmd.DeleteAttempt(attempt):
                self._happened.append(st.DeletionDone(attempt))
            case cmd.ReleaseExchanges():
                pass
            case cmd.WakeAt() | cmd.Stop():
                raise AssertionError("the loop keeps these to itself")

    def _start(self, command: cmd.StartAttempt) -> None:
        attempt, partitions = command.attempt, command.partitions
        broken = self._breaks(attempt, partitions) & partitions
        if done := partitions - broken:
            self._happened.append(
                st.CommitsSeen(
                    attempt=attempt,
                    partitions=done,
                    manifest=b"files",
                    digests=None,
                    exchange_version=command.exchange_version,
                )
            )
        cause = Cause(FailureKind.EXCEPTION, TEXT)
        failures = (Failure(attempt.step, broken, cause, "ValueError"),) if broken else ()
        self._happened.append(st.AttemptEnded(attempt=attempt, failures=failures))

    def poll(self, timeout_ms: int) -> list[st.Stimulus]:
        happened, self._happened = self._happened, []
        return happened

    def close(self) -> None:
        self.is_closed = True


class InstantEngine(Instant):
    """The same, beside the journal of one run. `unjournaled` are attempts that were started before they were facts."""

    def __init__(self, store: Store, application: str = "app-1", dies_after: int = 10**9) -> None:
        super().__init__(application, dies_after)
        self._store = store
        self.unjournaled: list[AttemptId] = []

    def _start(self, command: cmd.StartAttempt) -> None:
        opened = {e.attempt for e in read(self._store, RUN, codec()).events if isinstance(e, AttemptOpened)}
        if command.attempt not in opened:
            self.unjournaled.append(command.attempt)
        super()._start(command)


class Broken(InstantEngine):
    """Every attempt commits its first partition and fails for good."""

    def send(self, command: cmd.Command) -> None:
        super().send(command)
        if isinstance(command, cmd.StartAttempt):
            first = Partitions((command.partitions.lowest,))
            rest = command.partitions - first
            failure = Failure("counted", rest, Cause(FailureKind.USER_ERROR, "no such column"), "s")
            self._happened = [
                st.CommitsSeen(
                    attempt=command.attempt,
                    partitions=first,
                    manifest=b"files",
                    digests=None,
                    exchange_version=command.exchange_version,
                ),
                st.AttemptEnded(attempt=command.attempt, failures=(failure,)),
            ]


class Deaf(InstantEngine):
    """Its Spark dies while an attempt runs."""

    def poll(self, timeout_ms: int) -> list[st.Stimulus]:
        raise ConnectionError("nobody answers")
