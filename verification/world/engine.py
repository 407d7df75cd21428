"""The simulated engine: Spark applications with executors, held plans, exchanges and cached blocks.

- An application outlives its driver by a little: tasks in flight may still commit, unseen.
- An exchange is made when a task first needs it. Parts that were lost are made again without a word; only a look at the
  checksums, before commits are reported, can tell.
- Blocks of caching and memory results live on executors. One that may be recomputed silently is; the others are lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, assert_never

from rekindle.master.facts import stimuli as st
from rekindle.master.state import commands as cmd
from rekindle.master.state.run_state import Segment
from rekindle.model.failures import Cause, Failure, FailureKind
from rekindle.model.ids import AttemptId, ExchangeId
from rekindle.model.kinds import Determinism, FailureDomain, ResultKind
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.model.parts import NOTHING, Parts
from rekindle.model.regions import reads
from world.faults import FaultPhase
from world.jobs import Driver, Gone, Job, Plan, Surroundings
from world.storage import Damage, File
from world.values import Label

EXECUTORS = 2
LostBlock = Callable[[File], bool]


class Application:
    """One Spark application: it belongs to one driver process and dies soon after it."""

    def __init__(self, world: Surroundings, name: str, process: Driver, code: dict[str, int]) -> None:
        self.world = world
        self.name = name
        self.process = process
        self.code = code
        self.is_alive = True
        self.is_quiet = False  # reads now what it may have to do without
        self.lives = [0] * EXECUTORS
        self.plans: dict[tuple[str, int], Plan] = {}
        self.replaced: list[tuple[tuple[str, int], Plan]] = []
        self.jobs: dict[AttemptId, Job] = {}

    # ------------------------------------------------------------------ commands

    def send(self, command: cmd.Command) -> None:
        world = self.world
        match command:
            case cmd.StartAttempt():
                world.check_dispatch(self.process, command)
                world.hit(FaultPhase.BEFORE_LAUNCH, command.attempt.step, self)
                world.later(3, self._launch, command)
            case cmd.CancelAttempt(attempt):
                world.later(2, self._cancel, attempt)
            case cmd.SealAttempt(attempt):
                world.later(4, self._seal, attempt)
            case cmd.PublishSink():
                world.later(4, self._publish, command)
            case cmd.DeleteAttempt(attempt):
                world.check_deletion(self.process, attempt)
                world.hit(FaultPhase.RELEASE, attempt.step, self)
                world.later(4, self._delete, attempt)
            case cmd.ReleaseExchanges():
                self._let_go(command)
            case cmd.WakeAt(due_ms):
                world.exactly(max(1, due_ms - self.process.now_ms()), self.process.tell, st.Tick())
            case cmd.Stop():
                self.process.leave()
            case _:
                assert_never(command)

    def die(self) -> None:
        """The driver is gone: executors follow within moments, and with them every block."""
        self.is_alive = False
        for key in [key for key, file in self.world.storage.files.items() if file.executor is not None]:
            if key[0] in self.jobs:
                del self.world.storage.files[key]

    # ------------------------------------------------------------------ attempts

    def _launch(self, command: cmd.StartAttempt) -> None:
        if not self.is_alive:
            return
        attempt = command.attempt
        key = (attempt.step, attempt.generation)
        plan = self.plans.get(key)
        if plan is None or not plan.reads(command):
            plan = Plan(command)
            if any(one.absent for one in command.inputs):
                self.jobs[attempt] = Job(self, command, plan, is_ended=True)
                self.process.tell(st.AttemptEnded(attempt=attempt, was_cancelled=True, has_lost_plan=True))
                return
            if not command.is_first and not self.world.layout.is_narrow(attempt.step):
                plan.version += 1
            if key in self.plans:
                self.replaced.append((key, self.plans[key]))
            self.plans[key] = plan
        job = self.jobs[attempt] = Job(self, command, plan)
        for partition in command.partitions:
            self.world.later(3, self._compute, job, partition, job.next_try())

    def _compute(self, job: Job, partition: int, number: int) -> None:
        world, name = self.world, job.command.attempt.step
        if not job.is_live:
            return
        executor = world.rng.randrange(EXECUTORS)
        life = self.lives[executor]
        world.hit(FaultPhase.MID_COMPUTE, name, self, job, partition, executor)
        if world.is_recovering and job.is_live:
            world.hit(FaultPhase.RECOVERY, name, self, job, partition, executor)
        if not job.is_live:
            return
        if world.is_poisoned(name, partition):
            self.fail(job, partition, FailureKind.POISON, f"poison {name}[{partition}]")
            return
        try:
            label = self._value(job, name, partition, executor)
        except Gone as gone:
            self._fail_by_loss(job, partition, gone)
            return
        if self._settle_version(job):
            world.hit(FaultPhase.COMPUTED, name, self, job, partition, executor)
            world.later(4, self._write, job, partition, number, label, executor, life)

    def _write(self, job: Job, partition: int, number: int, label: Label, executor: int, life: int) -> None:
        world, name = self.world, job.command.attempt.step
        if not self._may_still_write(job):
            return
        if self.lives[executor] != life:
            world.later(2, self._compute, job, partition, job.next_try())
            return
        world.hit(FaultPhase.MID_WRITE, name, self, job, partition, executor)
        world.hit(FaultPhase.WRITTEN, name, self, job, partition, executor)
        if not self._may_still_write(job) or self.lives[executor] != life:
            if job.is_live:
                world.later(2, self._compute, job, partition, job.next_try())
            return
        self.put(job, partition, number, label, executor)
        world.hit(FaultPhase.COMMITTED, name, self, job, partition, executor)

    def put(self, job: Job, partition: int, number: int, label: Label, executor: int) -> None:
        """A task try commits: its file is there, and the driver will hear of it."""
        attempt = job.command.attempt
        is_block = self.world.layout.graph.steps[attempt.step].kind is not ResultKind.BLOCKING
        if is_block and not self.is_alive:
            return
        file = File(label, executor if is_block else None)
        self.world.check_write((attempt, partition, number), label)
        if self.world.storage.write((attempt, partition, number), file):
            job.committed[partition] = (number, label)
            job.left.discard(partition)
            self.report_soon(job)

    def _may_still_write(self, job: Job) -> bool:
        """A task in flight survives an abort or its driver for a moment, sometimes."""
        if job.is_live:
            return True
        return not job.is_ended and self.world.rng.random() < 0.5

    def fail(self, job: Job, partition: int, kind: FailureKind, signature: str) -> None:
        """The task failed for good and Spark aborts the job; its end is told when all is quiet."""
        if job.is_live:
            step = job.command.attempt.step
            job.failures.append(Failure(step, Partitions((partition,)), Cause(kind, signature), signature))
            self.world.later(12, self._end, job)

    def restart_task(self, job: Job, partition: int) -> None:
        """Spark starts the task again, as another try; whatever the old one still does is a second commit."""
        self.world.later(3, self._compute, job, partition, job.next_try())

    def commit_twice(self, job: Job, partition: int, executor: int) -> None:
        """A speculative try of the same task commits too, with what it computed itself."""
        try:
            label = self._value(job, job.command.attempt.step, partition, executor)
        except Gone:
            return
        self.world.later(9, self._commit_late, job, partition, job.next_try(), label, executor)

    def _commit_late(self, job: Job, partition: int, number: int, label: Label, executor: int) -> None:
        if self._may_still_write(job):
            job.reported.discard(partition)
            self.put(job, partition, number, label, executor)

    def _fail_by_loss(self, job: Job, partition: int, gone: Gone) -> None:
        if job.is_live:
            job.lost = job.lost | Parts({gone.step: Partitions((gone.partition,))})
            self.fail(job, partition, gone.kind, f"cannot read {gone.step}[{gone.partition}]")

    def report_soon(self, job: Job) -> None:
        if not job.is_reporting:
            job.is_reporting = True
            self.world.later(5, self._report, job)

    def _report(self, job: Job) -> None:
        job.is_reporting = False
        if not self.is_alive or job.is_ended:
            return
        self._tell_commits(job)
        if not job.left and not job.failures and not job.is_cancelled:
            self._end(job)

    def _tell_commits(self, job: Job) -> None:
        fresh = {at: made for at, made in job.committed.items() if at not in job.reported}
        if fresh:
            job.reported.update(fresh)
            self.process.tell(
                st.CommitsSeen(
                    attempt=job.command.attempt,
                    partitions=Partitions(fresh),
                    manifest=manifest_of(fresh),
                    digests=self._digests(fresh),
                    exchange_version=job.plan.version,
                    exchange_checksum=job.plan.checksum()
                    if self.world.scenario.has_checksums and job.plan.known
                    else None,
                    size_bytes=self._size(job.command.attempt, fresh),
                )
            )

    def _end(self, job: Job) -> None:
        if not self.is_alive or job.is_ended:
            return
        self._tell_commits(job)
        job.is_ended = True
        failures = tuple(job.failures)
        was_cancelled = job.is_cancelled and not failures
        attempt, has_lost_plan = job.command.attempt, bool(job.lost)
        self.process.tell(
            st.AttemptEnded(
                attempt=attempt,
                failures=failures,
                was_cancelled=was_cancelled,
                lost=job.lost,
                has_lost_plan=has_lost_plan,
            )
        )

    def _cancel(self, attempt: AttemptId) -> None:
        if not self.is_alive:
            return
        job = self.jobs.get(attempt)
        if job is None:
            self.world.later(2, self._cancel, attempt)
        elif not job.is_ended:
            job.is_cancelled = True
            self.world.later(4, self._end, job)

    def _seal(self, attempt: AttemptId) -> None:
        if not self.is_alive:
            return
        storage, graph = self.world.storage, self.world.layout.graph
        storage.sealed.add(attempt)
        found: dict[int, tuple[int, Label]] = {}
        if graph.steps[attempt.step].kind is ResultKind.BLOCKING:
            whole = {at: (number, storage.files[attempt, at, number]) for at, number in storage.tries(attempt).items()}
            found = {
                at: (number, file.label) for at, (number, file) in whole.items() if file.damage is not Damage.TRUNCATED
            }
        digests = self._digests(found)
        size = self._size(attempt, found)
        self.process.tell(
            st.AttemptSealed(
                attempt=attempt,
                partitions=Partitions(found),
                manifest=manifest_of(found),
                digests=digests,
                exchange_version=None,
                size_bytes=size,
            )
        )

    def _delete(self, attempt: AttemptId) -> None:
        if self._is_stopped(self._delete, attempt):
            return
        if self.is_alive:
            self.world.storage.delete(attempt)
            self.process.tell(st.DeletionDone(attempt))

    def _let_go(self, command: cmd.ReleaseExchanges) -> None:
        """Spark forgets the exchanges; a task that still reads them would make them again."""
        self.world.check_let_go(
            self.process, command, [job.command.attempt for job in self.jobs.values() if job.is_live]
        )
        for (step, generation), plan in self._every_plan():
            if step == command.step and generation <= command.generation:
                for parts in plan.parts.values():
                    parts.clear()
        self.plans.pop((command.step, command.generation), None)

    def _is_stopped(self, act: Callable[..., None], what: Any) -> bool:
        """What the driver itself does waits while it is stopped, and then goes on as if nothing had happened."""
        if self.is_alive and self.process.is_asleep:
            self.world.later(10, act, what)
            return True
        return False

    def _publish(self, command: cmd.PublishSink) -> None:
        world = self.world
        world.hit(FaultPhase.CONSUMER_READS, command.sink, self)
        if self._is_stopped(self._publish, command) or not self.is_alive:
            return
        self.is_quiet = self.process.fence != command.fence
        try:
            labels = self._published(command)
        except Gone as gone:
            lost = Parts({gone.step: Partitions((gone.partition,))})
            failure = Failure(command.sink, EMPTY, Cause(gone.kind), f"cannot read {gone}")
            self.process.tell(st.SinkUnchanged(command.sink, command.fence))
            self.process.tell(st.PartsLost(lost, FailureDomain.STORAGE))
            self.process.tell(st.SinkFailed(failure, command.fence))
            return
        finally:
            self.is_quiet = False
        world.check_publication(command, labels)
        newer = world.storage.publish(command.sink, command.fence, labels)
        world.check_target(command.sink)
        if newer is None:
            world.check_taken(command.sink)
            self.process.tell(st.SinkDone(command.sink, command.fence))
        else:
            self.process.tell(st.SinkFenced(command.sink, command.fence, newer))

    def _published(self, command: cmd.PublishSink) -> tuple[Label, ...]:
        sink, holes = command.sink, dict(command.holes).get(command.sink, EMPTY)
        return tuple(
            self.world.values.hole(sink, at) if at in holes else self._read(sink, at, command.segments)
            for at in self.world.layout.graph.whole[sink]
        )

    # ------------------------------------------------------------------ values

    def _value(self, job: Job, name: str, partition: int, executor: int) -> Label:
        """The label of a vertex of the job's group, computed now."""
        world = self.world
        graph = world.layout.graph
        inputs: list[Label] = []
        for edge in graph.inputs[name]:
            if edge.has_exchange:
                inputs.extend(self._exchange(job, ExchangeId(name, edge.producer), executor))
                continue
            for at in reads(graph, edge, Partitions((partition,))):
                inputs.append(self._input(job, edge.producer, at, executor, is_narrow=name in job.narrow))
        constants = ExchangeId(name)
        if constants in graph.exchanges:
            inputs.extend(self._exchange(job, constants, executor))
        draw = self._draw(graph.steps[name].determinism)
        return world.values.make(name, partition, self.code[name], draw, inputs)

    def _input(self, job: Job, producer: str, partition: int, executor: int, *, is_narrow: bool = False) -> Label:
        if self.world.layout.graph.steps[producer].kind.joins_region:
            return self._value(job, producer, partition, executor)
        if partition in job.holes.get(producer, EMPTY):
            return self.world.values.hole(producer, partition)
        self.world.hit(FaultPhase.CONSUMER_READS, producer, self, job, partition, executor)
        segments = job.segments.get(producer, ())
        if is_narrow and not any(partition in one.digests.of for one in segments):
            self.world.check_input(producer, partition)
        return self._read(producer, partition, segments)

    def _exchange(self, job: Job, exchange: ExchangeId, executor: int) -> list[Label]:
        """All parts of an exchange; those that are missing are made, and compared with what they were."""
        world, plan = self.world, job.plan
        made = world.layout.graph.exchanges[exchange]
        parts = plan.parts.setdefault(exchange, {})
        found: list[Label] = []
        for part in range(made.partitions):
            if part not in parts:
                label = self._part(job, exchange, part, executor)
                before = plan.known.get((exchange, part))
                if before is not None and not (world.scenario.has_checksums and before == label):
                    plan.version += 1
                plan.known[exchange, part] = label
                parts[part] = (label, world.rng.randrange(EXECUTORS))
            found.append(parts[part][0])
        return found

    def _part(self, job: Job, exchange: ExchangeId, part: int, executor: int) -> Label:
        made = self.world.layout.graph.exchanges[exchange]
        below = () if exchange.producer is None else (self._input(job, exchange.producer, part, executor),)
        code = self.code[exchange.consumer]
        return self.world.values.make(str(exchange), part, code, self._draw(made.determinism), below)

    def _settle_version(self, job: Job) -> bool:
        """A plan of a new application that comes out with the checksums of the old one is the same version."""
        if job.expected is not None and job.plan.known:
            is_same = self.world.scenario.has_checksums and job.plan.checksum() == job.expected
            if is_same and job.plan.version == job.command.exchange_version + 1 and not job.command.is_first:
                job.plan.version -= 1
            job.expected = None
        return job.is_live

    def _draw(self, level: Determinism) -> int:
        if level.is_repeatable:
            return 0
        if level is Determinism.UNKNOWN and self.world.rng.random() < 0.7:
            return 1
        return self.world.values.fresh_draw()

    def _read(self, step: str, partition: int, segments: tuple[Segment, ...]) -> Label:
        """The label in the file that the journal named."""
        for segment in segments:
            if partition in segment.partitions:
                number = segment.manifest[segment.digests.of.rank(partition)]
                file = self.world.storage.files.get((segment.attempt, partition, number))
                if file is None:
                    if not self.is_quiet:
                        self.world.check_read(self.process, segment.attempt)
                    raise Gone(step, partition, FailureKind.RESULT_MISSING)
                if file.damage is not Damage.NONE:
                    raise Gone(step, partition, FailureKind.RESULT_CORRUPT)
                return file.label
        raise Gone(step, partition, FailureKind.RESULT_MISSING)

    def _digests(self, made: dict[int, tuple[int, Label]]) -> bytes | None:
        """As the task saw its rows: later damage to the file does not change them."""
        if not self.world.scenario.has_digests:
            return None
        return b"".join(made[at][1].to_bytes(4, "big") for at in sorted(made))

    def _size(self, attempt: AttemptId, made: dict[int, tuple[int, Label]]) -> int:
        """Files are small and differ; blocks take nothing of the storage."""
        if self.world.layout.graph.steps[attempt.step].kind is not ResultKind.BLOCKING:
            return 0
        return sum(1 + label % 5 for _, label in made.values())

    # ------------------------------------------------------------------ losses

    def lose_executor(self, executor: int) -> None:
        """Its tasks start again elsewhere, its exchange parts and blocks are gone."""
        self.lives[executor] += 1
        for _, plan in self._every_plan():
            for parts in plan.parts.values():
                for part in [part for part, (_, where) in parts.items() if where == executor]:
                    del parts[part]
        self.lose_blocks(lambda file: file.executor == executor, FailureDomain.EXECUTOR)

    def _every_plan(self) -> list[tuple[tuple[str, int], Plan]]:
        """Also those that others took the place of: a job may still run on one."""
        return [*self.plans.items(), *self.replaced]

    def lose_parts(self, step: str, draw: int) -> bool:
        """One part of one exchange under the step is evicted, silently."""
        for (name, _), plan in self._every_plan():
            for parts in plan.parts.values():
                if name == step and parts:
                    del parts[sorted(parts)[draw % len(parts)]]
                    return True
        return False

    def lose_blocks(self, is_lost: LostBlock, domain: FailureDomain) -> None:
        """Blocks vanish. One that may be recomputed silently is; of the others the master hears."""
        lost: Parts = NOTHING
        files = self.world.storage.files
        for key in [key for key, file in files.items() if file.executor is not None and is_lost(file)]:
            attempt, partition, _ = key
            job = self.jobs.get(attempt)
            if job is None:
                continue
            if not self._recompute_block(job, partition, files[key]):
                del files[key]
                lost = lost | Parts({attempt.step: Partitions((partition,))})
        if lost:
            self.process.tell(st.PartsLost(lost, domain))

    def _recompute_block(self, job: Job, partition: int, file: File) -> bool:
        if not job.command.is_repeatable:
            return False
        self.is_quiet = True
        try:
            executor = self.world.rng.randrange(EXECUTORS)
            file.label = self._value(job, job.command.attempt.step, partition, executor)
            file.executor = executor
        except Gone:
            return False
        finally:
            self.is_quiet = False
        return True


def manifest_of(made: dict[int, tuple[int, Label]]) -> bytes:
    """One byte per partition, ascending: which task try's file counts."""
    return bytes(made[at][0] for at in sorted(made))
