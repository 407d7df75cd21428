"""A run driven by hand: each call is one stimulus, and after each the rules and the wire format are checked."""

from __future__ import annotations

from typing import Any

import msgspec

from given import sets
from rekindle.failover.restart import Strategy
from rekindle.master.decide import decide
from rekindle.master.dispatch import commands
from rekindle.master.facts import stimuli as st
from rekindle.master.facts.config import BackoffSpec, MasterConfig
from rekindle.master.facts.events import Event, Fence
from rekindle.master.facts.graph_spec import GraphSpec
from rekindle.master.facts.run_spec import Fingerprint, RunSpec, UserDecisions
from rekindle.master.state.apply import fold
from rekindle.master.state.commands import Command, Key
from rekindle.master.state.invariants import check_invariants
from rekindle.master.state.run_state import AttemptStatus, Phase, RunState
from rekindle.master.state.wire import dec_hook, enc_hook
from rekindle.model.failures import Cause, Failure, FailureKind
from rekindle.model.graph import Graph
from rekindle.model.ids import AttemptId, ExchangeId
from rekindle.model.kinds import FailureDomain
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.model.parts import Parts
from rekindle.testing.drawing import draw

AT_ONCE = MasterConfig(backoff=BackoffSpec("fixed", {"attempts_max": 10, "delay_ms": 0}))
_ENCODER = msgspec.json.Encoder(enc_hook=enc_hook)
_DECODER: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event, dec_hook=dec_hook)


def start_of(drawing: str, **more: Any) -> st.StartRun:
    """A start with nothing special about it."""
    usual: dict[str, Any] = {
        "run": "r",
        "pipeline": "p",
        "order": 1,
        "spec": RunSpec(graph=GraphSpec.of(draw(drawing))),
        "config": MasterConfig(),
        "run_time_ms": 0,
        "seed": 0,
        "application": "app",
        "owner": "me",
    }
    return st.StartRun(**(usual | more))


Columns = dict[str, dict[str, str]]


