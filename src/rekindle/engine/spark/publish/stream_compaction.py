"""Compaction of the batches of one region in `rk.files`: their rows as few files, and one object that says so.

Rules
- Nothing is deleted. What no compaction names any more is gc's to remove, after its grace time.
- The object decides (publish/stream_compactions.py). Until it is put, all that was written here counts for nothing; of
  two compactors one puts it, and the other one leaves what it wrote.
- A file that is large already is named as it is. The others are written again, so many at a time that at most a quarter
  of the cores is busy with it.
- Columns are those of the newest file, and after them what only others have: none is lost.
- The rows are counted before and after. If the numbers differ, nothing is put.
- On a disk `current` follows afterwards. A compactor that dies between is followed by the next one.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from rekindle.engine.spark.jvm import result_calls, stream_calls
from rekindle.engine.spark.publish.stream_target import CompactionReport
from rekindle.engine.spark.session import compaction_session
from rekindle.errors import Refused
from rekindle.publish.compaction_plan import PlannedCompaction, planned_compaction
from rekindle.publish.files import PARQUET
from rekindle.publish.stream_compactions import (
    OFFSETS,
    BatchFile,
    CompactedRange,
    Compaction,
    is_counted,
    newest_compaction,
)
from rekindle.publish.stream_entries import (
    BatchEntry,
    CountedBatches,
    batches_after,
    counted_batches,
    entries_of,
    generation_folder,
    generations,
)
from rekindle.publish.stream_view import COMPACTED, is_shown, link_all, new_view
from rekindle.publish.target import PointerStore, is_certainly_put
from rekindle.storage.schemes import is_local

FILE_BYTES = 128 << 20
LARGE_BYTES = FILE_BYTES // 2
FILES_PER_JOB_MAX = 5_000
SHARE_OF_CORES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamCompactor:
    """Compacts the batches of one generation of a region in the target at `base`."""

    spark: SparkSession
    base: str
    store: PointerStore
    region: str
    generation: str

    def compact(self, every: int) -> CompactionReport:
        """What there is to do now. Raises what Spark or the store raise; then nothing has changed for readers."""
        before = newest_compaction(self.store, self.region, self.generation)
        last = self._last(before.through)
        plan = planned_compaction([span.batches for span in before.ranges], before.through, last, every)
        if plan is None:
            self._follow()
            return CompactionReport(before.through)
        made, told = self._made(before, plan)
        if not is_counted(self.store, self.region, self.generation, made):
            now = newest_compaction(self.store, self.region, self.generation)
            return CompactionReport(now.through, "another driver compacted its batches first")
        self._follow()
        return CompactionReport(made.through, told)

    def _last(self, through: int) -> int:
        """The last batch of all that follow each other."""
        last = through
        for batch in batches_after(self.store, self.region, self.generation, through):
            if batch != last + 1:
                break
            last = batch
        return last

    def _made(self, before: Compaction, plan: PlannedCompaction) -> tuple[Compaction, str]:
        """Written and not yet put; and what it is in words."""
        stays = before.ranges[: len(before.ranges) - plan.absorbed]
        absorbed = before.ranges[len(stays) :]
        entries = self._entries(plan)
        number = before.number + 1
        directory = f"{generation_folder(self.region, self.generation)}{COMPACTED}-{number}-{uuid.uuid4()}"
        digests = [*(line for span in absorbed for line in self._offsets(span)), *(one.offsets for one in entries)]
        if not is_certainly_put(self.store, f"{directory}/{OFFSETS}", "\n".join([*digests, ""]).encode()):
            raise Refused(f"{directory}/{OFFSETS} was not certainly put")
        files = [*(one for span in absorbed for one in span.files), *(file for one in entries for file in one.listed)]
        now = self._written(files, directory)
        first = absorbed[0].first if absorbed else plan.first
        span = CompactedRange(first, plan.last, directory, tuple(now))
        told = f"batches {first} to {plan.last} are compacted: {len(files)} files before, {len(now)} now"
        return Compaction(number, (*stays, span)), told

    def _entries(self, plan: PlannedCompaction) -> list[BatchEntry]:
        batches = range(plan.first, plan.last + 1)
        found = list(entries_of(self.store, self.region, self.generation, batches))
        missing = [batch for batch, one in zip(batches, found, strict=True) if one is None]
        if missing:
            raise Refused(f"the entry of batch {missing[0]} is gone: another driver compacts these batches")
        return [one for one in found if one is not None]

    def _offsets(self, span: CompactedRange) -> list[str]:
        body = self.store.get(f"{span.directory}/{OFFSETS}")
        lines = (body or b"").decode().splitlines()
        if len(lines) != span.batches:
            raise Refused(f"{span.directory}/{OFFSETS} is damaged: {len(lines)} of {span.batches} batches are in it")
        return lines

    def _written(self, files: Sequence[BatchFile], directory: str) -> list[BatchFile]:
        """Large files as they are, and what became of the others."""
        small = [one for one in files if one.bytes < LARGE_BYTES]
        if len(small) < 2:
            return list(files)
        session = compaction_session(self.spark)
        schema = self._columns(session, files)
        made = [one for one in files if one.bytes >= LARGE_BYTES]
        tasks = max(1, session.sparkContext.defaultParallelism // SHARE_OF_CORES)
        for some in _jobs(small, tasks * FILE_BYTES):
            rows = self._rows(session, some, schema)
            count = -(-sum(one.bytes for one in some) // FILE_BYTES)
            lines = stream_calls.written(session, rows.coalesce(count), f"{self.base}/{directory}")
            now = [BatchFile(directory, name, length) for name, length in lines]
            read, wrote = rows.count(), self._rows(session, now, schema).count()
            if read != wrote:
                raise Refused(f"{wrote} rows were written of {read}: the files of before stay")
            made += now
        return made

    def _columns(self, session: SparkSession, files: Sequence[BatchFile]) -> str:
        merged = result_calls.columns(session, *self._named(files))
        newest = session.read.parquet(f"{self.base}/{files[-1].directory}/{files[-1].name}").schema
        names = [*newest.names, *(name for name in merged.names if name not in newest.names)]
        return str(StructType([merged[name] for name in names]).json())

    def _rows(self, session: SparkSession, files: Sequence[BatchFile], schema: str) -> DataFrame:
        folders, named = self._named(files)
        return result_calls.version(
            session,
            folders,
            named,
            its_schema=schema,
            hive_columns=(),
            files_format=PARQUET,
            options=result_calls.STRICT,
        )

    def _named(self, files: Sequence[BatchFile]) -> tuple[list[str], list[tuple[int, str, int]]]:
        numbers = {one: number for number, one in enumerate(dict.fromkeys(file.directory for file in files))}
        return [f"{self.base}/{one}" for one in numbers], [
            (numbers[one.directory], one.name, one.bytes) for one in files
        ]

    def _follow(self) -> None:
        """Bring `current` to the newest compaction. What drivers elsewhere committed meanwhile is linked afterwards."""
        own = (self.region, self.generation)
        while is_local(self.base):
            looked = self._looked()
            number = looked[own].compaction.number if own in looked else 0
            if not number or is_shown(self.base, *own, number):
                return
            name = new_view(self.base, *own, number)
            for found in looked.values():
                link_all(self.base, name, found.files)
            last = {one: found.last for one, found in looked.items()}
            if not stream_calls.show_view(self.spark, self.base, last, name):
                return
            for one, again in self._looked().items():
                if one in looked and again.compaction.number == looked[one].compaction.number:
                    link_all(self.base, name, again.files)

    def _looked(self) -> dict[tuple[str, str], CountedBatches]:
        return {one: counted_batches(self.store, *one) for one in generations(self.store)}


def _jobs(files: Sequence[BatchFile], bytes_max: int) -> Iterator[list[BatchFile]]:
    """Files in a row that one Spark job writes again."""
    some: list[BatchFile] = []
    size = 0
    for one in files:
        if some and (size + one.bytes > bytes_max or len(some) == FILES_PER_JOB_MAX):
            yield some
            some, size = [], 0
        some.append(one)
        size += one.bytes
    yield some
