"""Random schedules of the simulated world, and bugs that are planted into the master: each must be seen."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from msgspec.structs import replace as changed

from rekindle.failover.backoff import BackoffState
from rekindle.model.machine import Key, Stop, WakeAt
from rekindle.streams.stream_commands import FindPoison, ReplayBatches, StartQuery, StopQuery, StreamCommand
from rekindle.streams.stream_decide import REPLAY
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
    StopRequested,
    StreamEnded,
    StreamOpened,
)
from rekindle.streams.stream_machine import STREAM
from rekindle.streams.stream_spec import AVAILABLE_NOW
from rekindle.streams.stream_state import RegionState, StreamBase, StreamRecord, StreamState
from rekindle.streams.stream_stimuli import (
    OpenStream,
    PoisonReport,
    QueryReport,
    ReplayReport,
    StreamStimulus,
    StreamTick,
)
from streams.stream_world import StreamMachine, StreamSimulation, Violated

SEEDS, PLANTED_SEEDS = 250, 1_500
Events = tuple[StreamRecord, ...]
Rewrite = Callable[[StreamState | None, StreamStimulus, Events], Iterable[StreamRecord]]


@pytest.mark.parametrize("part", range(4))
def test_no_schedule_breaks_a_rule(part: int) -> None:
    for seed in range(part * SEEDS, (part + 1) * SEEDS):
        StreamSimulation(seed).run()


def deciding(rewrite: Rewrite) -> StreamMachine:
    def decide(
        state: StreamState | None, stimulus: StreamStimulus, now_ms: int, jitter: float = 0.0, is_pinned: Any = None
    ) -> Events:
        return tuple(rewrite(state, stimulus, STREAM.decide(state, stimulus, now_ms, jitter, is_pinned)))

    return replace(STREAM, decide=decide)


def commanding(rewrite: Callable[[StreamState, Sequence[StreamCommand]], Iterable[StreamCommand]]) -> StreamMachine:
    def commands(
        state: StreamState, sent: Container[Key] = (), left: frozenset[Any] = frozenset()
    ) -> Sequence[StreamCommand]:
        return [one for one in rewrite(state, STREAM.commands(state, (), left)) if one.key not in sent]

    return replace(STREAM, commands=commands)


def folding(rewrite: Callable[[StreamRecord], StreamRecord | None]) -> StreamMachine:
    """What is stored means something else."""

    def fold(state: StreamState | None, events: Iterable[StreamRecord]) -> StreamState | None:
        return STREAM.fold(state, [one for one in map(rewrite, events) if one is not None])

    return replace(STREAM, fold=fold)


def without(kind: type, when: Callable[[Any], bool] = lambda event: True) -> Rewrite:
    return lambda state, stimulus, events: [one for one in events if not (isinstance(one, kind) and when(one))]


def each(kind: type, make: Callable[[Any], StreamRecord]) -> Rewrite:
    return lambda state, stimulus, events: [make(one) if isinstance(one, kind) else one for one in events]


def believes_late(state: StreamState | None, stimulus: StreamStimulus, events: Events) -> Events:
    """A report of an older query is taken for one of the open query."""
    if isinstance(stimulus, QueryReport) and state is not None and not events and not state.phase.is_over:
        number = state.regions[stimulus.region].number
        return STREAM.decide(state, changed(stimulus, number=number), state.opened_ms)
    return events


def twice_started(state: StreamState, found: Sequence[StreamCommand]) -> Iterable[StreamCommand]:
    for one in found:
        yield one
        if isinstance(one, StartQuery) and one.number > 2:
            yield StartQuery(one.region, one.number - 1)


def always_due(state: StreamState | None, stimulus: StreamStimulus, events: Events) -> Events:
    """A restart does not wait."""
    starts = [
        QueryStarted(one.region, state.regions[one.region].number + 1, one.at_ms)
        for one in events
        if isinstance(one, RegionsRestart)
        and state is not None
        and one.due_ms > one.at_ms
        and not any(isinstance(other, QueryStarted) for other in events)
    ]
    return (*events, *starts)


def heard_nothing(state: StreamState | None, stimulus: StreamStimulus, events: Events) -> Events:
    return () if isinstance(stimulus, QueryReport) and stimulus.end is QueryEnd.FAILED else events


def starts_while_stopping(state: StreamState | None, stimulus: StreamStimulus, events: Events) -> Events:
    stops = [one for one in events if isinstance(one, StopRequested)]
    if stops and state is not None:
        idle = [name for name in state.spec.names if state.regions[name].is_over and not state.regions[name].gave_up]
        return (*events, *(QueryStarted(name, state.regions[name].number + 1, 0) for name in idle))
    return events


def alone(event: RegionsRestart) -> RegionsRestart:
    return changed(event, regions=(event.region,))


def all_of_them(state: StreamState | None, stimulus: StreamStimulus, events: Events) -> Iterable[StreamRecord]:
    for one in events:
        is_restart = isinstance(one, RegionsRestart) and state is not None
        yield changed(one, regions=state.spec.names) if is_restart else one  # type: ignore[union-attr]


def starts_while_sought(state: StreamState | None, stimulus: StreamStimulus, events: Events) -> Iterable[StreamRecord]:
    for one in events:
        yield one
        if isinstance(one, PoisonSuspected) and state is not None:
            yield QueryStarted(one.region, state.regions[one.region].number + 1, 0)


def leaves_out_all(state: StreamState | None, stimulus: StreamStimulus, events: Events) -> Iterable[StreamRecord]:
    for one in events:
        if isinstance(one, RegionGivenUp) and isinstance(stimulus, PoisonReport) and stimulus.records:
            yield RecordsQuarantined(region=one.region, batch=0, records=stimulus.records, at_ms=one.at_ms)
        else:
            yield one


def written_for_nothing(state: StreamState | None, stimulus: StreamStimulus, events: Events) -> Events:
    is_idle = isinstance(stimulus, StreamTick) and not events and state is not None and not state.phase.is_over
    if not is_idle or state is None:
        return events
    name = state.spec.names[0]
    return (QueryStarted(name, state.regions[name].number + 1, 0),)


def without_due(state: StreamState) -> dict[str, RegionState]:
    return {name: changed(one, due_ms=None) for name, one in state.regions.items()}


def keeping_batches() -> StreamMachine:
    def fold(state: StreamState | None, events: Iterable[StreamRecord]) -> StreamState | None:
        for event in events:
            before, state = state, STREAM.fold(state, (event,))
            if isinstance(event, CheckpointReplaced) and before is not None and state is not None:
                kept = changed(state.regions[event.region], batch=before.regions[event.region].batch)
                state = changed(state, regions={**state.regions, event.region: kept})
        return state

    return replace(STREAM, fold=fold)


def starts_readers(state: StreamState | None, stimulus: StreamStimulus, events: Events) -> Events:
    """Regions that read results start with those that make them."""
    after = STREAM.fold(state, events)
    if not isinstance(stimulus, OpenStream) or after is None:
        return events
    reading = [one.name for one in after.spec.regions if one.reads and one.trigger == AVAILABLE_NOW]
    closed = [name for name in reading if not after.regions[name].is_open]
    return *events, *(QueryStarted(name, after.regions[name].number + 1, stimulus.run_time_ms) for name in closed)


def goes_on_without(state: StreamState | None, stimulus: StreamStimulus, events: Events) -> Iterable[StreamRecord]:
    """Who needs a batch that could not be made again starts all the same."""
    is_replay = isinstance(stimulus, ReplayReport)
    return [one for one in events if not (is_replay and isinstance(one, RegionGivenUp))]


def makes_all_again(state: StreamState | None, stimulus: StreamStimulus, events: Events) -> Iterable[StreamRecord]:
    """Also batches that nobody can make again alone."""
    for one in events:
        if isinstance(one, RegionGivenUp) and isinstance(stimulus, QueryReport) and stimulus.lost and one.who == REPLAY:
            name = one.region
            for producer, batches in stimulus.lost.items():
                yield BatchesLost(region=producer, batches=batches, reader=name, readers=(name,), at_ms=one.at_ms)
            yield RegionsRestart(
                region=name,
                regions=(name,),
                cause=one.cause,
                due_ms=one.at_ms,
                backoff=BackoffState(),
                at_ms=one.at_ms,
            )
        else:
            yield one


PLANTED: dict[str, StreamMachine] = {
    "a batch that is gone is not noted": deciding(without(BatchesLost)),
    "nobody makes a batch again": commanding(
        lambda state, found: [one for one in found if not isinstance(one, ReplayBatches)]
    ),
    "that a batch was made again is not noted": deciding(without(BatchesReplayed)),
    "who needs a batch that is gone goes on": deciding(goes_on_without),
    "what keeps state is made again": deciding(makes_all_again),
    "readers of rows that may differ go on": deciding(
        each(BatchesLost, lambda one: changed(one, readers=(one.reader,)))
    ),
    "a batch is made again while its readers end": commanding(
        lambda state, found: [
            *(one for one in found if not isinstance(one, ReplayBatches)),
            *(
                ReplayBatches(region=name, number=one.replays, batches=one.replaying, without=one.quarantined)
                for name, one in state.regions.items()
                if one.replaying
            ),
        ]
    ),
    "a reader starts before its input is there": deciding(starts_readers),
    "a restart is forgotten": deciding(without(RegionsRestart)),
    "the end of a query is forgotten": deciding(without(QueryEnded)),
    "a region that gave up is not noted": deciding(without(RegionGivenUp)),
    "a failure is not heard": deciding(heard_nothing),
    "a region is started twice": commanding(twice_started),
    "a restart does not wait": deciding(always_due),
    "a restart comes early": folding(
        lambda one: changed(one, due_ms=one.at_ms) if isinstance(one, RegionsRestart) else one
    ),
    "a restart never comes": folding(
        lambda one: changed(one, due_ms=one.due_ms + 10**12) if isinstance(one, RegionsRestart) else one
    ),
    "full restarts one": deciding(each(RegionsRestart, alone)),
    "one restarts all": deciding(all_of_them),
    "a late report counts": deciding(believes_late),
    "the number starts anew with each driver": deciding(each(QueryStarted, lambda one: changed(one, number=1))),
    "the number is given twice": deciding(each(QueryStarted, lambda one: changed(one, number=max(1, one.number - 1)))),
    "the end of the stream is not noted": deciding(without(StreamEnded)),
    "the stream ends with the first query": deciding(
        lambda state, stimulus, events: [
            *events,
            *(StreamEnded(state.phase, 0) for one in events[:1] if isinstance(one, QueryEnded) and state),
        ]
    ),
    "a wish to stop is not heard": deciding(without(StopRequested)),
    "something starts while it stops": deciding(starts_while_stopping),
    "nobody is told to stop": commanding(lambda state, found: [one for one in found if not isinstance(one, StopQuery)]),
    "the alarm is not set": commanding(lambda state, found: [one for one in found if not isinstance(one, WakeAt)]),
    "nothing is started": commanding(lambda state, found: [one for one in found if not isinstance(one, StartQuery)]),
    "the loop is not ended": commanding(lambda state, found: [one for one in found if not isinstance(one, Stop)]),
    "the loop ends with the first give-up": commanding(
        lambda state, found: [*found, *([Stop()] if any(one.gave_up for one in state.regions.values()) else [])]
    ),
    "a new driver takes old queries for its own": folding(
        lambda one: None if isinstance(one, StreamOpened) and one.at_ms > 500 else one
    ),
    "a stuck query is restarted": deciding(
        lambda state, stimulus, events: [
            changed(one, end=QueryEnd.STOPPED) if isinstance(one, QueryEnded) else one
            for one in events
            if not (isinstance(one, RegionGivenUp) and one.who.endswith("not stop"))
        ]
    ),
    "backoff begins anew each time": folding(
        lambda one: changed(one, backoff=BackoffState()) if isinstance(one, RegionsRestart) else one
    ),
    "a new checkpoint is not noted": deciding(without(CheckpointReplaced)),
    "a new checkpoint is noted, and forgotten": folding(
        lambda one: None if isinstance(one, CheckpointReplaced) else one
    ),
    "every region gets a new checkpoint": deciding(
        lambda state, stimulus, events: [
            *(one for one in events if not isinstance(one, QueryStarted)),
            *(
                CheckpointReplaced(region=name, generation=state.regions[name].generation + 1, start=one.start, at_ms=0)
                for one in events
                if isinstance(one, CheckpointReplaced) and state is not None
                for name in state.spec.names
                if name != one.region and name in state.regions
            ),
            *(one for one in events if isinstance(one, QueryStarted)),
        ]
    ),
    "a new checkpoint keeps the batch of the old one": keeping_batches(),
    "records in quarantine are read again": commanding(
        lambda state, found: [changed(one, without=()) if isinstance(one, StartQuery) else one for one in found]
    ),
    "records in quarantine are forgotten": deciding(without(RecordsQuarantined)),
    "a region starts while its poison is sought": deciding(starts_while_sought),
    "more records are left out than allowed": deciding(leaves_out_all),
    "nobody seeks": commanding(lambda state, found: [one for one in found if not isinstance(one, FindPoison)]),
    "a record while nothing happens": deciding(written_for_nothing),
    "a base without the times that are waited for": replace(
        STREAM, base=lambda state: StreamBase(changed(state, regions=without_due(state)))
    ),
    "a base without the regions that left the code": replace(
        STREAM, base=lambda state: StreamBase(changed(state, regions={n: state.regions[n] for n in state.spec.names}))
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_seen(name: str) -> None:
    for seed in range(PLANTED_SEEDS):
        try:
            StreamSimulation(seed, PLANTED[name]).run()
        except (AssertionError, KeyError):
            return
    pytest.fail(f"no schedule of {PLANTED_SEEDS} shows: {name}")


def test_a_second_version_of_a_batch_is_seen() -> None:
    """Whatever was made again takes the place of what readers have read."""
    with pytest.raises(Violated, match="reads another version of batch"):
        for seed in range(PLANTED_SEEDS):
            StreamSimulation(seed, refused=lambda *given, **told: "").run()
