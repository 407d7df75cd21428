"""A simulated world for the master of a stream: drivers that die, queries that fail, hang, finish or report late, and a
clock. The world knows what really runs, and says what no schedule may ever show.

- Two queries of one region never run in one process, and no number is given twice.
- What runs at the end is what should: nobody who can be restarted is forgotten, nobody runs when all is over.
- A restart waits for its time; with `full` nothing starts before all have ended. Where all end when they have read
  what there is, none starts before those have ended whose results it reads.
- What is stored, from its last base on, folds to the state.
- A checkpoint is replaced when the user says so, for the regions that they name and no other, once.
- A record in quarantine reaches no query again, until its region gets a new checkpoint, which reads all; and nothing
  starts in a region while its poison is sought.
- A batch of a result that is gone is made again once, while nobody runs who may not, and whoever needs it starts after
  that. No reader sees two versions of a batch.
- One failure writes at most three records, and time that passes in health writes none.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from rekindle.failover.backoff import Exponential
from rekindle.failover.restart import Strategy
from rekindle.master.facts.config import BackoffSpec
from rekindle.model.failures import Cause, FailureKind
from rekindle.model.machine import Machine, Stop, WakeAt
from rekindle.streams.replaced_rows import ReaderPlace, refused_replacement
from rekindle.streams.source_records import QuarantinedRecord, SourceRecord
from rekindle.streams.stream_commands import FindPoison, ReplayBatches, StartQuery, StopQuery, StreamCommand
from rekindle.streams.stream_events import (
    BatchesLost,
    CheckpointReplaced,
    QueryEnd,
    QueryStarted,
    RecordsQuarantined,
    RegionGivenUp,
    RegionsRestart,
    StopRequested,
    StreamOpened,
    StreamPhase,
)
from rekindle.streams.stream_machine import STREAM
from rekindle.streams.stream_spec import AVAILABLE_NOW, SourceStart, StreamLimits, StreamSpec
from rekindle.streams.stream_state import StreamBase, StreamRecord, StreamState
from rekindle.streams.stream_stimuli import (
    OpenStream,
    PoisonReport,
    QueryReport,
    ReplayReport,
    StopStream,
    StreamStimulus,
    StreamTick,
)
from streams.specs import region_spec

StreamMachine = Machine[StreamState, StreamRecord, StreamStimulus, StreamCommand]
BACKOFF = Exponential(initial_ms=100, delay_ms_max=1_000, jitter=0.0, reset_after_ms=5_000, attempts_max=6)
STEPS, CALM_STEPS, BASE_CHANCE = 120, 400, 0.05
BATCHES = 5
Reads = dict[str, list[str]]
Refused = Callable[..., str]
KINDS = (FailureKind.EXCEPTION, FailureKind.EXECUTOR_LOST, FailureKind.USER_ERROR, FailureKind.WORKER_KILLED)


class Violated(AssertionError):
    """The world saw what may not be."""


@dataclass(frozen=True, slots=True)
class ResultNature:
    """What is known of the rows of a result."""

    doubts: tuple[str, ...] = ()
    unreplayable: str = ""


def spec_of(
    names: list[str], code: int, quarantine: int, reads: Reads, natures: dict[str, ResultNature], *, ends: bool
) -> StreamSpec:
    """`ends` if all end when they have read what there is."""
    ending = {"trigger": AVAILABLE_NOW} if ends else {}
    return StreamSpec(
        regions=tuple(
            region_spec(
                name,
                fingerprints={name: {"code": str(code)}},
                quarantine=quarantine,
                reads=tuple(one for one in reads[name] if one in names),
                doubts=natures[name].doubts,
                unreplayable=natures[name].unreplayable,
                **ending,
            )
            for name in names
        )
    )


@dataclass(slots=True)
class SimulatedDriver:
    """One process: what it was told, what runs in it, what it has not reported yet."""

    sent: set[Any] = field(default_factory=set)
    running: dict[str, int] = field(default_factory=dict)
    stuck: set[str] = field(default_factory=set)
    reports: list[QueryReport | PoisonReport | ReplayReport] = field(default_factory=list)
    searching: set[str] = field(default_factory=set)
    needed: dict[str, set[tuple[str, int]]] = field(default_factory=dict)
    due_ms: set[int] = field(default_factory=set)
    is_over: bool = False


class StreamSimulation:
    """One schedule, by its seed."""

    def __init__(self, seed: int, machine: StreamMachine = STREAM, refused: Refused = refused_replacement) -> None:
        self.refused = refused
        self.chance = random.Random(seed)
        self.machine = machine
        self.names = [f"r{number}" for number in range(self.chance.randint(1, 4))]
        self.all_names = self.names
        self.strategy = self.chance.choice(list(Strategy))
        self.limits = StreamLimits(
            strategy=self.strategy,
            backoff=BackoffSpec.of(BACKOFF),
            is_ended_by_one=self.chance.random() < 0.2,
            poison_tries_max=self.chance.choice([2, 3, 99]),
        )
        self.quarantine = self.chance.choice([0, 2])
        self.ends = self.chance.random() < 0.4
        self.is_lossy = self.chance.random() < 0.5
        self.reads: Reads = {
            name: [one for one in self.names[:number] if self.chance.random() < (0.8 if self.is_lossy else 0.4)]
            for number, name in enumerate(self.names)
        }
        self.natures = {
            name: ResultNature(*self.chance.choice([((), ""), (("draws",), ""), ((), ""), ((), "it keeps state")]))
            for name in self.names
        }
        self.gone: set[tuple[str, int]] = set()
        self.versions: dict[tuple[str, int], int] = {}
        self.seen: dict[str, dict[tuple[str, int], int]] = {name: {} for name in self.names}
        self.left_out: dict[str, list[QuarantinedRecord]] = {}
        self.journal: list[tuple[StreamRecord, ...]] = []
        self.stored: list[tuple[StreamRecord, ...]] = []
        self.state: StreamState | None = None
        self.now_ms = 0
        self.code = 1
        self.numbers: dict[str, int] = dict.fromkeys(self.names, 0)
        self.generations: dict[str, int] = dict.fromkeys(self.names, 0)
        self.due_ms: dict[str, int] = {}
        self.counted: dict[str, tuple[int, int]] = {}
        self.wants_stop = False
        self.failures = 0
        self.driver = SimulatedDriver()
        self._open()

    def run(self) -> None:
        for _ in range(STEPS):
            self._step(is_calm=False)
        for _ in range(CALM_STEPS):
            self._step(is_calm=True)
        self._judge()

    def _step(self, *, is_calm: bool) -> None:
        act = self.chance.random()
        if self.driver.is_over:
            if not is_calm and act < 0.5:
                self._open()
            return
        if act < 0.45:
            self.now_ms += self.chance.choice([1, 10, 100, 700])
            before = len(self.journal)
            due = any(at <= self.now_ms for at in self.driver.due_ms)
            self.driver.due_ms = {at for at in self.driver.due_ms if at > self.now_ms}
            if due:
                self._take(StreamTick())
            elif len(self.journal) != before:
                raise Violated("a record was written although nothing happened")
        elif act < 0.75 and self.driver.reports:
            report = self.driver.reports.pop(self.chance.randrange(len(self.driver.reports)))
            if isinstance(report, PoisonReport):
                self.driver.searching.discard(report.region)
            self._take(report)
        elif not is_calm:
            self._reads()
            self._fault(self.chance.random())

    def _reads(self) -> None:
        """Some of those that run read a batch of a result that is there."""
        for name in sorted(self.driver.running):
            for producer in self.reads[name]:
                batch = producer, self.chance.randrange(BATCHES)
                if batch in self.gone or self.chance.random() < 0.5:
                    continue
                version = self.versions.get(batch, 0)
                if self.seen[name].setdefault(batch, version) != version:
                    raise Violated(f"{name} reads another version of batch {batch[1]} of {producer}")

    def _fault(self, act: float) -> None:
        running = [name for name in self.driver.running if name not in self.driver.stuck]
        if act < (0.35 if self.is_lossy else 0.0) and running:
            self._misses(self.chance.choice(running))
        elif act < 0.5 and running:
            self._fails(self.chance.choice(running))
        elif act < 0.6 and running:
            name = self.chance.choice(running)
            self._ended(name, QueryEnd.FINISHED)
        elif act < 0.65 and running:
            self.driver.stuck.add(self.chance.choice(running))
        elif act < 0.70:
            self._open()
        elif act < 0.72:
            self._open(self.chance.sample(self.names, self.chance.randint(1, len(self.names))))
        elif act < 0.74:
            self.code += 1
            self.names = sorted(self.chance.sample(self.all_names, self.chance.randint(1, len(self.all_names))))
            self._open()
        elif act < 0.76:
            self.wants_stop = True
            self._take(StopStream("asked"))
        elif act < 0.8 and self.driver.reports:
            self.driver.reports.append(self.chance.choice(self.driver.reports))

    def _fails(self, name: str) -> None:
        self.failures += 1
        cause = Cause(self.chance.choice(KINDS[: 2 if self.is_lossy else None]), "boom")
        self._ended(name, QueryEnd.FAILED, cause, self.chance.choice("xy"))

    def _misses(self, name: str) -> None:
        """Batches that it was to read next are gone: some since now, some for a while."""
        lost: dict[str, tuple[int, ...]] = {}
        for producer in self.reads[name]:
            if producer not in self.names:
                continue
            unread = [one for one in range(BATCHES) if (producer, one) not in self.seen[name]]
            missing = {one for one in unread if (producer, one) in self.gone or self.chance.random() < 0.2}
            self.gone |= {(producer, one) for one in missing}
            lost |= {producer: tuple(sorted(missing))} if missing else {}
        self.failures += 1
        self.driver.needed[name] = {(producer, one) for producer, batches in lost.items() for one in batches}
        self._ended(name, QueryEnd.FAILED, Cause(FailureKind.EVICTED, "gone"), "gone", lost)

    def _ended(
        self,
        name: str,
        end: QueryEnd,
        cause: Cause | None = None,
        signature: str = "",
        lost: dict[str, tuple[int, ...]] | None = None,
    ) -> None:
        number = self.driver.running.pop(name)
        batch = self.chance.randint(-1, 5)
        report = QueryReport(
            region=name, number=number, end=end, cause=cause, batch=batch, signature=signature, lost=lost or {}
        )
        self.driver.reports.append(report)

    def _open(self, replaced: list[str] | None = None) -> None:
        """A new process: whatever ran in the old one is fenced, and counts for nothing. The user replaces the
        checkpoints of some regions."""
        for name in replaced or ():
            self.generations[name] += 1
            self.seen[name].clear()
        self.driver = SimulatedDriver()
        self.wants_stop = False
        folded: StreamState | None = None
        for events in self.stored:
            folded = self.machine.fold(folded, events)
        if folded != self.state:
            raise Violated("the state is not the fold of the journal")
        self._take(
            OpenStream(
                pipeline="live",
                run="r",
                spec=spec_of(self.names, self.code, self.quarantine, self.reads, self.natures, ends=self.ends),
                limits=self.limits,
                run_time_ms=1,
                seed=2,
                application="app",
                owner="me",
                new_checkpoints=dict.fromkeys(replaced or (), SourceStart.EARLIEST),
            )
        )
        assert self.state is not None
        found = {name: self.state.regions[name] for name in self.state.regions}
        if any(one.generation != self.generations[name] for name, one in found.items()):
            raise Violated("a region has another checkpoint than the user said")
        if any(found[name].batch != -1 or found[name].alike for name in replaced or ()):
            raise Violated("a new checkpoint has batches of the old one")

    def _take(self, stimulus: StreamStimulus) -> None:
        events = self.machine.decide(self.state, stimulus, self.now_ms)
        if isinstance(stimulus, QueryReport) and not any(isinstance(one, RegionsRestart) for one in events):
            self.driver.needed.pop(stimulus.region, None)  # It was to start again anyway, and says so again.
        if not events:
            return
        self._look_at(events)
        self.journal.append(events)
        self.stored.append(events)
        self.state = self.machine.fold(self.state, events)
        assert self.state is not None
        self.machine.invariants(self.state)
        if self.machine.base is not None and self.chance.random() < BASE_CHANCE:
            base = msgspec.json.encode(self.machine.base(self.state))
            self.stored = [(msgspec.json.decode(base, type=StreamBase),)]
        for command in self.machine.commands(self.state, self.driver.sent):
            self.driver.sent.add(command.key)
            self._obey(command)

    def _look_at(self, events: tuple[StreamRecord, ...]) -> None:
        for event in events:
            match event:
                case QueryStarted(name, number, _):
                    if number <= self.numbers[name]:
                        raise Violated(f"query {number} of {name} a second time")
                    self.numbers[name] = number
                    if name in self.driver.searching:
                        raise Violated(f"{name} starts while its poison is sought")
                    if self.driver.needed.pop(name, set()) & self.gone:
                        raise Violated(f"{name} starts before what it needs was made again")
                    if self.due_ms.pop(name, 0) > self.now_ms:
                        raise Violated(f"{name} starts before its time")
                case RegionsRestart(region=name, regions=regions, due_ms=due_ms):
                    self._count(name, due_ms)
                    self.due_ms |= dict.fromkeys(regions, due_ms)
                    left = self._abandoned()
                    if self.strategy is Strategy.FULL and not set(self.driver.running) - left <= set(regions):
                        raise Violated("full leaves a region running")
                    if self.strategy is not Strategy.FULL and not set(regions) <= {name, *self._readers_of(events)}:
                        raise Violated("more than the region restarts")
                case BatchesLost(region=producer, reader=reader, readers=readers):
                    also = set(readers) - {reader}
                    if also and not self.natures[producer].doubts:
                        raise Violated(f"readers of {producer} wait, and its rows are proved")
                case RecordsQuarantined(region=name, records=records):
                    self.counted.pop(name, None)
                    self.left_out.setdefault(name, []).extend(records)
                    if len(self.left_out[name]) > self.quarantine:
                        raise Violated(f"{name} goes on without more records than it may")
                case RegionGivenUp(region=name):
                    self.due_ms.pop(name, None)
                case CheckpointReplaced(region=name):
                    self.left_out.pop(name, None)
                    self.counted.pop(name, None)
                    self.due_ms.pop(name, None)
                case StreamOpened(again=again, spec=spec):
                    kept = set(spec.names) - set(again)
                    self.counted = {name: one for name, one in self.counted.items() if name not in again}
                    self.due_ms = {name: at for name, at in self.due_ms.items() if name in kept}
                case StopRequested():
                    self.due_ms.clear()
                case _:
                    pass
        starting = {event.region for event in events if isinstance(event, QueryStarted)}
        if starting:
            self._may_start(starting)
        gone = {event.region for event in events if isinstance(event, RegionGivenUp)} & self.driver.stuck
        for name in starting:
            if self.ends and self._is_fed(name, starting, gone):
                raise Violated(f"{name} starts before those that it reads have ended")

    def _readers_of(self, events: tuple[StreamRecord, ...]) -> set[str]:
        """Those that wait for what was lost."""
        return {name for event in events if isinstance(event, BatchesLost) for name in event.readers}

    def _is_fed(self, name: str, starting: set[str], gone: set[str]) -> bool:
        """Whether a region that it reads runs, starts, is to start again, or is searched. Those that are `gone` are
        stuck, and nobody waits for them."""
        left = self._abandoned() if self.state is not None else set()
        running = set(self.driver.running) - left - gone
        busy = running | starting | self.driver.searching | set(self.due_ms)
        return bool(busy & set(self.reads[name]) & set(self.names))

    def _count(self, name: str, due_ms: int) -> None:
        """Restarts of a region since it was healthy for long."""
        count, last_ms = self.counted.get(name, (0, -BACKOFF.reset_after_ms))
        if self.now_ms < last_ms:
            return  # A new driver started it before its time: this is still the same attempt.
        count = 1 if self.now_ms - last_ms >= BACKOFF.reset_after_ms else count + 1
        self.counted[name] = count, due_ms
        if count > BACKOFF.attempts_max:
            raise Violated(f"{name} restarts without end")

    def _abandoned(self) -> set[str]:
        """Stuck queries that nobody waits for any more."""
        assert self.state is not None
        return {name for name in self.driver.stuck if self.state.regions[name].gave_up}

    def _may_start(self, starting: set[str]) -> None:
        assert self.state is not None or self.journal == []
        if self.wants_stop:
            raise Violated("a query starts although the stream was asked to stop")
        if self.strategy is Strategy.FULL and self.state is not None and self.driver.running:
            waiting = {name for name, one in self.state.regions.items() if one.due_ms is not None}
            if starting & waiting and set(self.driver.running) & waiting - self.driver.stuck:
                raise Violated("full starts before all have ended")

    def _obey(self, command: StreamCommand) -> None:
        match command:
            case StartQuery(name, number, without):
                if name in self.driver.running:
                    raise Violated(f"two queries of {name} in one process")
                if list(without) != self.left_out.get(name, []):
                    raise Violated(f"{name} reads a record that is in quarantine")
                self.driver.running[name] = number
            case FindPoison(region=name, number=number):
                if name in self.driver.running:
                    raise Violated(f"poison of {name} is sought while it runs")
                self.driver.searching.add(name)
                self.driver.reports.append(self._search(name, number))
            case ReplayBatches():
                self.driver.reports.append(self._replay(command))
            case StopQuery(name, number):
                if self.driver.running.get(name) == number:
                    is_stuck = name in self.driver.stuck
                    end = QueryEnd.STUCK if is_stuck else QueryEnd.STOPPED
                    cause = Cause(FailureKind.TIMED_OUT, "stuck") if is_stuck else None
                    self._ended(name, end, cause)
                    if is_stuck:
                        self.driver.running[name] = number
            case WakeAt(due_ms):
                self.driver.due_ms.add(due_ms)
            case Stop():
                self.driver.is_over = True
                if set(self.driver.running) - self.driver.stuck:
                    raise Violated("the stream is over, and a query runs")

    def _replay(self, command: ReplayBatches) -> ReplayReport:
        """As an engine does: what can be read again by now is not made. The policy of production decides whether other
        rows may be put in the place of those that are gone."""
        assert self.state is not None
        region, nature = command.region, self.natures[command.region]
        if nature.unreplayable:
            raise Violated(f"batches of {region} are made again, which nobody can")
        if list(command.without) != self.left_out.get(region, []):
            raise Violated(f"a record of {region} that is in quarantine is read again")
        readers = [name for name in self.names if region in self.reads[name]]
        running = {name for name in readers if name in self.driver.running and name not in self._abandoned()}
        needed = {key for of in self.driver.needed.values() for key in of}
        if nature.doubts and running and any((region, one) in needed for one in command.batches):
            raise Violated(f"batches of {region} are made again while a reader of them runs")
        inputs = [one for one in self.reads[region] if one in self.names and self.chance.random() < 0.3]
        if inputs and any((region, one) in self.gone for one in command.batches):
            missing = self.chance.randrange(BATCHES)
            self.gone.add((inputs[0], missing))
            absent: tuple[int, ...] = (missing,)
            lost = {one: {inputs[0]: absent} for one in command.batches}
            return ReplayReport(region=region, number=command.number, lost=lost)
        made: list[int] = []
        changed: list[int] = []
        for batch in command.batches:
            key = region, batch
            for needed in self.driver.needed.values():
                needed.discard(key)  # It may be lost once more before its reader starts.
            if key not in self.gone:
                made.append(batch)  # Another reader needed it first.
                continue
            is_equal = not nature.doubts or self.chance.random() < 0.5
            places = {name: self._place(name, key, running) for name in readers}
            why = self.refused(batch, region, places, is_equal=is_equal)
            if why or self.chance.random() < 0.1:
                unmade = self.chance.choice([(batch,), ()])
                return self._replay_report(command, made, changed, why or "its source is gone", unmade)
            made.append(batch)
            self.gone.discard(key)
            if not is_equal:
                changed.append(batch)
                self.versions[key] = self.versions.get(key, 0) + 1
        return self._replay_report(command, made, changed, "")

    def _place(self, name: str, batch: tuple[str, int], running: set[str]) -> ReaderPlace:
        if batch in self.seen[name]:
            return ReaderPlace.BEYOND
        return ReaderPlace.MAY_READ if name in running else ReaderPlace.BEFORE

    def _replay_report(
        self, command: ReplayBatches, made: list[int], changed: list[int], why: str, unmade: tuple[int, ...] = ()
    ) -> ReplayReport:
        return ReplayReport(
            region=command.region,
            number=command.number,
            batches=tuple(made),
            changed=tuple(changed),
            why=why,
            unmade=unmade,
        )

    def _search(self, name: str, number: int) -> PoisonReport:
        """Names one that is new, two of them, one that is left out already, or none."""
        new = [
            QuarantinedRecord(SourceRecord(source=0, place="f", number=self.chance.randrange(10**9)), Cause(KINDS[0]))
            for _ in range(2)
        ]
        records = self.chance.choice([new[:1], new, self.left_out.get(name, [])[:1], []])
        return PoisonReport(region=name, number=number, records=tuple(records), why="" if records else "none fails")

    def _judge(self) -> None:
        """When nothing has happened for long."""
        assert self.state is not None
        if self.driver.reports and not self.driver.is_over:
            raise Violated("reports are left")
        restarts = sum(one.restarts for one in self.state.regions.values())
        told = [one.regions for events in self.journal for one in events if isinstance(one, RegionsRestart)]
        if len(told) > self.failures or restarts != sum(map(len, told)):
            raise Violated("a restart without a failure")
        if self.driver.is_over:
            if self.state.phase is StreamPhase.RUNNING or self.state.phase is StreamPhase.STOPPING:
                raise Violated("it is over and does not say so")
            return
        if self.wants_stop:
            raise Violated("asked to stop, and goes on")
        if not set(self.driver.running) - self.driver.stuck and not any(
            self.state.regions[name].is_open for name in self.names
        ):
            raise Violated("nothing runs, and nobody says that it is over")
        waiting: set[str] = set()
        for name in self.names:
            region = self.state.regions[name]
            is_settled = bool(region.gave_up) or region.is_finished
            if is_settled or name in self.driver.running:
                continue
            if not (self.ends and self._is_fed(name, waiting, set())):
                raise Violated(f"{name} is forgotten")
            waiting.add(name)
