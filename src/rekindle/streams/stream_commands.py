"""What the world must do for a stream, as a function of its state."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

import msgspec

from rekindle.model.failures import Cause
from rekindle.model.machine import Key, Stop, WakeAt
from rekindle.streams.source_records import QuarantinedRecord, copies
from rekindle.streams.stream_events import StreamPhase
from rekindle.streams.stream_state import RegionState, StreamState


class StartQuery(msgspec.Struct, frozen=True):
    """Start the query of a region from its checkpoint. `number` fences every one before it. Records `without` which it
    goes on are kept from it."""

    region: str
    number: int
    without: tuple[QuarantinedRecord, ...] = ()

    @property
    def key(self) -> Key:
        return "start", (self.region, self.number)


class StopQuery(msgspec.Struct, frozen=True):
    """End it after the batch that it is in."""

    region: str
    number: int

    @property
    def key(self) -> Key:
        return "stop query", (self.region, self.number)


class FindPoison(msgspec.Struct, frozen=True, kw_only=True):
    """Find the records that make this batch fail as it did, by this `cause`, at most so many. `number` is that of the
    query that failed last; nothing runs in the region meanwhile. Records `without` which it goes on are not tried."""

    region: str
    number: int
    batch: int
    most: int
    cause: Cause
    without: tuple[QuarantinedRecord, ...] = ()

    @property
    def key(self) -> Key:
        return "find poison", (self.region, self.number)


class ReplayBatches(msgspec.Struct, frozen=True, kw_only=True):
    """Make these batches of the result of a region again, from what its checkpoint recorded. `number` tells this replay
    from others of the region, whose query goes on meanwhile. Records `without` which it goes on are left out."""

    region: str
    number: int
    batches: tuple[int, ...]
    without: tuple[QuarantinedRecord, ...] = ()

    @property
    def key(self) -> Key:
        return "replay", (self.region, self.number)


StreamCommand = StartQuery | StopQuery | FindPoison | ReplayBatches | WakeAt | Stop


def commands(
    state: StreamState, sent: Container[Key] = (), left: frozenset[Any] = frozenset()
) -> Sequence[StreamCommand]:
    """Queries that should run, those that should not, and when to look again."""
    found: list[StreamCommand] = []
    for name, region in state.regions.items():
        if region.is_open:
            found.append(StartQuery(name, region.number, region.quarantined))
            if state.phase is StreamPhase.STOPPING or region.due_ms is not None:
                found.append(StopQuery(name, region.number))
        elif region.sought is not None:
            found.append(_search(state, name, region, region.sought))
        if region.replaying and not region.replay_needs and not state.is_awaited_by_open(name):
            found.append(
                ReplayBatches(region=name, number=region.replays, batches=region.replaying, without=region.quarantined)
            )
    if state.phase is StreamPhase.RUNNING:
        waiting = [
            one.due_ms
            for name, one in state.regions.items()
            if one.due_ms is not None and not one.is_open and not one.awaits and not state.waits_for_input(name)
        ]
        if waiting and not state.is_held_back:
            found.append(WakeAt(min(waiting)))
    if state.phase.is_over:
        found.append(Stop())
    return [command for command in found if command.key not in sent]


def _search(state: StreamState, name: str, region: RegionState, batch: int) -> FindPoison:
    assert region.cause is not None, "poison is sought after a failure"
    return FindPoison(
        region=name,
        number=region.number,
        batch=batch,
        most=max(0, state.spec.region(name).quarantine - copies(region.quarantined)),
        cause=region.cause,
        without=region.quarantined,
    )
