"""Locations with runs in them, made by the real loop on a real disk, with an engine that does everything at once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from rekindle.journal.keys import claim, enlist
from rekindle.journal.memory import MemoryStore
from rekindle.journal.store import Store
from rekindle.master import commands as cmd
from rekindle.master import stimuli as st
from rekindle.master.config import BackoffSpec, MasterConfig
from rekindle.master.state import RunState
from rekindle.model.failures import Cause, Failure, FailureKind
from rekindle.model.ids import AttemptId
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.runtime.opening import Intent, execute
from rekindle.testing.drawing import draw

DRAWING = "orders[4] =blocking=> clean[4] =blocking all=> daily[3]"
AT_ONCE = MasterConfig(backoff=BackoffSpec("fixed", {"attempts_max": 10, "delay_ms": 0}))


class Engine:
    """Commits what is started, except what `breaks` says of a step and partitions; dies after so many commands."""

    def __init__(
        self,
        application: str = "app-1",
        breaks: Callable[[AttemptId, Partitions], Partitions] = lambda attempt, partitions: EMPTY,
        dies_after: int = 10**9,
    ) -> None:
        self.application = application
        self._breaks = breaks
        self._left = dies_after
        self._happened: list[st.Stimulus] = []

    def send(self, command: cmd.Command) -> None:
        self._left -= 1
        if self._left < 0:
            raise KeyboardInterrupt
        match command:
            case cmd.StartAttempt(attempt, partitions):
                self._start(attempt, partitions, command.exchange_version)
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

    def _start(self, attempt: AttemptId, partitions: Partitions, version: int) -> None:
        broken = self._breaks(attempt, partitions) & partitions
        if done := partitions - broken:
            self._happened.append(st.CommitsSeen(attempt, done, b"files", None, version))
        cause = Cause(FailureKind.EXCEPTION, "daily.py:12: ValueError: no such customer")
        failures = (Failure(attempt.step, broken, cause, "ValueError"),) if broken else ()
        self._happened.append(st.AttemptEnded(attempt, failures))

    def poll(self, timeout_ms: int) -> list[st.Stimulus]:
        happened, self._happened = self._happened, []
        return happened

    def close(self) -> None:
        """Nothing is held."""


def always(step: str, partition: int) -> Callable[[AttemptId, Partitions], Partitions]:
    """Break one partition of a step each time."""
    return lambda attempt, partitions: Partitions((partition,)) if attempt.step == step else EMPTY


def make_run(
    store: Store,
    run: str,
    *,
    pipeline: str = "daily",
    parameters: dict[str, str] | None = None,
    drawing: str = DRAWING,
    engine: Engine | None = None,
    config: MasterConfig = AT_ONCE,
    force: bool = True,
) -> RunState | None:
    """Start or resume a run; None if its engine died. The last step is the sink."""
    graph = draw(drawing)
    held = claim(store, pipeline, {"day": run} if parameters is None else parameters, run)
    order = enlist(store, pipeline, run) if held.is_ours else 1
    intent = Intent(pipeline, run, graph, {}, (list(graph.steps)[-1],), order, config)
    with suppress(KeyboardInterrupt):
        return execute(store, intent, engine or Engine(), force=force)
    return None


def make_runs(folder: Path, count: int) -> None:
    """One pipeline with many runs: of ten, eight ended well, one failed, one lost its driver. Made in memory and then
    written down, because a disk that keeps its word takes minutes for a thousand."""
    store = MemoryStore()
    for number in range(count):
        engine = Engine(breaks=always("clean", 2)) if number % 10 == 3 else None
        engine = Engine(dies_after=2) if number % 10 == 7 else engine
        make_run(store, f"20261115T{number:06d}Z-{number:08x}", parameters={"day": str(number)}, engine=engine)
    for key, (body, _) in store.objects.items():
        path = folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
