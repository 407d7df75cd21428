"""Fold one event into the state. Nothing here decides.

Rules
- It is total over the events a master can write, and asserts what `decide` checked before it wrote them.
- It calls no policy and reads no clock, so that an old journal replays the same under new code.
- One event costs a few bitmap operations, whatever the number of partitions in it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import assert_never

from msgspec.structs import replace

from rekindle.failover.backoff import BackoffState
from rekindle.failover.poison import FailureCounts
from rekindle.master.facts import events as ev
from rekindle.master.facts.digests import Digests
from rekindle.master.state.graph_index import GraphIndex
from rekindle.master.state.run_state import AttemptState, AttemptStatus, Phase, RunState, Segment, StepState
from rekindle.master.state.shrink import drop, outdated, remove, without
from rekindle.model.partitions import Partitions


def fold(state: RunState | None, events: Iterable[ev.Event]) -> RunState | None:
    """The state after these events."""
    for event in events:
        state = apply(state, event)
    return state


def apply(state: RunState | None, event: ev.Event) -> RunState:
    """The state after this event. A run begins with `RunStarted`, from nothing."""
    if isinstance(event, ev.RunStarted):
        assert state is None, "a run starts once"
        return _started(event)
    assert state is not None, "a run starts with RunStarted"
    assert state.phase is not Phase.CLOSED, "nothing follows the tombstone"
    match event:
        case ev.EpochOpened():
            return _epoch_opened(state, event)
        case ev.ChangeAccepted() | ev.CodeReplaced():
            assert event.parts, "a change has a name"
            known = state.spec.fingerprints | {event.step: event.fingerprint}
            changed = replace(state, spec=replace(state.spec, fingerprints=known))
            return _vouched(changed, event.step) if isinstance(event, ev.ChangeAccepted) else changed
        case ev.GenerationOpened():
            return _generation_opened(state, event)
        case ev.AttemptOpened():
            return _attempt_opened(state, event)
        case ev.PartitionsCommitted():
            return _committed(state, event)
        case ev.ExchangeCarried():
            return _exchange_carried(state, event)
        case ev.AttemptClosed():
            return _attempt_closed(state, event)
        case ev.FailureHandled():
            return _failure_handled(state, event)
        case ev.PartitionsLost():
            return _lost(state, event)
        case ev.ExchangesLost():
            return _exchanges_lost(state, event)
        case ev.PartitionsReleased():
            return _released(state, event)
        case ev.ExchangesReleased():
            return _exchanges_released(state, event)
        case ev.PinNoticed():
            return replace(state, is_pinned=event.is_pinned)
        case ev.AttemptDeleted():
            return _deleted(state, event)
        case ev.HoleAccepted():
            return _hole_accepted(state, event)
        case ev.PublicationOpened():
            waiting = frozenset(state.sinks) - state.published.keys()
            assert all(map(state.is_complete, waiting)), "publish together"
            offered = {sink: (*state.publications_unconfirmed.get(sink, ()), event.fence) for sink in waiting}
            return replace(
                state, publication=event.fence, publication_number=event.fence.number, publications_unconfirmed=offered
            )
        case ev.SinkPublished():
            assert event.fence == state.publication, "published under another fence"
            return replace(
                state,
                published=state.published | {event.sink: event.fence},
                publications_unconfirmed=_not_offered(state, (event.sink,)),
                published_sizes=state.published_sizes | {event.sink: state.size_of(event.sink)},
            )
        case ev.SinkUntouched():
            return _untouched(state, event)
        case ev.RepublishAccepted():
            return _republish_accepted(state, event)
        case ev.RunFailing():
            return _failing(state, event)
        case ev.RunStopped():
            assert state.phase is Phase.FAILING and not state.attempts, "failed while something runs"
            return replace(state, phase=Phase.FAILED)
        case ev.RunSucceeded():
            assert set(state.sinks) <= state.published.keys(), "succeeded before it was published"
            return replace(state, phase=Phase.SUCCEEDED, publication=None, ended_ms=event.at_ms)
        case ev.RunClosing():
            sealing = (one.status is AttemptStatus.SEALING for one in state.attempts.values())
            assert all(sealing), "closing while something runs"
            return replace(state, phase=Phase.CLOSING, publication=None)
        case ev.TombstoneWritten():
            assert state.phase is Phase.CLOSING and not state.undeleted, "closed with files left"
            return replace(state, phase=Phase.CLOSED)
        case _:  # pragma: no cover
            assert_never(event)


def _started(event: ev.RunStarted) -> RunState:
    layout = GraphIndex(event.graph)
    return RunState(
        run=event.run,
        pipeline=event.pipeline,
        order=event.order,
        layout=layout,
        spec=event.spec,
        config=event.config,
        run_time_ms=event.run_time_ms,
        seed=event.seed,
        steps=dict.fromkeys(layout.kept, StepState()),
        memory=BackoffState(),
        settings=event.settings,
    )


def _epoch_opened(state: RunState, event: ev.EpochOpened) -> RunState:
    assert event.epoch > state.epoch, "epochs only grow"
    attempts = {key: replace(one, status=AttemptStatus.SEALING) for key, one in state.attempts.items()}
    is_resumed = state.phase in (Phase.FAILING, Phase.FAILED)
    # Also in the same application: a master's exchanges belong to the plans of its own engine.
    steps = {
        name: replace(
            step,
            due_ms=0,
            held={},
            exchanges_released_at=0,
            attempts=0 if is_resumed else step.attempts,
            suspects=FailureCounts() if is_resumed else step.suspects,
            last_failure_by_signature={} if is_resumed else step.last_failure_by_signature,
        )
        for name, step in state.steps.items()
    }
    return replace(
        state,
        epoch=event.epoch,
        application=event.application,
        owner=event.owner,
        layout=state.layout if event.graph is None else GraphIndex(event.graph),
        spec=replace(
            state.spec,
            graph=event.graph or state.spec.graph,
            targets=state.spec.targets if event.targets is None else event.targets,
            once=event.once,
            declared=state.spec.declared if event.declared is None else event.declared,
            regions=state.spec.regions if event.regions is None else event.regions,
        ),
        attempts=attempts,
        steps=steps,
        phase=Phase.RUNNING if is_resumed else state.phase,
        memory=BackoffState() if is_resumed else state.memory,
        publication=None,
        failing=None,
        republisher=event.owner if event.may_republish else "",
        config=state.config if event.strategy is None else replace(state.config, strategy=event.strategy),
        settings=state.settings if event.settings is None else event.settings,
    )


def _generation_opened(state: RunState, event: ev.GenerationOpened) -> RunState:
    step = state.steps[event.step]
    assert event.generation == step.generation + 1, "generations grow by one"
    assert (step.committed - event.dropped) <= event.carried, "carried without being named"
    assert not event.carried or event.proof is not None, "carried without a proof"
    attempts = dict(state.attempts)
    for one in state.attempts_of(event.step):
        attempts[one.attempt] = _shrunk(one, event.dropped)
    published = {sink: fence for sink, fence in state.published.items() if sink != event.step}
    return replace(
        _with_step(state, event.step, drop(step, event)),
        attempts=attempts,
        published=published,
        publications_unconfirmed=_not_offered(state, (event.step,)),
        publication=None,
    )


def _shrunk(one: AttemptState, dropped: Partitions) -> AttemptState:
    """An attempt that can commit nothing any more is cancelled, unless it is being sealed anyway."""
    left = one.partitions - dropped
    if left or one.status is AttemptStatus.SEALING:
        return replace(one, partitions=left)
    return replace(one, partitions=left, status=AttemptStatus.CANCELLING)


def _attempt_opened(state: RunState, event: ev.AttemptOpened) -> RunState:
    attempt, step = event.attempt, state.steps[event.attempt.step]
    assert state.phase is Phase.RUNNING, "only a running run starts attempts"
    assert attempt.epoch == state.epoch and attempt.generation == step.generation, "of another time"
    assert attempt.number == state.attempt_number + 1, "attempt numbers grow by one"
    assert event.partitions and event.partitions.is_disjoint(step.committed), "computes what counts already"
    assert event.partitions.is_disjoint(step.released), "computes what was released in this generation"
    assert event.partitions.is_disjoint(step.holes), "computes what was left out"
    assert event.partitions.is_disjoint(state.running(attempt.step)), "computes what is in flight"
    step = replace(step, started=step.started | event.partitions, attempts=step.attempts + 1, exchanges_released_at=0)
    opened = AttemptState(attempt, event.partitions, AttemptStatus.RUNNING, event.reads, event.at_ms)
    return replace(
        _with_step(state, attempt.step, step),
        attempts=state.attempts | {attempt: opened},
        attempt_number=attempt.number,
    )


def _committed(state: RunState, event: ev.PartitionsCommitted) -> RunState:
    attempt, name = state.attempts[event.attempt], event.attempt.step
    step = state.steps[name]
    assert event.partitions and event.partitions <= attempt.partitions, "committed what was not its own"
    assert event.partitions.is_disjoint(step.committed), "committed twice"
    assert event.changed <= event.partitions, "changed without being committed"
    assert event.exchange_version == step.exchange_version, "committed over another exchange"
    segment = Segment(event.attempt, event.partitions, event.manifest, Digests(event.of, event.digests), event.rows)
    held = step.held if event.is_adopted else state.layout.exchanges(name)
    step = replace(
        step,
        committed=step.committed | event.partitions,
        segments=(*step.segments, segment),
        superseded=without(step.superseded, event.partitions),
        must_recompare=step.must_recompare - event.partitions,
        accepted_stale=step.accepted_stale if event.is_adopted else step.accepted_stale - event.partitions,
        held=held,
        exchange_checksum=event.exchange_checksum or step.exchange_checksum,
        spent_ms=step.spent_ms + (0 if event.is_adopted else max(0, event.at_ms - attempt.last_ms)),
        made=step.made + (0 if event.is_adopted else len(event.partitions)),
    )
    left = replace(attempt, partitions=attempt.partitions - event.partitions, last_ms=event.at_ms)
    committed = replace(
        _with_step(state, name, step),
        attempts=state.attempts | {event.attempt: left},
        sizes=state.sizes | {event.attempt: _size(state, event)},
    )
    return _with_changed_inputs(committed, name, event.changed)


def _size(state: RunState, event: ev.PartitionsCommitted) -> int:
    """What a dead driver left is listed as a whole, with what was known of it."""
    return event.size_bytes if event.is_adopted else state.sizes.get(event.attempt, 0) + event.size_bytes


def _with_changed_inputs(state: RunState, name: str, changed: Partitions) -> RunState:
    """Readers of these may have been dropped or lost before: what was seen of them had other inputs, too."""
    if not changed:
        return state
    steps = dict(state.steps)
    for reader, touched in state.layout.readers_of(name, changed).items():
        hit = state.layout.graph.whole[reader] if state.layout.restarts_whole(reader) else touched
        steps[reader] = replace(steps[reader], superseded=outdated(steps[reader].superseded, hit))
    return replace(state, steps=steps)


def _vouched(state: RunState, changed: str) -> RunState:
    """What is kept counts on the user's word. What is made again is made by the new code, and is something else."""
    steps = dict(state.steps)
    for root in state.layout.kept:
        step = steps[root]
        if changed in state.layout.members(root):
            seen = outdated(step.superseded, state.layout.graph.whole[root])
            older = step.committed | step.superseded_partitions() | state.running(root)
            steps[root] = replace(step, superseded=seen, accepted_stale=step.accepted_stale | older)
    return replace(state, steps=steps)


