"""Streams: from what a user asked for to queries that run until somebody stops them, or to the plan of them.

- A stream is the run of its parameters, as a batch is: the same key finds it again. What it has lies below `_streams`,
  beside the runs of batches, because its journal is that of another machine.
- Code is compared with what the checkpoints were made with before anything starts.
- News and, now and then, how the regions are go to `say`, a line each.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from rekindle.engine.adapter import PreparedStream, StreamEngine, StreamRequest
from rekindle.engine.location import run_root
from rekindle.errors import InputChanged, Refused, RunClosed, RunFailed
from rekindle.failover.backoff import Exponential
from rekindle.gc.stream_release import ReleaseRules, StreamRelease
from rekindle.gc.targets import note_targets
from rekindle.journal.history import folder_of
from rekindle.journal.keys import STREAMS, claim, claim_anew, enlist, find_claim, identify, next_order, stream_folder
from rekindle.journal.owner import this_process
from rekindle.master.facts.config import BackoffSpec
from rekindle.model.failures import FailureKind
from rekindle.observe.stream_inputs import shortened, take_remedy
from rekindle.observe.stream_told import StreamPlan, StreamSummary, health_lines, news, stream_summary
from rekindle.pipeline.shards import with_shards
from rekindle.remedies import ONCE, Remedy, StartRemedy, TextRemedy, new_run
from rekindle.results.checkpoint_log import batch_ms, checkpoint_folder
from rekindle.runtime.opening import RunConstants
from rekindle.runtime.ownership import JournalRead, look_at_journal, now_ms, run_as_owner
from rekindle.service.running import RunRequest, fresh_name, wanted_of
from rekindle.service.shard_starts import NO_SPLITS, parents_in, settled, splits_ahead
from rekindle.storage.probe import probe
from rekindle.storage.store import Store
from rekindle.streams.pinned_inputs import PinnedInput
from rekindle.streams.region_changes import ChangeVerdict, RegionChange, changes_of
from rekindle.streams.shard_splits import ShardSplit
from rekindle.streams.source_starts import SourcePosition, StartRequest
from rekindle.streams.stream_events import QueryEnd, StreamPhase
from rekindle.streams.stream_machine import STREAM
from rekindle.streams.stream_spec import BACKOFF, RegionSpec, SourceStart, StreamLimits
from rekindle.streams.stream_state import StreamRecord, StreamState
from rekindle.streams.stream_stimuli import OpenStream

HEALTH_SECONDS = 30.0
OR_TAKE = "or take what there is now"
OR_LEFT = "or go on with the batches that are left, without those that are gone"

# What the engine makes of a stream, given a session.
PrepareStream = Callable[[Any, StreamRequest], PreparedStream]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRegions:
    """A stream that can be started or planned."""

    run: str
    seen: JournalRead[StreamState]
    prepared: PreparedStream
    constants: RunConstants
    changes: tuple[RegionChange, ...]
    starts: Mapping[str, StartRequest]
    parents: Mapping[str, RegionSpec]
    splits: Mapping[str, ShardSplit]

    @property
    def known(self) -> StreamState | None:
        return self.seen.state


class HealthReport:
    """Tells what the engine notes, and now and then how the regions are. It is asked at each poll."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._told = time.monotonic()
        self.engine: StreamEngine | None = None
        self.release: StreamRelease | None = None
        self.state: StreamState | None = None

    def tell(self) -> None:
        found = [*(() if self.engine is None else self.engine.notes())]
        found += () if self.release is None else self.release.notes()
        for line in found:
            self._say(f"{time.strftime('%H:%M:%S')} {line}")
        if self.state is None or self.engine is None or time.monotonic() - self._told < HEALTH_SECONDS:
            return
        self._told = time.monotonic()
        for line in health_lines(self.state, self.engine.health(), now_ms()):
            self._say(f"{time.strftime('%H:%M:%S')} {line}")


