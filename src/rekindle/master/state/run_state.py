"""The state of a run, folded from its events and from nothing else.

Rules
- Values only: every change makes a new state that shares what did not change.
- Per step a handful of bitmaps and one segment per commit; never an object per partition.
- Everything that a decision or a command needs is here, so that a new master knows all the old one knew.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from enum import Enum

import msgspec

from rekindle.failover.backoff import BackoffState
from rekindle.failover.poison import FailureCounts
from rekindle.master.facts.config import MasterConfig
from rekindle.master.facts.digests import Digests
from rekindle.master.facts.events import Fence, Reasons, RunFailing
from rekindle.master.facts.run_spec import RunSpec
from rekindle.master.state.graph_index import GraphIndex, Sets
from rekindle.model.availability import Availability
from rekindle.model.failures import Failure
from rekindle.model.ids import AttemptId, ExchangeId
from rekindle.model.partitions import EMPTY, Partitions


class Phase(Enum):
    """Where a run stands. Only `RUNNING` starts anything."""

    RUNNING = "running"
    FAILING = "failing"
    FAILED = "failed"
    SUCCEEDED = "succeeded"
    CLOSING = "closing"
    CLOSED = "closed"


class AttemptStatus(Enum):
    """What is still expected of an open attempt."""

    RUNNING = "running"
    CANCELLING = "cancelling"
    SEALING = "sealing"


class Segment(msgspec.Struct, frozen=True):
    """Partitions that one commit made count, and the manifest that names their files. `partitions` shrinks when
    some are lost, released or dropped; manifest, digests and rows stay those of `digests.of`."""

    attempt: AttemptId
    partitions: Partitions
    manifest: bytes
    digests: Digests
    rows: int | None = None


class ResultSize(msgspec.Struct, frozen=True):
    """How large a result is. `rows` is None where that cannot be told; `bytes` are those of the attempts that wrote it,
    0 for what lies on executors."""

    rows: int | None
    bytes: int


class Superseded(msgspec.Struct, frozen=True):
    """What consumers may have read of partitions that no longer count. `is_hole`: that there were no rows, because
    they were left out."""

    partitions: Partitions
    digests: Digests
    are_inputs_equal: bool
    is_hole: bool = False


class StepState(msgspec.Struct, frozen=True, kw_only=True):
    """One kept step.

    committed                  partitions that count, all of one generation or carried into it
    started                    vertices that ever began in this generation: who may have read something
    must_recompare             dropped by a new generation and seen by others: must be made again, then compared
    released                   gone on purpose; this generation never holds them again
    holes                      failed, and left out by the user: they count as partitions without rows
    held                       exchange parts of this generation that this master's engine still has
    last_failure_by_signature  the last failure of each signature, to be named if it turns out to be poison
    exchanges_released_at      the newest attempt of the run when the exchanges were let go; 0 where they were not
    accepted_stale             made by code or from inputs that changed since, and kept on the user's word, or seen by
                               readers that are
    spent_ms                   how long attempts took to make what they committed; `made` is how many partitions
    """

    generation: int = 0
    committed: Partitions = EMPTY
    segments: tuple[Segment, ...] = ()
    superseded: tuple[Superseded, ...] = ()
    started: Partitions = EMPTY
    must_recompare: Partitions = EMPTY
    released: Partitions = EMPTY
    why: Reasons = ()
    held: dict[ExchangeId, Partitions] = {}
    exchange_version: int = 0
    exchange_checksum: str | None = None
    suspects: FailureCounts = FailureCounts()
    last_failure_by_signature: dict[str, Failure] = {}
    due_ms: int = 0
    attempts: int = 0
    holes: Partitions = EMPTY
    spent_ms: int = 0
    made: int = 0
    exchanges_released_at: int = 0
    accepted_stale: Partitions = EMPTY

    @property
    def available(self) -> Partitions:
        """What a reader can read: what is committed, and what was left out."""
        return self.committed | self.holes

    def superseded_partitions(self) -> Partitions:
        return Partitions.union(seen.partitions for seen in self.superseded)

    def written_by(self, attempts: Collection[AttemptId]) -> Partitions:
        """What counts of these attempts."""
        return Partitions.union(one.partitions for one in self.segments if one.attempt in attempts)

    def has_witnesses(self) -> bool:
        """Something of this generation counts, or was seen and need not be made again: it fixes the exchange."""
        return bool(self.committed or self.superseded_partitions() - self.must_recompare)


class AttemptState(msgspec.Struct, frozen=True):
    """An open attempt. `partitions` are those it may still commit; `last_ms` is when it was opened, or last committed
    something."""

    attempt: AttemptId
    partitions: Partitions
    status: AttemptStatus
    reads: tuple[AttemptId, ...]
    last_ms: int


class RunState(msgspec.Struct, frozen=True, kw_only=True):
    """A whole run. `spec` is the pipeline as the code was that last had the run; `undeleted` are closed attempts whose
    files were not reported gone; `sizes` are the bytes that attempts reported, as long as their files are there.
    `publications_unconfirmed` are sinks whose target may have taken them: publications were opened, by these fences,
    and nobody has heard how they ended. `republisher` said in this epoch that what differs may be published again.
    `ended_ms` is when the run succeeded; `published_sizes` is how large each sink was when it was published."""

    run: str
    pipeline: str
    order: int
    layout: GraphIndex
    spec: RunSpec
    config: MasterConfig
    run_time_ms: int
    seed: int
    steps: dict[str, StepState]
    memory: BackoffState
    phase: Phase = Phase.RUNNING
    epoch: int = 0
    application: str = ""
    owner: str = ""
    attempts: dict[AttemptId, AttemptState] = {}
    undeleted: frozenset[AttemptId] = frozenset()
    attempt_number: int = 0
    publication: Fence | None = None
    publication_number: int = 0
    published: dict[str, Fence] = {}
    publications_unconfirmed: dict[str, tuple[Fence, ...]] = {}
    failing: RunFailing | None = None
    settings: dict[str, str] = {}
    sizes: dict[AttemptId, int] = {}
    is_pinned: bool = False
    republisher: str = ""
    ended_ms: int = 0
    published_sizes: dict[str, ResultSize] = {}

    @property
    def sinks(self) -> tuple[str, ...]:
        return self.spec.sinks

    @property
    def possibly_published(self) -> frozenset[str]:
        """Sinks that somebody may have read already."""
        return frozenset(self.publications_unconfirmed) | self.published.keys()

    @property
    def stored_bytes(self) -> int:
        """What its results take, those that are being deleted included."""
        return sum(self.sizes.values())

    def size_of(self, step: str) -> ResultSize:
        """Of what counts of a step now."""
        by_attempt: dict[AttemptId, list[Segment]] = {}
        for one in self.steps[step].segments:
            by_attempt.setdefault(one.attempt, []).append(one)
        rows = [_rows_of(segments) for segments in by_attempt.values()]
        known = [one for one in rows if one is not None]
        size = sum(self.sizes.get(attempt, 0) for attempt in by_attempt)
        return ResultSize(sum(known) if len(known) == len(rows) else None, size)

    def attempts_of(self, step: str) -> Iterator[AttemptState]:
        return (one for one in self.attempts.values() if one.attempt.step == step)

    def running(self, step: str) -> Partitions:
        """What open attempts of the step may still commit, those being closed included."""
        return Partitions.union(one.partitions for one in self.attempts_of(step))

    def is_complete(self, step: str) -> bool:
        return len(self.steps[step].available) == self.layout.graph.steps[step].partitions

    def is_released(self, step: str) -> bool:
        """All of it was there, and nobody can need it any more."""
        state = self.steps[step]
        return len(state.released | state.holes) == self.layout.graph.steps[step].partitions

    def holes(self) -> Sets:
        """What was left out, of every step."""
        return {name: step.holes for name, step in self.steps.items() if step.holes}

    def must_recompare(self) -> Sets:
        return {name: step.must_recompare for name, step in self.steps.items() if step.must_recompare}

    def failed(self) -> Sets:
        """Vertices whose last try failed, and that have no result since."""
        suspects = ((name, step.suspects.partitions - step.available) for name, step in self.steps.items())
        return {name: partitions for name, partitions in suspects if partitions}

    def failed_of(self, step: str) -> Partitions:
        """Those of one step, and those whose failures ended the run."""
        last = self.failing.failures if self.failing else ()
        sets = (one.partitions for one in last if one.step == step)
        return self.failed().get(step, EMPTY) | Partitions.union(sets)

    @property
    def gave_up_for_good(self) -> str | None:
        """Why no driver can go on with it, where its master said so."""
        return None if self.failing is None or self.failing.is_resumable else self.failing.gave_up

    @property
    def is_resumable(self) -> bool:
        """A driver can go on with it."""
        is_over = self.phase in (Phase.SUCCEEDED, Phase.CLOSING, Phase.CLOSED)
        return not is_over and self.gave_up_for_good is None

    def tracker(self) -> Availability:
        """What the policies ask: committed results, what had finished once, what is in flight, held exchanges. What is
        published and read by nobody need not be there any more: the target has it."""
        running: Sets = {}
        for one in self.attempts.values():
            step = one.attempt.step
            running[step] = running.get(step, EMPTY) | one.partitions
        return Availability(
            results={name: self._there(name, step) for name, step in self.steps.items()},
            started={name: step.available | step.superseded_partitions() for name, step in self.steps.items()},
            running=running,
            exchanges=self._held(),
            wanted=frozenset(self.sinks) - self.published.keys(),
        )

    def _there(self, name: str, step: StepState) -> Partitions:
        is_done_with = name in self.published and not self.layout.graph.outputs[name]
        return self.layout.graph.whole[name] if is_done_with else step.available

    def _held(self) -> dict[ExchangeId, Partitions]:
        """An exchange that several groups have in their plans counts only where all of them hold it."""
        held: dict[ExchangeId, Partitions] = {}
        for root, step in self.steps.items():
            for exchange in self.layout.graph.groups[root].exchanges:
                mine = step.held.get(exchange, EMPTY)
                held[exchange] = held[exchange] & mine if exchange in held else mine
        return held


def _rows_of(segments: Sequence[Segment]) -> int | None:
    """The rows of one attempt, if all that it reported counts. What was adopted was reported once more, with all that
    the attempt has."""
    reported = Partitions.union(one.digests.of for one in segments)
    if Partitions.union(one.partitions for one in segments) != reported:
        return None
    last = segments[-1]
    told = [last.rows] if last.digests.of == reported else [one.rows for one in segments]
    known = [one for one in told if one is not None]
    return sum(known) if len(known) == len(told) else None
