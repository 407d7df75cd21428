"""What follows from what a stream's master is told: one function for each stimulus.

Rules
- A report of a query that is not the open one of its region changes nothing: it came late, or from another driver.
- A failed region starts again after its own backoff; the failover strategy says which others do, too.
- A batch that fails again and again in the same way is poison: its region gives up, whatever its backoff allows.
- If its sink has a `quarantine`, the records that fail are sought first, and nothing of the region runs meanwhile. It
  goes on without them if they were named, are new, and are not more than allowed; otherwise it gives up.
- A region that gave up takes no other one with it, unless the stream was told to end then.
- A stuck query is the last one of its region in this driver: two queries of one region never run in one process.
- Nothing starts while the stream is stopping, and with `full` nothing before everything has ended. Where every region
  ends when it has read what there is, those that read results of others start after these.
- A new driver tries every region again that had given up. If the stream had ended before, or if the code of a region
  changed, it begins anew with it, also with the first delay.
- A new checkpoint is the user's word about one region, at the start of a driver: no other region notices.
- Where shards become more, each new one begins where its parent stood, also one that has the parent's name.
- So is a newer batch input about one step. Without that word the inputs of a driver are those of the one before it.
- A reader that finds batches of a result gone starts again when they were made again: exactly those, one replay of a
  region at a time, while the region itself goes on. Where the region is not proved to give the same rows again, its
  other readers wait, too. Who needs a batch that nobody can make again gives up.
- A stream that is closed is over for good, whatever was open: its closing record takes it from the driver that had it.
- Whoever stops a stream is told of regions whose last query had failed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import assert_never

from rekindle.failover.backoff import GiveUp, Restart, on_failure
from rekindle.failover.restart import restart_set
from rekindle.model.failures import Cause
from rekindle.streams.source_records import copies
from rekindle.streams.stream_events import (
    BatchesLost,
    BatchesReplayed,
    CheckpointReplaced,
    PoisonSuspected,
    QueryEnd,
    QueryEnded,
    QueryStarted,
    RecordsQuarantined,
    RegionGivenUp,
    RegionsRestart,
    ShardBegun,
    StopRequested,
    StreamClosed,
    StreamEnded,
    StreamEvent,
    StreamOpened,
    StreamPhase,
    StreamStarted,
)
from rekindle.streams.stream_state import ONE, StreamState, fold, left_of
from rekindle.streams.stream_stimuli import (
    CloseStream,
    OpenStream,
    PoisonReport,
    QueryReport,
    ReplayReport,
    StopStream,
    StreamStimulus,
    StreamTick,
)

STUCK = "its query does not stop"
POISON = "poison"
REPLAY = "replay"
TOLD_MAX = 3
Events = tuple[StreamEvent, ...]


def decide(
    state: StreamState | None,
    stimulus: StreamStimulus,
    now_ms: int,
    jitter: float = 0.0,
    is_pinned: bool | None = None,
) -> Events:
    """The events that follow, none where the stimulus is late, doubled or foreign."""
    if isinstance(stimulus, OpenStream):
        return _open(state, stimulus, now_ms)
    assert state is not None, "a driver opens the stream first"
    if isinstance(stimulus, CloseStream):
        return (StreamClosed(stimulus.owner, now_ms),)
    if state.phase.is_over:
        return ()
    match stimulus:
        case QueryReport():
            found = _report(state, stimulus, now_ms, jitter)
        case PoisonReport():
            found = _found(state, stimulus, now_ms)
        case ReplayReport():
            found = _replayed(state, stimulus, now_ms)
        case StopStream(why):
            found = (StopRequested(why, now_ms),) if state.phase is StreamPhase.RUNNING else ()
        case StreamTick():
            found = ()
        case _:  # pragma: no cover
            assert_never(stimulus)
    return _then(state, found, now_ms)


def _open(state: StreamState | None, stimulus: OpenStream, now_ms: int) -> Events:
    started: Events = ()
    if state is None:
        first = StreamStarted(
            pipeline=stimulus.pipeline,
            run=stimulus.run,
            limits=stimulus.limits,
            run_time_ms=stimulus.run_time_ms,
            seed=stimulus.seed,
            at_ms=now_ms,
        )
        started, state = (first,), fold(None, (first,))
        assert state is not None
    opened = StreamOpened(
        application=stimulus.application,
        owner=stimulus.owner,
        spec=stimulus.spec,
        at_ms=now_ms,
        again=_again(state, stimulus),
        taken=stimulus.taken,
        strategy=stimulus.strategy,
        limits=stimulus.limits if stimulus.limits != state.limits else None,
    )
    after = fold(state, (opened,))
    assert after is not None
    replaced: Events = (*_replaced(after, stimulus, now_ms), *_split(state, stimulus, now_ms))
    after = fold(after, replaced)
    assert after is not None
    return *started, opened, *replaced, *_starts(after, now_ms, is_new_driver=True)


def _replaced(state: StreamState, stimulus: OpenStream, now_ms: int) -> Iterator[CheckpointReplaced]:
    for name, start in stimulus.new_checkpoints.items():
        generation = state.regions[name].generation + 1
        positions = stimulus.positions.get(name, ())
        yield CheckpointReplaced(region=name, generation=generation, start=start, at_ms=now_ms, positions=positions)


def _split(state: StreamState, stimulus: OpenStream, now_ms: int) -> Iterator[ShardBegun]:
    for name, split in stimulus.splits.items():
        generation = state.regions[name].generation + 1 if name in state.regions else 0
        yield ShardBegun(region=name, generation=generation, split=split, at_ms=now_ms)


def _again(state: StreamState, stimulus: OpenStream) -> tuple[str, ...]:
    known = {one.name: one.fingerprints for one in state.spec.regions}
    found = []
    for region in stimulus.spec.regions:
        was = state.regions.get(region.name)
        is_other = state.phase.is_over or known.get(region.name) != region.fingerprints
        if was is not None and (was.gave_up or is_other):
            found.append(region.name)
    return tuple(found)


def _report(state: StreamState, report: QueryReport, now_ms: int, jitter: float) -> Events:
    region = state.regions.get(report.region)
    if region is None or not region.is_open or region.number != report.number:
        return ()
    ended = QueryEnded(
        region=report.region, number=report.number, end=report.end, at_ms=now_ms, batch=max(region.batch, report.batch)
    )
    match report.end:
        case QueryEnd.FINISHED | QueryEnd.STOPPED:
            return (ended,)
        case QueryEnd.FAILED:
            assert report.cause is not None, "a failure has a cause"
            is_wanted = state.phase is StreamPhase.RUNNING and region.due_ms is None
            return (ended, *_failure(state, report, report.cause, now_ms, jitter)) if is_wanted else (ended,)
        case QueryEnd.STUCK:
            assert report.cause is not None, "a stuck query has a cause"
            return ended, *_given_up(state, report.region, GiveUp(STUCK, report.cause.text), report.cause, now_ms)
        case _:  # pragma: no cover
            assert_never(report.end)


def _failure(state: StreamState, report: QueryReport, cause: Cause, now_ms: int, jitter: float) -> Events:
    name, region = report.region, state.regions[report.region]
    if why := _hopeless(state, report.lost):
        return _given_up(state, name, GiveUp(REPLAY, why), cause, now_ms)
    is_same = report.signature == region.signature and report.batch <= region.batch
    alike = region.alike + 1 if is_same else 1
    if cause.root.kind.blames_partition and alike >= state.limits.poison_tries_max:
        batch = max(region.batch, report.batch) + 1
        if state.spec.region(name).quarantine > 0:
            return (PoisonSuspected(region=name, batch=batch, cause=cause, at_ms=now_ms),)
        poison = GiveUp(POISON, f"batch {batch} failed {alike} times in the same way")
        return _given_up(state, name, poison, cause, now_ms)
    policy = state.limits.backoff.policy()
    backoff, verdict = on_failure(policy, region.backoff, cause, now_ms, jitter)
    match verdict:
        case GiveUp():
            return _given_up(state, name, verdict, cause, now_ms)
        case Restart(at_ms=due_ms):
            lost = tuple(_lost(state, name, report.lost, now_ms))
            restarts = RegionsRestart(
                region=name,
                cause=cause,
                regions=_with_it(state, name, lost),
                due_ms=due_ms,
                backoff=backoff,
                at_ms=now_ms,
                signature=report.signature,
                alike=alike,
            )
            return *lost, restarts
        case _:  # pragma: no cover
            assert_never(verdict)


def _lost(
    state: StreamState, name: str, lost: Mapping[str, tuple[int, ...]], now_ms: int, *, is_replay: bool = False
) -> Iterator[BatchesLost]:
    for producer, batches in lost.items():
        region = state.regions[producer]
        new = left_of(batches, (*region.replaying, *region.lost))
        also = state.spec.readers(producer) if state.spec.region(producer).doubts and not is_replay else ()
        yield BatchesLost(
            region=producer,
            batches=new,
            needed=() if new == batches or is_replay else batches,
            reader=name,
            readers=() if is_replay else (name, *(one for one in also if one != name and state.is_to_run(one))),
            at_ms=now_ms,
        )


def _replayed(state: StreamState, report: ReplayReport, now_ms: int) -> Events:
    region = state.regions.get(report.region)
    if region is None or not region.replaying or region.replays != report.number:
        return ()
    for batch, lost in report.lost.items():
        if why := _hopeless(state, lost):
            return _unmade(state, ReplayReport(region=report.region, number=0, unmade=(batch,), why=why), now_ms)
    if report.lost:
        return tuple(_lost(state, report.region, _all_lost(report), now_ms, is_replay=True))
    if report.why:
        return _unmade(state, report, now_ms)
    made = BatchesReplayed(region=report.region, batches=report.batches, at_ms=now_ms, changed=report.changed)
    return (made,)


def _hopeless(state: StreamState, lost: Mapping[str, tuple[int, ...]]) -> str:
    """Why some of these batches cannot be made again; empty if nothing is known against it."""
    for producer, batches in lost.items():
        if why := state.spec.region(producer).unreplayable:
            return f"{told_batches(producer, batches)}: {why}"
        known = state.regions[producer].unmade
        if (batch := next(filter(known.__contains__, batches), None)) is not None:
            return known[batch]
    return ""


def _all_lost(report: ReplayReport) -> dict[str, tuple[int, ...]]:
    """What the batches of a replay read that is lost."""
    found: dict[str, tuple[int, ...]] = {}
    for lost in report.lost.values():
        for producer, batches in lost.items():
            found[producer] = tuple(sorted({*found.get(producer, ()), *batches}))
    return found


def _unmade(state: StreamState, report: ReplayReport, now_ms: int) -> Events:
    """Who needs what could not be made again gives up. A replay that needs it is tried again, and told so then."""
    name, why = report.region, report.why
    unmade = report.unmade or left_of(state.regions[name].replaying, report.batches)
    made = BatchesReplayed(
        region=name, batches=report.batches, at_ms=now_ms, changed=report.changed, why=why, unmade=unmade
    )
    events: Events = (made,)
    for other, one in state.regions.items():
        if not set(unmade).isdisjoint(one.needs.get(name, ())):
            assert one.cause is not None, "it failed"
            events += _given_up(state, other, GiveUp(REPLAY, why), one.cause, now_ms)
    return events


def told_batches(region: str, batches: Sequence[int]) -> str:
    """Batches of a result, in words."""
    named = f"batch {batches[0]}" if len(batches) == 1 else f"batches {', '.join(map(str, batches[:TOLD_MAX]))}"
    more = f" and {len(batches) - TOLD_MAX} more" if len(batches) > TOLD_MAX else ""
    return f"{named}{more} of the result of {region} cannot be read any more"


def _found(state: StreamState, report: PoisonReport, now_ms: int) -> Events:
    region = state.regions.get(report.region)
    if region is None or region.sought is None or region.number != report.number:
        return ()
    known = {one.record.key for one in region.quarantined}
    most = state.spec.region(report.region).quarantine
    named = ", ".join(str(one.record) for one in report.records[:TOLD_MAX])
    count = copies(region.quarantined) + copies(report.records)
    if not report.records:
        why = f"no record was quarantined: {report.why}"
    elif any(one.record.key in known for one in report.records):
        why = f"{named} was left out already, and it fails again"
    elif count > most:
        why = f"{named} would be {count} records in quarantine, and {most} are allowed"
    else:
        quarantined = RecordsQuarantined(
            region=report.region, batch=region.sought, records=report.records, at_ms=now_ms, jobs=report.jobs
        )
        return (quarantined,)
    cause = report.records[0].cause if report.records else region.cause
    assert cause is not None, "poison is sought after a failure"
    return _given_up(state, report.region, GiveUp(POISON, f"batch {region.sought}: {why}"), cause, now_ms)


def _with_it(state: StreamState, name: str, lost: Sequence[BatchesLost]) -> tuple[str, ...]:
    """The regions that start again: those of the restart set that run now, the one that failed, and those that wait for
    the same batches."""
    found = restart_set(state.spec.graph(), state.availability(), {name: ONE}, strategy=state.strategy)
    also = found.steps.keys() | {other for one in lost for other in one.readers}
    return tuple(one for one in state.spec.names if one == name or (one in also and state.regions[one].is_open))


def _given_up(state: StreamState, name: str, verdict: GiveUp, cause: Cause, now_ms: int) -> Events:
    gave_up = RegionGivenUp(region=name, who=verdict.who, why=verdict.why, cause=cause, at_ms=now_ms)
    if not state.limits.is_ended_by_one:
        return (gave_up,)
    return gave_up, StopRequested(f"{name} gave up", now_ms)


def _then(state: StreamState, events: Events, now_ms: int) -> Events:
    """These events, and what they leave to do at once: start what is due, or end."""
    after = fold(state, events)
    assert after is not None
    if all(after.regions[name].is_over for name in after.spec.names):
        return *events, StreamEnded(_end_of(after), now_ms)
    return *events, *_starts(after, now_ms)


def _starts(state: StreamState, now_ms: int, *, is_new_driver: bool = False) -> Events:
    """A new driver starts all but those that wait for their time."""
    if state.phase is not StreamPhase.RUNNING or state.is_held_back:
        return ()
    found: list[QueryStarted] = []
    for name in state.spec.names:
        region = state.regions[name]
        if region.is_open or region.gave_up or region.is_stuck or region.awaits:
            continue
        is_due = is_new_driver if region.due_ms is None else region.due_ms <= now_ms
        if is_due and not state.waits_for_input(name, [one.region for one in found]):
            found.append(QueryStarted(name, region.number + 1, now_ms))
    return tuple(found)


def _end_of(state: StreamState) -> StreamPhase:
    regions = [state.regions[name] for name in state.spec.names]
    if any(one.gave_up or one.last_end is QueryEnd.FAILED for one in regions):
        return StreamPhase.FAILED
    return StreamPhase.STOPPED if state.phase is StreamPhase.STOPPING else StreamPhase.FINISHED