def _exchange_carried(state: RunState, event: ev.ExchangeCarried) -> RunState:
    step = state.steps[event.step]
    assert event.exchange_version > step.exchange_version, "exchange versions only grow"
    return _with_step(state, event.step, replace(step, exchange_version=event.exchange_version, exchange_checksum=None))


def _attempt_closed(state: RunState, event: ev.AttemptClosed) -> RunState:
    assert event.attempt in state.attempts, "closed twice"
    attempts = {key: one for key, one in state.attempts.items() if key != event.attempt}
    return replace(state, attempts=attempts, undeleted=state.undeleted | {event.attempt})


def _failure_handled(state: RunState, event: ev.FailureHandled) -> RunState:
    steps = dict(state.steps)
    for failure in event.failures:
        step = steps[failure.step]
        blamed = {failure.signature: failure} if failure.cause.root.kind.blames_partition else {}
        steps[failure.step] = replace(
            step, due_ms=event.due_ms, last_failure_by_signature=step.last_failure_by_signature | blamed
        )
    for name, suspects in event.suspects.items():
        steps[name] = replace(steps[name], suspects=suspects)
    publication = None if any(one.step in state.sinks for one in event.failures) else state.publication
    return replace(state, steps=steps, memory=event.memory, publication=publication)


def _lost(state: RunState, event: ev.PartitionsLost) -> RunState:
    step = state.steps[event.step]
    assert event.partitions <= step.committed, "lost what did not count"
    lost = remove(step, event.partitions, are_inputs_equal=True)
    publication = None if event.step in state.sinks else state.publication
    return replace(_with_step(state, event.step, lost), publication=publication)


