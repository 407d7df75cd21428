"""The rows of a result given to a function of the user's, partition by partition.

Rules
- A chain of pointers decides before the first row: a later run of the same parameters is never written over by an
  earlier one, and runs of other parameters are not in each other's way. An earlier master of the same run finds a later
  fence in the chain, and calls nothing.
- A call is for one committed file, and so is its key, and the note of its end: a partition that was made again is
  called again, and no other one is.
- One Spark job calls the function for the partitions whose end is not noted. Which ended is noted by time and at the
  end, not one by one: whoever dies in between calls the function again for the last few, with the same key.
- Which partitions may be called is noted before the first call, when `before` returned: from then on `before` is not
  called any more, because it could delete what was written. A partition that may have been called, and has no file any
  more, is called without rows.
- When the last function returned that is noted too, and a later master of the run calls none of them.
- A function never takes a part of its rows for all of them. Where Spark cannot read on, its Python worker sees the end
  of the partition, as if there were no more rows: so they are counted first, and a call ends with an error if some are
  missing.
- What runs on executors must not need Rekindle there: it is a closure over plain values.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from msgspec import structs
from pyspark import cloudpickle
from pyspark.accumulators import AccumulatorParam
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rekindle.engine.adapter import Stores
from rekindle.engine.spark.failures import first_line
from rekindle.engine.spark.publish import rewriting, versions
from rekindle.engine.spark.publish.publication import Publication
from rekindle.engine.spark.publish.publisher import PublicationRequest, TargetState
from rekindle.errors import Refused, StoreFailed
from rekindle.master.facts.events import Fence
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.pipeline.signature import line_of, place_of
from rekindle.publish.each_partition import NOTED, EachPartition, Writer, asked_of_partition, given_to, name_of
from rekindle.publish.pointers import (
    VERSION,
    NewestPointer,
    Part,
    Pointer,
    advance,
    compose,
    fence_in,
    newest,
    put_certainly,
    top_of,
    version_of,
)
from rekindle.publish.target import PointerStore, url
from rekindle.results import manifest
from rekindle.results.result_paths import RESULTS

NOTED_EVERY_SECONDS = 15.0
# Of a partition that had rows in an earlier publication of the run, and has none now.
NO_FILE = "empty"


@dataclass(frozen=True, slots=True)
class EachPartitionPublisher:
    """Publishes into `rk.each_partition`."""

    target: EachPartition

    def base(self, spark: SparkSession) -> str:
        return url(self.target.path)

    def check(self, spark: SparkSession, request: PublicationRequest, base: str, stores: Stores) -> None:
        versions.check_versions(request, self.target, base, stores, adds=True)
        _check_can_be_sent(self.target.write, request.by.sink)

    def place(self, spark: SparkSession, base: str, stores: Stores) -> str | None:
        return versions.last_place(base, stores)

    def publish(self, spark: SparkSession, what: Publication, stores: Stores) -> Fence | None:
        base, part = self.base(spark), _part(what)
        store = stores(base)

        def prepare(top: NewestPointer) -> Pointer:
            what.claimant.check(base, top.pointer)
            return compose(top, part, what.owner, what.schema, adds=True, at=time.time())

        top = advance(store, part, prepare, adds=True)
        what.claimant.check(base, top)
        return _later(top, part) or self._call_all(spark, what, part, store)

    def _call_all(self, spark: SparkSession, what: Publication, part: Part, store: PointerStore) -> Fence | None:
        """The answer is the later fence because of which not all were called; None if all were."""
        notes, files = _Notes(store, part), _identities(what)
        everything = _hash(f"{partition} {identity}" for partition, identity in sorted(files.items()))
        if everything == notes.done:
            return None
        values = {"batch": batch_of(what), "run": what.fence.order}
        if not notes.has_begun:
            _call_once("before", self.target.before, what.sink, values)
            if (later := _later(top_of(store), part)) is not None:
                return later
        known = {**dict.fromkeys(notes.begun, NO_FILE), **files}
        called = {number: identity for number, identity in known.items() if notes.ended.get(number) != identity}
        notes.begin(called)
        if called:
            _call_each(spark, what, self.target.write, _Calls(values, called), notes)
        if (later := _later(top_of(store), part)) is not None:
            return later
        _call_once("after", self.target.after, what.sink, values)
        notes.end_all(everything)
        return _later(top_of(store), part)

    def contents(self, spark: SparkSession, stores: Stores) -> TargetState:
        base = self.base(spark)
        return TargetState(base, newest(stores(base)).pointer, has_files=False)


class Note(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is noted of the calls of one run: the partitions that are called from then on, as text, after `before`
    returned; those for which the function returned, each with the identity of its file; and the identity of all files
    when `after` returned."""

    begun: str | None = None
    ended: dict[int, str] = {}
    done: str = ""


