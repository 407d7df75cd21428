"""Batches of results between regions that cannot be read any more: which they are, and the same batches made again.

- What a reader lacks is looked for where it failed: the batch that its checkpoint has planned names the batches that it
  reads, and each says where its rows are. A file that an error calls damaged counts as gone.
- A batch is made again from what the checkpoint of its region recorded (batch_replay.py), without the records that are
  in quarantine, as files, in a directory of its own.
- It counts when `replays/…/BATCH.NUMBER` is put, if absent: the number after that of the rows which are gone. Whoever
  finds that number taken reads what is there.
- Whether other rows than before may count is for `streams/replaced_rows` to say. Where a reader is, its checkpoint and
  its target tell; a reader that runs may be reading.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as changed
from typing import NamedTuple

from pyspark.sql import SparkSession

from rekindle.engine.adapter import StreamRequest
from rekindle.engine.spark.failures import files_in, first_line
from rekindle.engine.spark.jvm import stream_calls
from rekindle.engine.spark.jvm.stream_calls import ResultPlace
from rekindle.engine.spark.publish.stream_result import client_of, result_path, topic_of
from rekindle.engine.spark.stream.batch_replay import RecordedInput, replayed, result_of, rows_of
from rekindle.engine.spark.stream.poison_finder import Limited
from rekindle.engine.spark.stream.quarantine import opened
from rekindle.engine.spark.stream.record_conditions import is_none_of
from rekindle.engine.spark.stream.region_frames import RegionFrames
from rekindle.engine.spark.stream.region_sinks import RegionSink
from rekindle.errors import Refused
from rekindle.publish.stream_entries import (
    BatchEntry,
    CountedEntry,
    counted_entry,
    entry_body,
    generation_folder,
    replay_key,
)
from rekindle.publish.target import PointerStore, is_certainly_put
from rekindle.results.checkpoint_log import (
    checkpoint_folder,
    last_commit,
    last_planned,
    positions,
    result_position,
)
from rekindle.streams.replaced_rows import ReaderPlace, refused_replacement
from rekindle.streams.source_records import QuarantinedRecord
from rekindle.streams.stream_commands import ReplayBatches
from rekindle.streams.stream_stimuli import ReplayReport

Lost = dict[str, tuple[int, ...]]
UNCERTAIN = "what was made again was not certainly put"


class DamagedBatch(NamedTuple):
    """A batch of a result whose file an error named, with the number of the time that it was made."""

    region: str
    batch: int
    number: int


class ReplayFailed(Exception):
    """A batch cannot be made again, and why."""


@dataclass(frozen=True, slots=True)
class OpenedBatch:
    """A batch that is to be made again: the frames of its region, and what it reads."""

    batch: int
    frames: RegionFrames
    inputs: tuple[RecordedInput, ...]


class ResultReplays:
    """The results of one stream. `is_running` tells whether a region has a query in this driver."""

    def __init__(
        self,
        spark: SparkSession,
        request: StreamRequest,
        regions: Mapping[str, RegionSink],
        is_running: Callable[[str], bool],
    ) -> None:
        self._spark, self._request, self._is_running = spark, request, is_running
        self._regions = regions
        self._root = request.wanted.root
        self._damaged: set[DamagedBatch] = set()

    def lost_by(self, reader: str, error: str = "") -> Lost:
        """The batches that the next batch of a region reads and that cannot be read any more, by their regions."""
        found: Lost = {}
        for region, first, last in self._next_of(reader):
            self._note_damaged(region, error)
            if lost := self._lost(region, first, last):
                found[region] = tuple(sorted({*found.get(region, ()), *lost}))
        return found

    def replay(self, command: ReplayBatches, limited: Limited) -> ReplayReport:
        """Make batches again, up to the first that cannot be. Those that can be read by now are left as they are."""
        region, made, other, why = command.region, [], [], ""
        unmade: tuple[int, ...] = ()
        wanted = [one for one in command.batches if self._lost(region, one - 1, one)]
        todo = []
        for batch in wanted:
            try:
                todo.append(self._opened(region, batch))
            except Refused as refused:
                return ReplayReport(region=region, number=command.number, why=first_line(refused), unmade=(batch,))
        if lost := {one.batch: inputs for one in todo if (inputs := self._lost_inputs(one))}:
            return ReplayReport(region=region, number=command.number, lost=lost)
        made += [one for one in command.batches if one not in wanted]
        for one in todo:
            try:
                other += [one.batch] if self._is_other(region, one, command.without, limited) else []
            except Exception as failed:
                unmade, why = (one.batch,), str(failed) if isinstance(failed, ReplayFailed) else first_line(failed)
                break
            made.append(one.batch)
        return ReplayReport(
            region=region,
            number=command.number,
            batches=tuple(sorted(made)),
            changed=tuple(other),
            why=why,
            unmade=unmade,
        )

    def _opened(self, region: str, batch: int) -> OpenedBatch:
        sink = self._regions[region]
        own = changed(self._request, wanted=changed(self._request.wanted, steps=sink.steps))
        frames, inputs = opened(self._spark, own, sink.sink, batch)
        return OpenedBatch(batch, frames, inputs)

    def _lost_inputs(self, one: OpenedBatch) -> Lost:
        found: Lost = {}
        for given in one.inputs:
            if given.batches is not None and (lost := self._lost(result_of(given.leaf).region, *given.batches)):
                found[result_of(given.leaf).region] = lost
        return found

    def _is_other(self, region: str, one: OpenedBatch, without: Sequence[QuarantinedRecord], limited: Limited) -> bool:
        """Make a batch again. Whether its rows are not those that are gone."""
        path, _, generation, _ = self._result(region)
        store = self._request.wanted.stores(path)
        gone = self._counted(region, one.batch)
        session = one.frames.frame.sparkSession
        rows = [
            rows_of(
                session,
                given,
                is_none_of(given.leaf, [q.record for q in without if q.record.is_of(number, given.leaf.named)]),
            )
            for number, given in enumerate(one.inputs)
        ]
        (frame,) = replayed(session, one.frames.frame, rows)
        if topic_of(self._regions[region].sink) is not None:
            frame = stream_calls.as_read(session, frame)
        directory = f"{generation_folder(region, generation)}{one.batch}-0-{uuid.uuid4()}"
        with limited():
            digest, files = stream_calls.written_again(session, frame, f"{path}/{directory}")
        is_equal = bool(digest) and digest == gone.entry.rows
        why = refused_replacement(one.batch, region, self._places(region, one.batch), is_equal=is_equal)
        if why:
            raise ReplayFailed(why)
        entry = BatchEntry(directory=directory, files=dict(files), offsets=gone.entry.offsets, rows=digest)
        return self._is_put(store, region, one.batch, gone.number + 1, entry) and not is_equal

    def _is_put(self, store: PointerStore, region: str, batch: int, number: int, entry: BatchEntry) -> bool:
        """Whether these rows count now, and not those of another driver."""
        key = replay_key(region, self._result(region).generation, batch, number)
        if not is_certainly_put(store, key, entry_body(entry, number)):
            raise ReplayFailed(f"batch {batch} of {region}: {UNCERTAIN}")
        return self._counted(region, batch).entry.directory == entry.directory

    def _counted(self, region: str, batch: int) -> CountedEntry:
        path, _, generation, _ = self._result(region)
        found = counted_entry(self._request.wanted.stores(path), region, generation, batch)
        if found is None:
            raise ReplayFailed(
                f"batch {batch} of {region} is released: every region that read its result had passed it"
            )
        return found

    def _result(self, region: str) -> ResultPlace:
        sink = self._regions[region]
        return ResultPlace(result_path(self._root, region), region, sink.generation, client_of(sink.sink))

    def _lost(self, region: str, after: int, last: int) -> tuple[int, ...]:
        found = {*stream_calls.lost_batches(self._spark, self._result(region), after, last)}
        for one in self._damaged:
            if one.region == region and after < one.batch <= last:
                found |= {one.batch} if self._counted(region, one.batch).number == one.number else set()
        return tuple(sorted(found))

    def _note_damaged(self, region: str, error: str) -> None:
        path, _, generation, _ = self._result(region)
        of_batch = re.compile(rf"/{re.escape(generation_folder(region, generation))}(\d+)-")
        for file in files_in(error):
            named = of_batch.search(file)
            if named is not None and path.split(":", 1)[-1].strip("/") in file:
                batch = int(named[1])
                counted = self._counted(region, batch)
                if f"/{counted.entry.directory}/" in file:
                    self._damaged.add(DamagedBatch(region, batch, counted.number))

    def _next_of(self, reader: str) -> Iterator[tuple[str, int, int]]:
        """The ranges of batches that the planned batch of a region reads: after one, up to another."""
        store = self._request.wanted.stores(self._root)
        checkpoint = self._checkpoint(reader)
        batch = last_planned(store, checkpoint)
        if batch <= last_commit(store, checkpoint):
            return
        before = (positions(store, checkpoint, batch - 1) if batch else None) or {}
        for stream, position in (positions(store, checkpoint, batch) or {}).items():
            upto, start = result_position(position), result_position(before.get(stream, ""))
            if upto is not None and upto.result in self._regions:
                yield upto.result, self._oldest(upto.result) if start is None else start.entry, upto.entry

    def _oldest(self, region: str) -> int:
        path, _, generation, _ = self._result(region)
        names = self._request.wanted.stores(path).list_after(f"entries/{region}/{generation}/")
        return min((int(one) for one in names if one.isdecimal()), default=0) - 1

    def _checkpoint(self, region: str) -> str:
        return checkpoint_folder(region, self._request.replaced.get(region, 0))

    def _places(self, region: str, batch: int) -> dict[str, ReaderPlace]:
        return {name: self._place(name, region, batch) for name, one in self._regions.items() if region in one.reads}

    def _place(self, reader: str, region: str, batch: int) -> ReaderPlace:
        store, checkpoint = self._request.wanted.stores(self._root), self._checkpoint(reader)
        committed, planned = last_commit(store, checkpoint), last_planned(store, checkpoint)
        if self._has_read(store, checkpoint, committed, region) >= batch:
            return ReaderPlace.BEYOND
        if self._is_running(reader):
            return ReaderPlace.MAY_READ
        is_planned = planned > committed and self._has_read(store, checkpoint, planned, region) >= batch
        if is_planned and self._regions[reader].may_have(self._request.wanted.stores, planned):
            return ReaderPlace.BEYOND
        return ReaderPlace.BEFORE

    def _has_read(self, store: PointerStore, checkpoint: str, batch: int, region: str) -> int:
        """The last batch of a result that a batch of a reader has read, -1 for none."""
        told = map(result_position, (positions(store, checkpoint, batch) or {}).values())
        return max((one.entry for one in told if one is not None and one.result == region), default=-1)