def _exchanges_lost(state: RunState, event: ev.ExchangesLost) -> RunState:
    steps = dict(state.steps)
    for exchange, parts in event.lost:
        for name, step in steps.items():
            if exchange in step.held:
                steps[name] = replace(step, held=step.held | {exchange: step.held[exchange] - parts})
    return replace(state, steps=steps)


def _released(state: RunState, event: ev.PartitionsReleased) -> RunState:
    step = state.steps[event.step]
    assert event.partitions <= step.committed, "released what did not count"
    gone = remove(step, event.partitions, are_inputs_equal=True)
    return _with_step(state, event.step, replace(gone, released=gone.released | event.partitions))


def _deleted(state: RunState, event: ev.AttemptDeleted) -> RunState:
    assert event.attempt in state.undeleted, "deleted what was not there to delete"
    sizes = {attempt: size for attempt, size in state.sizes.items() if attempt != event.attempt}
    return replace(state, undeleted=state.undeleted - {event.attempt}, sizes=sizes)


def _exchanges_released(state: RunState, event: ev.ExchangesReleased) -> RunState:
    step = state.steps[event.step]
    assert state.is_complete(event.step) or state.is_released(event.step), "let go what is still needed"
    assert not any(state.attempts_of(event.step)), "let go what an attempt may read"
    return _with_step(state, event.step, replace(step, held={}, exchanges_released_at=state.attempt_number))


