"""The commands that follow from a state. Nothing else tells the world what to do.

Rules
- The answer is complete and may be asked for at any time: what was sent before is in it again, under the same key,
  until an event says that it is done. The runtime sends what it has not sent.
- Only attempts of the state's own epoch are started; those of older ones are sealed.
- Files are deleted only where nothing in them counts and no open attempt was given them to read. A run that succeeded
  waits for that, but not for what the storage would not delete.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import assert_never

from rekindle.master.state.commands import (
    CancelAttempt,
    Command,
    DeleteAttempt,
    Input,
    Key,
    PublishSink,
    ReleaseExchanges,
    SealAttempt,
    StartAttempt,
    Stop,
    WakeAt,
)
from rekindle.master.state.run_state import AttemptState, AttemptStatus, Phase, RunState
from rekindle.model.ids import AttemptId
from rekindle.model.partitions import Partitions

_WORDS = {AttemptStatus.RUNNING: "start", AttemptStatus.CANCELLING: "cancel", AttemptStatus.SEALING: "seal"}


def commands(state: RunState, sent: Container[Key] = (), left: frozenset[AttemptId] = frozenset()) -> list[Command]:
    """Everything the world should be doing or have done, without what was sent, in a stable order. `left` are attempts
    whose files are not waited for any more."""
    found: list[Command] = []
    for one in state.attempts.values():
        if (_WORDS[one.status], one.attempt) not in sent:
            found.append(_for_attempt(state, one))
    rest = (*_publications(state), *_deletions(state), *_exchanges(state), *_alarms(state))
    found.extend(command for command in rest if command.key not in sent)
    if is_over(state, left):
        found.append(Stop())
    return found


def deletable(state: RunState) -> set[AttemptId]:
    """Closed attempts whose files are nothing but waste now."""
    if state.phase in (Phase.FAILING, Phase.FAILED):
        return set()
    counted = {segment.attempt for step in state.steps.values() for segment in step.segments}
    in_use = {read for one in state.attempts.values() for read in one.reads}
    return set(state.undeleted - counted - in_use)


def is_over(state: RunState, left: frozenset[AttemptId] = frozenset()) -> bool:
    """This master has nothing left to do or to wait for."""
    match state.phase:
        case Phase.RUNNING | Phase.FAILING | Phase.CLOSING:
            return False
        case Phase.SUCCEEDED:
            return not state.attempts and deletable(state) <= left
        case Phase.FAILED | Phase.CLOSED:
            return True
        case _:  # pragma: no cover
            assert_never(state.phase)


def _for_attempt(state: RunState, one: AttemptState) -> Command:
    match one.status:
        case AttemptStatus.RUNNING:
            return _start(state, one)
        case AttemptStatus.CANCELLING:
            return CancelAttempt(one.attempt)
        case AttemptStatus.SEALING:
            return SealAttempt(one.attempt)
        case _:  # pragma: no cover
            assert_never(one.status)


def _publications(state: RunState) -> Iterator[Command]:
    if state.publication is not None:
        for sink in state.sinks:
            if sink not in state.published:
                yield PublishSink(sink, state.publication, state.steps[sink].segments, _holes(state, sink))


def _holes(state: RunState, sink: str) -> tuple[tuple[str, Partitions], ...]:
    upstream = state.layout.upstream[sink]
    return tuple((name, holes) for name, holes in state.holes().items() if name in upstream)


def _deletions(state: RunState) -> Iterator[Command]:
    return (DeleteAttempt(attempt) for attempt in sorted(deletable(state)))


def _exchanges(state: RunState) -> Iterator[Command]:
    for name, step in state.steps.items():
        if step.exchanges_released_at:
            yield ReleaseExchanges(name, step.generation, step.exchanges_released_at)


def _alarms(state: RunState) -> Iterator[Command]:
    if state.phase is Phase.RUNNING:
        yield from (WakeAt(due) for due in sorted({step.due_ms for step in state.steps.values()} - {0}))


def _start(state: RunState, one: AttemptState) -> StartAttempt:
    name = one.attempt.step
    step = state.steps[name]
    reads = state.layout.read_by(name, one.partitions)
    has_rivals = any(other.partitions for other in state.attempts_of(name) if other.attempt != one.attempt)
    return StartAttempt(
        attempt=one.attempt,
        partitions=one.partitions,
        inputs=tuple(_input(state, producer, read) for producer, read in reads.items()),
        is_repeatable=state.layout.repeatable[name] is not None,
        is_first=not step.has_witnesses() and not has_rivals,
        exchange_version=step.exchange_version,
        exchange_checksum=step.exchange_checksum,
    )


def _input(state: RunState, producer: str, read: Partitions) -> Input:
    step = state.steps[producer]
    segments = tuple(segment for segment in step.segments if not segment.partitions.is_disjoint(read))
    return Input(producer, segments, step.holes & read, read - step.available)