@dataclass(frozen=True, slots=True)
class _Calls:
    """What each call is told of the batch, and for which partitions it is made, with the identities of their files."""

    values: Mapping[str, Any]
    identities: Mapping[int, str]


def batch_of(what: Publication) -> str:
    """The same for every run of these parameters."""
    return f"{what.owner}/{what.sink}{f'/{what.key}' if what.key else ''}"


def _part(what: Publication) -> Part:
    """No file is published."""
    return structs.replace(what.part(), bytes=())


def _later(top: Pointer, part: Part) -> Fence | None:
    """The fence of a later publication, of this run or another one, that this one gives way to. Two masters of a run
    bring the same rows: only the fence tells them apart."""
    held = next((one for one in top.parts if one.is_same(part)), None)
    if held is None:
        return top.fences(part, adds=True) or top.fence
    return None if held.newest_fence == part.fence else held.newest_fence


def _identities(what: Publication) -> dict[int, str]:
    """What tells the committed file of each partition from every other one that the run made for it, however the
    location of the run is spelled; runs of two locations may have the same numbers."""
    found = {}
    for path, length in what.files:
        below_run = path.rpartition(f"/{RESULTS}/")[2]
        found[manifest.number_of(path)] = _hash((what.place, below_run, str(length)))
    return found


