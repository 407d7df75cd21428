"""What is watched: everything that must never happen, seen from outside the master.

- The watch knows labels, files and targets; it does not ask the policies that it watches.
- Each finding names the check that made it, so that a planted bug shows by which check it was caught.
"""

from __future__ import annotations

from rekindle.failover.backoff import Exponential
from rekindle.master.facts.events import (
    AttemptOpened,
    EpochOpened,
    Event,
    ExchangesLost,
    FailureHandled,
    Fence,
    HoleAccepted,
    PartitionsCommitted,
    PartitionsLost,
    PartitionsReleased,
    PublicationOpened,
    RepublishAccepted,
    RunFailing,
)
from rekindle.master.state.apply import fold
from rekindle.master.state.commands import PublishSink, StartAttempt
from rekindle.master.state.graph_index import GraphIndex
from rekindle.master.state.invariants import violations
from rekindle.master.state.run_state import Phase, RunState
from rekindle.model.failures import FailureKind
from rekindle.model.ids import AttemptId
from rekindle.model.kinds import KeepUntil, ResultKind
from rekindle.model.partitions import EMPTY, Partitions
from world.lineage import Lineage
from world.scenario import Scenario
from world.storage import FileKey, Ledger, Record, Storage
from world.values import HOLE, Label, Values


class Violation(AssertionError):
    """Something happened that must not. `check` names the watch that saw it."""

    def __init__(self, check: str, text: str) -> None:
        super().__init__(f"{check}: {text}")
        self.check = check


