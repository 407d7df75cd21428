"""The story of one region of a stream: every decision about it as a sentence, then what stands in its way and what to
do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import assert_never

import msgspec

from rekindle.failover.restart import Strategy
from rekindle.observe.runs import INTERRUPTED
from rekindle.observe.show_words import clock, one_line
from rekindle.observe.story import Line
from rekindle.observe.stream_view import BACKOFF, GAVE_UP, NOT_IN_CODE, STUCK, RegionView
from rekindle.observe.words import batches_text, count_text
from rekindle.streams import stream_events as ev
from rekindle.streams.planned_batch import PlannedBatch
from rekindle.streams.stream_state import StreamState

RUNNING, STOPPING, FAILED = ev.StreamPhase.RUNNING.value, ev.StreamPhase.STOPPING.value, ev.QueryEnd.FAILED.value
POSITION_MAX = 300
NOWHERE = ("", "-")


class RegionStory(msgspec.Struct, frozen=True, kw_only=True):
    """What happened to a region. `next_batch` is the one that its query computes, or will compute, next: that of the
    failure, where it failed."""

    run: str
    region: RegionView
    lines: tuple[Line, ...]
    next_batch: PlannedBatch | None
    outlook: tuple[str, ...]


Told = tuple[int, int, Sequence[ev.StreamEvent]]


def region_story(
    records: Iterable[Told], region: RegionView, state: StreamState, next_batch: PlannedBatch | None
) -> RegionStory:
    """The story of a region, from (sequence, epoch, events) of each record."""
    lines = [
        Line(sequence, event.at_ms, epoch, text)
        for sequence, epoch, events in records
        for event in events
        if (text := _sentence(event, region.name, is_full=state.strategy is Strategy.FULL))
    ]
    sources = state.last_specs[region.name].sources
    outlook = tuple(_outlook(region, next_batch, sources))
    return RegionStory(run=state.run, region=region, lines=tuple(lines), next_batch=next_batch, outlook=outlook)


def _sentence(event: ev.StreamEvent, name: str, *, is_full: bool) -> str:
    """Empty where the event is not about this region."""
    match event:
        case ev.StreamStarted():
            return "the stream started"
        case ev.StreamOpened(owner=owner, again=again, taken=taken):
            anew = "; this region begins anew" if name in again else ""
            newer = f"; newer input from the next batch on: {', '.join(taken)}" if taken else ""
            return f"{owner} took the stream{anew}{newer}"
        case ev.CheckpointReplaced(region=region, start=start):
            return f"got a new checkpoint, which reads from {start.value}" if region == name else ""
        case ev.ShardBegun(region=region, split=split):
            where = f"after its batch {split.batch}" if split.batch >= 0 else "which had read all its input"
            return f"reads its part from where {split.parent} stood, {where}" if region == name else ""
        case ev.QueryStarted(region, number):
            return f"query {number} started" if region == name else ""
        case ev.QueryEnded(region=region, number=number, end=end, batch=batch):
            return f"query {number} {_ENDED[end]}{_after(batch)}" if region == name else ""
        case ev.RegionsRestart(region=region, cause=cause, regions=regions, due_ms=due_ms, alike=alike):
            if region != name:
                why = " (strategy full)" if is_full else ""
                return f"restarts because {region} failed{why}" if name in regions else ""
            often = f" (failure {alike} of this kind in the same batch)" if alike > 1 else ""
            return f"{one_line(cause.root.text) or cause.root.kind.value}{often}; restarts at {clock(due_ms)}"
        case ev.RegionGivenUp(region=region, who=who, why=why, cause=cause):
            if region != name:
                return ""
            return f"gave up: {who} ({why}); last failure: {one_line(cause.root.text) or cause.root.kind.value}"
        case ev.PoisonSuspected(region=region, batch=batch, cause=cause):
            if region != name:
                return ""
            failure = one_line(cause.root.text) or cause.root.kind.value
            return f"{failure}; the records of batch {batch} that fail are sought"
        case ev.RecordsQuarantined(region=region, records=records, jobs=jobs):
            named = "; ".join(str(one.record) for one in records)
            return f"goes on without {named}, found with {count_text(jobs, 'Spark job')}" if region == name else ""
        case ev.BatchesLost(region=region, batches=batches, reader=reader, readers=readers):
            return _lost(name, region, batches, reader, readers)
        case ev.BatchesReplayed(region=region, batches=batches, changed=changed, why=why, unmade=unmade):
            if region != name:
                return ""
            other = f", {batches_text(changed)} with other rows, which nobody had read" if changed else ""
            made = f"made {batches_text(batches)} of its result again{other}" if batches else ""
            not_made = f"could not make {batches_text(unmade)} of its result again: {why}" if why else ""
            return "; ".join(filter(None, (made, not_made)))
        case ev.StopRequested(why):
            return f"the stream was to stop: {why}"
        case ev.StreamEnded(phase):
            return f"the stream {phase.value}"
        case ev.StreamClosed():
            return "the stream was closed: its checkpoints and results are deleted"
        case _:  # pragma: no cover
            assert_never(event)


def _lost(name: str, region: str, batches: Sequence[int], reader: str, readers: Sequence[str]) -> str:
    if region == name:
        found = f"{reader} found {batches_text(batches)} of its result gone" if batches else f"{reader} needs them, too"
        return f"{found}; they are made again"
    if name == reader:
        what = "needs" if readers else "needs, to make its own batches again,"
        return f"{what} batches of {region} that are gone, and waits for them"
    return f"waits for batches of {region}, whose rows may come back as others" if name in readers else ""


_ENDED = {
    ev.QueryEnd.FAILED: "failed",
    ev.QueryEnd.FINISHED: "had read all its input",
    ev.QueryEnd.STOPPED: "stopped",
    ev.QueryEnd.STUCK: "did not stop, and was fenced",
}


def _after(batch: int) -> str:
    return f" after batch {batch}" if batch >= 0 else ", before its first batch was committed"


def _outlook(region: RegionView, batch: PlannedBatch | None, sources: Sequence[str]) -> Iterator[str]:
    again = count_text(region.restarts, "restart")
    yield f"{region.name} {_now(region)}; last batch {region.batch if region.batch >= 0 else 'none'}, {again}"
    if batch is None:
        yield f"batch {region.batch + 1} is not planned yet: the checkpoint has no positions for it"
    else:
        is_blamed = region.state in (GAVE_UP, BACKOFF, STUCK, FAILED)
        yield f"batch {batch.number} {'is the one that failed' if is_blamed else 'is next'}; it reads"
        yield from _reads(batch, sources)
    if region.failure:
        at = f", at {region.failure_at}" if region.failure_at and region.failure_at not in region.failure else ""
        yield f"last failure, {clock(region.failed_ms or 0)}: {region.failure}{at}"


def _now(region: RegionView) -> str:
    if region.state == GAVE_UP:
        return f"gave up ({region.why})"
    if region.state == BACKOFF:
        return f"restarts at {clock(region.due_ms or 0)}"
    if region.state == STUCK:
        return f"is stuck ({region.why}): only another driver can start it"
    if region.state == INTERRUPTED:
        return "was interrupted: its driver is gone"
    if region.state == FAILED:
        return "failed, and the stream was stopped before it restarted"
    return f"is {region.state}" if region.state in (RUNNING, STOPPING, NOT_IN_CODE) else region.state


def _reads(batch: PlannedBatch, sources: Sequence[str]) -> Iterator[str]:
    """The positions of each stream; those of files say little, so that the files are told."""
    for number, upto in enumerate(batch.upto):
        stream = batch.streams[number] if number < len(batch.streams) else str(number)
        name = sources[0] if len(sources) == len(batch.upto) == 1 else f"stream {stream}"
        before = batch.before[number] if number < len(batch.before) else ""
        after = "from the beginning" if before in NOWHERE else f"after {_short(before)}"
        yield f"  {name}: {after} up to {_short(upto)}" if upto not in NOWHERE else f"  {name}: nothing"
    for file in batch.files:
        yield f"  {file}"
    if batch.file_count > len(batch.files):
        yield f"  and {batch.file_count - len(batch.files):,} files more"


def _short(position: str) -> str:
    return position if len(position) <= POSITION_MAX else f"{position[:POSITION_MAX]}…"
