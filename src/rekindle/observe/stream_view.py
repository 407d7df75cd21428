"""A stream as somebody sees it who does not own it: from its journal, its checkpoints and the life of its driver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from rekindle.observe.runs import INTERRUPTED
from rekindle.observe.show_words import one_line
from rekindle.streams.source_records import QuarantinedRecord, SourceRecord
from rekindle.streams.stream_events import QueryEnd, StreamPhase
from rekindle.streams.stream_spec import RegionSpec
from rekindle.streams.stream_state import RegionState, StreamState

BACKOFF = "backoff"
SEEKS = "seeks poison"
GAVE_UP = "gave up"
STUCK = "stuck"
NOT_IN_CODE = "not in the code"
NOT_STARTED = "not started"


class CommittedBatch(msgspec.Struct, frozen=True):
    """The last batch that a checkpoint has committed, -1 for none, and up to where it read each stream."""

    number: int = -1
    reads: dict[str, str] = {}


NO_BATCH = CommittedBatch()


class StreamLine(msgspec.Struct, frozen=True, kw_only=True):
    """A stream in a list of runs. `phase` is `interrupted` where its driver is gone. `running` of `regions` have a
    query; `since_ms` is when the last driver took it, or when it ended; `failure` is the newest of all regions."""

    pipeline: str
    run: str
    number: int
    parameters: dict[str, str] | None
    phase: str
    kind: str = "stream"
    regions: int = 0
    running: int = 0
    gave_up: int = 0
    restarts: int = 0
    since_ms: int | None = None
    failure: str = ""
    failed_ms: int | None = None
    driver: str = ""


class QuarantinedView(msgspec.Struct, frozen=True, kw_only=True):
    """A record that a region goes on without, in words and by its coordinates, and how it fails; there may be `copies`
    of it. `batch` is the one that reads it, -1 if not known."""

    record: str
    coordinates: SourceRecord
    batch: int
    failure: str
    at: str
    copies: int


class RegionView(msgspec.Struct, frozen=True, kw_only=True):
    """One region. `batch` is the last one that its checkpoint has committed, -1 for none, and `reads` is up to where
    that one read each stream, by its number or name; `since_ms` is when its last query started. `due_ms` is when it
    restarts, in the state `backoff`; `why` says which rule gave up, `why_delivered` why rows stand in the target as
    often as `delivery` says. `is_in_code` is false where the code no longer has it."""

    name: str
    state: str
    batch: int
    query: int
    restarts: int
    target: str
    delivery: str
    trigger: str
    steps: tuple[str, ...]
    sources: tuple[str, ...] = ()
    stateful: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    why_delivered: str = ""
    reads: dict[str, str] = {}
    since_ms: int | None = None
    quarantined: tuple[QuarantinedView, ...] = ()
    due_ms: int | None = None
    why: str = ""
    failure: str = ""
    failure_at: str = ""
    failed_ms: int | None = None
    is_in_code: bool = True


class StreamView(msgspec.Struct, frozen=True, kw_only=True):
    """All of one stream. `life` is that of its driver in words; `is_alone` if it certainly has none."""

    pipeline: str
    run: str
    number: int
    parameters: dict[str, str] | None
    phase: str
    life: str
    is_alone: bool
    strategy: str
    started_ms: int
    opened_ms: int
    ended_ms: int | None
    stop_why: str
    regions: tuple[RegionView, ...]
    kind: str = "stream"

    @property
    def can_go_on(self) -> bool:
        """A start would bring its regions back: nobody has it, and it is not that it had read everything."""
        return self.is_alone and self.phase != StreamPhase.FINISHED.value

    @property
    def troubled(self) -> tuple[str, ...]:
        """The regions that wait for a person."""
        return tuple(one.name for one in self.regions if one.state in (GAVE_UP, STUCK, QueryEnd.FAILED.value))


def phase_of(state: StreamState, *, is_alone: bool) -> str:
    """A stream that its journal has as running, and that nobody runs, was interrupted."""
    return INTERRUPTED if is_alone and not state.phase.is_over else state.phase.value


def stream_line(
    state: StreamState, number: int, parameters: dict[str, str] | None, *, driver: str, is_alone: bool
) -> StreamLine:
    """A stream in one line."""
    regions = [state.regions[name] for name in state.spec.names]
    failed = max((one for one in regions if one.cause is not None), key=lambda one: one.failed_ms, default=None)
    return StreamLine(
        pipeline=state.pipeline,
        run=state.run,
        number=number,
        parameters=parameters,
        phase=phase_of(state, is_alone=is_alone),
        regions=len(regions),
        running=0 if is_alone else sum(one.is_open for one in regions),
        gave_up=sum(bool(one.gave_up) for one in regions),
        restarts=sum(one.restarts for one in regions),
        since_ms=state.ended_ms or state.opened_ms,
        failure="" if failed is None else _failure(failed),
        failed_ms=None if failed is None else failed.failed_ms,
        driver=driver,
    )


def stream_view(
    state: StreamState, line: StreamLine, batches: Mapping[str, CommittedBatch], *, life: str, is_alone: bool
) -> StreamView:
    """A stream with all its regions; `batches` are the last ones that the checkpoints have."""
    return StreamView(
        pipeline=state.pipeline,
        run=state.run,
        number=line.number,
        parameters=line.parameters,
        phase=line.phase,
        life=life,
        is_alone=is_alone,
        strategy=state.strategy.value,
        started_ms=state.run_time_ms,
        opened_ms=state.opened_ms,
        ended_ms=state.ended_ms or None,
        stop_why=state.stop_why,
        regions=tuple(_regions(state, batches, is_alone=is_alone)),
    )


def _regions(state: StreamState, batches: Mapping[str, CommittedBatch], *, is_alone: bool) -> Iterator[RegionView]:
    """In the order of the code, then those that it no longer has: their checkpoints are still there."""
    names = dict.fromkeys((*state.spec.names, *state.last_specs))
    for name in names:
        region, spec = state.regions[name], state.last_specs[name]
        yield region_view(region, spec, batches.get(name, NO_BATCH), state=_state(state, name, is_alone=is_alone))


def region_view(
    region: RegionState, spec: RegionSpec, last: CommittedBatch = NO_BATCH, *, state: str = NOT_STARTED
) -> RegionView:
    """One region, with the last batch that its checkpoint has."""
    failed = region.cause is not None
    return RegionView(
        name=spec.name,
        state=state,
        batch=max(region.batch, last.number),
        reads=dict(last.reads),
        sources=spec.sources,
        stateful=spec.stateful,
        shared=spec.shared,
        why_delivered=spec.why,
        since_ms=region.started_ms or None,
        quarantined=tuple(map(_quarantined, region.quarantined)),
        query=region.number,
        restarts=region.restarts,
        target=spec.target,
        delivery=spec.delivery.value,
        trigger=spec.trigger,
        steps=spec.steps,
        due_ms=region.due_ms if state == BACKOFF else None,
        why=region.gave_up,
        failure=_failure(region),
        failure_at=region.cause.root.at if region.cause is not None else "",
        failed_ms=region.failed_ms if failed else None,
        is_in_code=state != NOT_IN_CODE,
    )


def _state(state: StreamState, name: str, *, is_alone: bool) -> str:
    region = state.regions[name]
    if name not in state.spec.names:
        return NOT_IN_CODE
    if region.is_stuck:
        return STUCK
    if region.gave_up:
        return GAVE_UP
    if region.is_open or (region.due_ms is not None and is_alone):
        return phase_of(state, is_alone=is_alone)
    if region.due_ms is not None:
        return BACKOFF
    if region.sought is not None:
        return phase_of(state, is_alone=True) if is_alone else SEEKS
    if region.last_end is not None:
        return region.last_end.value
    return NOT_STARTED


def _quarantined(one: QuarantinedRecord) -> QuarantinedView:
    root = one.cause.root
    return QuarantinedView(
        record=str(one.record),
        coordinates=one.record,
        batch=one.batch,
        failure=one_line(root.text) or root.kind.value,
        at=root.at,
        copies=one.record.copies,
    )


def _failure(region: RegionState) -> str:
    """The last one in a line, with the user's own line where it is known."""
    if region.cause is None:
        return ""
    root = region.cause.root
    return one_line(root.text) or root.kind.value
