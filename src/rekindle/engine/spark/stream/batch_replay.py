"""One batch of a region again, as a batch: the region's own plan over what its checkpoint recorded for that batch.

- Spark writes what a batch reads before it runs it: `offsets/K` has a position for each stream, and of files
  `sources/N` says which ones lie between two positions. The oldest entries go after a while; then it is refused. Of the
  result of another region, the entries between two positions say which files they are.
- The streams of the plan are replaced by these rows, with the same column ids (java/StreamReplay). Where the region
  keeps state, the plan is replayed up to the lowest operators that do: that is where code sees single records.
- Nothing is written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from rekindle.engine.adapter import Stores
from rekindle.engine.spark.jvm import stream_calls
from rekindle.engine.spark.jvm.plan_calls import quoted
from rekindle.engine.spark.jvm.stream_calls import ResultPlace
from rekindle.errors import Refused
from rekindle.publish.stream_entries import batches_after, counted_entry
from rekindle.publish.target import PointerStore
from rekindle.results.checkpoint_log import OFFSETS, SOURCES, listed_files
from rekindle.results.checkpoint_log import positions as positions_in
from rekindle.streams.source_starts import SourcePosition

FILES, KAFKA, PARQUET = "FileSource", "kafka", "parquet"
# The result of another region (java/StreamSegments).
SEGMENTS = "StreamSegments"
NOTHING = "-"
HIDDEN = "_metadata"
FILE = f"{HIDDEN}.file_path"
# In a condition: the batch of a row of a result, as text; and what that is for a row of a file (java/ResultLog).
BATCH = "{{batch}}"
BATCH_OF_FILE = f"substring_index(substring_index(substring_index({FILE}, '/', -2), '/', 1), '-', 1)"
READ_ONCE = {"__globPaths__": "false"}


class StreamLeaf(msgspec.Struct, frozen=True, kw_only=True):
    """A stream as the plan of a query reads it. `stream` tells its place, `named` is the name that the user gave it, if
    any. `schema` is Spark's, as JSON, of all columns but the hidden one that has facts about files; `whole` has that
    one too, where the plan reads it."""

    name: str
    stream: str
    format: str
    options: dict[str, str]
    columns: tuple[str, ...]
    schema: str
    whole: str
    named: str = ""

    @property
    def is_files(self) -> bool:
        return self.name.startswith(FILES)

    @property
    def is_result(self) -> bool:
        return self.name.startswith(SEGMENTS)

    @property
    def is_recorded(self) -> bool:
        """Whether the rows of one of its batches can be read again."""
        return self.is_files or self.is_result or self.name == KAFKA

    @property
    def has_row_numbers(self) -> bool:
        return self.is_result or (self.is_files and PARQUET in self.format.lower())


@dataclass(frozen=True, slots=True)
class TopicRange:
    """The records of one partition of a topic in a batch: offsets from `low` up to `high`, without it."""

    topic: str
    partition: int
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class RecordedInput:
    """What one batch reads of one stream: files, ranges of offsets, or the batches of a result after one up to another
    where not all of them are files."""

    leaf: StreamLeaf
    files: tuple[str, ...] = ()
    ranges: tuple[TopicRange, ...] = ()
    batches: tuple[int, int] | None = None


def leaves_of(frame: DataFrame) -> tuple[StreamLeaf, ...]:
    """The streams of a region, in the order in which its checkpoint has them."""
    return tuple(msgspec.json.decode(stream_calls.leaves(frame), type=list[StreamLeaf]))


def recorded(
    stores: Stores,
    root: str,
    checkpoint: str,
    leaves: Sequence[StreamLeaf],
    batch: int,
    positions: Sequence[SourcePosition] = (),
) -> tuple[RecordedInput, ...]:
    """What a batch reads, by a checkpoint of the stream at `root` that begins at these positions. Raises `Refused` if
    that is no longer known."""
    store = stores(root)
    since = {one.stream: one.since_ms for one in positions}
    keys = [leaf.named or str(number) for number, leaf in enumerate(leaves)]
    ends = _offsets(store, checkpoint, batch)
    others = set(ends) - set(keys) if all(leaf.named for leaf in leaves) else set(ends) ^ set(keys)
    if others:
        raise Refused(
            f"batch {batch} reads the streams {', '.join(ends)}, and the code reads {', '.join(keys)}",
            "restore the code that it ran with",
        )
    starts = _offsets(store, checkpoint, batch - 1) if batch > 0 else {}
    found = []
    for key, leaf in zip(keys, leaves, strict=True):
        between = starts.get(key, NOTHING), ends.get(key, NOTHING)
        if leaf.is_result:
            found.append(_result_batches(stores, leaf, *between))
        else:
            found.append(_input(store, f"{checkpoint}/{SOURCES}{key}", leaf, between, since.get(leaf.stream, -1)))
    return tuple(found)


def _offsets(store: PointerStore, checkpoint: str, batch: int) -> dict[str, str]:
    found = positions_in(store, checkpoint, batch)
    if found is None:
        held = sorted(int(name) for name in store.list_after(f"{checkpoint}/{OFFSETS}") if name.isdecimal())
        has = f"it has batches {held[0]} to {held[-1]}" if held else "it has none"
        raise Refused(f"the checkpoint does not say what batch {batch} reads: {has}", "name a later batch: --batch")
    return found


def _input(store: PointerStore, log: str, leaf: StreamLeaf, between: tuple[str, str], since_ms: int) -> RecordedInput:
    start, end = between
    if leaf.is_files:
        listed = listed_files(store, log, *map(_log_offset, between))
        files = dict.fromkeys(unquote(one.path) for one in listed if one.modified_ms >= since_ms)
        return RecordedInput(leaf, files=tuple(files))
    if leaf.name == KAFKA:
        if start == NOTHING and end != NOTHING:
            body = (store.get(f"{log}/0") or b"").decode()
            start = body[body.index("{") :] if "{" in body else start
        return RecordedInput(leaf, ranges=tuple(_ranges(start, end)))
    raise Refused(
        f"a batch of the stream {leaf.name} cannot be read again: Spark recorded a position, and no rows",
        "correct the code by what the failure says",
    )


def result_of(leaf: StreamLeaf) -> ResultPlace:
    client = {name: value for name, value in leaf.options.items() if name.startswith(f"{KAFKA}.")}
    return ResultPlace(leaf.options["path"], leaf.options["region"], leaf.options["generation"], client)


def result_range(stores: Stores, leaf: StreamLeaf, start: str, end: str) -> tuple[int, int]:
    """The batches of a result after one position, up to another, as two numbers. The first position of all is not
    recorded: its reader began with the oldest batch that was there."""
    path, region, generation, _ = result_of(leaf)
    first, last = _entry_number(start), _entry_number(end)
    if start == NOTHING:
        first = min(batches_after(stores(path), region, generation, first), default=last + 1) - 1
    return first, last


def _result_batches(stores: Stores, leaf: StreamLeaf, start: str, end: str) -> RecordedInput:
    path, region, generation, _ = result_of(leaf)
    first, last = result_range(stores, leaf, start, end)
    store, files, are_files = stores(path), [], True
    for number in range(first + 1, last + 1):
        counted = counted_entry(store, region, generation, number)
        if counted is None:
            raise Refused(f"batch {number} of the result of {region} is gone", "name a later batch: --batch")
        are_files = are_files and not counted.entry.elsewhere
        files += [f"{path}/{counted.entry.directory}/{name}" for name in counted.entry.files]
    return RecordedInput(leaf, files=tuple(files)) if are_files else RecordedInput(leaf, batches=(first, last))


def batch_of_file(file: str) -> int:
    """The batch of a file of a result: its directory is `BATCH-EPOCH-UUID`."""
    return int(file.rsplit("/", 2)[1].partition("-")[0])


def _entry_number(text: str) -> int:
    return -1 if text == NOTHING else int(json.loads(text)["entry"])


def _log_offset(text: str) -> int:
    return -1 if text == NOTHING else int(json.loads(text)["logOffset"])


def _ranges(start: str, end: str) -> Iterator[TopicRange]:
    lows = {} if start == NOTHING else json.loads(start)
    for topic, ends in ({} if end == NOTHING else json.loads(end)).items():
        for partition, high in ends.items():
            low = lows.get(topic, {}).get(partition, 0)
            if low < high:
                yield TopicRange(topic, int(partition), int(low), int(high))


def source_rows(session: SparkSession, given: RecordedInput, condition: str = "") -> DataFrame:
    """The recorded rows of one stream for which a condition holds, as its reader gives them. Nothing is read yet."""
    if given.batches is not None:
        return stream_calls.result_rows(session, result_of(given.leaf), given.leaf.schema, *given.batches, condition)
    rows = _topic_rows(session, given) if given.leaf.name == KAFKA else _file_rows(session, given)
    return rows.where(condition.replace(BATCH, BATCH_OF_FILE)) if condition else rows


def rows_of(session: SparkSession, given: RecordedInput, condition: str = "") -> DataFrame:
    """The same with the columns of the stream in their order, also where the batch reads nothing of it."""
    if not given.files and not given.ranges and given.batches is None:
        return session.createDataFrame([], StructType.fromJson(json.loads(given.leaf.whole)))
    return source_rows(session, given, condition).select(*map(quoted, given.leaf.columns))


def _file_rows(session: SparkSession, given: RecordedInput) -> DataFrame:
    if given.leaf.is_result:
        schema = StructType.fromJson(json.loads(given.leaf.schema))
        return session.read.schema(schema).options(**READ_ONCE).parquet(*given.files)
    options = {name: value for name, value in given.leaf.options.items() if name.lower() != "path"}
    path = next((value for name, value in given.leaf.options.items() if name.lower() == "path"), "")
    base = {} if not path or any(one in path for one in "*?[{") else {"basePath": path}
    schema = StructType.fromJson(json.loads(given.leaf.schema))
    reader = session.read.format(given.leaf.format).schema(schema).options(**options, **base, **READ_ONCE)
    return reader.load(list(given.files))


def _topic_rows(session: SparkSession, given: RecordedInput) -> DataFrame:
    return session.read.format(KAFKA).options(**_kafka_options(given.leaf, given.ranges)).load()


def _kafka_options(leaf: StreamLeaf, ranges: Sequence[TopicRange]) -> dict[str, str]:
    """The reader of just these offsets: partitions are named, so that no other one is read."""
    chosen = ("subscribe", "assign", "starting", "ending")
    options = {name: value for name, value in leaf.options.items() if not name.lower().startswith(chosen)}
    assigned: dict[str, list[int]] = {}
    starts: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    for one in ranges:
        assigned.setdefault(one.topic, []).append(one.partition)
        starts.setdefault(one.topic, {})[str(one.partition)] = one.low
        ends.setdefault(one.topic, {})[str(one.partition)] = one.high
    told = {"assign": assigned, "startingOffsets": starts, "endingOffsets": ends}
    return {**options, **{name: json.dumps(value) for name, value in told.items()}}


def replayed(session: SparkSession, frame: DataFrame, rows: Sequence[DataFrame]) -> list[DataFrame]:
    """The frame of a region over these rows in place of its streams; several where it keeps state."""
    return stream_calls.over(session, frame, rows)