def run(wish: RunRequest, prepare: PrepareStream, say: Callable[[str], None]) -> StreamSummary:
    """Until it is stopped, has read all its input, or every region gave up."""
    pulse = HealthReport(say)
    asked = wish.options.is_asked_to_stop

    def is_asked_to_stop() -> str:
        pulse.tell()
        return asked()

    ready = make_ready(replace(wish, options=replace(wish.options, is_asked_to_stop=is_asked_to_stop)), prepare)
    store, options, engine = wish.store, wish.options, ready.prepared.engine
    pulse.engine = engine
    for line in _plan(wish, ready).lines(None):
        say(line)
    _refuse_inputs(wish, ready)
    _refuse_changes(wish, ready)
    probe(store)
    if options.new:
        claim_anew(store, wish.pipeline, wish.key, ready.run)
    note_targets(store, wish.pipeline, ready.prepared.bases)
    if ready.known is None:
        identify(store, wish.pipeline)
        enlist(store, wish.pipeline, ready.run)

    ready.prepared.keep()

    def watch(events: tuple[StreamRecord, ...], state: StreamState) -> None:
        if pulse.state is None:
            options.on_begun()
        pulse.state = state
        for line in news(events, state, now_ms()):
            say(f"{time.strftime('%H:%M:%S')} {line}")

    limits = StreamLimits(
        strategy=options.limits.strategy,
        backoff=_backoff(wish),
        is_ended_by_one=options.stop_on_give_up,
        stall_ms=_stall_ms(wish),
        poison_tries_max=options.limits.poison_tries_max,
    )

    def first(state: StreamState | None) -> OpenStream:
        now, then = _generations(state), _generations(ready.known)
        if any(now.get(name, 0) != then.get(name, 0) for name in ready.prepared.spec.names):
            engine.close()
            raise Refused("another driver replaced a checkpoint of this stream meanwhile", StartRemedy(to="look again"))
        if _pins(state) != _pins(ready.known):
            engine.close()
            raise Refused("another driver pinned inputs of this stream meanwhile", StartRemedy(to="look again"))
        return OpenStream(
            pipeline=wish.pipeline,
            run=ready.run,
            spec=ready.prepared.spec,
            limits=limits,
            run_time_ms=ready.constants.run_time_ms,
            seed=ready.constants.seed,
            application=engine.application,
            owner=str(this_process()),
            strategy=options.chosen_strategy,
            new_checkpoints={name: one.start for name, one in ready.starts.items()},
            positions=dict(ready.prepared.positions),
            splits=_splits(state, ready),
            taken=tuple(one.step for one in ready.prepared.inputs if one.is_taken),
        )

    with ExitStack() as beside:
        if any(one.reads for one in ready.prepared.spec.regions):
            pulse.release = beside.enter_context(_release(wish, ready))
        state = run_as_owner(
            STREAM,
            store,
            name_of(wish.pipeline, ready.run),
            first,
            engine,
            watcher=watch,
            seen=ready.seen,
            force=options.force,
            stale_seconds=options.stale_seconds,
        )
    if state.phase is StreamPhase.FAILED:
        raise _failure_of(state)
    return stream_summary(state, engine.health(), was_resumed=ready.known is not None)


def _release(wish: RunRequest, ready: PreparedRegions) -> StreamRelease:
    options, engine = wish.options, ready.prepared.engine
    rules = ReleaseRules(
        keep_seconds=options.keep_results_minutes * 60,
        bytes_max=0 if options.available_now else options.result_bytes_max,
    )
    return StreamRelease(wish.store, wish.pipeline, ready.run, rules, engine.hold, engine.forget)


def claimed(wish: RunRequest) -> RunRequest:
    """The same for the stream of its key, which is claimed here where it is new."""
    options = wish.options
    if options.run or options.new:
        return wish
    name = claim(wish.store, wish.pipeline, wish.key, fresh_name()).run
    return replace(wish, options=replace(options, run=name))


def plan(wish: RunRequest, prepare: PrepareStream) -> StreamPlan:
    """What `run` would do now."""
    ready = make_ready(wish, prepare)
    try:
        return _plan(wish, ready)
    finally:
        ready.prepared.engine.close()


def name_of(pipeline: str, run: str) -> str:
    """Where the journal of a stream is."""
    return stream_folder(pipeline, run)


def is_stream(store: Store, pipeline: str, run: str) -> bool:
    """Whether a run of this name is a stream."""
    return bool(store.list_after(folder_of(name_of(pipeline, run))))


def look(store: Store, pipeline: str, run: str) -> JournalRead[StreamState]:
    """Read the journal of a stream without owning it. One that was closed has nothing left to say."""
    seen = look_at_journal(STREAM, store, name_of(pipeline, run))
    if seen.position.is_closed:
        raise RunClosed(f"stream {run} is closed", hint=new_run())
    return seen


def make_ready(wish: RunRequest, prepare: PrepareStream) -> PreparedRegions:
    """The stream of this key, found or new, with what the engine makes of it. Nothing is written or started."""
    store, options = wish.store, wish.options
    held = None if options.run or options.new else find_claim(store, wish.pipeline, wish.key)
    name = options.run or (held.run if held else fresh_name())
    seen = look(store, wish.pipeline, name)
    known = seen.state
    starts = options.starts
    constants = RunConstants(known.run_time_ms, known.seed, {}) if known else RunConstants.fresh()
    session = wish.session() if callable(wish.session) else wish.session
    parents = {} if known is None else parents_in(known, with_shards(wish.steps))
    splits = {} if known is None else splits_ahead(store, name_of(wish.pipeline, name), known, parents)
    prepared = prepare(session, request_of(wish, name, known, constants, splits))
    _refuse_starts(starts, known, prepared, splits)
    return PreparedRegions(
        run=name,
        seen=seen,
        prepared=prepared,
        constants=constants,
        changes=_changes(known, prepared, parents),
        starts=starts,
        parents=parents,
        splits=splits,
    )


