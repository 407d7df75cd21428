"""Caching and memory results on Spark's block manager: the same rows as in files, exact losses, and nothing left."""

from __future__ import annotations

import random
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.engine.spark.jvm.access import Package
from rekindle.engine.spark.plan.group import GroupSpec
from rekindle.engine.spark.run.blocks import Blocks, gone_in
from rekindle.engine.spark.run.engine import SparkEngine
from rekindle.failover.backoff import FixedDelay
from rekindle.master.facts.config import BackoffSpec, MasterConfig
from rekindle.master.facts.digests import Digests
from rekindle.master.facts.events import AttemptOpened, Event, PartitionsCommitted, PartitionsLost
from rekindle.master.facts.stimuli import AttemptEnded, CommitsSeen, DeletionDone, Stimulus
from rekindle.master.state.commands import DeleteAttempt, Input, StartAttempt
from rekindle.master.state.run_state import RunState, Segment
from rekindle.model.ids import AttemptId, Epoch, Generation
from rekindle.model.kinds import FailureDomain, ResultKind
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.results import manifest
from support.reports import until

N = 4
AT_ONCE = MasterConfig(backoff=BackoffSpec.of(FixedDelay(5, 0)))
MADE = AttemptId("made", Generation(0), Epoch(1), 1)
READ = AttemptId("read", Generation(0), Epoch(1), 2)
Kind = Literal["blocking", "caching", "memory"]


def made(session: SparkSession, inputs: Mapping[str, DataFrame]) -> DataFrame:
    """Nested, wide and missing values; partitions without rows; more than one chunk of bytes."""
    return session.range(3_000).selectExpr(
        "id % 3 k",
        "id",
        "if(id % 5 = 0, null, concat(repeat('é', 90), id)) text",
        "struct(id n, array(id, null) list) nested",
        "map('a', cast(id as decimal(30, 2))) amounts",
    )


def read(session: SparkSession, inputs: Mapping[str, DataFrame]) -> DataFrame:
    return inputs["made"].select("k", "id", "nested.n")


class Both:
    """An engine with one step in blocks and a reader of it, driven by hand."""

    def __init__(self, spark: SparkSession, folder: Path, kind: ResultKind = ResultKind.CACHING) -> None:
        groups = {
            "made": GroupSpec(
                step="made", build=made, inputs=(), keys=("k",), partitions=N, kind=kind, is_digested=True
            ),
            "read": GroupSpec(step="read", build=read, inputs=("made",), keys=("k",), partitions=N),
        }
        self.spark = spark
        self.root = f"file:{folder}"
        self.engine = SparkEngine(spark, self.root, groups)

    def attempt(self, attempt: AttemptId = MADE, segments: tuple[Segment, ...] = ()) -> list[Stimulus]:
        inputs = (Input("made", segments),) if segments else ()
        self.engine.send(
            StartAttempt(
                attempt=attempt,
                partitions=Partitions.first(N),
                inputs=inputs,
                is_repeatable=True,
                is_first=True,
                exchange_version=0,
                exchange_checksum=None,
            )
        )
        return until(self.engine, AttemptEnded)

    def made(self, attempt: AttemptId = MADE) -> tuple[Segment, ...]:
        seen = [one for one in self.attempt(attempt) if isinstance(one, CommitsSeen)]
        return tuple(
            Segment(attempt, one.partitions, one.manifest, Digests(one.partitions, one.digests)) for one in seen
        )

    def evict(self, segments: tuple[Segment, ...], partition: int) -> None:
        for segment in segments:
            for commit in manifest.unpack(segment.manifest):
                if commit.partition == partition:
                    remove_block(self.spark, commit)


def remove_block(spark: SparkSession, commit: manifest.Commit) -> None:
    """By its name, as memory pressure on its executor would."""
    Package(spark, "rekindle.test").StoredBlocks.remove(int(commit.name.rsplit(".rdd", 1)[1]), commit.task)


def blocks_stored(spark: SparkSession) -> int:
    return int(Package(spark, "rekindle.test").StoredBlocks.count())


def rows_of(frame: DataFrame) -> list[Any]:
    return sorted((row.asDict(recursive=True) for row in frame.collect()), key=str)


