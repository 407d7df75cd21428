"""The records of a batch that make its region fail, found by trying parts of the batch.

- A try is the region's plan over some of the recorded rows, into nowhere. Which rows come next is decided by
  `streams/poison_search`.
- Records of Kafka and rows of Parquet have numbers. Of other files the file is found first, then the record by a hash
  of its content; rows that are equal fail alike, and are named together. So are batches of results that are in memory
  or in a topic. A record of a result is named by its batch and content, however it was found.
- If every record of a batch fails, it is the code that is wrong: none is named, so that nobody leaves them all out.
- What is no failure of the data (an executor lost, a job cancelled) ends the search, and so does a failure that is not
  the one of the batch: a try may compute what the query leaves out. Nothing is named by either.
- A record that failed alone is tried alone once more: what comes and goes names nothing.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from urllib.parse import unquote

import msgspec
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from rekindle.engine.spark.failures import cause_of, text_of
from rekindle.engine.spark.stream.batch_replay import (
    FILE,
    RecordedInput,
    TopicRange,
    batch_of_file,
    replayed,
    result_of,
    rows_of,
    source_rows,
)
from rekindle.engine.spark.stream.record_conditions import ROW, both, content, digest, is_none_of, is_record, text
from rekindle.model.failures import Cause, FailureKind
from rekindle.streams.poison_search import PoisonSearch, RecordRange, UnitRange, unit_ranges
from rekindle.streams.source_records import QuarantinedRecord, SourceRecord, copies

ALONE = "no record fails alone: what fails depends on several rows, is computed above state, or comes and goes"


# Of a file whose records have no numbers, so many are looked at: the driver sorts them.
ROWS_MAX = 250_000

# Around each Spark job.
Limited = Callable[[], contextlib.AbstractContextManager[None]]


class SearchEnded(Exception):
    """A record cannot be named, and why."""


@dataclass(frozen=True, slots=True)
class BatchUnit:
    """A file, a partition of a topic, or a batch of a result in a batch, with its number of records; one whose records
    have no numbers counts as one. `place` is the file as Spark tells it in rows."""

    source: int
    given: RecordedInput
    size: int
    place: str = ""

    @property
    def told(self) -> str:
        """It, where its records have no numbers."""
        if self.given.batches is not None:
            return f"batch {self.given.batches[1]} of the result of {result_of(self.given.leaf).region}"
        return self.given.files[0]


@dataclass(frozen=True, slots=True)
class PoisonFound:
    """The records that fail, each with its content as JSON; or `why` none is named. `jobs` is how many Spark jobs that
    took, `tried` how many of them until the first one was named."""

    records: tuple[QuarantinedRecord, ...] = ()
    contents: tuple[str, ...] = ()
    why: str = ""
    jobs: int = 0
    tried: int = 0


class PoisonFinder:
    """The search in one batch of one region. `without` are the records that the region goes on without already,
    `expected` is how the batch failed, None if any failure counts."""

    def __init__(
        self,
        frame: DataFrame,
        inputs: Sequence[RecordedInput],
        without: Sequence[SourceRecord] = (),
        limited: Limited = contextlib.nullcontext,
        expected: Cause | None = None,
    ) -> None:
        self._session, self._frame, self._inputs = frame.sparkSession, frame, inputs
        self._without, self._limited, self._expected = list(without), limited, expected
        self._jobs = 0
        self._rows: dict[int, int] = {}
        self._cause = Cause(FailureKind.POISON)

    def find(self, most: int) -> PoisonFound:
        """Up to `most` records, and one more where there are more."""
        found: list[QuarantinedRecord] = []
        contents: list[str] = []
        tried = 0
        try:
            units = list(self._units())
            while True:
                record = self._named(units)
                tried = tried or self._jobs
                found.append(QuarantinedRecord(record, self._cause))
                contents.append(self._content(record))
                self._without.append(record)
                if copies(tuple(found)) > most or not self._fails(self._inputs):
                    break
            if 1 < sum(self._rows.get(one, unit.size) for one, unit in enumerate(units)) <= copies(tuple(found)):
                raise SearchEnded(f"every record of the batch fails: {self._cause.text}")
        except SearchEnded as ended:
            return PoisonFound(why=str(ended), jobs=self._jobs, tried=tried)
        return PoisonFound(tuple(found), tuple(contents), "", self._jobs, tried)

    def _units(self) -> Iterator[BatchUnit]:
        """All that the batch reads, in one order."""
        for source, given in enumerate(self._inputs):
            leaf = given.leaf
            if given.batches is not None:
                after, last = given.batches
                for batch in range(after, last):
                    yield BatchUnit(source, RecordedInput(leaf, batches=(batch, batch + 1)), 1)
            elif leaf.has_row_numbers and given.files:
                counted = self._looked(source_rows(self._session, given).groupBy(F.expr(FILE).alias("f")).count())
                paths = {_plain(one): one for one in given.files}
                for place, size in counted:
                    file = paths[_plain(unquote(place))]
                    yield BatchUnit(source, RecordedInput(leaf, files=(file,)), size, place)
            for one in () if leaf.has_row_numbers else given.files:
                yield BatchUnit(source, RecordedInput(leaf, files=(one,)), 1)
            for part in given.ranges:
                yield BatchUnit(source, RecordedInput(leaf, ranges=(part,)), part.high - part.low)

    def _named(self, units: Sequence[BatchUnit]) -> SourceRecord:
        sizes = [one.size for one in units]
        search = PoisonSearch(0, sum(sizes))
        while (asked := search.asked) is not None:
            search = search.answered(self._tried(units, list(unit_ranges(sizes, asked))))
        if search.named is None:
            raise SearchEnded(ALONE)
        (at,) = unit_ranges(sizes, RecordRange(search.named, search.named + 1))
        unit = units[at.unit]
        if (unit.given.ranges or unit.place) and not self._tried(units, [at]):
            raise SearchEnded(ALONE)
        if unit.given.ranges:
            (part,) = unit.given.ranges
            return SourceRecord(
                source=unit.source,
                stream=unit.given.leaf.named,
                place=part.topic,
                partition=part.partition,
                number=part.low + at.low,
            )
        if unit.place and unit.given.leaf.is_result:
            return self._of_result(unit, at.low)
        if unit.place:
            return SourceRecord(source=unit.source, stream=unit.given.leaf.named, place=unit.place, number=at.low)
        return self._by_content(at.unit, unit)

    def _of_result(self, unit: BatchUnit, row: int) -> SourceRecord:
        """A row of a file of a result, and those of its batch that are equal to it."""
        leaf, (file,) = unit.given.leaf, unit.given.files
        read = source_rows(self._session, unit.given, f"{ROW} = {row}")
        (found,) = self._looked(read.select(F.expr(digest(leaf)).alias("d")), file)
        record = _record_of_result(unit, batch_of_file(file), found.d)
        equal = source_rows(self._session, self._inputs[unit.source], is_record(leaf, record))
        return msgspec.structs.replace(record, copies=len(self._looked(equal.select(F.lit(1)), file)))

    def _by_content(self, number: int, unit: BatchUnit) -> SourceRecord:
        leaf, told = unit.given.leaf, unit.told
        read = source_rows(self._session, unit.given, self._rest(unit.source))
        seen = F.expr(digest(leaf)).alias("d"), F.expr("NULL" if unit.given.batches else FILE).alias("f")
        rows = self._looked(read.select(*seen).limit(ROWS_MAX + 1), told)
        if len(rows) > ROWS_MAX:
            raise SearchEnded(f"{told} has more than {ROWS_MAX:,} records, which have no numbers")
        self._rows.setdefault(number, len(rows))
        counts = Counter(row.d for row in rows)
        order = sorted(counts)
        search = PoisonSearch(0, len(order))
        while (asked := search.asked) is not None:
            condition = f"{digest(leaf)} BETWEEN '{order[asked.low]}' AND '{order[asked.high - 1]}'"
            search = search.answered(self._fails(self._only(unit), {unit.source: condition}))
        if search.named is None:
            raise SearchEnded(f"{told} fails, and {ALONE}")
        named = order[search.named]
        if not self._fails(self._only(unit), {unit.source: f"{digest(leaf)} = '{named}'"}):
            raise SearchEnded(f"{told} fails, and {ALONE}")
        if unit.given.batches is not None:
            return _record_of_result(unit, unit.given.batches[1], named, counts[named])
        return SourceRecord(source=unit.source, stream=leaf.named, place=rows[0].f, digest=named, copies=counts[named])

    def _tried(self, units: Sequence[BatchUnit], ranges: Sequence[UnitRange]) -> bool:
        """Whether these ranges fail."""
        files: dict[int, list[str]] = {}
        topics: dict[int, list[TopicRange]] = {}
        batches: dict[int, tuple[int, int]] = {}
        within: dict[int, str] = {}
        for one in ranges:
            unit = units[one.unit]
            if unit.given.batches is not None:
                first = batches.get(unit.source, unit.given.batches)[0]
                batches[unit.source] = first, unit.given.batches[1]
            files.setdefault(unit.source, []).extend(unit.given.files)
            for part in unit.given.ranges:
                narrow = replace(part, low=part.low + one.low, high=part.low + one.high)
                topics.setdefault(unit.source, []).append(narrow)
            if unit.place and (one.low, one.high) != (0, unit.size):
                outside = f"{FILE} = {text(unit.place)} AND ({ROW} < {one.low} OR {ROW} >= {one.high})"
                within[unit.source] = both(within.get(unit.source, ""), f"NOT ({outside})")
        given = [
            RecordedInput(one.leaf, tuple(files.get(source, ())), tuple(topics.get(source, ())), batches.get(source))
            for source, one in enumerate(self._inputs)
        ]
        return self._fails(given, within)

    def _fails(self, given: Sequence[RecordedInput], within: dict[int, str] | None = None) -> bool:
        """Whether the region fails over these rows. The cause is kept."""
        narrowed = within or {}
        rows = [
            rows_of(self._session, one, both(self._rest(source), narrowed.get(source, "")))
            for source, one in enumerate(given)
        ]
        for part in replayed(self._session, self._frame, rows):
            self._jobs += 1
            try:
                with self._limited():
                    part.write.format("noop").mode("overwrite").save()
            except Exception as error:
                self._cause = cause_of(text_of(error))
                if not self._cause.kind.blames_partition:
                    raise SearchEnded(f"a try ended by something else: {self._cause.text}") from error
                if self._expected is not None and not is_alike(self._expected, self._cause):
                    raise SearchEnded(f"a part of the batch fails in another way: {self._cause.text}") from error
                return True
        return False

    def _content(self, record: SourceRecord) -> str:
        given = self._inputs[record.source]
        rows = source_rows(self._session, given, is_record(given.leaf, record))
        found = self._looked(rows.select(F.expr(content(given.leaf)).alias("c")))
        return str(found[0].c)

    def _looked(self, rows: DataFrame, file: str = "") -> list[Row]:
        """Rows of the source, without code of the user's."""
        self._jobs += 1
        try:
            with self._limited():
                found: list[Row] = rows.collect()
        except Exception as error:
            cause = cause_of(text_of(error))
            raise SearchEnded(f"its input {file or 'files'} cannot be read: {cause.text}") from error
        return found

    def _only(self, unit: BatchUnit) -> list[RecordedInput]:
        """This file, and nothing of the other streams."""
        return [
            unit.given if source == unit.source else RecordedInput(one.leaf) for source, one in enumerate(self._inputs)
        ]

    def _rest(self, source: int) -> str:
        leaf = self._inputs[source].leaf
        return is_none_of(leaf, [one for one in self._without if one.is_of(source, leaf.named)])


def _record_of_result(unit: BatchUnit, batch: int, named: str, equal: int = 1) -> SourceRecord:
    leaf = unit.given.leaf
    place = result_of(leaf).region
    return SourceRecord(source=unit.source, stream=leaf.named, place=place, number=batch, digest=named, copies=equal)


def is_alike(expected: Cause, found: Cause) -> bool:
    """Whether a failure of a part may be that of the whole: the same exception at the same line of the user's code.
    What has no such line is told by Spark in other words where it is no stream."""
    one, other = expected.root, found.root
    if one.kind is not other.kind or one.at != other.at:
        return False
    return not one.at or one.text.partition(":")[0] == other.text.partition(":")[0]


def _plain(path: str) -> str:
    return re.sub(r"^file:/+", "file:/", path)