class Driven:
    """One run. `last` are the events of the last stimulus, `out` the commands that followed it."""

    def __init__(
        self,
        drawing: str,
        *,
        config: MasterConfig = AT_ONCE,
        sinks: tuple[str, ...] = (),
        fingerprints: dict[str, Fingerprint] | None = None,
        targets: dict[str, str] | None = None,
        columns: Columns | None = None,
    ) -> None:
        self.graph: Graph = draw(drawing)
        self.now = 0
        self.journal: list[Event] = []
        self.sent: set[Key] = set()
        self.applications = 1
        self.maybe: RunState | None = None
        self.last: tuple[Event, ...] = ()
        self.out: list[Command] = []
        self.give(
            st.StartRun(
                run="run",
                pipeline="pipeline",
                order=7,
                spec=RunSpec(
                    graph=GraphSpec.of(self.graph),
                    sinks=sinks,
                    fingerprints=fingerprints or {},
                    targets=targets or {},
                    columns=columns or {},
                ),
                config=config,
                run_time_ms=1000,
                seed=42,
                application="app1",
                owner="me",
            )
        )

    @property
    def state(self) -> RunState:
        assert self.maybe is not None
        return self.maybe

    def is_now(self, phase: Phase) -> bool:
        return self.state.phase is phase

    def give(self, stimulus: st.Stimulus, *, after_ms: int = 1, jitter: float = 0.0) -> tuple[Event, ...]:
        self.now += after_ms
        self.last = decide(self.maybe, stimulus, self.now, jitter)
        wired = tuple(_DECODER.decode(_ENCODER.encode(event)) for event in self.last)
        assert wired == self.last
        self.maybe = fold(self.maybe, wired)
        self.journal.extend(self.last)
        check_invariants(self.state)
        self.out = commands(self.state, self.sent)
        self.sent.update(command.key for command in self.out)
        return self.last

    def attempt(self, step: str) -> AttemptId:
        """The newest open attempt of the step."""
        return max(one.attempt for one in self.state.attempts_of(step))

    def open(self) -> dict[str, str]:
        """Step to what its open attempts may still commit."""
        return {one.attempt.step: str(self.state.running(one.attempt.step)) for one in self.state.attempts.values()}

    def commit(
        self,
        step: str,
        partitions: str,
        *,
        digests: bytes | None = None,
        version: int | None = None,
        checksum: str | None = None,
        attempt: AttemptId | None = None,
        size_bytes: int = 0,
        rows: int | None = None,
        after_ms: int = 1,
    ) -> tuple[Event, ...]:
        version = self.state.steps[step].exchange_version if version is None else version
        return self.give(
            st.CommitsSeen(
                attempt=attempt or self.attempt(step),
                partitions=Partitions.parse(partitions),
                manifest=b"files",
                digests=digests,
                exchange_version=version,
                exchange_checksum=checksum,
                size_bytes=size_bytes,
                rows=rows,
            ),
            after_ms=after_ms,
        )

    def end(self, step: str) -> tuple[Event, ...]:
        return self.give(st.AttemptEnded(attempt=self.attempt(step)))

    def finish(self, step: str, *, digests: bytes | None = None) -> None:
        """Commit all that the newest attempt still may, and end it."""
        partitions = str(self.state.attempts[self.attempt(step)].partitions)
        attempt = self.attempt(step)
        self.commit(step, partitions, digests=digests)
        self.give(st.AttemptEnded(attempt=attempt))

    def end_cancelled(self) -> None:
        """Everything that is being cancelled ends."""
        for key, one in list(self.state.attempts.items()):
            if one.status is AttemptStatus.CANCELLING:
                self.give(st.AttemptEnded(attempt=key, was_cancelled=True))

    def fail(
        self,
        step: str,
        partitions: str,
        kind: FailureKind = FailureKind.EXCEPTION,
        signature: str = "boom",
        lost: Parts | None = None,
    ) -> tuple[Event, ...]:
        failure = Failure(step, Partitions.parse(partitions), Cause(kind), signature)
        found = lost or Parts()
        return self.give(
            st.AttemptEnded(
                attempt=self.attempt(step), failures=(failure,), lost=found, has_lost_plan=bool(found.results)
            )
        )

    def lose(self, step: str, partitions: str, domain: FailureDomain = FailureDomain.STORAGE) -> tuple[Event, ...]:
        return self.give(st.PartsLost(Parts({step: Partitions.parse(partitions)}), domain))

    def lose_exchange(self, producer: str, consumer: str, parts: str) -> tuple[Event, ...]:
        lost = Parts({}, {ExchangeId(consumer, producer): Partitions.parse(parts)})
        return self.give(st.PartsLost(lost, FailureDomain.EXECUTOR))

    def take_over(
        self,
        *,
        drawing: str | None = None,
        fingerprints: dict[str, Fingerprint] | None = None,
        accepted: frozenset[str] = frozenset(),
        replaced: frozenset[str] = frozenset(),
        without: str = "",
        republish: bool = False,
        once: tuple[str, ...] = (),
        columns: Columns | None = None,
        strategy: Strategy | None = None,
    ) -> tuple[Event, ...]:
        """A new process: what was sent is forgotten, and the application is another."""
        self.sent = set()
        self.applications += 1
        graph = draw(drawing) if drawing else self.graph
        return self.give(
            st.TakeOver(
                application=f"app{self.applications}",
                owner="you",
                spec=RunSpec(
                    graph=GraphSpec.of(graph),
                    fingerprints=fingerprints or self.state.spec.fingerprints,
                    once=once,
                    columns=columns or {},
                ),
                decisions=UserDecisions(
                    accepted=accepted,
                    replaced=replaced,
                    without=sets(without),
                    republish=republish,
                    strategy=strategy,
                ),
            )
        )

    def seal(
        self, step: str, partitions: str = "", version: int | None = None, rows: int | None = None
    ) -> tuple[Event, ...]:
        found = Partitions.parse(partitions) if partitions else EMPTY
        return self.give(
            st.AttemptSealed(
                attempt=self.attempt(step), partitions=found, manifest=b"files", exchange_version=version, rows=rows
            )
        )

    def publish(self) -> None:
        """Answer every publication that is open."""
        fence = self.state.publication
        assert isinstance(fence, Fence)
        for sink in self.state.sinks:
            self.give(st.SinkDone(sink, fence))