@pytest.mark.parametrize("kind", [ResultKind.CACHING, ResultKind.MEMORY], ids=["caching", "memory"])
def test_rows_come_back_as_they_were_and_no_file_is_written(
    spark: SparkSession, tmp_path: Path, kind: ResultKind
) -> None:
    both = Both(spark, tmp_path, kind)
    segments = both.made()
    frame = both.engine.read(Input("made", segments), spark)
    found, expected = rows_of(frame), rows_of(made(spark, {}))
    assert found == expected and found[1]["amounts"]["a"] == Decimal(found[1]["id"])
    assert frame.select("text").where("text is null").count() == 600
    assert not list(tmp_path.rglob("*"))
    both.engine.close()


def test_a_reader_needs_no_exchange_and_sees_the_partitions_by_their_numbers(
    spark: SparkSession, tmp_path: Path
) -> None:
    both = Both(spark, tmp_path)
    segments = both.made()
    commits = {commit.partition: commit for one in segments for commit in manifest.unpack(one.manifest)}
    assert sorted(commits) == list(range(N)) and {commit.bytes < 0 for commit in commits.values()} == {True, False}
    ended = both.attempt(READ, segments)
    assert both.engine.exchanges("read") == 0
    commits_read = {
        c.partition: c for one in ended if isinstance(one, CommitsSeen) for c in manifest.unpack(one.manifest)
    }
    assert {p for p, c in commits_read.items() if c.bytes >= 0} == {p for p, c in commits.items() if c.bytes >= 0}
    both.engine.close()


def test_exactly_the_block_that_was_evicted_is_reported_before_anything_is_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    both = Both(spark, tmp_path)
    segments = both.made()
    lost = next(c.partition for one in segments for c in manifest.unpack(one.manifest) if c.bytes >= 0)
    both.evict(segments, lost)
    assert gone_in(spark, both.root, {"made": segments}) == {"made": Partitions((lost,))}
    ended = [one for one in both.attempt(READ, segments) if isinstance(one, AttemptEnded)]
    assert ended[0].was_cancelled and not ended[0].failures
    assert dict(ended[0].lost.results) == {"made": Partitions((lost,))}
    both.engine.close()


