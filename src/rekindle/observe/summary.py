"""What a run came to: folded from the events of one process, told when it ends.

Rules
- Counts are of vertices that this process made count. What it found there is reused, what a dead driver had finished
  unrecorded is adopted, and both were saved.
- Time saved is what the reused partitions cost when they were made, by the journal's own times. No times, no claim.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from rekindle.errors import visible
from rekindle.master.facts.events import (
    EpochOpened,
    Event,
    FailureHandled,
    PartitionsCommitted,
    RunStopped,
    RunSucceeded,
)
from rekindle.master.state.run_state import RunState, Segment
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.observe.plan_times import Clock, StepRate
from rekindle.observe.show_words import vertices
from rekindle.observe.words import bytes_text, count_text, differing, escape, time_text
from rekindle.remedies import CommandRemedy, Say, in_python

SAVED_MS_MIN = 1_000
SEE_RUNS = CommandRemedy("runs", "see their parameters")

# The bytes of the files that a segment makes count; None where nobody can tell.
Sizes = Callable[[Segment], int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSummary:
    """One kept step of a run: how many result partitions it has, and how many of them this process computed."""

    partitions: int
    computed: int
    generation: int
    repeated: int = field(default=0, compare=False)
    bytes: int | None = field(default=None, compare=False)
    saved_ms: int | None = field(default=None, compare=False)
    saved_core_ms: int | None = field(default=None, compare=False)
    left_out: int = field(default=0, compare=False)

    @property
    def reused(self) -> int:
        return max(0, self.partitions - self.computed - self.left_out)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """The summary of a run. `was_done` is true if it had succeeded before and nothing was started. `results` maps each
    sink to its target; `failures` is the number of failures that were handled; `holes` are partitions that the user
    left out, which the targets record too. `peak_bytes` is the largest size of all results at one time in this process,
    `budget_bytes` the limit for it; 0 is no limit. `differs` is what changed since a run that was already done.
    `stale` are the numbers of later runs, by target, that were made from what this run replaced."""

    pipeline: str
    run: str
    was_done: bool
    was_resumed: bool
    steps: Mapping[str, StepSummary]
    results: Mapping[str, str] = field(default_factory=dict, compare=False)
    failures: int = field(default=0, compare=False)
    wall_ms: int | None = field(default=None, compare=False)
    holes: Mapping[str, Partitions] = field(default_factory=dict, compare=False)
    budget_bytes: int = field(default=0, compare=False)
    peak_bytes: int = field(default=0, compare=False)
    differs: tuple[str, ...] = field(default=(), compare=False)
    stale: Mapping[str, tuple[int, ...]] = field(default_factory=dict, compare=False)

    @property
    def saved_ms(self) -> int | None:
        return _sum(step.saved_ms for step in self.steps.values() if step.reused)

    @property
    def saved_core_ms(self) -> int | None:
        return _sum(step.saved_core_ms for step in self.steps.values() if step.reused)

    @property
    def bytes(self) -> int | None:
        return _sum(step.bytes for step in self.steps.values())

    def lines(self, say: Say = in_python) -> Iterator[str]:
        """The lines of the summary. `say` is the face that they are for."""
        what = "is already done" if self.was_done else "is done (resumed)" if self.was_resumed else "is done"
        took = f"; it took {time_text(self.wall_ms)}" if self.wall_ms is not None else ""
        yield f"run {self.run} of {self.pipeline} {what}{took}"
        yield from differing(self.differs, say)
        computed = sum(step.computed for step in self.steps.values())
        reused = sum(step.reused for step in self.steps.values())
        if not self.was_done:
            again = f", {count_text(self.failures, 'failure')} handled" if self.failures else ""
            yield f"  computed {count_text(computed, 'partition')}, reused {reused:,}{again}"
        if reused and not self.was_done and (self.saved_ms or 0) >= SAVED_MS_MIN:
            cores = f" ({time_text(self.saved_core_ms)} of core time)" if self.saved_core_ms is not None else ""
            yield f"  saved about {time_text(self.saved_ms)}{cores} compared with a start from scratch"
        if self.bytes:
            yield f"  kept results: {bytes_text(self.bytes)}"
        if self.budget_bytes and self.peak_bytes:
            more = ", which was exceeded because all of it was needed" if self.peak_bytes > self.budget_bytes else ""
            most = bytes_text(self.peak_bytes)
            yield f"  stored at most {most} of a budget of {bytes_text(self.budget_bytes)}{more}"
        for sink, where in self.results.items():
            yield f"  {sink} is in {where}"
        if self.holes:
            yield f"  published without {vertices(self.holes)}, which the user left out; the target names it"
        for where, runs in self.stale.items():
            told = ", ".join(map(str, runs))
            yield f"  stale in {where}: run {told}, which read what this run replaced"
            yield f"  next: start each again with its parameters as a new run, in this order; {say(SEE_RUNS)}"

    def __str__(self) -> str:
        return visible("\n".join(self.lines()))

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


class SummaryBuilder:
    """Folds the events of one process. `segments` are the files that counted before any of them was released."""

    def __init__(self) -> None:
        self.computed: dict[str, Partitions] = {}
        self.count: dict[str, int] = {}
        self.failures = 0
        self.peak_bytes = 0
        self.segments: dict[str, tuple[Segment, ...]] = {}
        self._clock = Clock()
        self._began_ms: int | None = None
        self._ended_ms: int | None = None

    def take(self, events: tuple[Event, ...], state: RunState) -> None:
        self._clock.take(events)
        self.peak_bytes = max(self.peak_bytes, state.stored_bytes)
        for event in events:
            match event:
                case EpochOpened():
                    self._began_ms = event.at_ms
                    self.segments = {name: step.segments for name, step in state.steps.items()}
                case RunSucceeded(at_ms) | RunStopped(at_ms):
                    self._ended_ms = at_ms
                case FailureHandled():
                    self.failures += 1
                case PartitionsCommitted(attempt=attempt, partitions=partitions):
                    self.segments[attempt.step] = state.steps[attempt.step].segments or self.segments[attempt.step]
                    if event.is_adopted:
                        continue
                    self.computed[attempt.step] = self.computed.get(attempt.step, EMPTY) | partitions
                    self.count[attempt.step] = self.count.get(attempt.step, 0) + len(partitions)
                case _:
                    pass

    @property
    def wall_ms(self) -> int | None:
        return None if self._began_ms is None or self._ended_ms is None else self._ended_ms - self._began_ms

    def paces(self) -> dict[str, StepRate]:
        return self._clock.paces()


def summary_of(
    state: RunState,
    tally: SummaryBuilder,
    *,
    was_done: bool,
    was_resumed: bool,
    earlier: Mapping[str, StepRate] | None = None,
    sizes: Sizes = lambda segment: None,
    cores: int = 0,
    results: Mapping[str, str] | None = None,
    differs: tuple[str, ...] = (),
    stale: Mapping[str, tuple[int, ...]] | None = None,
) -> RunSummary:
    """`earlier` is how fast steps were in the drivers before this one."""
    known = {**tally.paces(), **(earlier or {})}
    steps = {name: _step(state, name, tally, known.get(name), sizes, cores) for name in state.steps}
    return RunSummary(
        pipeline=state.pipeline,
        run=state.run,
        was_done=was_done,
        was_resumed=was_resumed,
        steps=steps,
        results=results or {},
        failures=tally.failures,
        wall_ms=tally.wall_ms,
        holes=state.holes(),
        budget_bytes=state.config.budget_bytes,
        peak_bytes=tally.peak_bytes,
        differs=differs,
        stale=stale or {},
    )


def _step(
    state: RunState, name: str, tally: SummaryBuilder, pace: StepRate | None, sizes: Sizes, cores: int
) -> StepSummary:
    total, step = state.layout.graph.steps[name].partitions, state.steps[name]
    computed = len(tally.computed.get(name, EMPTY))
    reused = total - computed - len(step.holes)
    return StepSummary(
        partitions=total,
        computed=computed,
        generation=step.generation,
        repeated=tally.count.get(name, 0) - computed,
        bytes=_sum(sizes(segment) for segment in tally.segments.get(name, step.segments)),
        saved_ms=pace.of(reused) if pace else None,
        saved_core_ms=pace.core_ms(reused, total, cores) if pace and cores else None,
        left_out=len(step.holes),
    )


def _sum(values: Iterable[int | None]) -> int | None:
    found = list(values)
    return None if None in found else sum(one for one in found if one is not None)
