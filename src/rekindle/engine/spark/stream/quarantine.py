"""Records that a region goes on without: how they are found, where they are kept, and how they are kept from its query.

- A record is kept, in `quarantine/REGION/BATCH-KEY.jsonl` of the stream, before its region goes on without it. The
  object is put if absent: whoever finds it again keeps it once. What counts is the journal.
- The query gets a condition in front of its stream. Its batch keeps its number and its offsets, so that every other
  record goes through exactly once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import msgspec
from msgspec.structs import replace as changed
from pyspark.sql import SparkSession

from rekindle.engine.adapter import StreamRequest
from rekindle.engine.spark.jvm import stream_calls
from rekindle.engine.spark.session import clone
from rekindle.engine.spark.stream.batch_replay import RecordedInput, leaves_of, recorded
from rekindle.engine.spark.stream.pinned_reader import PinnedReader
from rekindle.engine.spark.stream.poison_finder import Limited, PoisonFinder, PoisonFound
from rekindle.engine.spark.stream.record_conditions import both, is_none_of
from rekindle.engine.spark.stream.region_frames import RegionFrames, build
from rekindle.engine.spark.stream.source_begins import begun, is_since
from rekindle.errors import StoreFailed
from rekindle.pipeline.declared import Declared
from rekindle.publish.target import PointerStore, is_certainly_put
from rekindle.results.checkpoint_log import checkpoint_folder
from rekindle.streams.source_records import QuarantinedRecord, copies
from rekindle.streams.source_starts import SourcePosition
from rekindle.streams.stream_commands import FindPoison

QUARANTINE = "quarantine"
# One try is one Spark job, and is counted as such.
SEARCH_SETTINGS = {"spark.sql.adaptive.enabled": "false"}


def left_out(
    session: SparkSession,
    frames: RegionFrames,
    without: Sequence[QuarantinedRecord],
    positions: Sequence[SourcePosition],
) -> RegionFrames:
    """The frames of a region whose query does not get these records, nor what lies before its positions."""
    frames = begun(session, frames, positions)
    conditions = []
    for number, leaf in enumerate(leaves_of(frames.frame)):
        records = [one.record for one in without if one.record.is_of(number, leaf.named)]
        conditions.append(both(is_since(leaf, positions), is_none_of(leaf, records)))
    if not any(conditions):
        return frames
    made = stream_calls.filtered(session, frames.frame, conditions)
    return replace(frames, frames={**frames.frames, frames.sink.name: made})


def opened(
    spark: SparkSession, request: StreamRequest, sink: Declared, batch: int
) -> tuple[RegionFrames, tuple[RecordedInput, ...]]:
    """The frames of a region, in a session for tries, and what this batch reads. No Spark job is started."""
    store = request.wanted.stores(request.wanted.root)
    read = partial(PinnedReader(request.pins, store).read_for, sink.name, batch)
    frames = build(clone(spark, SEARCH_SETTINGS), request.wanted, sink, read)
    folder = checkpoint_folder(sink.name, request.replaced.get(sink.name, 0))
    positions = request.positions.get(sink.name, ())
    wanted = request.wanted
    return frames, recorded(wanted.stores, wanted.root, folder, leaves_of(frames.frame), batch, positions)


def searched(
    spark: SparkSession, request: StreamRequest, sink: Declared, command: FindPoison, limited: Limited
) -> PoisonFound:
    """The records of a batch that fail. They are kept if they are not more than allowed. Each job is `limited`."""
    frames, inputs = opened(spark, request, sink, command.batch)
    without = [one.record for one in command.without]
    finder = PoisonFinder(frames.frame, inputs, without, limited, command.cause)
    found = finder.find(command.most)
    found = replace(found, records=tuple(changed(one, batch=command.batch) for one in found.records))
    if copies(found.records) <= command.most:
        store = request.wanted.stores(request.wanted.root)
        for one, content in zip(found.records, found.contents, strict=True):
            _keep(store, command, one, content)
    return found


def _keep(store: PointerStore, command: FindPoison, one: QuarantinedRecord, content: str) -> None:
    told = {
        "region": command.region,
        "batch": command.batch,
        "coordinates": one.record,
        "error": one.cause.text,
        "at": one.cause.at,
        "record": content,
    }
    name = hashlib.sha256(repr(one.record.key).encode()).hexdigest()[:16]
    key = f"{QUARANTINE}/{command.region}/{command.batch}-{name}.jsonl"
    body = msgspec.json.encode(told) + b"\n"
    if not is_certainly_put(store, key, body):
        raise StoreFailed(f"{key} was not certainly put: {one.record} is not left out")
