"""What the events of a stream come to.

The state itself stands in the journal now and then, as its base: its fields are facts on disk, as those of events are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import assert_never

import msgspec
from msgspec.structs import replace

from rekindle.failover.backoff import BackoffState
from rekindle.failover.restart import Strategy
from rekindle.model.availability import Availability
from rekindle.model.failures import Cause
from rekindle.model.partitions import Partitions
from rekindle.streams.pinned_inputs import PinnedInput
from rekindle.streams.shard_splits import ShardSplit
from rekindle.streams.source_records import QuarantinedRecord
from rekindle.streams.source_starts import SourcePosition
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
from rekindle.streams.stream_spec import RegionSpec, StreamLimits, StreamSpec

ONE = Partitions.first(1)
# What the end of a driver, or of a stream, leaves of batches that were lost: who needs them says so again.
NOTHING_LOST: dict[str, object] = {
    "lost": (),
    "replaying": (),
    "unmade": {},
    "replay_needs": (),
    "awaits": (),
    "needs": {},
}


class RegionState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One region. `number` is that of its last query, which `is_open` until it is known to be over; with `due_ms` it
    starts again then, and one that is open is to end first. `generation` counts the checkpoints that took the place of
    its first one; `positions` is where its checkpoint begins to read, if the user said so. `sought` is the batch whose
    failing records are sought, `quarantined` are those that it goes on without. `gave_up` says why it is not tried
    again; `is_stuck`: its query would not stop, so that only another driver can start it. `replaying` are batches of
    its result that are made again, in its replay number `replays`; those that are `lost` come next, and of those that
    are `unmade` this driver knows why they cannot be. `replay_needs` are results of which batches have to be made again
    before that, and `replayed` counts those that were. A region starts when nothing is left to be made again of the
    results that it `awaits`; it `needs` those batches of them that it found gone. `split` is where its checkpoint
    begins, if it is a shard of one that was split; `is_split` if others have taken its place."""

    number: int = 0
    generation: int = 0
    is_open: bool = False
    due_ms: int | None = None
    backoff: BackoffState = BackoffState()
    restarts: int = 0
    cause: Cause | None = None
    failed_ms: int = 0
    started_ms: int = 0
    batch: int = -1
    signature: str = ""
    alike: int = 0
    last_end: QueryEnd | None = None
    gave_up: str = ""
    is_finished: bool = False
    is_stuck: bool = False
    sought: int | None = None
    quarantined: tuple[QuarantinedRecord, ...] = ()
    positions: tuple[SourcePosition, ...] = ()
    lost: tuple[int, ...] = ()
    replaying: tuple[int, ...] = ()
    replays: int = 0
    unmade: dict[int, str] = {}
    replay_needs: tuple[str, ...] = ()
    replayed: int = 0
    awaits: tuple[str, ...] = ()
    needs: dict[str, tuple[int, ...]] = {}
    split: ShardSplit | None = None
    is_split: bool = False

    @property
    def is_over(self) -> bool:
        """Nothing of it runs, and nothing will in this driver."""
        return not self.is_open and self.due_ms is None and self.sought is None


