"""The world in which a run happens: time, chance, faults, processes that come and go, and what is watched.

- One seed decides everything: the scenario, and through one random source every delay and choice.
- The storage and the applications outlive the processes. A supervisor starts a new process when the last one is gone or
  silent for too long; a user resumes a run that was given up, after mending what was broken.
- Everything that must never happen is checked when it would, and the rest at the end.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

from rekindle.errors import Refused
from rekindle.failover.backoff import Exponential
from rekindle.failover.restart import Strategy
from rekindle.master.facts import stimuli as st
from rekindle.master.facts.config import BackoffSpec, MasterConfig
from rekindle.master.facts.events import Fence, HoleAccepted, RunSucceeded
from rekindle.master.facts.graph_spec import GraphSpec
from rekindle.master.facts.run_spec import Fingerprint, RunSpec, UserDecisions
from rekindle.master.rules.holes import refuse_holes
from rekindle.master.state import commands as cmd
from rekindle.master.state.graph_index import GraphIndex, Sets
from rekindle.master.state.run_state import Phase, RunState
from rekindle.model.ids import AttemptId
from rekindle.model.kinds import ResultKind
from rekindle.model.partitions import EMPTY, Partitions
from world.engine import Application
from world.faults import Cell, Fault, FaultPhase
from world.jobs import Driver, Job
from world.process import Process
from world.scenario import Scenario
from world.storage import FileKey, Ledger, Put, Record, Storage
from world.strike import strike
from world.values import Label, Values
from world.watch import Violation, Watch

ORDER = 5
SILENT_MS = 60
ACTS_MAX = 6_000
CALM_ACTS_MAX = 2_500
RESUMES_MAX = 12
SLEEPER_ACTS = 200
POISON_MAX = 3
BACKOFF = Exponential(initial_ms=4, factor=2.0, delay_ms_max=60, jitter=0.2, reset_after_ms=40, attempts_max=12)


class Result:
    """What came of a scenario."""

    def __init__(self, phase: Phase | None, fired: Counter[Cell], acts: int) -> None:
        self.phase = phase
        self.fired = fired
        self.acts = acts


class World:
    """One scenario, from its first process to its end."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.rng = Random(scenario.seed ^ 0x5EED)
        self.now = 1_000_000
        self.acts = 0
        self.graph = scenario.graph()
        self.layout = GraphIndex(GraphSpec.of(self.graph))
        self.sinks = self._sinks()
        self.values = Values()
        self.storage = Storage()
        self.ledger = Ledger()
        self.waiting: dict[FaultPhase, list[Fault]] = {}
        self.fired: Counter[Cell] = Counter()
        self.poison: dict[tuple[str, int], int] = {}
        self.slow: list[int] = []
        self.skew_ms = 0
        self.code = dict.fromkeys(self.graph.steps, 0)
        self.fingerprints: dict[str, Fingerprint] = {name: {"code": "0"} for name in self.graph.steps}
        self.processes: list[Process] = []
        self.process: Process | None = None
        self.watch = Watch(scenario, self.values, self.storage, self.ledger, BACKOFF, POISON_MAX)
        self.resumes = 0
        self.calm_at: int | None = None
        self.later_order = 0
        self.is_over = False
        self.is_closing = False
        self.changes = 0
        self._planned = 0
        self._queue: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        for fault in scenario.faults:
            self.waiting.setdefault(fault.phase, []).append(fault)

    def _sinks(self) -> tuple[str, ...]:
        read = [name for name in self.layout.kept if self.graph.outputs[name]]
        also = set(read[:1]) if self.scenario.publishes_read else set()
        return tuple(name for name in self.layout.kept if not self.graph.outputs[name] or name in also)

    # ------------------------------------------------------------------ time and chance

    def later(self, delay: int, act: Callable[..., None], *args: Any) -> None:
        """Some time around `delay` from now; the order of what is close together is a matter of chance."""
        self.exactly(1 + int(delay * 2 * self.rng.random()), act, *args)

    def exactly(self, delay: int, act: Callable[..., None], *args: Any) -> None:
        at = self.now + delay
        self._planned += 1
        heapq.heappush(self._queue, (at, self._planned, act, args))

    def jitter(self) -> float:
        return self.rng.uniform(-1.0, 1.0)

    @property
    def is_recovering(self) -> bool:
        return bool(self.fired)

    def run(self) -> Result:
        """Until it is over, or the bound is met."""
        self._start_process()
        if self.scenario.has_later_run:
            self.later(120, self._publish_later_run)
        while self._queue and not self.is_over:
            self.acts += 1
            if self.acts > self._bound():
                self._out_of_time()
                break
            self.now, _, act, args = heapq.heappop(self._queue)
            act(*args)
        if not self._queue and not self.is_over:
            self._out_of_time()
        result = self._end()
        self._wake_sleepers()
        return result

    def _wake_sleepers(self) -> None:
        """Whoever slept through the end of the run wakes up now, and must find that nothing of it is left to do."""
        left = SLEEPER_ACTS
        while self._queue and left and self.is_over and any(one.is_asleep for one in self.processes):
            left -= 1
            self.now, _, act, args = heapq.heappop(self._queue)
            act(*args)

    def _bound(self) -> int:
        if not self.scenario.is_live:
            return ACTS_MAX // 6
        return ACTS_MAX if self.calm_at is None else self.calm_at + CALM_ACTS_MAX

    def _out_of_time(self) -> None:
        """A run that only has to be correct may go on, but one that is given up comes to an end."""
        state = self.process.state if self.process else None
        if self.scenario.is_live or (state is not None and state.phase is Phase.FAILING):
            raise Violation("liveness", f"no end after {self.acts} acts: {state and state.phase}")

    # ------------------------------------------------------------------ faults

    def hit(
        self,
        phase: FaultPhase,
        step: str,
        application: Application,
        job: Job | None = None,
        partition: int = 0,
        executor: int = 0,
    ) -> None:
        """The world is in this phase with this step: whatever waited for that happens now."""
        waiting = self.waiting.get(phase)
        if not waiting:
            return
        for fault in waiting:
            if self._fits(fault.result, step):
                waiting.remove(fault)
                if strike(self, fault, step, application, job=job, partition=partition, executor=executor):
                    self.fired[fault.kind, fault.phase, fault.result] += 1
                return

    def _fits(self, kind: ResultKind, step: str) -> bool:
        if kind is ResultKind.PIPELINED:
            return len(self.layout.members(step)) > 1
        return self.graph.steps[step].kind is kind

    def is_poisoned(self, step: str, partition: int) -> bool:
        left = self.poison.get((step, partition), 0)
        if left:
            self.poison[step, partition] = left - 1
        return left > 0

    def put(self, process: Process, number: int, record: Record) -> Put:
        """The journal's one primitive, as slow and forgetful as the faults made it."""
        if process.dies == "with its record":
            process.die("killed, and its record lost")
            return Put.UNKNOWN
        if not self.slow:
            return self.ledger.put(number, record)
        how = self.slow.pop() % 3
        if how == 0:
            self.ledger.put(number, record)
        elif how == 1:
            self.ledger.late.append((number, record))
            self.later(30, self.ledger.land_late)
        return Put.UNKNOWN

    # ------------------------------------------------------------------ processes

    def _start_process(self) -> None:
        if self.is_over or (self.process is not None and self._is_heard(self.process)):
            return
        process = Process(self, len(self.processes), self.skew_ms)
        self.processes.append(process)
        self.process = process
        name = f"app{process.number}"
        self._change_code(process)
        process.open(Application(self, name, process, dict(self.code)), self._opening)

    def _is_heard(self, process: Process) -> bool:
        return process.is_alive and not process.is_asleep

    def _opening(self, state: RunState | None, application: str) -> st.Stimulus:
        if state is None:
            return st.StartRun(
                run="run",
                pipeline="pipeline",
                order=ORDER,
                spec=RunSpec(graph=GraphSpec.of(self.graph), sinks=self.sinks, fingerprints=dict(self.fingerprints)),
                config=self._config(),
                run_time_ms=0,
                seed=0,
                application=application,
                owner=application,
            )
        if self.is_closing:
            return st.CloseRun(application, application)
        accepted = frozenset(self.graph.steps) if self.scenario.is_change_accepted else frozenset[str]()
        without = self._left_out(state, accepted)
        return st.TakeOver(
            application=application,
            owner=application,
            spec=RunSpec(graph=GraphSpec.of(self.graph), fingerprints=dict(self.fingerprints)),
            decisions=UserDecisions(
                accepted=accepted,
                replaced=frozenset(),
                without=without,
                republish=self._republishes(state),
                strategy=self._strategy(state),
            ),
        )

    def _strategy(self, state: RunState) -> Strategy | None:
        """Sometimes the user gives each driver another one."""
        if not self.scenario.changes_strategy:
            return None
        has_pipelined = any(step.kind.joins_region for step in self.graph.steps.values())
        allowed = [one for one in Strategy if not has_pipelined or one is not Strategy.INDIVIDUAL]
        return allowed[(allowed.index(state.config.strategy) + 1) % len(allowed)]

    def _republishes(self, state: RunState) -> bool:
        """A user who is told that what is published differs tries once without a word, and then gives it; one who
        changed code that is published gives it at once."""
        has_changed = any(now != state.spec.fingerprints[name] for name, now in self.fingerprints.items())
        return has_changed or self.resumes % 2 == 0

    def _left_out(self, state: RunState, accepted: frozenset[str]) -> Sets:
        """What a user who would rather publish with a hole leaves out of a run that was given up."""
        found: Sets = {}
        if not self.scenario.accepts_holes or state.phase is not Phase.FAILED or state.failing is None:
            return found
        changed = {name for name, now in self.fingerprints.items() if now != state.spec.fingerprints[name]} - accepted
        for failure in state.failing.failures:
            for partition in failure.partitions:
                more = found | {failure.step: found.get(failure.step, EMPTY) | Partitions((partition,))}
                with suppress(Refused):
                    refuse_holes(state, more, changed)
                    found = more
        return found

    def _config(self) -> MasterConfig:
        return MasterConfig(
            strategy=self.scenario.strategy,
            backoff=BackoffSpec.of(BACKOFF),
            poison_tries_max=POISON_MAX,
            attempts_per_step_max=self.scenario.attempts_max,
            budget_bytes=self.scenario.budget,
        )

    def _change_code(self, process: Process) -> None:
        """The user edits a step between two drivers, once or twice. What is made from then on has other values; only
        where a user accepts a change of what flows into several steps, old and new, it has none. One who leaves
        partitions out does that first, and then corrects the step that failed."""
        events = self.ledger.events()
        holes = [event.step for event in events if isinstance(event, HoleAccepted)]
        is_time = bool(holes) if self.scenario.accepts_holes else process.number > self.changes
        wanted = self.scenario.has_code_change + self.scenario.has_second_change
        is_over = any(isinstance(event, RunSucceeded) for event in events)
        if self.changes < wanted and is_time and not is_over:
            self.changes += 1
            step = holes[-1] if holes else self.rng.choice(list(self.graph.steps))
            self.fingerprints[step] = {"code": str(self.changes)}
            if step in self.graph.groups or not self.scenario.is_change_accepted:
                self.code[step] = self.changes

    def gone(self, process: Process, why: str) -> None:
        """A process ended. Somebody will look after the run, unless it is over."""
        if process is not self.process:
            return
        state = process.state
        if why == "done" and state is not None and self._is_finished(state):
            return
        if why.startswith("refused"):
            self.is_over = True
            return
        if state is not None and state.phase is Phase.FAILED:
            self.resumes += 1
            self.poison.clear()
            is_stuck = self.resumes > RESUMES_MAX
            if is_stuck and self.scenario.is_live:
                raise Violation("liveness", f"given up {self.resumes} times: {state.failing}")
            self.is_over = is_stuck or (state.failing is not None and not state.failing.is_resumable)
        self.later(10, self._start_process)

    def _is_finished(self, state: RunState) -> bool:
        if state.phase is Phase.CLOSED:
            self.is_over = True
        elif state.phase is Phase.SUCCEEDED:
            if self.scenario.is_closed_at_end:
                self.is_closing = True
                self.later(10, self._start_process)
            else:
                self.is_over = True
        return state.phase in (Phase.CLOSED, Phase.SUCCEEDED)

    def stop(self, process: Process, duration: int) -> None:
        """SIGSTOP, and SIGCONT later. If it takes too long, the run is taken over meanwhile."""
        process.sleep(duration)
        self.later(SILENT_MS, self._start_process)

    def _publish_later_run(self) -> None:
        """Tomorrow's run publishes into the same targets."""
        self.later_order = ORDER + 1
        for sink in self.sinks:
            self.storage.publish(sink, Fence(self.later_order, 1, 1), ())
            self.watch.target(sink)

    # ------------------------------------------------------------------ what is watched

    def check_dispatch(self, driver: Driver, command: cmd.StartAttempt) -> None:
        self.watch.dispatch(command.attempt)
        self.watch.barrier(command, self.layout)

    def check_let_go(self, driver: Driver, command: cmd.ReleaseExchanges, live: list[AttemptId]) -> None:
        for attempt in live:
            if attempt.step == command.step and attempt.generation <= command.generation:
                raise Violation("let go", f"{attempt} runs, and the exchanges under it are let go")

    def check_write(self, key: FileKey, label: Label) -> None:
        self.watch.write(key, label)

    def check_input(self, step: str, partition: int) -> None:
        raise Violation("committed inputs", f"{step}[{partition}] is read and was not committed")

    def check_state(self, process: Process, record: Record) -> None:
        assert process.state is not None
        self.watch.record(process.next_number - 1, record, process.state)
        if self.calm_at is None and not any(self.waiting.values()):
            self.calm_at = self.acts

    def check_deletion(self, driver: Driver, attempt: AttemptId) -> None:
        is_current = self.process is driver
        self.watch.deletion(attempt, self.process.state if is_current and self.process else None)

    def check_read(self, driver: Driver, attempt: AttemptId) -> None:
        """A living master never has files read that it had deleted."""
        if driver is self.process and attempt in self.storage.deleted:
            raise Violation("released", f"files of {attempt} are read after they were deleted")

    def check_publication(self, command: cmd.PublishSink, labels: tuple[Label, ...]) -> None:
        self.watch.publication(command, labels)

    def check_target(self, sink: str) -> None:
        self.watch.target(sink)

    def check_taken(self, sink: str) -> None:
        self.watch.taken(sink)

    # ------------------------------------------------------------------ the end

    def _end(self) -> Result:
        state = self.process.state if self.process is not None else None
        phase = state.phase if state is not None else None
        if self.later_order:
            for sink in self.sinks:
                self.watch.target(sink)
        elif state is not None and phase in (Phase.SUCCEEDED, Phase.CLOSED):
            self.watch.end(state, self.sinks)
        elif self.scenario.is_live and self.is_over:
            raise Violation("liveness", f"ended as {phase}")
        if state is not None and self.is_over and phase in (Phase.SUCCEEDED, Phase.CLOSED):
            self.watch.leftovers(state)
        return Result(phase, self.fired, self.acts)
