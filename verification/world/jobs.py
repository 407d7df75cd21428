"""What the simulated engine is made of: its driver, its surroundings, the plans it holds and the jobs it runs."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Protocol

from rekindle.master.facts import stimuli as st
from rekindle.master.facts.events import Fence
from rekindle.master.state import commands as cmd
from rekindle.master.state.graph_index import GraphIndex
from rekindle.model.failures import Failure, FailureKind
from rekindle.model.ids import AttemptId, ExchangeId
from rekindle.model.parts import NOTHING, Parts
from world.faults import FaultPhase
from world.scenario import Scenario
from world.storage import FileKey, Storage
from world.values import Label, Values


class Driver(Protocol):
    """The process an application belongs to."""

    def tell(self, stimulus: st.Stimulus) -> None: ...

    @property
    def is_asleep(self) -> bool: ...

    @property
    def fence(self) -> Fence | None: ...

    def now_ms(self) -> int: ...

    def leave(self) -> None: ...


class Surroundings(Protocol):
    """What an application finds around it: time, chance, storage, faults, and whoever watches."""

    now: int
    rng: Random
    scenario: Scenario
    layout: GraphIndex
    values: Values
    storage: Storage

    @property
    def is_recovering(self) -> bool: ...

    def later(self, delay: int, act: Callable[..., None], *args: Any) -> None: ...

    def exactly(self, delay: int, act: Callable[..., None], *args: Any) -> None: ...

    def hit(
        self,
        phase: FaultPhase,
        step: str,
        application: Any,
        job: Job | None = None,
        partition: int = 0,
        executor: int = 0,
    ) -> None: ...

    def is_poisoned(self, step: str, partition: int) -> bool: ...

    def check_dispatch(self, driver: Driver, command: cmd.StartAttempt) -> None: ...

    def check_deletion(self, driver: Driver, attempt: AttemptId) -> None: ...

    def check_let_go(self, driver: Driver, command: cmd.ReleaseExchanges, live: list[AttemptId]) -> None: ...

    def check_write(self, key: FileKey, label: Label) -> None: ...

    def check_input(self, step: str, partition: int) -> None: ...

    def check_read(self, driver: Driver, attempt: AttemptId) -> None: ...

    def check_taken(self, sink: str) -> None: ...

    def check_publication(self, command: cmd.PublishSink, labels: tuple[Label, ...]) -> None: ...

    def check_target(self, sink: str) -> None: ...


class Running(Protocol):
    """The application that a job belongs to, as far as the job must know it."""

    is_alive: bool

    @property
    def world(self) -> Surroundings: ...


class Gone(Exception):
    """A stored partition that a task had to read is not there, or damaged."""

    def __init__(self, step: str, partition: int, kind: FailureKind) -> None:
        super().__init__(f"{step}[{partition}]")
        self.step = step
        self.partition = partition
        self.kind = kind


class Plan:
    """What an application holds for one generation of a step: the files it was planned over, its exchanges, part by
    part, and their version."""

    __slots__ = ("files", "known", "parts", "version")

    def __init__(self, command: cmd.StartAttempt) -> None:
        self.parts: dict[ExchangeId, dict[int, tuple[Label, int]]] = {}
        self.known: dict[tuple[ExchangeId, int], Label] = {}
        self.version = command.exchange_version
        self.files = _files(command)

    def reads(self, command: cmd.StartAttempt) -> bool:
        return _files(command) <= self.files

    def checksum(self) -> str:
        return str(sorted((str(x), part, label) for (x, part), label in self.known.items()))


def _files(command: cmd.StartAttempt) -> set[tuple[AttemptId, int]]:
    return {(segment.attempt, at) for one in command.inputs for segment in one.segments for at in segment.partitions}


class Job:
    """One attempt as the engine runs it."""

    __slots__ = (
        "application",
        "command",
        "committed",
        "expected",
        "failures",
        "holes",
        "is_cancelled",
        "is_ended",
        "is_reporting",
        "left",
        "lost",
        "narrow",
        "plan",
        "reported",
        "segments",
        "tries",
    )

    def __init__(self, application: Running, command: cmd.StartAttempt, plan: Plan, *, is_ended: bool = False) -> None:
        self.application = application
        self.command = command
        self.plan = plan
        self.expected = command.exchange_checksum
        self.segments = {one.step: one.segments for one in command.inputs}
        self.holes = {one.step: one.holes for one in command.inputs}
        self.narrow = application.world.layout.stages[command.attempt.step]
        self.left = set(command.partitions)
        self.tries = -1
        self.committed: dict[int, tuple[int, Label]] = {}
        self.reported: set[int] = set()
        self.failures: list[Failure] = []
        self.lost: Parts = NOTHING
        self.is_cancelled = False
        self.is_ended = is_ended
        self.is_reporting = False

    def next_try(self) -> int:
        """A number that no other task try of this job has."""
        self.tries += 1
        return self.tries

    @property
    def is_live(self) -> bool:
        return self.application.is_alive and not (self.is_cancelled or self.is_ended or self.failures)