def _splits(state: StreamState | None, ready: PreparedRegions) -> dict[str, ShardSplit]:
    """Where shards begin that this start makes. Raises `Refused`."""
    if not ready.parents:
        return {}
    engine = ready.prepared.engine
    try:
        assert state is not None, "somebody was split"
        found = settled(state, ready.parents, engine.freeze)
    except Refused:
        engine.close()
        raise
    if found != ready.splits or any(state.regions[one.name].is_split for one in ready.parents.values()):
        engine.close()
        raise Refused("another driver went on with this stream meanwhile", StartRemedy(to="look again"))
    return found


def _generations(known: StreamState | None) -> dict[str, int]:
    """How many checkpoints each region had before the one that it has."""
    return {} if known is None else {name: one.generation for name, one in known.regions.items()}


def _pins(known: StreamState | None) -> dict[str, PinnedInput]:
    return {} if known is None else known.pins


def _refuse_inputs(wish: RunRequest, ready: PreparedRegions) -> None:
    """Files that are not as they were pinned, and names of steps that read none."""
    inputs = {one.step: one for one in ready.prepared.inputs}
    missing = tuple(name for name in wish.options.replace if name not in inputs)
    if missing:
        ready.prepared.engine.close()
        raise Refused(
            f"{', '.join(missing)} reads no batch input; steps with one: {', '.join(inputs) or 'none'}",
            StartRemedy(to="start without it", drops=missing),
        )
    for step, one in inputs.items():
        if one.changed:
            ready.prepared.engine.close()
            raise InputChanged(
                f"the input of {step} is not what was pinned: {shortened(one.changed)}",
                (TextRemedy("restore what was pinned"), take_remedy(step, OR_TAKE)),
            )


def _refuse_starts(
    starts: Mapping[str, StartRequest],
    known: StreamState | None,
    prepared: PreparedStream,
    splits: Mapping[str, ShardSplit],
) -> None:
    """Refuse regions that have no checkpoint which could be replaced."""
    there = [name for name in prepared.spec.names if name in _generations(known) and name not in splits]
    missing = tuple(name for name in starts if name not in there)
    if missing:
        prepared.engine.close()
        raise Refused(
            f"{', '.join(missing)} has no checkpoint to replace; regions with one: {', '.join(there) or 'none'}",
            StartRemedy(to="start without it", drops=missing, leaves=("from_",)),
        )


def request_of(
    wish: RunRequest,
    run: str,
    known: StreamState | None,
    constants: RunConstants,
    splits: Mapping[str, ShardSplit] = NO_SPLITS,
) -> StreamRequest:
    """What an engine is asked for, for a stream of this name. `splits` are those that this start makes."""
    starts = wish.options.starts
    begun = {} if known is None else {name: one.split for name, one in known.regions.items() if one.split is not None}
    wanted = wanted_of(wish, run, next_order(wish.store, wish.pipeline), constants)
    return StreamRequest(
        wanted=replace(
            wanted,
            steps=with_shards(wanted.steps),
            root=run_root(wish.location, wish.pipeline, f"{STREAMS}/{run}"),
        ),
        generation=run,
        stall_ms=_stall_ms(wish),
        compact_batches=wish.options.compact_batches,
        memory_bytes=wish.options.memory_bytes_max,
        pins=_pins(known),
        taken=frozenset(wish.options.replace),
        replaced={one: number + (one in starts or one in splits) for one, number in _generations(known).items()},
        splits={**{name: one for name, one in begun.items() if name not in starts}, **splits},
        starts=starts,
        positions={} if known is None else _positions(known, starts),
        available_now=wish.options.available_now,
        is_asked_to_stop=wish.options.is_asked_to_stop,
        owner=msgspec.json.encode(this_process()).decode(),
    )


def _positions(known: StreamState, starts: Container[str]) -> dict[str, tuple[SourcePosition, ...]]:
    """Where the checkpoints that stay began."""
    return {name: one.positions for name, one in known.regions.items() if one.positions and name not in starts}


def _changes(
    known: StreamState | None, prepared: PreparedStream, parents: Mapping[str, RegionSpec]
) -> tuple[RegionChange, ...]:
    return () if known is None else changes_of(known.unsplit, prepared.spec, prepared.noted, parents)


