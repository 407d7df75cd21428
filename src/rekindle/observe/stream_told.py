"""A stream in words: its plan, its news, how its regions are, and what it came to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from rekindle.failover.restart import Strategy
from rekindle.observe.edge_costs import EdgeCost, took_text
from rekindle.observe.plan import Plan
from rekindle.observe.stream_inputs import input_lines
from rekindle.observe.summary import RunSummary
from rekindle.observe.words import batches_text, bytes_text, count_text, time_text
from rekindle.remedies import Say, in_python
from rekindle.streams.pinned_inputs import InputLook
from rekindle.streams.region_changes import ChangeVerdict, RegionChange
from rekindle.streams.region_health import RegionHealth
from rekindle.streams.shard_splits import ShardSplit
from rekindle.streams.source_records import QuarantinedRecord, copies
from rekindle.streams.source_starts import StartRequest
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
    StreamOpened,
    StreamPhase,
    StreamStarted,
)
from rekindle.streams.stream_spec import IN_MEMORY, Delivery, RegionSpec, StreamSpec
from rekindle.streams.stream_state import RegionState, StreamBase, StreamRecord, StreamState


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPlan:
    """What a start of a stream would do. `batches` are the last ones that each checkpoint has committed; `starts` are
    the regions that get a new one, and where it begins to read; `splits` are shards that
    begin where others stand; `begins` says that for each stream of a region that has
    no batch; `result_bytes` is how many a batch of each result had lately, `batch_ms` how long a batch of a region
    took, and `memory_bytes` the room of memory results; `inputs` are the batch inputs. `before` is the plan of the run
    that publishes the sinks of batches of the pipeline."""

    pipeline: str
    run: str
    spec: StreamSpec
    known: StreamState | None = None
    changes: tuple[RegionChange, ...] = ()
    batches: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    starts: Mapping[str, StartRequest] = field(default_factory=dict)
    splits: Mapping[str, ShardSplit] = field(default_factory=dict)
    begins: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    before: Plan | None = None
    result_bytes: Mapping[str, int] = field(default_factory=dict)
    batch_ms: Mapping[str, int] = field(default_factory=dict)
    memory_bytes: int = 0
    inputs: tuple[InputLook, ...] = ()

    def lines(self, say: Say | None = in_python) -> Iterator[str]:
        """`say` is the face that they are for; without one nothing is said that somebody could type."""
        if self.before is not None:
            yield from str(self.before).splitlines()
        what = f"stream {self.run} of {self.pipeline}" if self.known is not None else f"new stream of {self.pipeline}"
        yield f"{what}: {count_text(len(self.spec.regions), 'region')}, each fails and restarts alone"
        for region in self.spec.regions:
            yield from self._region(region)
        for one in self.inputs:
            yield from input_lines(one, say)
        for change in self.changes:
            if change.verdict is not ChangeVerdict.SAME and change.region not in self.starts:
                yield f"  {change.region}: {change.verdict.value} ({'; '.join(change.told)})"
        for note in self.notes:
            yield f"  {note}"

    def _region(self, region: RegionSpec) -> Iterator[str]:
        batch = self.batches.get(region.name, -1)
        where = f"goes on after batch {batch}" if batch >= 0 else "has no batch yet"
        if region.name in self.starts:
            where = f"new checkpoint: reads from {self.starts[region.name]} on, and adds to the rows that are there"
        if region.name in self.splits:
            where = _split_text(self.splits[region.name])
        gave_up = self.known.regions[region.name].gave_up if self.known and region.name in self.known.regions else ""
        yield f"  {region.name}  {' -> '.join(region.steps)}"
        yield f"    {region.delivery.value} to {region.target}; trigger: {region.trigger}; {where}"
        for begin in () if region.name in self.splits else self.begins.get(region.name, ()):
            yield f"    begins with {begin}"
        if region.why:
            yield f"    {region.delivery.value}: {region.why}"
        state = (
            f"state at {region.stateful[-1]}, in RocksDB with checkpoint format 2" if region.stateful else "no state"
        )
        if region.reads:
            yield f"    reads the result of {', '.join(region.reads)}"
        yield from self._result(region)
        yield f"    {state}{self._shared(region)}"
        if region.quarantine:
            yield f"    may go on without {count_text(region.quarantine, 'record')}; {self._left_out(region.name)}"
        if gave_up:
            yield f"    had given up ({gave_up}); is tried again"

    def _shared(self, region: RegionSpec) -> str:
        """Steps that others compute, too, with what that costs at most."""
        if not region.shared:
            return ""
        took = self.batch_ms.get(region.name)
        cost = f", where a batch took {took_text(took)} lately" if took is not None else ""
        return f"; {', '.join(region.shared)} is computed in several regions{cost}"

    def _result(self, region: RegionSpec) -> Iterator[str]:
        """What its result costs."""
        if region.result:
            where = "in memory of executors" if region.result == IN_MEMORY else "as files"
            where = f"in the topic {region.topic}" if region.topic else where
            readers = count_text(len(self.spec.readers(region.name)), "region")
            size = self.result_bytes.get(region.name)
            lately = f"; a batch had {bytes_text(size)} lately" if size is not None else ""
            yield f"    each batch is kept once {where}, and read by {readers}{lately}"
            yield from (f"    {line}" for line in self._edge(region).lines())
        yield from _lost(region)

    def _edge(self, region: RegionSpec) -> EdgeCost:
        return EdgeCost(
            region=region,
            readers=len(self.spec.readers(region.name)),
            bytes=self.result_bytes.get(region.name),
            batch_ms=self.batch_ms.get(region.name),
            memory_bytes=self.memory_bytes,
        )

    def _left_out(self, name: str) -> str:
        held = self.known.regions[name].quarantined if self.known and name in self.known.regions else ()
        return f"goes on without {'; '.join(str(one.record) for one in held)}" if held else "none is in quarantine"

    def to_json(self) -> bytes:
        """Regions as they will run, and what changed in them."""
        told = {
            "pipeline": self.pipeline,
            "stream": self.run,
            "regions": [
                {**msgspec.to_builtins(one), "fingerprints": {}, "batch": self.batches.get(one.name, -1)}
                for one in self.spec.regions
            ],
            "changes": [{"region": one.region, "verdict": one.verdict.value, "told": one.told} for one in self.changes],
            "inputs": [msgspec.to_builtins(one) for one in self.inputs],
            "new_checkpoints": {name: str(one) for name, one in self.starts.items()},
            "begins": self.begins,
            "before": None if self.before is None else msgspec.Raw(self.before.to_json()),
            "result_bytes": self.result_bytes,
            "batch_ms": self.batch_ms,
            "notes": self.notes,
        }
        return msgspec.json.encode(told)

    def __str__(self) -> str:
        return "\n".join(self.lines())


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionSummary:
    """One region: the last batch that it committed in this process, how often it was restarted, the records that it
    goes on without, and how many batches of its result were made again."""

    batch: int
    restarts: int
    gave_up: str = ""
    delivery: Delivery = Delivery.EXACTLY_ONCE
    why: str = ""
    quarantined: tuple[QuarantinedRecord, ...] = ()
    replayed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSummary(RunSummary):
    """The summary of a stream that stopped or finished. `phase` says which."""

    phase: StreamPhase
    regions: Mapping[str, RegionSummary]

    def lines(self, say: Say = in_python) -> Iterator[str]:
        took = f" after {time_text(self.wall_ms)}" if self.wall_ms is not None else ""
        yield f"stream {self.run} of {self.pipeline} {self.phase.value}{took}"
        for name, region in self.regions.items():
            where = f"batch {region.batch}" if region.batch >= 0 else "no batch yet"
            again = f", {count_text(region.restarts, 'restart')}" if region.restarts else ""
            yield f"  {name}: {where}{again}; {self.results.get(name, '')}"
            if region.why:
                yield f"    {region.delivery.value}: {region.why}"
            if region.replayed:
                yield f"    {count_text(region.replayed, 'batch', 'batches')} of its result made again"
            for one in region.quarantined:
                yield f"    without {one.record}: {one.cause.text}"
        yield "  the next start goes on from there"


def stream_summary(state: StreamState, health: Mapping[str, RegionHealth], *, was_resumed: bool) -> StreamSummary:
    """What a stream came to."""
    specs = {one.name: one for one in state.spec.regions}
    return StreamSummary(
        pipeline=state.pipeline,
        run=state.run,
        was_done=False,
        was_resumed=was_resumed,
        steps={},
        results={one.name: one.target for one in state.spec.regions},
        failures=sum(state.regions[name].restarts for name in state.spec.names),
        wall_ms=max(0, state.ended_ms - state.opened_ms),
        phase=state.phase,
        regions={
            name: RegionSummary(
                batch=_batch(one, health.get(name)),
                restarts=one.restarts,
                gave_up=one.gave_up,
                delivery=specs[name].delivery,
                why=specs[name].why,
                quarantined=one.quarantined,
                replayed=one.replayed,
            )
            for name, one in state.regions.items()
            if name in specs
        },
    )


def _batch(region: RegionState, health: RegionHealth | None) -> int:
    return max(region.batch, health.batch if health is not None else -1)


def news(events: Iterable[StreamRecord], state: StreamState, now_ms: int) -> Iterator[str]:
    """What happened, a line each."""
    for event in events:
        match event:
            case RegionsRestart():
                yield from _restart(event, state, now_ms)
            case RegionGivenUp(region=name, who=who, why=why, cause=cause):
                yield f"{name} gave up: {who} ({why}); last failure: {cause.root.text}"
                others = [one for one in state.spec.names if one != name and not state.regions[one].is_over]
                if others:
                    yield f"{', '.join(others)} {'goes' if len(others) == 1 else 'go'} on without it"
            case CheckpointReplaced(region=name, start=start):
                yield f"{name} has a new checkpoint, and reads its sources from {start.value} on"
            case ShardBegun(region=name, split=split):
                yield f"{name} {_split_text(split)}"
            case PoisonSuspected(region=name, batch=batch, cause=cause):
                yield f"{name} failed: {cause.root.text or cause.root.kind.value}"
                yield f"{name} seeks the records of batch {batch} that fail"
            case RecordsQuarantined(region=name, records=records, jobs=jobs):
                for one in records:
                    yield f"{name} goes on without {one.record}: {one.cause.text}"
                yield f"{name}: found with {count_text(jobs, 'Spark job')}, kept in quarantine/{name}"
            case QueryStarted(name, number):
                yield f"{name} started" + (f" (query {number})" if number > 1 else "")
            case QueryEnded(region=name, end=QueryEnd.FINISHED):
                yield f"{name} has read all its input"
            case QueryEnded(region=name, end=QueryEnd.STOPPED):
                yield f"{name} stopped"
            case BatchesLost(region=name, batches=batches, reader=reader):
                if batches:
                    yield f"{name}: {batches_text(batches)} of its result cannot be read by {reader}, and made again"
            case BatchesReplayed(region=name, batches=batches, changed=changed, why=why):
                if batches:
                    other = f", {batches_text(changed)} with other rows, which nobody had read" if changed else ""
                    yield f"{name}: {batches_text(batches)} of its result can be read again{other}"
                if why:
                    yield f"{name}: {why}"
            case StopRequested(why):
                yield f"stopping after the batches that run: {why}"
            case StreamEnded(phase):
                yield f"stream {phase.value}"
            case StreamClosed():
                yield "stream closed: its checkpoints and results are deleted"
            case StreamOpened(taken=(_, *_) as taken):
                yield f"{', '.join(taken)}: what there is now is read from the next batch on"
            case StreamStarted() | StreamOpened() | QueryEnded() | StreamBase():
                pass


def _split_text(split: ShardSplit) -> str:
    after = f"after its batch {split.batch}" if split.batch >= 0 else "which has read all its input"
    return f"reads its part from where {split.parent} stood, {after}"


def _restart(event: RegionsRestart, state: StreamState, now_ms: int) -> Iterator[str]:
    seconds = max(0, event.due_ms - now_ms) / 1000
    yield f"{event.region} failed: {event.cause.root.text or event.cause.root.kind.value}"
    others = [name for name in event.regions if name != event.region]
    is_full = state.strategy is Strategy.FULL
    why = "strategy full" if is_full else "they read rows that may come back as others"
    also = f", with {', '.join(others)} ({why})" if others else ""
    yield f"{event.region} restarts from its checkpoint in {seconds:.1f} s{also}"


def _lost(region: RegionSpec) -> Iterator[str]:
    """What becomes of batches of its result that are lost."""
    if region.result == IN_MEMORY:
        yield "    batches vanish with executors, with the driver, and beyond stream.memory_bytes_max"
    if region.result and region.unreplayable:
        yield f"    a batch that is lost cannot be made again: {region.unreplayable}"
    elif region.result:
        yield "    a batch that is lost is made again from what the checkpoint recorded"
    if region.result and region.doubts and not region.unreplayable:
        yield (
            f"    it is not proved to have the same rows then ({'; '.join(region.doubts)}): all who read it restart, "
            "and other rows count only if nobody has read the first"
        )


def health_lines(state: StreamState, health: Mapping[str, RegionHealth], now_ms: int) -> Iterator[str]:
    """How each region is now."""
    for name in state.spec.names:
        region, seen = state.regions[name], health.get(name)
        again = f"; {count_text(region.restarts, 'restart')}" if region.restarts else ""
        if region.quarantined:
            again += f"; without {count_text(copies(region.quarantined), 'record')}"
        if region.gave_up:
            yield f"{name}: gave up ({region.gave_up})"
        elif region.sought is not None:
            yield f"{name}: seeks the records of batch {region.sought} that fail"
        elif region.is_open and seen is not None:
            rows = f"{seen.rows_per_second:,.0f} rows/s, {seen.took_ms} ms a batch"
            kept = f", state {seen.state_rows:,} rows, {bytes_text(seen.state_bytes)}" if seen.state_rows else ""
            yield f"{name}: batch {seen.batch}, {rows}{kept}{again}"
        elif region.is_open:
            yield f"{name}: starting{again}"
        elif region.due_ms is not None:
            yield f"{name}: restarts in {max(0, region.due_ms - now_ms) / 1000:.0f} s{again}"
        else:
            yield f"{name}: {'finished' if region.is_finished else 'over'}{again}"
