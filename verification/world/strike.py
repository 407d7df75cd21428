"""What each kind of fault does to the world, at the moment it waited for."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Protocol, cast

from rekindle.model.failures import FailureKind
from rekindle.model.graph import Graph
from rekindle.model.kinds import FailureDomain
from world.engine import EXECUTORS, Application
from world.faults import Fault, FaultKind, FaultPhase
from world.jobs import Job
from world.process import Process
from world.scenario import Scenario
from world.storage import Damage, FileKey, Storage

_DEATHS = ("now", "before append", "after append", "between commands")
_TASK_FAILURES = {
    FaultKind.EXCEPTION: FailureKind.EXCEPTION,
    FaultKind.OUT_OF_MEMORY: FailureKind.OUT_OF_MEMORY,
    FaultKind.READ_ERROR: FailureKind.READ_ERROR,
    FaultKind.NO_SPACE: FailureKind.NO_SPACE,
    FaultKind.FAILING_RENAME: FailureKind.EXCEPTION,
}


class Struck(Protocol):
    """What a fault can reach."""

    rng: Random
    graph: Graph
    scenario: Scenario
    storage: Storage
    poison: dict[tuple[str, int], int]
    slow: list[int]
    skew_ms: int

    def stop(self, process: Process, duration: int) -> None: ...

    def later(self, delay: int, act: Callable[..., None], *args: Any) -> None: ...


def strike(
    world: Struck,
    fault: Fault,
    step: str,
    application: Application,
    *,
    job: Job | None = None,
    partition: int = 0,
    executor: int = 0,
) -> bool:
    """Let it happen. False where there was nothing left to hit."""
    process = cast(Process, application.process)
    kind, draw = fault.kind, fault.draw
    if kind is FaultKind.DRIVER_KILLED:
        return _kill(process, _DEATHS[draw % 4])
    if kind is FaultKind.MISSING_RECORD:
        return _kill(process, "with its record")
    if kind is FaultKind.DRIVER_STOPPED:
        world.stop(process, (20, 90, 250)[draw % 3])
        return True
    if kind is FaultKind.SLOW_STORAGE:
        world.slow.extend((draw // 3**at) % 3 for at in range(1 + draw % 3))
        return True
    if kind is FaultKind.CLOCK_JUMP:
        jump = (draw % 20_001) - 10_000
        world.skew_ms += jump
        process.clock_ms += max(0, jump)
        return True
    if kind is FaultKind.EXECUTOR_KILLED:
        application.lose_executor(draw % EXECUTORS)
        return True
    if kind in (FaultKind.TRUNCATED, FaultKind.FLIPPED, FaultKind.MISSING_FILE):
        return _damage(world, fault, step, application)
    if job is None:
        return False
    return _strike_task(world, fault, application, job, partition, executor)


def _strike_task(
    world: Struck, fault: Fault, application: Application, job: Job, partition: int, executor: int
) -> bool:
    kind, draw = fault.kind, fault.draw
    own = partition if fault.phase is not FaultPhase.CONSUMER_READS else next(iter(job.left), partition)
    if kind in _TASK_FAILURES:
        application.fail(job, own, _TASK_FAILURES[kind], f"{kind.value} {draw}")
    elif kind is FaultKind.POISON:
        world.poison[job.command.attempt.step, own] = 1 + draw % 4
        application.fail(job, own, FailureKind.POISON, f"poison {job.command.attempt.step}[{own}]")
    elif kind is FaultKind.WORKER_KILLED:
        if draw % 2:
            application.fail(job, own, FailureKind.WORKER_KILLED, f"worker {draw}")
        else:
            application.restart_task(job, own)
    elif kind is FaultKind.DUPLICATE_COMMIT:
        application.commit_twice(job, own, executor)
    else:
        assert kind is FaultKind.RECOMPUTE, kind
        if not application.lose_parts(job.command.attempt.step, draw):
            application.lose_blocks(lambda file: file.executor == draw % EXECUTORS, FailureDomain.EVICTION)
    return True


def _kill(process: Process, when: str) -> bool:
    if when == "now":
        process.die("killed")
    else:
        process.dies = when
    return True


def _damage(world: Struck, fault: Fault, step: str, application: Application) -> bool:
    """One stored partition of this step, or else of any other with the same kind of result."""
    steps = world.graph.steps
    files = world.storage.files
    found: list[FileKey] = sorted(key for key in files if key[0].step == step)
    found = found or sorted(key for key in files if steps[key[0].step].kind is fault.result)
    if not found:
        return False
    key = found[fault.draw % len(found)]
    file = files[key]
    if fault.kind is FaultKind.MISSING_FILE:
        if file.executor is not None:
            application.lose_blocks(lambda one: one is file, FailureDomain.EVICTION)
        else:
            del files[key]
    elif fault.kind is FaultKind.FLIPPED and world.scenario.has_digests:
        file.damage = Damage.FLIPPED
    else:
        file.damage = Damage.TRUNCATED
    return True