def _hash(lines: Iterator[str] | tuple[str, ...]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _check_can_be_sent(write: Writer, sink: str) -> None:
    """Spark would say so when everything is computed."""
    try:
        cloudpickle.dumps(write)
    except Exception as error:
        raise Refused(
            f"{place_of(write)}: {name_of(write)}() of {sink} cannot be sent to the executors: {first_line(error)}",
            "open connections, files and the like inside the function, and use no Spark session there",
        ) from error


def _call_once(role: str, function: Writer | None, sink: str, values: dict[str, Any]) -> None:
    """Call `before` or `after`, if there is one. What it raises is told with its name and line."""
    if function is None:
        return
    try:
        function(**given_to(function, values))
    except Exception as error:
        where = f"{name_of(function)}, {line_of(error, function)}"
        raise RuntimeError(f"{role}() of {sink} failed: {where}: {first_line(error)}") from error


class _Notes:
    """What earlier publications of the run noted, one after the other, and what this one notes: `begun` are partitions
    that may have been called, `ended` those of whose last call it is known that it returned. The folder has the name
    that a version of the run would have, without a master."""

    def __init__(self, store: PointerStore, part: Part) -> None:
        self._store, self._version = store, part.version
        self._folder = f"{NOTED}/{version_of(Fence(part.fence.order, 0, 0), part.place)}/"
        self.has_begun, self.begun, self.ended, self.done = False, EMPTY, dict[int, str](), ""
        names = store.list_after(self._folder)
        self._number = len(names)
        for name in sorted(names, key=_in_order):
            body = store.get(self._folder + name)
            if body is not None:
                self._add(msgspec.json.decode(body, type=Note))

    def _add(self, note: Note) -> None:
        if note.begun is not None:
            begun = Partitions.parse(note.begun)
            self.has_begun, self.begun, self.done = True, self.begun | begun, ""
            self.ended = {number: identity for number, identity in self.ended.items() if number not in begun}
        self.ended |= note.ended
        self.done = note.done or self.done

    def begin(self, called: Mapping[int, str]) -> None:
        """These are called from now on."""
        if called or not self.has_begun:
            self._put(Note(begun=str(Partitions(called))))

    def end(self, ended: Mapping[int, str]) -> None:
        """Nothing if nothing ended since."""
        new = ended.items() - self.ended.items()
        if new:
            self._put(Note(ended=dict(sorted(new))))

    def end_all(self, everything: str) -> None:
        self._put(Note(done=everything))

    def _put(self, note: Note) -> None:
        self._number += 1
        name = f"{self._version}-{self._number:06d}"
        if not put_certainly(self._store, self._folder + name, msgspec.json.encode(note)):
            raise StoreFailed(f"{self._folder}{name} was written by somebody else")
        self._add(note)


def _in_order(name: str) -> tuple[Fence, str]:
    """Notes of one publication are numbered, and those of a later one have a higher fence."""
    found = VERSION.match(name)
    assert found is not None, f"not a note: {name}"
    return fence_in(found)[1], name


def _call_each(spark: SparkSession, what: Publication, write: Writer, calls: _Calls, notes: _Notes) -> None:
    class Numbers(AccumulatorParam[set[int]]):  # type: ignore[misc]
        def zero(self, value: set[int]) -> set[int]:
            return set()

        def addInPlace(self, value1: set[int], value2: set[int]) -> set[int]:
            value1 |= value2
            return value1

    done = spark.sparkContext.accumulator(set(), Numbers())
    asked = asked_of_partition(write)
    values, identities = dict(calls.values), dict(calls.identities)
    prefix = f"{values['batch']}/{values['run']}"
    counts: dict[int, int] = {}

    def whole(partition: int, its_rows: Iterator[Any]) -> Iterator[Any]:
        seen = 0
        for row in its_rows:
            seen += 1
            yield row
        if seen < counts.get(partition, 0):
            raise OSError(f"Spark read {seen} of {counts[partition]} rows of partition {partition}")

    def one(partition: int, its_rows: Iterator[Any]) -> Iterator[Any]:
        if partition in identities:
            key = f"{prefix}/{partition:05d}-{identities[partition]}"
            told = {**values, "partition": partition, "key": key}
            write(whole(partition, its_rows), **{name: told[name] for name in asked})
            done.add({partition})
        return iter(())

    def without_rows(numbers: Iterator[int]) -> Iterator[Any]:
        for number in numbers:
            one(number, iter(()))
        return iter(())

    rest = replace(what, files=tuple(file for file in what.files if manifest.number_of(file[0]) in identities))
    emptied = [number for number, identity in identities.items() if identity == NO_FILE]
    with _noting(lambda: notes.end({number: identities[number] for number in set(done.value)})):
        if emptied:
            spark.sparkContext.parallelize(emptied, len(emptied)).mapPartitions(without_rows).count()
        if rest.files:
            rows = rewriting.committed(spark, rest)
            with rewriting.telling_lost(spark, rest):
                counts |= _counted(rows)
                rows.rdd.mapPartitionsWithIndex(one).count()


def _counted(rows: DataFrame) -> dict[int, int]:
    """How many rows each partition has, from what the files say of themselves: no column is read."""
    found = rows.groupBy(F.input_file_name().alias("file")).count().collect()
    return {manifest.number_of(row["file"]): row["count"] for row in found}


@contextlib.contextmanager
def _noting(note: Callable[[], None]) -> Iterator[None]:
    """Note now and then, and at the end, however it ends. Where a note fails, some calls are made again."""
    is_over = threading.Event()

    def now_and_then() -> None:
        while not is_over.wait(NOTED_EVERY_SECONDS):
            with contextlib.suppress(Exception):
                note()

    thread = threading.Thread(target=now_and_then, name="notes partitions", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        with contextlib.suppress(Exception):
            note()
