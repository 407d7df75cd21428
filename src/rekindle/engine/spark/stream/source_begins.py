"""Where the streams of a region begin to read: as the user says with a new checkpoint, or by their own options.

- Nothing is read from another place than was said. A kind of source that cannot begin there is refused.
- Kafka begins at offsets, which are asked of the topic and then stand in the plan in place of the reader's own options.
- Files begin by the time at which they were modified: a condition in front of the stream, in each query of that
  checkpoint. Spark prunes the others and does not open them. There is no `latest`: a file that is moved into the folder
  tomorrow may have been written yesterday.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
from pyspark.sql import SparkSession

from rekindle.engine.spark.failures import first_line
from rekindle.engine.spark.jvm import stream_calls
from rekindle.engine.spark.stream.batch_replay import HIDDEN, KAFKA, StreamLeaf, leaves_of
from rekindle.engine.spark.stream.region_frames import RegionFrames
from rekindle.errors import Refused
from rekindle.remedies import Remedy, StartRemedy, TextRemedy, new_run
from rekindle.streams.source_starts import (
    Offsets,
    SourcePosition,
    StartRequest,
    distance,
    instant_text,
    offsets_lacking,
)
from rekindle.streams.stream_spec import SourceStart

MODIFIED = f"unix_millis({HIDDEN}.file_modification_time)"
EARLIEST, LATEST = ({"startingOffsets": one.value} for one in (SourceStart.EARLIEST, SourceStart.LATEST))
# What Kafka's own options say, in the order in which Spark looks at them.
TIMESTAMP, TIMESTAMPS, OFFSETS = "startingtimestamp", "startingoffsetsbytimestamp", "startingoffsets"
TOLD_MAX = 4


def positions_of(spark: SparkSession, frames: RegionFrames, start: StartRequest) -> tuple[SourcePosition, ...]:
    """Where each stream of a region begins. Raises `Refused` if one of them cannot begin where the user says."""
    made = {}
    for number, leaf in enumerate(leaves_of(frames.frame)):
        if leaf.is_files:
            made[leaf.stream] = _files(frames.sink.name, leaf, start)
        elif leaf.name == KAFKA:
            made[leaf.stream] = _topics(spark, frames, number, leaf, start)
        elif leaf.is_result and start.start is SourceStart.EARLIEST:
            made[leaf.stream] = SourcePosition(stream=leaf.stream)
        else:
            raise Refused(
                f"a new checkpoint of {frames.sink.name} reads the stream {leaf.stream} from where its own options "
                f"say, which may not be {start}",
                new_run("start a new stream, with the options that you mean"),
            )
    return tuple(made.values())


def _files(region: str, leaf: StreamLeaf, start: StartRequest) -> SourcePosition:
    if start.start is SourceStart.EARLIEST:
        return SourcePosition(stream=leaf.stream)
    if start.start is SourceStart.TIMESTAMP and not _has_column(leaf, HIDDEN):
        return SourcePosition(stream=leaf.stream, since_ms=start.at_ms)
    here = f"a new checkpoint of {region} cannot begin at"
    match start.start:
        case SourceStart.LATEST:
            told = f"{here} the latest file of {leaf.stream}: Spark reads all files that lie there"
        case SourceStart.OFFSETS:
            told = f"{here} offsets of {leaf.stream}: files have none"
        case _:
            told = f"{here} a time in {leaf.stream}: it has a column {HIDDEN}, by which Spark tells files"
    raise Refused(told, (*_anew(region, is_timed=start.start is not SourceStart.TIMESTAMP),))


def _anew(region: str, *, is_timed: bool) -> Iterator[Remedy]:
    if is_timed:
        yield StartRemedy(
            to="read only files that are modified from now on, not such as are moved in later with an older time",
            new_checkpoint=(region,),
            start_from=instant_text(round(time.time() * 1000)),
            leaves=("from_",),
        )
    yield StartRemedy(
        to="or read all files again, and add their rows to the target",
        new_checkpoint=(region,),
        start_from=SourceStart.EARLIEST.value,
        leaves=("from_",),
    )


def _topics(
    spark: SparkSession, frames: RegionFrames, number: int, leaf: StreamLeaf, start: StartRequest
) -> SourcePosition:
    def asked(starting: Mapping[str, str]) -> Offsets:
        return _asked(spark, frames, number, leaf, starting)

    first = asked(EARLIEST)
    match start.start:
        case SourceStart.EARLIEST:
            offsets = first
        case SourceStart.LATEST:
            offsets = asked(LATEST)
        case SourceStart.TIMESTAMP:
            since = {"startingTimestamp": str(start.at_ms), "startingOffsetsByTimestampStrategy": "latest"}
            offsets = asked(since)
        case SourceStart.OFFSETS:
            offsets = {topic: start.offsets.get(topic, {}) for topic in first}
            if lacking := offsets_lacking(offsets, first, asked(LATEST)):
                raise Refused(
                    f"a new checkpoint of {frames.sink.name} cannot begin there: {lacking}",
                    (TextRemedy("correct the offsets"), *_anew(frames.sink.name, is_timed=False)),
                )
    return SourcePosition(stream=leaf.stream, offsets=offsets, skipped=max(0, distance(first, offsets)))


def _asked(
    spark: SparkSession, frames: RegionFrames, number: int, leaf: StreamLeaf, starting: Mapping[str, str]
) -> Offsets:
    folder = Path(tempfile.mkdtemp(prefix="rekindle-starts-"))
    try:
        told = stream_calls.start_offsets(spark, frames.frame, number, starting, folder.as_uri())
    except Exception as error:
        raise Refused(
            f"{leaf.stream} does not say where it begins: {first_line(error)}",
            StartRemedy(to="try again when it answers"),
        ) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return msgspec.json.decode(told, type=Offsets)


def begun(session: SparkSession, frames: RegionFrames, positions: Sequence[SourcePosition]) -> RegionFrames:
    """The frames of a region whose topics begin at these positions."""
    placed = {one.stream: one for one in positions if one.offsets}
    if not placed:
        return frames
    offsets = [_offsets(placed.get(leaf.stream)) for leaf in leaves_of(frames.frame)]
    made = stream_calls.begun(session, frames.frame, offsets)
    return replace(frames, frames={**frames.frames, frames.sink.name: made})


def _offsets(position: SourcePosition | None) -> str:
    return "" if position is None else json.dumps(position.offsets)


def is_since(leaf: StreamLeaf, positions: Sequence[SourcePosition]) -> str:
    """The condition that holds for files which the user wants; empty where all are wanted."""
    found = next((one.since_ms for one in positions if one.stream == leaf.stream), -1)
    return f"{MODIFIED} >= {found}" if found >= 0 else ""


def begins_told(
    leaves: Sequence[StreamLeaf], positions: Sequence[SourcePosition], has_noted: Callable[[str], bool]
) -> tuple[str, ...]:
    """A sentence for each stream of a region that has no batch yet. What a topic noted in the checkpoint at an
    earlier start counts, whatever its options say now."""
    found = []
    for number, leaf in enumerate(leaves):
        is_noted = leaf.name == KAFKA and has_noted(leaf.named or str(number))
        again = f"{leaf.stream}: from where it began at an earlier start, which read no batch"
        found.append(again if is_noted else _begins(leaf, positions))
    return tuple(found)


def _begins(leaf: StreamLeaf, positions: Sequence[SourcePosition]) -> str:
    found = next((one for one in positions if one.stream == leaf.stream), None)
    if found is not None and found.offsets:
        places = [f"{at} of {topic}-{part}" for topic, parts in found.offsets.items() for part, at in parts.items()]
        more = f" and {len(places) - TOLD_MAX} more" if len(places) > TOLD_MAX else ""
        skipped = f"{found.skipped:,} records before are skipped" if found.skipped else "no record is skipped"
        return f"{leaf.stream}: from offset {', '.join(places[:TOLD_MAX])}{more}; {skipped}"
    if found is not None and found.since_ms >= 0:
        since = instant_text(found.since_ms)
        return f"{leaf.stream}: files modified at {since} or later; older ones are skipped, whenever they come"
    if leaf.is_files:
        return f"{leaf.stream}: all files"
    if leaf.is_result:
        return f"the result of {leaf.options['region']}: all batches that it has"
    if leaf.name == KAFKA:
        return f"{leaf.stream}: {_own_words(leaf)}"
    return f"{leaf.stream}: from where its own options say"


def _own_words(leaf: StreamLeaf) -> str:
    options = {name.lower(): value for name, value in leaf.options.items()}
    if TIMESTAMP in options and options[TIMESTAMP].isdecimal():
        return f"records since {instant_text(int(options[TIMESTAMP]))} (startingTimestamp)"
    if TIMESTAMPS in options:
        return "records since the times that startingOffsetsByTimestamp says"
    given = options.get(OFFSETS, "").lower()
    if given == SourceStart.EARLIEST.value:
        return "all records that it has (startingOffsets)"
    if given in ("", SourceStart.LATEST.value):
        why = "startingOffsets" if given else "Spark's default for startingOffsets"
        return f"only records that come after it starts; those that it has are skipped ({why} is latest)"
    return f"from the offsets that startingOffsets says: {options[OFFSETS]}"


def _has_column(leaf: StreamLeaf, name: str) -> bool:
    return any(field["name"] == name for field in json.loads(leaf.schema)["fields"])
