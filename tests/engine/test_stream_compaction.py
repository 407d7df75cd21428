"""Small files of a stream's target become few: the same rows at every moment, for every reader."""

from __future__ import annotations

import os
import threading
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from engine.number_streams import ROWS, NumbersFolder, RunningStream, numbers
from rekindle.engine.spark.publish import stream_compaction
from rekindle.engine.spark.publish.stream_compaction import StreamCompactor
from rekindle.engine.spark.stream import background_compactor
from rekindle.errors import RunFailed
from rekindle.gc.audit_log import AuditLog
from rekindle.gc.collect_run import GcReport, GcRules
from rekindle.gc.collect_stream import LEFT, REPLACED, UNSHOWN, StreamTargetCollector
from rekindle.gc.policy import Retention
from rekindle.journal.keys import STREAMS
from rekindle.publish.stream_compactions import is_counted, newest_compaction
from rekindle.storage.local_disk import LocalDisk

pytestmark = pytest.mark.timeout(900)

KINDS = (
    "id",
    "cast(id as decimal(38, 6)) / 7 as share",
    "if(id % 2 = 0, null, cast(id as string)) as note",
    "timestamp_micros(id * 1000003 - 30000000000000000) as at",
    "cast('2026-11-18 01:02:03.000004' as timestamp_ntz) as here",
    "array(named_struct('n', id, 'some', map('k', id, 'none', null)), null) as parts",
    "cast(null as binary) as nothing",
)


def rich(place: NumbersFolder, *, has_more: bool = False) -> rk.Pipeline:
    pipeline = rk.Pipeline("live")

    def orders(spark: SparkSession) -> DataFrame:
        return place.read(spark)

    def plain(orders: DataFrame) -> DataFrame:
        rows = orders.selectExpr(*KINDS)
        return rows.withColumn("more", F.col("id") + 1) if has_more else rows

    pipeline.add_source(orders)
    pipeline.add_sink(plain, rk.files(f"{place.folder}/plain"))
    return pipeline


class Target:
    """The target of `plain`, with all that is done to it in this test."""

    def __init__(self, spark: SparkSession, place: NumbersFolder) -> None:
        self.spark, self.path = spark, place.folder / "plain"
        self.store = LocalDisk(self.path)
        (self.run,) = (one.name for one in (place.state / "live" / STREAMS).iterdir())
        self.checkpoint = place.state / "live" / STREAMS / self.run / "checkpoints" / "plain"
        self._location = LocalDisk(place.state)

    def compactor(self) -> StreamCompactor:
        return StreamCompactor(
            spark=self.spark, base=f"file:{self.path}", store=self.store, region="plain", generation=self.run
        )

    def rows(self) -> list[str]:
        return sorted(str(row) for row in rk.read_newest(self.spark, str(self.path)).collect())

    def by_others(self) -> list[str]:
        """As Spark reads `current`."""
        columns = rk.read_newest(self.spark, str(self.path)).schema
        return sorted(str(row) for row in self.spark.read.schema(columns).parquet(f"{self.path}/current").collect())

    def gc(self, *, grace_ms: int = 0) -> GcReport:
        rules, now = GcRules(terms=Retention(grace_ms, 0)), self._location.now()
        diary = AuditLog(self._location, "live", round(now * 1000))
        return StreamTargetCollector(rules, diary, now, [self.run]).tend(self.store, "live", f"file:{self.path}")

    def entries(self) -> list[int]:
        return sorted(int(one.name) for one in (self.path / "entries" / "plain" / self.run).iterdir())

    def parts(self) -> int:
        return len(list(self.path.glob("data/plain/*/*/*.parquet")))