def test_a_block_that_goes_while_it_is_read_is_an_error_that_names_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look before the attempt is switched off: what is then read is an error, never fewer rows."""
    both = Both(spark, tmp_path)
    segments = both.made()
    lost = next(c.partition for one in segments for c in manifest.unpack(one.manifest) if c.bytes >= 0)
    both.evict(segments, lost)
    monkeypatch.setattr(Blocks, "missing", lambda self, inputs: {})
    (ended,) = [one for one in both.attempt(READ, segments) if isinstance(one, AttemptEnded)]
    assert ended.failures and dict(ended.lost.results) == {"made": Partitions((lost,))} and ended.has_lost_plan
    assert "was not found" in ended.failures[0].cause.text
    assert ended.failures[0].cause.kind.domain is FailureDomain.EVICTION
    both.engine.close()


def test_blocks_of_another_application_are_gone_whatever_their_names(spark: SparkSession, tmp_path: Path) -> None:
    both = Both(spark, tmp_path)
    segments = both.made()
    elsewhere = gone_in(spark, f"file:{tmp_path}/other", {"made": segments})
    with_rows = [c.partition for one in segments for c in manifest.unpack(one.manifest) if c.bytes >= 0]
    assert elsewhere == {"made": Partitions(with_rows)}
    both.engine.close()


def test_released_blocks_are_removed_by_name(spark: SparkSession, tmp_path: Path) -> None:
    both = Both(spark, tmp_path)
    before = blocks_stored(spark)
    segments = both.made()
    with_rows = [c.partition for one in segments for c in manifest.unpack(one.manifest) if c.bytes >= 0]
    assert blocks_stored(spark) == before + len(with_rows)
    both.engine.send(DeleteAttempt(MADE))
    until(both.engine, DeletionDone)
    assert gone_in(spark, both.root, {"made": segments}) == {"made": Partitions(with_rows)}
    while blocks_stored(spark) != before:  # Spark removes them in the background.
        both.engine.poll(50)
    both.engine.close()


class Evicting:
    """What each step committed and lost. Blocks of a partition of `priced` go when the step `at` is first started."""

    def __init__(self, spark: SparkSession, at: str, partition: int = 1) -> None:
        self._spark, self._at, self._partition = spark, at, partition
        self.committed: dict[str, list[Partitions]] = {}
        self.lost: dict[str, Partitions] = {}

    def __call__(self, events: tuple[Event, ...], state: RunState) -> None:
        for event in events:
            match event:
                case PartitionsCommitted():
                    self.committed.setdefault(event.attempt.step, []).append(event.partitions)
                case PartitionsLost():
                    self.lost[event.step] = self.lost.get(event.step, EMPTY) | event.partitions
                case AttemptOpened() if event.attempt.step == self._at:
                    self._at = ""
                    for segment in state.steps["priced"].segments:
                        for commit in manifest.unpack(segment.manifest):
                            if commit.partition == self._partition:
                                remove_block(self._spark, commit)
                case _:
                    pass

    def times(self, step: str) -> dict[int, int]:
        """How often each partition was committed."""
        found: dict[int, int] = {}
        for partitions in self.committed.get(step, ()):
            for number in partitions:
                found[number] = found.get(number, 0) + 1
        return found


def in_python(*, is_random: bool) -> Column:
    return F.udf(lambda number: number * (random.random() if is_random else 2.0), "double")("id")


def pipeline(folder: Path, kind: Kind, price: Column) -> rk.Pipeline:
    """Priced, and read twice: `listed` partition by partition, then both are compared row by row."""
    made = rk.Pipeline("shop")

    @made.source
    def orders(spark: SparkSession) -> DataFrame:
        return spark.read.schema("id long, k long").parquet(str(folder / "orders"))

    @made.step(result=kind, partition_by="id", partitions=N)
    def priced(orders: DataFrame) -> DataFrame:
        return orders.withColumn("price", price)

    @made.step(result="blocking", partition_by="id", partitions=N)
    def listed(priced: DataFrame) -> DataFrame:
        return priced.select("id", F.col("price").alias("first"))

    @made.sink(rk.files(str(folder / "out")), partition_by="id", partitions=N)
    def compared(priced: DataFrame, listed: DataFrame) -> DataFrame:
        return priced.join(listed, "id")

    return made


def orders(spark: SparkSession, folder: Path) -> None:
    spark.range(400).selectExpr("id", "id % 7 k").repartition(N).write.parquet(str(folder / "orders"))


def evicted(spark: SparkSession, folder: Path, kind: Kind, *, is_random: bool) -> Evicting:
    """A run in which a block goes after its first reader finished and before the second began."""
    orders(spark, folder)
    watcher = Evicting(spark, at="compared")
    options = rk.RunOptions(config=AT_ONCE, watcher=watcher)
    pipeline(folder, kind, in_python(is_random=is_random)).run(spark, str(folder / "runs"), options=options)
    rows = rk.read_newest(spark, str(folder / "out"))
    assert rows.count() == 400
    assert rows.where("price = first").count() == 400, "both readers saw one version"
    return watcher


@pytest.mark.parametrize("kind", ["caching", "memory"])
def test_an_evicted_partition_that_comes_back_equal_is_all_that_runs_again(
    spark: SparkSession, tmp_path: Path, kind: Kind
) -> None:
    found = evicted(spark, tmp_path, kind, is_random=False)
    assert found.lost == {"priced": Partitions((1,))}
    assert found.times("priced") == {0: 1, 1: 2, 2: 1, 3: 1}
    assert found.times("listed") == {0: 1, 1: 1, 2: 1, 3: 1}
    assert not list((tmp_path / "runs").rglob("priced/*"))


def test_one_that_comes_back_different_takes_its_first_reader_along_and_nothing_else(
    spark: SparkSession, tmp_path: Path
) -> None:
    found = evicted(spark, tmp_path, "caching", is_random=True)
    assert found.lost == {"priced": Partitions((1,))}
    assert found.times("priced") == {0: 1, 1: 2, 2: 1, 3: 1}
    assert found.times("listed") == {0: 1, 1: 2, 2: 1, 3: 1}


def dies_at_the_last_step(events: tuple[Event, ...], state: RunState) -> None:
    if any(isinstance(event, AttemptOpened) and event.attempt.step == "compared" for event in events):
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("is_new", "made_again"), [(False, {"compared"}), (True, {"priced", "compared"})], ids=["the same", "another"]
)
def test_a_resume_finds_blocks_in_the_same_application_only_and_its_plan_says_so(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_new: bool, made_again: set[str]
) -> None:
    orders(spark, tmp_path)
    made, runs = pipeline(tmp_path, "caching", F.col("id") * 2.0), str(tmp_path / "runs")
    with pytest.raises(KeyboardInterrupt):
        made.run(spark, runs, options=rk.RunOptions(watcher=dies_at_the_last_step))
    if is_new:
        monkeypatch.setattr(SparkEngine, "application", "another")
    planned = made.plan(spark, runs).computed()
    watcher = Evicting(spark, at="")
    made.run(spark, runs, options=rk.RunOptions(watcher=watcher))
    assert planned == {step: Partitions.first(N) for step in made_again}
    assert {step: Partitions(watcher.times(step)) for step in watcher.committed} == planned
    assert rk.read_newest(spark, str(tmp_path / "out")).where("price = first").count() == 400


class Crowded:
    """All of the memory for blocks is taken until `until` is first started."""

    def __init__(self, spark: SparkSession, until: str) -> None:
        self._java = Package(spark, "rekindle.test").StoredBlocks
        self._until = until
        self._taken = int(self._java.crowd())
        assert self._taken
        self.opened: list[Partitions] = []

    def __call__(self, events: tuple[Event, ...], state: RunState) -> None:
        for event in events:
            if isinstance(event, AttemptOpened) and event.attempt.step == "priced":
                self.opened.append(event.partitions)
            elif isinstance(event, AttemptOpened) and event.attempt.step == self._until:
                self.release()

    def release(self) -> None:
        if self._taken:
            self._java.leave(self._taken)
            self._taken = 0


def test_a_memory_result_without_room_is_discarded_and_made_once_more_on_disk(
    spark: SparkSession, tmp_path: Path
) -> None:
    orders(spark, tmp_path)
    watcher = Crowded(spark, until="listed")
    try:
        made = pipeline(tmp_path, "memory", price=F.col("id") * 2.0)
        made.run(spark, str(tmp_path / "runs"), options=rk.RunOptions(config=AT_ONCE, watcher=watcher))
    finally:
        watcher.release()
    assert watcher.opened == [Partitions.first(N), Partitions.first(N)]
    assert rk.read_newest(spark, str(tmp_path / "out")).where("price = first").count() == 400


def test_the_control_plain_persist_changes_rows_unseen(spark: SparkSession, tmp_path: Path) -> None:
    orders(spark, tmp_path)
    rows = spark.read.parquet(str(tmp_path / "orders")).withColumn("price", in_python(is_random=True))
    context = spark.sparkContext._jsc.sc()
    before = set(context.getPersistentRDDs().keys().mkString(",").split(","))
    kept = rows.persist()
    first = {row.id: row.price for row in kept.collect()}
    (number,) = set(context.getPersistentRDDs().keys().mkString(",").split(",")) - before
    Package(spark, "rekindle.test").StoredBlocks.remove(int(number), 1)
    second = {row.id: row.price for row in kept.collect()}
    kept.unpersist()
    assert 0 < sum(first[key] != second[key] for key in first) < 400


@pytest.mark.parametrize("kind", ["caching", "memory"])
def test_a_step_over_a_day_without_files_is_empty(spark: SparkSession, tmp_path: Path, kind: Kind) -> None:
    """The scan has no Spark partition, so that no task commits anything."""
    (tmp_path / "day").mkdir()
    made = rk.Pipeline("empty")

    @made.source
    def rows(spark: SparkSession) -> DataFrame:
        return spark.read.schema("id long").parquet(str(tmp_path / "day"))

    @made.step(result=kind)
    def doubled(rows: DataFrame) -> DataFrame:
        return rows.selectExpr("id * 2 id")

    @made.sink(rk.files(str(tmp_path / "out")))
    def out(doubled: DataFrame) -> DataFrame:
        return doubled.selectExpr("id + 1 id")

    made.run(spark, str(tmp_path / "runs"), options=rk.RunOptions(config=AT_ONCE))
    assert rk.read_newest(spark, str(tmp_path / "out")).count() == 0