class StreamState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A stream, as its journal has it. `last_specs` are what each region was when it last ran, also those that the code
    no longer has: their checkpoints are still there. `pins` are the batch inputs of all steps that ever ran."""

    pipeline: str
    run: str
    limits: StreamLimits
    run_time_ms: int
    seed: int
    spec: StreamSpec = StreamSpec(regions=())
    application: str = ""
    owner: str = ""
    strategy: Strategy = Strategy.REGION
    phase: StreamPhase = StreamPhase.RUNNING
    regions: dict[str, RegionState] = {}
    last_specs: dict[str, RegionSpec] = {}
    pins: dict[str, PinnedInput] = {}
    stop_why: str = ""
    opened_ms: int = 0
    ended_ms: int = 0

    @property
    def is_held_back(self) -> bool:
        """With the strategy `full` nothing starts before all that is to start again has ended."""
        is_full = self.strategy is Strategy.FULL
        return is_full and any(one.is_open and one.due_ms is not None for one in self.regions.values())

    def waits_for_input(self, name: str, starting: Collection[str] = ()) -> bool:
        """A region that is to read what there is, and to end, starts when those that it reads have ended, and none of
        them is `starting`."""
        region = self.spec.region(name)
        return region.is_fed and any(one in starting or not self.regions[one].is_over for one in region.reads)

    def is_to_run(self, name: str) -> bool:
        """Whether a region has a query, or is to have one again."""
        return self.regions[name].is_open or self.regions[name].due_ms is not None

    def is_awaited_by_open(self, name: str) -> bool:
        """Whether a region that waits for batches of this one has a query that has not ended yet."""
        return any(one.is_open and name in one.awaits for one in self.regions.values())

    @property
    def unsplit(self) -> dict[str, RegionSpec]:
        """The regions that have the rows so far: those that were split have others in their place."""
        return {name: one for name, one in self.last_specs.items() if not self.regions[name].is_split}

    def availability(self) -> Availability:
        """What the failover policies ask: which regions ever started, and which run."""
        return Availability(
            started={name: ONE for name, one in self.regions.items() if one.number},
            running={name: ONE for name, one in self.regions.items() if one.is_open or one.is_finished},
        )


class StreamBase(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag=True):
    """No decision: the state that all decisions before it came to, in one event."""

    state: StreamState


StreamRecord = StreamEvent | StreamBase


def fold(state: StreamState | None, events: Iterable[StreamRecord]) -> StreamState | None:
    """The state after these events."""
    for event in events:
        if isinstance(event, StreamBase):
            state = event.state
        elif isinstance(event, StreamStarted):
            assert state is None, "a stream starts once"
            state = StreamState(
                pipeline=event.pipeline,
                run=event.run,
                limits=event.limits,
                run_time_ms=event.run_time_ms,
                seed=event.seed,
                strategy=event.limits.strategy,
            )
        else:
            assert state is not None, "a stream begins with its start"
            state = _apply(state, event)
    return state


def _apply(state: StreamState, event: StreamEvent) -> StreamState:
    match event:
        case StreamOpened():
            return _opened(state, event)
        case CheckpointReplaced():
            return _replaced(state, event)
        case ShardBegun():
            return _split(state, event)
        case QueryStarted(name, number, at_ms):
            started = {"number": number, "started_ms": at_ms, "due_ms": None, "last_end": None}
            return _with(state, name, is_open=True, is_finished=False, **started)
        case QueryEnded():
            return _ended(state, event)
        case RegionsRestart():
            return _restarting(state, event)
        case RegionGivenUp(region=name, who=who, why=why, cause=cause, at_ms=at_ms):
            gave_up = {"gave_up": f"{who}: {why}", "cause": cause, "failed_ms": at_ms}
            return _with(state, name, due_ms=None, sought=None, awaits=(), needs={}, **gave_up)
        case PoisonSuspected(region=name, batch=batch, cause=cause, at_ms=at_ms):
            return _with(state, name, sought=batch, cause=cause, failed_ms=at_ms)
        case RecordsQuarantined(region=name, records=records, at_ms=at_ms):
            kept = (*state.regions[name].quarantined, *records)
            anew = {"due_ms": at_ms, "backoff": BackoffState(), "signature": "", "alike": 0}
            return _with(state, name, sought=None, quarantined=kept, **anew)
        case BatchesLost():
            return _lost(state, event)
        case BatchesReplayed():
            return _replayed(state, event)
        case StopRequested(why, _):
            nothing = {"due_ms": None, "sought": None, **NOTHING_LOST}
            regions = {name: replace(one, **nothing) for name, one in state.regions.items()}
            return replace(state, phase=StreamPhase.STOPPING, stop_why=why, regions=regions)
        case StreamEnded(phase, at_ms):
            return replace(state, phase=phase, ended_ms=at_ms)
        case StreamClosed(_, at_ms):
            over = {"is_open": False, "due_ms": None, "sought": None, **NOTHING_LOST}
            regions = {name: replace(one, **over) for name, one in state.regions.items()}
            return replace(state, phase=StreamPhase.CLOSED, regions=regions, ended_ms=at_ms)
        case StreamStarted():  # pragma: no cover
            raise AssertionError("a stream starts once")
        case _:  # pragma: no cover
            assert_never(event)


def _opened(state: StreamState, event: StreamOpened) -> StreamState:
    """Queries of an older driver are over with it. A region that the code no longer has keeps its number, so that one
    of that name is never mistaken for it, and waits for nothing."""
    regions = {}
    for name, one in state.regions.items():
        due_ms = one.due_ms if name in event.spec.names else None
        over = {"is_open": False, "is_stuck": False, "is_finished": False, "sought": None, **NOTHING_LOST}
        regions[name] = replace(one, due_ms=due_ms, **over)
        if name in event.again:
            regions[name] = replace(regions[name], gave_up="", backoff=BackoffState(), due_ms=None, alike=0)
    for spec in event.spec.regions:
        held = regions.setdefault(spec.name, RegionState())
        if spec.is_fed and not held.gave_up:
            regions[spec.name] = replace(held, due_ms=max(held.due_ms or 0, event.at_ms))
    return replace(
        state,
        application=event.application,
        owner=event.owner,
        spec=event.spec,
        strategy=event.strategy or state.strategy,
        limits=event.limits or state.limits,
        last_specs={**state.last_specs, **{one.name: one for one in event.spec.regions}},
        pins={**state.pins, **event.spec.inputs},
        phase=StreamPhase.RUNNING,
        regions=regions,
        stop_why="",
        opened_ms=event.at_ms,
        ended_ms=0,
    )


def _replaced(state: StreamState, event: CheckpointReplaced) -> StreamState:
    """What was learned about batches of the old checkpoint says nothing about the new one, which may read others:
    records that were left out are tried again. Numbers of queries go on: they fence whoever still has the old one."""
    region = state.regions[event.region]
    assert event.generation == region.generation + 1, "checkpoints follow each other"
    assert not region.is_open, "a checkpoint is replaced while nothing uses it"
    began = RegionState(
        number=region.number,
        generation=event.generation,
        restarts=region.restarts,
        positions=event.positions,
        due_ms=event.at_ms if state.spec.region(event.region).is_fed else None,
    )
    return replace(state, regions={**state.regions, event.region: began})


def _split(state: StreamState, event: ShardBegun) -> StreamState:
    """A shard begins as its parent did, where the parent stood. A parent whose name no shard has is left behind."""
    region, parent = state.regions[event.region], state.regions[event.split.parent]
    assert not region.is_open and not parent.is_open, "a region is split while nothing uses it"
    assert region.number == 0 or event.generation == region.generation + 1, "checkpoints follow each other"
    began = RegionState(
        number=region.number,
        generation=event.generation,
        restarts=region.restarts,
        positions=tuple(one for one in parent.positions if one.since_ms >= 0),
        due_ms=event.at_ms if state.spec.region(event.region).is_fed else None,
        split=event.split,
    )
    state = replace(state, regions={**state.regions, event.region: began})
    if event.split.parent in state.spec.names:
        return state
    return _with(state, event.split.parent, is_split=True)


def _ended(state: StreamState, event: QueryEnded) -> StreamState:
    region = state.regions[event.region]
    return _with(
        state,
        event.region,
        is_open=False,
        is_finished=event.end is QueryEnd.FINISHED,
        is_stuck=event.end is QueryEnd.STUCK,
        last_end=event.end,
        batch=max(region.batch, event.batch),
    )


def _restarting(state: StreamState, event: RegionsRestart) -> StreamState:
    for name in event.regions:
        state = _with(state, name, due_ms=event.due_ms, restarts=state.regions[name].restarts + 1)
    return _with(
        state,
        event.region,
        backoff=event.backoff,
        cause=event.cause,
        failed_ms=event.at_ms,
        signature=event.signature,
        alike=event.alike,
    )


def _lost(state: StreamState, event: BatchesLost) -> StreamState:
    """One replay of a region at a time."""
    region = state.regions[event.region]
    known = {*region.replaying, *region.lost}
    new = tuple(one for one in event.batches if one not in known)
    if region.replaying:
        state = _with(state, event.region, lost=(*region.lost, *new))
    elif new:
        state = _with(state, event.region, replaying=new, replays=region.replays + 1)
    for name in event.readers:
        state = _with(state, name, awaits=_and(state.regions[name].awaits, event.region))
    reader = state.regions[event.reader]
    if event.readers:
        return _with(state, event.reader, needs={**reader.needs, event.region: event.needed or event.batches})
    return _with(state, event.reader, replay_needs=_and(reader.replay_needs, event.region), replays=reader.replays + 1)


def _replayed(state: StreamState, event: BatchesReplayed) -> StreamState:
    region = state.regions[event.region]
    left = left_of(region.replaying, (*event.batches, *event.unmade)) if event.unmade else ()
    rest = (*left, *region.lost)
    number = region.replays + 1 if rest else region.replays
    count = region.replayed + len(event.batches)
    unmade = {**region.unmade, **dict.fromkeys(event.unmade, event.why)}
    state = _with(
        state, event.region, replaying=rest, lost=(), replays=number, replay_needs=(), replayed=count, unmade=unmade
    )
    if rest:
        return state
    for name, one in state.regions.items():
        if event.region in one.replay_needs:
            state = _with(state, name, replay_needs=_but(one.replay_needs, event.region))
        if event.region in one.awaits:
            needs = {producer: batches for producer, batches in one.needs.items() if producer != event.region}
            state = _with(state, name, awaits=_but(one.awaits, event.region), needs=needs)
    return state


def left_of(wanted: tuple[int, ...], done: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(one for one in wanted if one not in done)


def _and(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    return names if name in names else (*names, name)


def _but(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    return tuple(one for one in names if one != name)


def _with(state: StreamState, name: str, **changes: object) -> StreamState:
    return replace(state, regions={**state.regions, name: replace(state.regions[name], **changes)})


def check_invariants(state: StreamState) -> None:
    """What holds between records. Raises `AssertionError` with every rule that is broken."""
    wrong: list[str] = []
    for name, one in state.regions.items():
        if one.is_open and name not in state.spec.names:
            wrong.append(f"{name} has a query, and the code has no such region")
        if one.is_open and one.number < 1:
            wrong.append(f"the query of {name} has no number")
        if one.sought is not None and (one.is_open or one.gave_up or one.due_ms is not None):
            wrong.append(f"poison of {name} is sought, and it is tried again or gave up")
        if one.gave_up and (one.is_open or one.due_ms is not None):
            wrong.append(f"{name} gave up and is tried again")
        if one.awaits and (one.due_ms is None or one.gave_up):
            wrong.append(f"{name} waits for batches, and is not to start")
        if not set(one.needs) <= set(one.awaits):
            wrong.append(f"{name} needs batches that it does not wait for")
        if one.lost and not one.replaying:
            wrong.append(f"batches of {name} are lost, and nobody makes them again")
        if set(one.lost) & set(one.replaying):
            wrong.append(f"a batch of {name} is made again twice")
        if one.replay_needs and not one.replaying:
            wrong.append(f"a replay of {name} waits, and there is none")
        for producer in (*one.awaits, *one.replay_needs):
            if producer not in state.regions or not state.regions[producer].replaying:
                wrong.append(f"{name} waits for batches of {producer}, which nobody makes")
        if one.is_stuck and (one.is_open or one.due_ms is not None):
            wrong.append(f"{name} is stuck and is tried again in the same driver")
        if one.due_ms is not None and name not in state.spec.names:
            wrong.append(f"{name} waits, and the code has no such region")
        if state.phase.is_over and one.is_open:
            wrong.append(f"the stream is over, and {name} has a query")
    if set(state.spec.names) - set(state.regions):
        wrong.append("a region of the code has no state")
    assert not wrong, "; ".join(wrong)