def test_rows_stay_the_same_through_kills_rivals_gc_and_a_repeated_batch(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = NumbersFolder(tmp_path)

    def run(*files: int, has_more: bool = False) -> None:
        for number in files:
            place.feed(number)
        made = rich(place, has_more=has_more)
        with RunningStream(spark, made, place, available_now=True, compact_batches=0) as stream:
            stream.ended()

    run(0, 1, 2)
    run(3, 4, has_more=True)
    target = Target(spark, place)
    rows = target.rows()
    schema = rk.read_newest(spark, str(target.path)).schema
    assert len(rows) == 25 and target.entries() == [0, 1, 2, 3, 4] and rows == target.by_others()

    class Killed(BaseException):
        pass

    def killed(*_: object) -> bool:
        raise Killed

    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(stream_compaction, "is_counted", killed)
        target.compactor().compact(5)
    assert target.parts() == 6 and rows == target.rows() == target.by_others(), "written, and it counts for nothing"
    assert target.gc().findings == (), "it may still be put"

    real = is_counted
    with monkeypatch.context() as patched:

        def overtaken(*given: object) -> bool:
            patched.setattr(stream_compaction, "is_counted", real)
            assert "5 files before, 1 now" in target.compactor().compact(5).told
            assert rows == target.rows() == target.by_others(), "between the two"
            return real(*given)  # type: ignore[arg-type]

        patched.setattr(stream_compaction, "is_counted", overtaken)
        assert target.compactor().compact(5).told == "another driver compacted its batches first"
    assert rows == target.rows() == target.by_others() and target.parts() == 8
    assert rk.read_newest(spark, str(target.path)).schema == schema
    assert len(list((target.path / "current").iterdir())) == 1
    assert target.compactor().compact(5).told == "" and target.parts() == 8, "there is nothing left to do"

    begun = rk.read_newest(spark, str(target.path))
    assert target.gc(grace_ms=3_600_000).findings == () and target.entries() == [0, 1, 2, 3, 4]
    found = {one.why: one.files for one in target.gc().findings}
    assert found.keys() == {REPLACED, LEFT, UNSHOWN} and found[LEFT] == 6, "two files with checksums, and two _offsets"
    assert target.parts() == 1 and target.entries() == [4] and len(list((target.path / "views").iterdir())) == 2
    assert rows == target.rows() == target.by_others() == sorted(str(row) for row in begun.collect())

    (target.path / "entries" / "plain" / target.run / "4").unlink()
    (target.checkpoint / "commits" / "4").unlink()
    run(has_more=True)
    assert (target.checkpoint / "commits" / "4").exists() and target.parts() == 1, "executed again, and dropped"
    assert rows == target.rows() == target.by_others()
    run(5, has_more=True)
    assert len(target.rows()) == 30 and target.rows() == target.by_others() and target.entries() == [5]

    (offsets,) = target.path.glob("data/plain/*/*/_offsets")
    offsets.write_text("".join(f"{line}\n" for line in (*offsets.read_text().splitlines()[:-1], "0" * 64)))
    for batch in (4, 5):
        (target.checkpoint / "commits" / str(batch)).unlink()
    (target.checkpoint / "offsets" / "5").unlink()
    with pytest.raises(RunFailed, match="batch 4 was committed from other offsets"):
        run(has_more=True)


def test_a_compaction_that_names_what_is_gone_deletes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    place = NumbersFolder(tmp_path)
    for number in range(3):
        place.feed(number)
    with RunningStream(spark, rich(place), place, available_now=True, compact_batches=0) as stream:
        stream.ended()
    target = Target(spark, place)
    target.compactor().compact(3)
    (made,) = target.path.glob("data/plain/*/compacted-*/*.parquet")
    away = made.rename(tmp_path / "away")
    report = target.gc()
    assert "a compaction names it: nothing of plain was deleted" in report.trouble and report.findings == ()
    away.rename(made)
    (entry,) = target.path.glob("compactions/plain/*/*")
    entry.write_text(entry.read_text().removesuffix("end\n"))
    assert "is damaged" in target.gc().trouble and target.entries() == [0, 1, 2] and target.parts() == 4


def test_batches_of_a_checkpoint_that_was_replaced_are_compacted_too(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background_compactor, "TICK_SECONDS", 0.05)
    place = NumbersFolder(tmp_path)
    for number in range(4):
        place.feed(number)
    with RunningStream(spark, rich(place), place, available_now=True, compact_batches=0) as stream:
        stream.ended()
    target, every = Target(spark, place), numbers(*range(4))
    anew = {"new_checkpoint": ["plain"], "start_from": "earliest", "compact_batches": 4}
    with RunningStream(spark, rich(place), place, **anew) as stream:
        told = f"4 files before, 1 now, of a checkpoint that it had before ({target.run})"
        stream.wait(lambda: any(told in line for line in stream.lines) and place.rows("plain") == every + every)
        stream.stopped()
    assert newest_compaction(target.store, "plain", target.run).through == 3
    rows = target.rows()
    target.gc()
    assert len(rows) == 40 and rows == target.rows() == target.by_others() and target.entries() == [3]


def test_readers_see_each_row_once_while_a_stream_is_compacted_in_the_background(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, path = NumbersFolder(tmp_path), tmp_path / "plain"
    monkeypatch.setattr(background_compactor, "TICK_SECONDS", 0.05)
    monkeypatch.setattr(background_compactor, "RETRY_SECONDS", 0.0)
    real, failures = StreamCompactor._written, [OSError("the disk is full")]

    def written(self: StreamCompactor, *given: object) -> object:
        if failures:
            raise failures.pop()
        return real(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(StreamCompactor, "_written", written)
    seen: list[Counter[int]] = []
    is_over = threading.Event()

    def read_on() -> None:
        """A reader that knows nothing of us, and follows the link once."""
        while not is_over.is_set():
            found = Counter[int]()
            for one in sorted(Path(os.path.realpath(path / "current")).glob("*.parquet")):
                found.update(pq.read_table(one, columns=["id"]).column("id").to_pylist())
            seen.append(found)

    def compacted() -> int:
        return newest_compaction(LocalDisk(path), "plain", target.run).through

    place.feed(0)
    with RunningStream(spark, rich(place), place, compact_batches=3) as stream:
        stream.wait((path / "current").exists)
        target, reader = Target(spark, place), threading.Thread(target=read_on, daemon=True)
        reader.start()
        for number in range(1, 9):
            place.feed(number)
        stream.wait(lambda: compacted() >= 5)
        place.feed(9)
        stream.wait(lambda: seen[-1] == numbers(*range(10)))
        summary = stream.stopped()
    is_over.set()
    reader.join(60)
    wrong = [one for one in seen if one != numbers(*{id // ROWS for id in one})]
    assert not wrong, "files of before or of after, never both, never neither"
    assert all(one <= after for one, after in pairwise(seen)), "nothing that was seen goes away again"
    assert len({one.total() for one in seen}) > 2, "it was seen while it grew"
    assert any(
        "plain: its batches were not compacted, and stay as they are: OSError: the disk is full" in one
        for one in stream.lines
    )
    assert any("are compacted: " in one for one in stream.lines) and summary.regions["plain"].restarts == 0
    assert Counter(row.id for row in rk.read_newest(spark, str(path)).collect()) == numbers(*range(10))