class Watch:
    """One per world."""

    def __init__(
        self,
        scenario: Scenario,
        values: Values,
        storage: Storage,
        ledger: Ledger,
        backoff: Exponential,
        poison_max: int,
    ) -> None:
        self.scenario = scenario
        self.values = values
        self.storage = storage
        self.ledger = ledger
        self.backoff = backoff
        self.poison_max = poison_max
        self.is_given_up = False
        self.dispatched: set[AttemptId] = set()
        self.fences: dict[str, Fence] = {}
        self.published: dict[str, tuple[Label, ...]] = {}
        self.asked_after: dict[str, Fence] = {}
        self.opened = Fence(0, 0, 0)
        self.labels: dict[tuple[str, int], Label] = {}
        self.lineage = Lineage(values)
        self.poisoned: dict[tuple[str, int], int] = {}
        self.restarts = 0
        self.restart_at_ms: int | None = None
        self.failed_at_ms: int | None = None
        self.spared: dict[str, Partitions] = {}
        ledger.landed = self.landed

    # ------------------------------------------------------------------ the journal

    def record(self, number: int, record: Record, state: RunState) -> None:
        """A master believes this record and the state after it."""
        if not self.ledger.holds(number, record):
            raise Violation("journal", f"process {record.writer} believes record {number}, which is not there")
        for broken in violations(state):
            raise Violation("invariant", broken)
        if number + 1 == len(self.ledger.records):
            accepted = state.layout.graph.steps.keys() if self.scenario.is_change_accepted else frozenset[str]()
            if stale := self.lineage.stale(state, accepted):
                raise Violation("stale", stale)
        if any(isinstance(event, RunFailing) and event.gave_up.startswith("poison") for event in record.events):
            self._beside_poison(state)
        if state.config.budget_bytes and state.phase is Phase.RUNNING:
            self._budget(state)

    def landed(self, record: Record) -> None:
        """A record is in the journal, whether its writer knows it or not."""
        if not record.is_own:
            raise Violation("one decider", f"process {record.writer} wrote in the epoch of another")
        for event in record.events:
            self._event(event)
            self._spare(event)

    def _event(self, event: Event) -> None:
        match event:
            case PartitionsCommitted():
                self._versions(event)
            case HoleAccepted():
                for partition in event.partitions:
                    self.labels[event.step, partition] = self.values.hole(event.step, partition)
            case FailureHandled():
                self._poison(event)
                self._delay(event)
            case RepublishAccepted():
                for sink in event.sinks:
                    self.published.pop(sink, None)
                    self.asked_after[sink] = self.opened
            case PublicationOpened():
                self.opened = event.fence
            case RunFailing():
                self.is_given_up = True
            case EpochOpened() if self.is_given_up:
                self.is_given_up = False
                self.restarts, self.restart_at_ms, self.failed_at_ms = 0, None, None
                self.poisoned.clear()
            case _:
                pass

    def _spare(self, event: Event) -> None:
        """What went for the budget is not computed again, unless something else happened since."""
        match event:
            case PartitionsReleased(step, partitions) if event.is_for_budget:
                self.spared[step] = self.spared.get(step, EMPTY) | partitions
            case AttemptOpened(attempt, partitions):
                again = self.spared.get(attempt.step, EMPTY) & partitions
                if again:
                    raise Violation("budget", f"{attempt.step}[{again}] went for the budget and was needed")
            case EpochOpened() | FailureHandled() | PartitionsLost() | ExchangesLost() | HoleAccepted():
                self.spared.clear()
            case PartitionsCommitted() if event.changed:
                self.spared.clear()
            case _:
                pass

    def _budget(self, state: RunState) -> None:
        """Nothing runs, and more is kept than may be: then nothing is left that surely nobody needs, because all that
        could ever read it is complete, and all results are files."""
        counted = {one.attempt for step in state.steps.values() for one in step.segments}
        kept = sum(size for attempt, size in state.sizes.items() if attempt in counted)
        if state.attempts or state.must_recompare() or kept <= state.config.budget_bytes:
            return
        for attempt in sorted(counted):
            if state.sizes.get(attempt) and self._is_spare(state, attempt.step):
                raise Violation("budget", f"{attempt} stays although {kept} of {state.config.budget_bytes} are kept")

    @staticmethod
    def _is_spare(state: RunState, step: str) -> bool:
        layout, steps = state.layout, state.layout.graph.steps
        below = [name for name in layout.kept if step in layout.upstream[name] and name != step]
        if not below or step in state.sinks or steps[step].keep is KeepUntil.FOREVER:
            return False
        return all(map(state.is_complete, below)) and all(steps[one].kind is ResultKind.BLOCKING for one in layout.kept)

    def _versions(self, event: PartitionsCommitted) -> None:
        """What is said to have changed has, and what has is said."""
        step = event.attempt.step
        for partition in event.partitions:
            self.poisoned.pop((step, partition), None)
            number = event.manifest[event.of.rank(partition)]
            file = self.storage.files.get((event.attempt, partition, number))
            if file is None:
                self.labels.pop((step, partition), None)
                continue
            before = self.labels.get((step, partition))
            self.labels[step, partition] = file.label
            self.lineage.committed(event.attempt, partition, file.label)
            if self.scenario.has_digests and before == file.label and partition in event.changed:
                raise Violation("needless restart", f"{step}[{partition}] came back equal")

    def _poison(self, event: FailureHandled) -> None:
        """The same failure of the same partition is not met more often than allowed."""
        for failure in event.failures:
            if failure.cause.kind is FailureKind.POISON:
                for partition in failure.partitions:
                    key = failure.step, partition
                    self.poisoned[key] = self.poisoned.get(key, 0) + 1
                    if self.poisoned[key] > self.poison_max:
                        raise Violation("poison", f"{key[0]}[{partition}] failed {self.poisoned[key]} times")

    def _beside_poison(self, state: RunState) -> None:
        """Given up for poison: every last partition that does not need a poisoned one is there. A step that could only
        start over as a whole, for what died with its application, is left out, and so is what reads it."""
        layout = state.layout
        stuck = {key for key, times in self.poisoned.items() if times >= self.poison_max}
        whole_only: set[str] = set()
        for name in layout.kept:
            if layout.exchanges(name) or not whole_only.isdisjoint(layout.producers[name]):
                whole_only.add(name)
            whole = range(layout.graph.steps[name].partitions)
            mine = {at for at in whole if (name, at) in stuck or self._reads_any(layout, name, at, stuck)}
            mine = set(whole) if mine and layout.restarts_whole(name) else mine
            stuck |= {(name, at) for at in mine}
            is_read = any(name in many for many in layout.producers.values())
            if is_read or name in whole_only:
                continue
            left = set(whole) - mine - set(state.steps[name].committed)
            if left:
                raise Violation("beside poison", f"{name}{sorted(left)} could have finished")

    @staticmethod
    def _reads_any(layout: GraphIndex, name: str, at: int, stuck: set[tuple[str, int]]) -> bool:
        reads = layout.read_by(name, Partitions((at,)))
        return any((producer, one) in stuck for producer, partitions in reads.items() for one in partitions)

    def _delay(self, event: FailureHandled) -> None:
        """The restart backoff, computed a second time: its delays double, and a quiet time resets them."""
        now = event.at_ms
        if event.memory.restart_at_ms is None:
            return
        if (
            self.restart_at_ms is not None
            and self.failed_at_ms is not None
            and (self.failed_at_ms <= now < self.restart_at_ms or now == self.failed_at_ms)
        ):
            return
        is_quiet = self.restart_at_ms is not None and now - self.restart_at_ms >= self.backoff.reset_after_ms
        self.restarts = 1 if is_quiet else self.restarts + 1
        self.failed_at_ms, self.restart_at_ms = now, event.due_ms
        delay = min(self.backoff.delay_ms_max, self.backoff.initial_ms * self.backoff.factor ** (self.restarts - 1))
        low, high = delay * (1 - self.backoff.jitter) - 1, delay * (1 + self.backoff.jitter) + 1
        if not low <= event.due_ms - now <= high:
            raise Violation("backoff", f"restart {self.restarts} waits {event.due_ms - now} ms, not about {delay}")

    # ------------------------------------------------------------------ acts

    def dispatch(self, attempt: AttemptId) -> None:
        """Facts before acts, and no attempt twice."""
        if attempt in self.dispatched:
            raise Violation("dispatched twice", str(attempt))
        self.dispatched.add(attempt)
        if attempt not in self.ledger.opened:
            raise Violation("act before fact", f"{attempt} was dispatched and is not in the journal")

    def write(self, key: FileKey, label: Label) -> None:
        """What a task try wrote once never changes."""
        before = self.storage.files.get(key)
        if before is not None and before.label != label:
            raise Violation("overwritten", f"{key[0]}[{key[1]}] is written a second time under the same name")

    def barrier(self, command: StartAttempt, layout: GraphIndex) -> None:
        """A step that restarts whole is never started in part."""
        name = command.attempt.step
        is_whole = any(layout.graph.steps[one].restarts_whole for one in layout.stages[name])
        if is_whole and command.partitions != layout.graph.whole[name]:
            raise Violation("whole step", f"{name} is started as {command.partitions} only")

    def deletion(self, attempt: AttemptId, state: RunState | None) -> None:
        """Nothing is deleted that is open or counts."""
        if attempt not in self.ledger.ended:
            raise Violation("act before fact", f"{attempt} is deleted and was never closed")
        if state is not None and any(one.attempt == attempt for step in state.steps.values() for one in step.segments):
            raise Violation("released", f"{attempt} is deleted and still counts")

    def target(self, sink: str) -> None:
        """A target never goes back."""
        standing = self.storage.targets[sink][0]
        if standing < self.fences.get(sink, standing):
            raise Violation("fence", f"{sink} went back from {self.fences[sink]} to {standing}")
        self.fences[sink] = standing

    def taken(self, sink: str) -> None:
        """A target took a publication, whether anybody will hear of it or not. One of before the user's word to publish
        again binds nobody."""
        fence, labels = self.storage.targets[sink]
        if fence > self.asked_after.get(sink, Fence(0, 0, 0)):
            self.published[sink] = labels

    def publication(self, command: PublishSink, labels: tuple[Label, ...]) -> None:
        sink = command.sink
        told = {(name, partition) for name, holes in command.holes for partition in holes}
        if unsaid := self.values.holes(labels) - told:
            raise Violation("hole", f"{sink} is published without {sorted(unsaid)} and does not say so")
        mixed = self.values.mixed(labels)
        if mixed:
            raise Violation("mixed output", f"{sink} holds two versions of {', '.join(mixed)}")
        if self.published.get(sink, labels) != labels:
            raise Violation("republished", f"{sink} is published as something else, and nobody asked for it")

    # ------------------------------------------------------------------ the end

    def end(self, state: RunState, sinks: tuple[str, ...]) -> None:
        """A run that succeeded: its output, its files, and its journal."""
        labels: list[Label] = []
        for sink in sinks:
            if sink not in self.storage.targets:
                raise Violation("output", f"{sink} was never published")
            labels.extend(self.storage.targets[sink][1])
        mixed = self.values.mixed(labels)
        if mixed:
            raise Violation("mixed output", f"the sinks together hold two versions of {', '.join(mixed)}")
        for label in self.values.below(labels):
            name, partition, made_by, *_ = self.values.node(label)
            if made_by == HOLE:
                if partition not in state.steps[name].holes:
                    raise Violation("hole", f"{name}[{partition}] is missing, and is not left out any more")
                continue
            recorded = state.spec.fingerprints[name.split("=>")[-1]]["code"]
            if str(made_by) != recorded and not self.scenario.is_change_accepted:
                raise Violation("stale output", f"{name}[{partition}] was made by code {made_by}")

    def leftovers(self, state: RunState) -> None:
        """No file is left that does not count, and a replay tells the same story."""
        counted = {one.attempt for step in state.steps.values() for one in step.segments}
        orphans = {str(key[0]) for key in self.storage.files if key[0] not in counted}
        if orphans:
            raise Violation("orphan", f"files are left of {', '.join(sorted(orphans))}")
        if fold(None, self.ledger.events()) != state:
            raise Violation("replay", "the journal tells another story than its master")
