"""One run, told from its journal: steps, attempts, failures, restarts with their reasons, drivers and sinks.

- A view is a value of texts, counts and bitmaps. It grows with decisions, never with partitions.
- It is made from all records: a snapshot's state has forgotten what led to it.
- An event without a time of its own happened when the rest of its record did.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from rekindle.master.facts import events as ev
from rekindle.master.facts.run_spec import DeclaredStep
from rekindle.master.rules.poison_beside import poisoned
from rekindle.master.state.apply import apply
from rekindle.master.state.run_state import Phase, ResultSize, RunState
from rekindle.model.ids import AttemptId
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.observe.picture import Link, Picture, PictureNode, Share
from rekindle.observe.picture_svg import Drawing, svg
from rekindle.observe.region_picture import link_of, region_picture
from rekindle.observe.show_words import ReasonView, joined, one_line, reasons_of
from rekindle.observe.words import count_text, escape, size_texts

OPEN = "running"
INTERRUPTED = "interrupted"


class DriverView(msgspec.Struct, frozen=True):
    """One process that was the master of the run."""

    epoch: int
    owner: str
    application: str
    at_ms: int


class AttemptView(msgspec.Struct, frozen=True, kw_only=True):
    """One try at partitions of a step. `outcome` is `running` while it is open."""

    name: str
    step: str
    generation: int
    epoch: int
    asked: int
    partitions: Partitions
    because: tuple[ReasonView, ...]
    opened_ms: int
    committed: int = 0
    adopted: int = 0
    closed_ms: int | None = None
    outcome: str = OPEN

    @property
    def is_restart(self) -> bool:
        return any(reason.is_restart for reason in self.because)


class FailureView(msgspec.Struct, frozen=True, kw_only=True):
    """Vertices of one step that failed together, and when the step was to go on."""

    at_ms: int
    step: str
    partitions: Partitions
    count: int
    kind: str
    text: str
    due_ms: int


class HoleView(msgspec.Struct, frozen=True, kw_only=True):
    """Partitions that were left out on the user's word. `left` are those that still are: the others were tried again,
    because their step or what it reads changed."""

    at_ms: int
    step: str
    partitions: Partitions
    count: int
    who: str
    left: int


class RestartView(msgspec.Struct, frozen=True):
    """Part of a restart set, as it was decided. `what` says what became of the vertices."""

    at_ms: int
    step: str
    what: str
    count: int
    because: tuple[ReasonView, ...]


class StepView(msgspec.Struct, frozen=True, kw_only=True):
    """One kept step. Every partition is one of reused, computed, running, failed, left out and missing.

    committed   counts now
    reused      made under an earlier driver than the newest; it counts, or was released when nobody needed it any more
    computed    the same, made under the newest driver
    released    those of the two that count no more
    again       partitions that were ever started more than once
    rows, bytes of what was committed last, also if it was released since; None if it cannot be told
    """

    name: str
    kind: str
    determinism: str
    partitions: int
    generation: int
    committed: int
    reused: int
    computed: int
    running: int
    failed: int
    poisoned: int
    missing: int
    released: int
    again: int
    attempts: int
    failures: int
    restarts: int
    why: tuple[ReasonView, ...]
    reads: tuple[str, ...]
    left_out: int = 0
    rows: int | None = None
    bytes: int | None = None

    @property
    def shares(self) -> tuple[Share, ...]:
        """Every partition once, by what became of it."""
        states = ("reused", "computed", "running", "failed", "left out", "missing")
        return tuple(Share(state, getattr(self, state.replace(" ", "_"))) for state in states)

    def node(self) -> PictureNode:
        told = [f"{self.name}: {self.kind}, {self.determinism}, generation {self.generation}"]
        told += [f"{share.count:,} {share.state}" for share in self.shares if share.count]
        told += [f"{self.again:,} started more than once"] * bool(self.again)
        told += [f"last restart: {joined(self.why)}"] * bool(self.why)
        told += [f"{self.released:,} released, no longer needed"] * bool(self.released)
        told += size_texts(self.rows, self.bytes)
        again = f" · {self.again:,} restarted" if self.again else ""
        note = f"{self.reused + self.computed:,}/{self.partitions:,} {self.kind}{again}"
        return PictureNode(
            name=self.name, note=note, shares=self.shares, title="\n".join(told), is_marked=bool(self.again)
        )


class SinkView(msgspec.Struct, frozen=True, kw_only=True):
    """What the run publishes: `name` is the kept step, `target` says which sink publishes it where. `may_be`: a
    publication began, and nobody heard how it ended. What is published has a `version`, and `rows` and `bytes` if they
    can be told."""

    name: str
    is_published: bool
    may_be: bool = False
    target: str = ""
    version: str = ""
    rows: int | None = None
    bytes: int | None = None

    @property
    def shown(self) -> str:
        return self.target or self.name

    @property
    def state(self) -> str:
        if self.is_published:
            return "published"
        return "may be published" if self.may_be else "not published"

    def __str__(self) -> str:
        version = [f"version {self.version}"] if self.version else []
        return ", ".join((self.state, *version, *size_texts(self.rows, self.bytes)))


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """A whole run. `declared` are all its steps, and `regions` those that are computed with each kept one."""

    pipeline: str
    run: str
    order: int
    parameters: dict[str, str]
    phase: str
    strategy: str
    started_ms: int
    changed_ms: int
    gave_up: str
    is_resumable: bool
    drivers: tuple[DriverView, ...]
    steps: tuple[StepView, ...]
    edges: tuple[Link, ...]
    sinks: tuple[SinkView, ...]
    attempts: tuple[AttemptView, ...]
    failures: tuple[FailureView, ...]
    restarts: tuple[RestartView, ...]
    life: str = ""
    holes: tuple[HoleView, ...] = ()
    declared: tuple[DeclaredStep, ...] = ()
    regions: dict[str, tuple[str, ...]] = {}

    @property
    def committed(self) -> int:
        return sum(step.committed for step in self.steps)

    @property
    def partitions(self) -> int:
        return sum(step.partitions for step in self.steps)

    @property
    def kept(self) -> str:
        """What is there of the run, in words."""
        released = sum(step.released for step in self.steps)
        rest = f", {released:,} released (no longer needed)" if released else ""
        left_out = sum(step.left_out for step in self.steps)
        rest += f", {left_out:,} left out" if left_out else ""
        return f"{self.committed:,} of {count_text(self.partitions, 'partition')} kept{rest}"

    def picture(self) -> Picture:
        """The graph, each step with the shares of its partitions."""
        kept = {step.name: step.node() for step in self.steps}
        return region_picture(self.declared, self.regions, kept, self.edges)

    @property
    def graph(self) -> Drawing:
        """The picture, to be looked at in a notebook."""
        return Drawing(self.picture())

    def _repr_html_(self) -> str:
        head = f"run {self.order} of {self.pipeline}: {self.phase}, {self.kept}"
        return f"<div><b>{escape(head)}</b><br>{svg(self.picture())}</div>"


def view_of(
    records: Iterable[Sequence[ev.Event]],
    parameters: dict[str, str] | None = None,
    life: str = "",
    is_alone: bool = False,
) -> tuple[RunView, RunState]:
    """The view of a run, from the events of each of its records, and the state they fold to. `life` tells of its
    driver; a run whose driver is gone (`is_alone`) before it ended was interrupted."""
    fold = _Fold()
    for events in records:
        fold.record(events)
    state = fold.state
    assert state is not None, "a journal begins with RunStarted"
    failing = state.failing
    view = RunView(
        pipeline=state.pipeline,
        run=state.run,
        order=state.order,
        parameters=parameters or {},
        phase=INTERRUPTED if is_alone and state.phase is Phase.RUNNING else state.phase.value,
        strategy=state.config.strategy.value,
        started_ms=fold.started_ms,
        changed_ms=fold.at_ms,
        gave_up=one_line(failing.gave_up) if failing else "",
        is_resumable=state.is_resumable,
        drivers=tuple(fold.drivers),
        steps=tuple(_step(fold, state, name) for name in state.steps),
        edges=tuple(map(link_of, state.layout.spec.edges)),
        sinks=tuple(_sink(state, sink) for sink in state.sinks),
        attempts=tuple(fold.attempts.values()),
        failures=tuple(fold.failures),
        restarts=tuple(fold.restarts),
        life=life,
        holes=tuple(_hole(event, state) for event in fold.holes),
        declared=state.spec.declared,
        regions=state.spec.regions,
    )
    return view, state


def _sink(state: RunState, sink: str) -> SinkView:
    size = state.published_sizes.get(sink) if sink in state.published else None
    return SinkView(
        name=sink,
        is_published=sink in state.published,
        may_be=sink in state.publications_unconfirmed,
        target=state.spec.targets.get(sink, ""),
        rows=size.rows if size else None,
        bytes=size.bytes or None if size else None,
    )


def record_ms(events: Iterable[ev.Event], before_ms: int) -> int:
    """When a record was written, as far as its events say."""
    return next((at for event in events if (at := getattr(event, "at_ms", None)) is not None), before_ms)


class _Fold:
    """Collects what the state forgets. Made for one view and thrown away."""

    def __init__(self) -> None:
        self.state: RunState | None = None
        self.at_ms = 0
        self.started_ms = 0
        self.drivers: list[DriverView] = []
        self.attempts: dict[AttemptId, AttemptView] = {}
        self.failures: list[FailureView] = []
        self.restarts: list[RestartView] = []
        self.holes: list[ev.HoleAccepted] = []
        self.once: dict[str, Partitions] = {}
        self.begun: dict[str, Partitions] = {}
        self.again: dict[str, Partitions] = {}
        self.made: dict[str, dict[int, Partitions]] = {}
        self.sizes: dict[str, ResultSize] = {}

    def record(self, events: Sequence[ev.Event]) -> None:
        self.at_ms = record_ms(events, self.at_ms)
        for event in events:
            self._collect(event)
            self.state = apply(self.state, event)
            if isinstance(event, ev.PartitionsCommitted) and self.state.is_complete(event.attempt.step):
                self.sizes[event.attempt.step] = self.state.size_of(event.attempt.step)

    def _collect(self, event: ev.Event) -> None:
        match event:
            case ev.RunStarted():
                self.started_ms = event.at_ms
            case ev.EpochOpened():
                self.drivers.append(DriverView(event.epoch, event.owner, event.application, event.at_ms))
            case ev.AttemptOpened():
                self._opened(event)
            case ev.PartitionsCommitted():
                self._made(event.attempt, event.partitions)
                one, count = self.attempts[event.attempt], len(event.partitions)
                self.attempts[event.attempt] = msgspec.structs.replace(
                    one, committed=one.committed + count, adopted=one.adopted + (count if event.is_adopted else 0)
                )
            case ev.AttemptClosed():
                one = self.attempts[event.attempt]
                self.attempts[event.attempt] = msgspec.structs.replace(
                    one, closed_ms=event.at_ms, outcome=event.outcome.value
                )
            case ev.HoleAccepted():
                self.holes.append(event)
            case ev.FailureHandled():
                self.failures.extend(_failures(event))
            case ev.GenerationOpened() if event.dropped:
                self._unmade(event.step, event.dropped)
                self.begun[event.step] = self.begun.get(event.step, EMPTY) - event.dropped
                what = f"generation {event.generation} opened"
                self._restart(event.step, what, len(event.dropped), reasons_of(event.because))
            case ev.PartitionsLost():
                self._unmade(event.step, event.partitions)
                reason = ReasonView(f"{event.domain.value} failure", event.partitions, len(event.partitions), True)
                self._restart(event.step, "lost", reason.count, (reason,))
            case _:
                return

    def _opened(self, event: ev.AttemptOpened) -> None:
        attempt = event.attempt
        because = reasons_of(event.because, self.begun.get(attempt.step, EMPTY))
        self.attempts[attempt] = AttemptView(
            name=str(attempt),
            step=attempt.step,
            generation=attempt.generation,
            epoch=attempt.epoch,
            asked=len(event.partitions),
            partitions=event.partitions,
            because=because,
            opened_ms=event.at_ms,
        )
        before = self.once.get(attempt.step, EMPTY)
        self.begun[attempt.step] = self.begun.get(attempt.step, EMPTY) | event.partitions
        self.again[attempt.step] = self.again.get(attempt.step, EMPTY) | (before & event.partitions)
        self.once[attempt.step] = before | event.partitions
        self._unmade(attempt.step, event.partitions)
        restarted = tuple(reason for reason in because if reason.is_restart)
        if restarted:
            self._restart(attempt.step, f"attempt {attempt.number}", sum(r.count for r in restarted), restarted)

    def _made(self, attempt: AttemptId, partitions: Partitions) -> None:
        by_epoch = self.made.setdefault(attempt.step, {})
        by_epoch[attempt.epoch] = by_epoch.get(attempt.epoch, EMPTY) | partitions

    def _unmade(self, step: str, partitions: Partitions) -> None:
        by_epoch = self.made.get(step, {})
        for epoch, made in by_epoch.items():
            by_epoch[epoch] = made - partitions

    def _restart(self, step: str, what: str, count: int, because: tuple[ReasonView, ...]) -> None:
        self.restarts.append(RestartView(self.at_ms, step, what, count, because))


def _hole(event: ev.HoleAccepted, state: RunState) -> HoleView:
    left = event.partitions & state.steps[event.step].holes
    return HoleView(
        at_ms=event.at_ms,
        step=event.step,
        partitions=event.partitions,
        count=len(event.partitions),
        who=event.who,
        left=len(left),
    )


def _failures(event: ev.FailureHandled) -> Iterable[FailureView]:
    for failure in event.failures:
        root = failure.cause.root
        yield FailureView(
            at_ms=event.at_ms,
            step=failure.step,
            partitions=failure.partitions,
            count=len(failure.partitions),
            kind=root.kind.value,
            text=one_line(root.text),
            due_ms=event.due_ms,
        )


def _step(fold: _Fold, state: RunState, name: str) -> StepView:
    step, spec = state.steps[name], state.layout.graph.steps[name]
    whole = state.layout.graph.whole[name]
    by_epoch = fold.made.get(name, {})
    computed = by_epoch.get(state.epoch, EMPTY)
    made = computed
    for partitions in by_epoch.values():
        made = made | partitions
    running = state.running(name) - made
    failed = step.suspects.partitions - made - running
    size = fold.sizes.get(name) or state.size_of(name)
    return StepView(
        name=name,
        kind=spec.kind.value,
        determinism=spec.determinism.value,
        partitions=spec.partitions,
        generation=step.generation,
        committed=len(step.committed),
        reused=len(made - computed),
        computed=len(computed),
        running=len(running),
        failed=len(failed),
        poisoned=len(poisoned(state, name)),
        missing=len(whole - made - running - failed - step.holes),
        released=len(made - step.committed),
        again=len(fold.again.get(name, EMPTY)),
        attempts=sum(one.step == name for one in fold.attempts.values()),
        failures=sum(one.step == name for one in fold.failures),
        restarts=sum(one.step == name for one in fold.restarts),
        why=_last_why(fold, name),
        reads=state.layout.producers[name],
        left_out=len(step.holes),
        rows=size.rows if made else None,
        bytes=size.bytes or None,
    )


def _last_why(fold: _Fold, name: str) -> tuple[ReasonView, ...]:
    """The reasons of the newest restart of the step; none if it never restarted."""
    return next((one.because for one in reversed(fold.restarts) if one.step == name), ())
