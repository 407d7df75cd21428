"""From what the run's own master decides to the plan: nothing is computed beside it.

Every declared step gets one stage, in the order of the pipeline. What goes is read off the master's decisions too, so
that nothing is promised about deletion that it would not keep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rekindle.master.facts.events import (
    AttemptDeleted,
    AttemptOpened,
    PartitionsReleased,
    Reasons,
    RunSucceeded,
    SinkPublished,
)
from rekindle.master.rules.published import unless_equal
from rekindle.master.state.commands import StartAttempt
from rekindle.master.state.run_state import Phase, RunState, Segment
from rekindle.model.ids import AttemptId
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.model.reasons import AnyReason, Failed, NotYetRun, taken_from
from rekindle.observe.plan import Action, Budget, Deletion, Loss, Plan, Stage, Start
from rekindle.observe.plan_ahead import SimulatedRun
from rekindle.observe.plan_times import StepRate, span, whole
from rekindle.observe.summary import Sizes
from rekindle.observe.words import count_text

Tasks = Callable[[StartAttempt], int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanInputs:
    """What is known of the steps beside the journal, as the caller found it out.

    order      every declared step, producers first
    members    the steps fused into each kept one, itself last
    notes      why each step is what it is
    published  sinks that publish the result of a kept step, which they name
    doubts     what makes a kept step not determinate
    changes    what changed in a kept step since the run last looked, in sentences
    not_taken  why a kept step that did not change is not taken from the earlier run that others are taken from
    paces      how fast each step was before
    tasks      how many Spark tasks of all stages an attempt would take, if it is the first of its generation
    tables     sentences about tables with a log of their own that are read and published to
    executors  sentences about what settings of executors and exchanges change for the run
    """

    order: Sequence[str] = ()
    members: Mapping[str, Sequence[str]] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    published: Mapping[str, str] = field(default_factory=dict)
    doubts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    changes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    not_taken: Mapping[str, str] = field(default_factory=dict)
    paces: Mapping[str, StepRate] = field(default_factory=dict)
    tasks: Tasks = lambda command: None
    cores: int = 0
    sizes: Sizes = lambda segment: None
    tables: tuple[str, ...] = ()
    executors: tuple[str, ...] = ()


def plan_of(
    before: RunState | None,
    ahead: SimulatedRun,
    told: PlanInputs,
    *,
    living: str = "",
    parameters: Mapping[str, str] | None = None,
) -> Plan:
    """The plan that these decisions amount to. `before` is the run as its journal has it, None for a new one."""
    drafts = {name: _kept(name, before, ahead, told) for name in ahead.end.layout.kept}
    stages = tuple(_stages(ahead, told, drafts))
    loss = max(ahead.losses, key=len, default=None)
    return Plan(
        pipeline=ahead.end.pipeline,
        run=before.run if before else "",
        start=Start.NEW if before is None else Start.RESUME,
        stages=stages,
        publishes=tuple(event.sink for event in ahead.events if isinstance(event, SinkPublished)),
        destinations=tuple(ahead.end.spec.targets.values()),
        protects=tuple(name for name in drafts if name not in ahead.end.spec.sinks and drafts[name].computed),
        deletions=tuple(_deletions(before, ahead)),
        uncertain=tuple(_uncertain(ahead, drafts, living)),
        loss=replace(loss, ms=_cost_ms(loss, told)) if loss is not None else None,
        span=whole({s.step: s.span for s in drafts.values() if s.computed}, ahead.end.layout.producers),
        before=_so_far(before),
        ends="" if ahead.end.phase is Phase.SUCCEEDED else _end(ahead.end),
        living=living,
        parameters=parameters or {},
        budget=_budget(ahead),
        released=_released(ahead, is_for_budget=False),
        tables=told.tables,
        executors=told.executors,
    )


def done_plan(state: RunState, told: PlanInputs, differs: tuple[str, ...] = ()) -> Plan:
    """A run that has succeeded: nothing is left to do. `differs` is what changed since."""
    stages = tuple(
        Stage(
            step=name,
            action=Action.REUSE,
            partitions=state.layout.graph.steps[name].partitions,
            kept=step.committed,
            bytes_kept=_bytes(step.segments, told.sizes),
            holes=step.holes,
        )
        for name, step in state.steps.items()
    )
    return Plan(
        pipeline=state.pipeline,
        run=state.run,
        start=Start.DONE,
        stages=stages,
        differs=differs,
        destinations=tuple(state.spec.targets.values()),
    )


def _kept(name: str, before: RunState | None, ahead: SimulatedRun, told: PlanInputs) -> Stage:
    step, count = ahead.end.layout.graph.steps[name], ahead.end.layout.graph.steps[name].partitions
    opened = [event for event in ahead.opened if event.attempt.step == name and not taken_from(event.because)]
    computed = EMPTY
    for event in opened:
        computed = computed | event.partitions
    kept = _stands(name, before, ahead) - computed
    pace = told.paces.get(name)
    is_narrow = ahead.end.layout.is_narrow(name)
    return Stage(
        step=name,
        action=Action.COMPUTE if computed else Action.REUSE,
        partitions=count,
        computed=computed,
        kept=kept,
        why=_reasons(opened, _failed(name, before)) if computed else (),
        changes=tuple(told.changes.get(name, ())) or tuple(filter(None, [told.not_taken.get(name)])),
        tasks=_tasks([one for one in ahead.started if one.attempt.step == name], told.tasks),
        bytes_kept=_bytes(_cut(before or ahead.opening, name, kept), told.sizes),
        determinism=step.determinism,
        doubts=tuple(told.doubts.get(name, ())),
        span=span(pace, count, len(computed), told.cores, remakes_exchange=not is_narrow) if computed else None,
        bytes_written=pace.size(len(computed)) if pace and computed else None,
        saved_ms=pace.of(len(kept)) if pace else None,
        note=told.notes.get(name, ""),
        holes=ahead.end.steps[name].holes,
        keep=step.keep,
        lost=ahead.lost.get(name, EMPTY) - computed,
        taken_from=max((taken_from(event.because) for event in ahead.opened if event.attempt.step == name), default=0),
    )


def _tasks(started: Sequence[StartAttempt], asked: Tasks) -> int | None:
    """The first attempt of a generation also makes the exchanges below it; the others find them there."""
    found, seen = 0, set[int]()
    for command in started:
        is_first = command.attempt.generation not in seen
        seen.add(command.attempt.generation)
        count = asked(command) if is_first else len(command.partitions)
        if count is None:
            return None
        found += count
    return found


def _stands(name: str, before: RunState | None, ahead: SimulatedRun) -> Partitions:
    """What counted before or is adopted from a dead driver. What is computed again is taken from it."""
    committed = before.steps[name].committed if before else EMPTY
    return (committed - ahead.lost.get(name, EMPTY)) | ahead.adopted.get(name, EMPTY)


def _stages(ahead: SimulatedRun, told: PlanInputs, kept: Mapping[str, Stage]) -> Iterator[Stage]:
    members = told.members or {root: tuple(ahead.end.layout.members(root)) for root in kept}
    for name in told.order or ahead.end.layout.graph.steps:
        roots = tuple(root for root, inside in members.items() if name in inside and name != root)
        if name in kept:
            yield kept[name]
        elif roots:
            times = sum(bool(kept[root].computed) for root in roots)
            yield Stage(step=name, action=Action.FUSED, into=roots, times=times, note=told.notes.get(name, ""))
        elif name in told.published:
            yield Stage(step=name, action=Action.PUBLISH, into=(told.published[name],), note=told.notes.get(name, ""))
        else:
            yield Stage(step=name, action=Action.LEFT_OUT, note=told.notes.get(name, ""))


def _reasons(opened: Sequence[AttemptOpened], failed: Partitions) -> Reasons:
    """The first reason of each vertex, grouped. A new driver begins its tries anew, but what failed is not simply
    "not yet run"."""
    found: dict[AnyReason, Partitions] = {}
    seen = EMPTY
    for event in opened:
        for reason, partitions in event.because:
            new = partitions - seen
            seen = seen | new
            again = new & failed if isinstance(reason, NotYetRun) else EMPTY
            for why, at in ((Failed(), again), (reason, new - again)):
                if at:
                    found[why] = found.get(why, EMPTY) | at
    return tuple(found.items())


def _failed(name: str, before: RunState | None) -> Partitions:
    return EMPTY if before is None else before.failed_of(name)


def _cut(before: RunState, name: str, kept: Partitions) -> tuple[Segment, ...]:
    segments = before.steps[name].segments
    return tuple(
        Segment(one.attempt, one.partitions & kept, one.manifest, one.digests)
        for one in segments
        if not one.partitions.is_disjoint(kept)
    )


def _bytes(segments: Sequence[Segment], sizes: Sizes) -> int | None:
    found = 0
    for segment in segments:
        size = sizes(segment)
        if size is None:
            return None
        found += size
    return found


def _deletions(before: RunState | None, ahead: SimulatedRun) -> Iterator[Deletion]:
    counted: dict[AttemptId, Partitions] = {}
    for step in before.steps.values() if before else ():
        for segment in step.segments:
            counted[segment.attempt] = counted.get(segment.attempt, EMPTY) | segment.partitions
    found: dict[tuple[str, bool, bool], Partitions] = {}
    released: dict[str, Partitions] = {}
    is_after = False
    for event in ahead.events:
        match event:
            case RunSucceeded():
                is_after = True
            case PartitionsReleased(name, partitions):
                released[name] = released.get(name, EMPTY) | partitions
            case AttemptDeleted(attempt):
                gone = counted.get(attempt, EMPTY)
                key = attempt.step, is_after, bool(gone) and gone <= released.get(attempt.step, EMPTY)
                found[key] = found.get(key, EMPTY) | gone
            case _:
                pass
    return (Deletion(step, partitions, after, gone) for (step, after, gone), partitions in found.items())


def _released(ahead: SimulatedRun, *, is_for_budget: bool) -> tuple[str, ...]:
    """The steps of which something goes before the run ends."""
    found = []
    for event in ahead.events:
        if isinstance(event, RunSucceeded):
            break
        if isinstance(event, PartitionsReleased) and event.is_for_budget is is_for_budget:
            found.append(event.step)
    return tuple(dict.fromkeys(found))


def _budget(ahead: SimulatedRun) -> Budget | None:
    wanted = ahead.opening.config.budget_bytes
    gone = _released(ahead, is_for_budget=True)
    return Budget(wanted, ahead.peak_bytes, ahead.short_bytes, gone) if wanted else None


def _uncertain(ahead: SimulatedRun, drafts: Mapping[str, Stage], living: str) -> Iterator[str]:
    if living:
        yield f"The run is alive ({living}). This is what would be left to do if its driver died now."
    for attempt, found in ahead.listed.items():
        adopted = ahead.adopted.get(attempt.step, EMPTY) & found
        asked = ahead.opening.attempts[attempt].partitions
        said = f"{attempt.step}: adopts {count_text(len(adopted), 'partition')} that the previous driver finished"
        if adopted and asked - found:
            yield f"{said}, and up to {len(asked - found)} more if its Spark tasks still write."
        elif adopted:
            yield f"{said}."
        elif asked:
            unsure = count_text(len(asked), "partition")
            yield f"{attempt.step}: adopts up to {unsure} if Spark tasks of the previous driver still write."
    for name in ahead.doubtful:
        kept = drafts[name].kept
        if kept:
            stay = count_text(len(kept), "kept partition stays", "kept partitions stay")
            yield (
                f"{name}: {stay} valid only if the exchange is recomputed with the same checksums; "
                "otherwise the whole step is recomputed."
            )


def _cost_ms(loss: Loss, told: PlanInputs) -> int | None:
    known = [(told.paces.get(name), len(partitions)) for name, partitions in loss.partitions.items()]
    return None if any(pace is None for pace, _ in known) else sum(pace.of(count) for pace, count in known if pace)


def _so_far(state: RunState | None) -> str:
    if state is None:
        return ""
    if state.failing is not None:
        return f"stopped: {state.failing.gave_up}"
    running = [f"{one.attempt.step}[{one.partitions}]" for one in state.attempts.values() if one.partitions]
    return f"its driver ended while {', '.join(running)} ran" if running else "its driver ended"


def _end(state: RunState) -> str:
    if state.failing is None:
        return "it is incomplete, and no vertex can start"
    if state.failing.differs is not None:
        return f"{unless_equal(state.failing.differs)}, unless you publish again"
    return state.failing.gave_up