def _refuse_changes(wish: RunRequest, ready: PreparedRegions) -> None:
    """Rows of two meanings in one state cannot be told apart afterwards."""
    accepted = set(wish.options.accept_change)
    for change in ready.changes:
        told = f"{change.region} {change.verdict.value}: {'; '.join(change.told)}"
        anew: Remedy = StartRemedy(
            to="read all input again with a new checkpoint, and add its rows to the target",
            new_checkpoint=(change.region,),
            start_from=SourceStart.EARLIEST.value,
        )
        remedies: tuple[Remedy, ...] = ()
        if not wish.steps:
            anew = new_run("begin anew with all queries of the script, each with another checkpoint=")
        match change.verdict:
            case ChangeVerdict.OTHER_COLUMNS:
                remedies = (TextRemedy("restore what it was"), TextRemedy("or give the sink another target"))
            case ChangeVerdict.OTHER_SHARDS:
                remedies = (
                    TextRemedy("restore what it was, or say a multiple of it"),
                    new_run("or start a new stream, with other targets"),
                )
            case ChangeVerdict.NEEDS_CHECKPOINT if change.region not in ready.starts:
                remedies = (TextRemedy("restore what it was, or"), anew)
            case ChangeVerdict.MIXES_STATE if change.region not in ready.starts:
                accept = StartRemedy(to="or go on with rows of both in one state", accept_change=(change.region,))
                remedies = () if accepted & {change.region, *change.steps} else (anew, accept)
        if remedies:
            ready.prepared.engine.close()
            raise Refused(told, remedies)


def _plan(wish: RunRequest, ready: PreparedRegions) -> StreamPlan:
    return StreamPlan(
        pipeline=wish.pipeline,
        run=ready.run,
        spec=ready.prepared.spec,
        known=ready.known,
        changes=ready.changes,
        batches=ready.prepared.batches,
        notes=ready.prepared.notes,
        inputs=ready.prepared.inputs,
        starts=ready.starts,
        splits=ready.splits,
        begins=ready.prepared.begins,
        result_bytes=ready.prepared.result_bytes,
        batch_ms=dict(_batch_times(wish.store, name_of(wish.pipeline, ready.run), ready)),
        memory_bytes=wish.options.memory_bytes_max,
    )


def _batch_times(store: Store, folder: str, ready: PreparedRegions) -> Iterator[tuple[str, int]]:
    """How long a batch took lately, of each region that makes a result, or computes what others compute, too."""
    generations = _generations(ready.known)
    for one in ready.prepared.spec.regions:
        if one.name in generations and (one.result or one.shared):
            took = batch_ms(store, f"{folder}/{checkpoint_folder(one.name, generations[one.name])}")
            if took is not None:
                yield one.name, took


def _stall_ms(wish: RunRequest) -> int:
    return round(wish.options.stall_seconds * 1000)


def _backoff(wish: RunRequest) -> BackoffSpec:
    """As the settings say; a region that has run well for a while begins anew."""
    policy = wish.options.limits.backoff.policy()
    if isinstance(policy, Exponential):
        policy = replace(policy, reset_after_ms=min(policy.reset_after_ms, BACKOFF.reset_after_ms))
    return BackoffSpec.of(policy)


def _failure_of(state: StreamState) -> RunFailed:
    told = [f"stream {state.run} of {state.pipeline} stopped"]
    changed: set[str] = set()
    behind: list[str] = []
    for name in state.spec.names:
        region = state.regions[name]
        if region.gave_up:
            cause = region.cause.root.text if region.cause is not None else ""
            told.append(f"  {name} gave up: {region.gave_up}; {cause}")
            if region.cause is not None and region.cause.root.kind is FailureKind.INPUT_CHANGED:
                changed.update(step for step in state.spec.region(name).steps if step in state.spec.inputs)
                behind += [name] if state.spec.region(name).is_fed else []
        elif region.last_end is QueryEnd.FAILED:
            cause = region.cause.root.text if region.cause is not None else ""
            told.append(f"  {name} had failed, and was to restart: {cause}")
        else:
            told.append(f"  {name}: its checkpoint is kept")
    go_on = StartRemedy(to="correct it, then", leaves=ONCE)
    # Which one of several it is the next start says, before anything runs.
    takes = [take_remedy(step, OR_TAKE, leaves=ONCE) for step in changed]
    left = StartRemedy(to=OR_LEFT, is_stream=True, leaves=ONCE, new_checkpoint=tuple(behind))
    return RunFailed("\n".join(told), (go_on, *(takes if len(takes) == 1 else ()), *((left,) if behind else ())))