def _hole_accepted(state: RunState, event: ev.HoleAccepted) -> RunState:
    step = state.steps[event.step]
    assert event.partitions and event.partitions <= step.started, "left out what never began"
    assert event.partitions.is_disjoint(step.available | step.released), "left out what counts, or did"
    assert event.partitions.is_disjoint(state.running(event.step)), "left out what is in flight"
    assert event.changed <= event.partitions, "changed without being left out"
    step = replace(
        step,
        holes=step.holes | event.partitions,
        superseded=without(step.superseded, event.partitions),
        must_recompare=step.must_recompare - event.partitions,
        suspects=step.suspects.without(event.partitions),
    )
    return _with_changed_inputs(_with_step(state, event.step, step), event.step, event.changed)


def _republish_accepted(state: RunState, event: ev.RepublishAccepted) -> RunState:
    assert state.possibly_published.issuperset(event.sinks), "publishes again what is not published"
    left = {sink: fence for sink, fence in state.published.items() if sink not in event.sinks}
    return replace(state, published=left, publications_unconfirmed=_not_offered(state, event.sinks), publication=None)


def _untouched(state: RunState, event: ev.SinkUntouched) -> RunState:
    left = tuple(fence for fence in state.publications_unconfirmed[event.sink] if fence != event.fence)
    others = _not_offered(state, (event.sink,))
    return replace(state, publications_unconfirmed=others | {event.sink: left} if left else others)


def _not_offered(state: RunState, sinks: Collection[str]) -> dict[str, tuple[ev.Fence, ...]]:
    return {sink: fences for sink, fences in state.publications_unconfirmed.items() if sink not in sinks}


def _failing(state: RunState, event: ev.RunFailing) -> RunState:
    assert state.phase is Phase.RUNNING, "gives up once"
    attempts = {
        key: one if one.status is AttemptStatus.SEALING else replace(one, status=AttemptStatus.CANCELLING)
        for key, one in state.attempts.items()
    }
    return replace(state, phase=Phase.FAILING, failing=event, attempts=attempts, publication=None)


def _with_step(state: RunState, name: str, step: StepState) -> RunState:
    return replace(state, steps=state.steps | {name: step})
