"""The part of a stream that one shard reads, and what a region over a part cannot be.

- Files go by a hash of their names: Spark drops the others before it reads them. Partitions of topics go by their
  numbers, as they are when a query starts. A function with a parameter `shard` reads its part itself.
- State of one shard does not see the rows of the others, so a region of a shard keeps none. A stream that is not in
  shards would be read by each of them: that is refused, too.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import msgspec
from pyspark.sql import DataFrame, SparkSession

from rekindle.engine.spark.failures import first_line
from rekindle.engine.spark.jvm import stream_calls
from rekindle.engine.spark.stream.batch_replay import HIDDEN, KAFKA, StreamLeaf, leaves_of
from rekindle.errors import GraphRefused
from rekindle.pipeline.declared import Binding, Declared, Shard
from rekindle.remedies import StartRemedy
from rekindle.streams.source_starts import Offsets

EARLIEST = {"startingOffsets": "earliest"}
NO_STREAM = "leave out shards"
OWN_PART = "give the function a parameter `shard`, and read that part: it is rk.Shard(number, of)"


def shard_of(session: SparkSession, one: Declared, frame: DataFrame) -> DataFrame:
    """What a source gives to the regions of its shard; a frame of anything else is as it was."""
    shard = one.shard
    if shard is None or not one.shards:
        return frame
    if not frame.isStreaming:
        raise GraphRefused(f"{one.place}: {one.shard_of} has shards={shard.of}, and is no stream", NO_STREAM)
    if any(argument.binding is Binding.SHARD for argument in one.arguments):
        return frame
    leaves = leaves_of(frame)
    odd = [leaf.name for leaf in leaves if not leaf.is_files and leaf.name != KAFKA]
    if odd:
        raise GraphRefused(
            f"{one.place}: {one.shard_of} has shards={shard.of}, and nobody but its function knows the parts of "
            f"{odd[0]}",
            OWN_PART,
        )
    assigned = [_assigned(session, one, frame, number, leaf) for number, leaf in enumerate(leaves)]
    if any(assigned):
        frame = stream_calls.assigned(session, frame, assigned)
    conditions = [_is_of(shard) if leaf.is_files else "" for leaf in leaves]
    return stream_calls.filtered(session, frame, conditions) if any(conditions) else frame


def _is_of(shard: Shard) -> str:
    return f"pmod(hash({HIDDEN}.file_name), {shard.of}) = {shard.number}"


def _assigned(session: SparkSession, one: Declared, frame: DataFrame, number: int, leaf: StreamLeaf) -> str:
    """The partitions of its topics, as Spark's option `assign` has them; empty for files."""
    if leaf.is_files:
        return ""
    shard = one.shard
    assert shard is not None, "only copies are asked"
    folder = Path(tempfile.mkdtemp(prefix="rekindle-shards-"))
    try:
        told = stream_calls.start_offsets(session, frame, number, EARLIEST, folder.as_uri())
    except Exception as error:
        raise GraphRefused(
            f"{one.place}: {leaf.stream} does not say which partitions it has: {first_line(error)}",
            StartRemedy(to="try again when it answers"),
        ) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    offsets = msgspec.json.decode(told, type=Offsets)
    count = sum(map(len, offsets.values()))
    numbered = [(topic, int(partition)) for topic, its in sorted(offsets.items()) for partition in sorted(its, key=int)]
    mine: dict[str, list[int]] = {}
    for topic, partition in numbered:
        if partition % shard.of == shard.number:
            mine.setdefault(topic, []).append(partition)
    if not mine:
        raise GraphRefused(
            f"{one.place}: {one.shard_of} has shards={shard.of}, and its topics have {count} partitions: shard "
            f"{shard.number} would read none",
            "say fewer shards, or add partitions to the topic",
        )
    return msgspec.json.encode(mine).decode()
