"""A source that is replaced while a run is on: nothing that may have read two versions of it counts."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.engine.spark.plan.group import GroupSpec
from rekindle.engine.spark.plan.layout import Layout, hold
from rekindle.engine.spark.plan.looking import SourceCheck, SourceFiles, source_files
from rekindle.engine.spark.plan.sources import pin
from rekindle.engine.spark.run import attempts, engine
from rekindle.engine.spark.run.engine import SparkEngine
from rekindle.engine.spark.session import group_session
from rekindle.errors import InputChanged, Refused, RunFailed
from rekindle.failover.backoff import FixedDelay
from rekindle.master.facts.config import BackoffSpec, MasterConfig
from rekindle.master.facts.events import Event, FailureHandled, PartitionsCommitted
from rekindle.master.facts.stimuli import AttemptEnded, AttemptSealed
from rekindle.master.state.commands import SealAttempt, StartAttempt
from rekindle.master.state.run_state import RunState
from rekindle.model.ids import AttemptId, Epoch, Generation
from rekindle.model.partitions import Partitions
from rekindle.remedies import StartKind, StartRemedy
from rekindle.runtime.watcher import Watcher
from support.reports import until

FILES, ROWS = 4, 100
CONFIG = MasterConfig(backoff=BackoffSpec.of(FixedDelay(6, 200)))


def write(folder: Path, number: int, version: str) -> None:
    ids = list(range(number * ROWS, (number + 1) * ROWS))
    pq.write_table(pa.table({"id": ids, "v": [version] * ROWS}), folder / f"p{number}.parquet")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "orders"
    folder.mkdir()
    for number in range(FILES):
        write(folder, number, "old")
    return folder


def fails_once(folder: Path, at: int) -> Callable[[int], int]:
    """For the row `at`, the first time it is asked for, when another partition counts."""
    flag, goes_on = folder / f"failed-{at}", folder / "goes-on"

    def checked(number: int) -> int:
        if number == at and not flag.exists():
            while not goes_on.exists():
                time.sleep(0.05)
            flag.touch()
            raise ValueError("service down")
        return number

    return checked


def pipeline(folder: Path, checked: Callable[[int], int], *, inside: bool = False, eager: bool = False) -> rk.Pipeline:
    """`inside` reads the source in the step itself, `eager` after a job of its own."""
    made = rk.Pipeline("daily")
    path, check = str(folder / "orders"), F.udf(checked, "long")

    def orders(spark: SparkSession) -> DataFrame:
        return spark.range(1) if inside else spark.read.schema("id long, v string").parquet(path)

    def out(spark: SparkSession, orders: DataFrame) -> DataFrame:
        if eager:
            assert orders.count()
        frame = spark.read.schema("id long, v string").parquet(path) if inside else orders
        return frame.withColumn("checked", check("id"))

    made.add_source(orders)
    made.add_sink(out, rk.files(str(folder / "out")), eager=eager)
    return made


def replaces(folder: Path, number: int = FILES - 1) -> Watcher:
    """Replaces a file of the source while its partition waits for its retry."""

    def watch(events: tuple[Event, ...], state: RunState) -> None:
        if any(isinstance(event, PartitionsCommitted) for event in events):
            (folder / "goes-on").touch()
        if any(isinstance(event, FailureHandled) for event in events):
            write(folder / "orders", number, "new")

    return watch


def versions(spark: SparkSession, folder: Path) -> dict[str, int]:
    rows = rk.read_newest(spark, str(folder / "out")).groupBy("v").count().collect()
    return {row["v"]: row["count"] for row in rows}


@pytest.mark.parametrize(
    ("inside", "eager"),
    [
        pytest.param(False, False, id="read by a source"),
        pytest.param(True, False, id="read in the step"),
        pytest.param(False, True, id="read by an eager step"),
    ],
)
def test_a_file_that_is_replaced_while_its_partition_waits_is_refused_by_name(
    spark: SparkSession, source: Path, inside: bool, eager: bool
) -> None:
    """Case 17: 300 old and 100 new rows were published, and the run was done."""
    folder = source.parent
    made = pipeline(folder, fails_once(folder, 377), inside=inside, eager=eager)
    options = rk.RunOptions(config=CONFIG, watcher=replaces(folder))
    with pytest.raises(RunFailed, match=r"InputChanged: the input of out changed.*p3\.parquet") as stopped:
        made.run(spark, str(folder / "kept"), options=options)
    assert stopped.value.remedies == (StartRemedy(to="read it again", kind=StartKind.RESUME, replace=("out",)),)
    assert "read it again: rk.RunOptions(replace=['out'])" in str(stopped.value)
    assert not (folder / "out" / "pointers").exists(), "nothing is published"
    if inside or eager:
        return
    with pytest.raises(Refused, match="the input of out changed since"):
        made.run(spark, str(folder / "kept"), options=rk.RunOptions(config=CONFIG))
    made.run(spark, str(folder / "kept"), options=rk.RunOptions(config=CONFIG, replace=("out",)))
    assert versions(spark, folder) == {"old": 300, "new": 100}, "as the source is now, read at one time"


def test_what_was_looked_at_before_stays(spark: SparkSession, source: Path) -> None:
    folder = source.parent
    made = pipeline(folder, fails_once(folder, 377))
    options = rk.RunOptions(config=CONFIG, watcher=replaces(folder))
    with pytest.raises(RunFailed, match="out: 1 of 2 partitions kept"):
        made.run(spark, str(folder / "kept"), options=options)


def test_control_without_the_look_two_versions_are_published(
    spark: SparkSession, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = source.parent
    monkeypatch.setattr(engine, "source_files", lambda *arguments: None)
    made = pipeline(folder, fails_once(folder, 377))
    made.run(spark, str(folder / "kept"), options=rk.RunOptions(config=CONFIG, watcher=replaces(folder)))
    assert versions(spark, folder) == {"old": 300, "new": 100}


def test_a_file_that_is_replaced_under_a_task_is_seen_at_the_end_of_the_attempt(
    spark: SparkSession, source: Path
) -> None:
    """The task itself does it, with its last row: it has read the old one, its commit comes after."""
    folder, new = source.parent, source.parent / "new.parquet"
    pq.write_table(pa.table({"id": list(range(ROWS)), "v": ["new"] * ROWS}), new)

    def replaced(number: int) -> int:
        if number == FILES * ROWS - 1 and new.exists():
            new.replace(source / "p0.parquet")
        return number

    with pytest.raises(RunFailed, match=r"the input of out changed.*p0\.parquet"):
        pipeline(folder, replaced).run(spark, str(folder / "kept"), options=rk.RunOptions(config=CONFIG))
    assert not (folder / "out" / "pointers").exists()


def test_a_file_that_is_added_is_not_read_and_no_change(spark: SparkSession, source: Path) -> None:
    folder = source.parent
    made = pipeline(folder, fails_once(folder, 377))
    options = rk.RunOptions(config=CONFIG, watcher=replaces(folder, FILES))
    summary = made.run(spark, str(folder / "kept"), options=options)
    assert summary.failures == 1 and versions(spark, folder) == {"old": 400}


def test_what_is_added_while_another_group_is_planned_is_not_read(spark: SparkSession, tmp_path: Path) -> None:
    """Planning `later` listed the shared source again, under `all_rows`, whose tasks had not begun to read it: 2100 of
    2000 rows were counted, and the run was done."""
    path, more = tmp_path / "in", tmp_path / "more"
    begun, added, ended = tmp_path / "begun", tmp_path / "added", tmp_path / "ended"
    spark.range(2000).selectExpr("id", "id % 50 k", "id % 2 d").repartition(2).write.partitionBy("d").parquet(str(path))
    spark.range(5000, 5100).selectExpr("id", "id % 50 k").coalesce(1).write.parquet(str(more))

    def waits_for(flag: Path) -> None:
        for _ in range(600):
            if not flag.exists():
                time.sleep(0.1)

    def counts(frame: DataFrame, name: str) -> DataFrame:
        return frame.where("d = 1").groupBy("k").agg(F.count("id").alias(name)).coalesce(1)

    def first(s: DataFrame) -> DataFrame:
        def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            begun.touch()
            waits_for(added)
            yield from batches

        return counts(s, "n").mapInArrow(work, "k long, n long")

    def later(first: DataFrame, s: DataFrame) -> DataFrame:
        def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            ended.touch()
            yield from batches

        return counts(first.join(s, "k"), "m").mapInArrow(work, "k long, m long")

    def all_rows(s: DataFrame) -> DataFrame:
        def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            waits_for(ended)
            yield from batches

        slow = counts(s, "n").mapInArrow(work, "k long, n long").select("k")
        keys = slow.union(s.select("k").distinct()).distinct()
        return s.join(F.broadcast(keys), "k").groupBy("k").agg(F.count("id").alias("c"))

    def adds() -> None:
        waits_for(begun)
        shutil.copy(next(more.glob("*.parquet")), path / "d=0" / "part-new.parquet")
        added.touch()

    made = rk.Pipeline("daily")
    made.add_source(lambda spark: spark.read.parquet(str(path)), name="s")
    made.add_step(first)
    made.add_step(later)
    made.add_step(all_rows)
    made.add_sink(lambda later: later, rk.files(str(tmp_path / "b")), name="b")
    made.add_sink(lambda all_rows: all_rows, rk.files(str(tmp_path / "a")), name="a")
    adding = threading.Thread(target=adds, daemon=True)
    adding.start()
    made.run(spark, str(tmp_path / "kept"))
    adding.join()
    assert added.exists() and ended.exists()
    (row,) = rk.read_newest(spark, str(tmp_path / "a")).agg(F.sum("c").alias("rows")).collect()
    assert row["rows"] == 2000


def test_a_plan_whose_listing_is_another_one_than_was_pinned_is_not_run(
    spark: SparkSession, source: Path, tmp_path: Path
) -> None:
    """Somebody else listed it again: this is the very plan that was fingerprinted, by the listing that it had then."""
    session = group_session(spark, {})
    frame = session.read.parquet(str(source)).selectExpr("id % 10 k").groupBy("k").count()
    planned = hold(frame, session, Layout(("k",), 2))
    group = GroupSpec(
        step="totals",
        build=lambda *given: frame,
        inputs=(),
        keys=("k",),
        partitions=2,
        source=str(pin(planned.frame)),
        planned=planned,
    )
    made = SparkEngine(spark, f"file:{tmp_path}/run", {"totals": group})
    write(source, FILES, "added")
    leaves = frame._jdf.queryExecution().analyzed().collectLeaves()
    leaves.apply(0).relation().location().refresh()
    made.send(
        StartAttempt(
            attempt=ATTEMPT,
            partitions=Partitions.first(2),
            inputs=(),
            is_repeatable=True,
            is_first=True,
            exchange_version=0,
            exchange_checksum=None,
        )
    )
    (ended,) = (one for one in until(made, AttemptEnded) if isinstance(one, AttemptEnded))
    assert "the input of totals changed while the run was on" in ended.failures[0].cause.text


ATTEMPT = AttemptId("totals", Generation(0), Epoch(1), 1)


@pytest.mark.parametrize("is_changed", [False, True])
def test_what_a_dead_driver_finished_is_adopted_only_over_the_source_as_it_was(
    spark: SparkSession, source: Path, tmp_path: Path, is_changed: bool
) -> None:
    def totals(session: SparkSession, inputs: Mapping[str, DataFrame]) -> DataFrame:
        return session.read.parquet(str(source)).selectExpr("id % 10 k").groupBy("k").count()

    def made() -> SparkEngine:
        session = group_session(spark, {})
        planned = hold(totals(session, {}), session, Layout(("k",), 2))
        return SparkEngine(
            spark,
            f"file:{tmp_path}",
            {"totals": GroupSpec(step="totals", build=totals, inputs=(), keys=("k",), partitions=2, planned=planned)},
        )

    first = made()
    first.send(
        StartAttempt(
            attempt=ATTEMPT,
            partitions=Partitions.first(2),
            inputs=(),
            is_repeatable=True,
            is_first=True,
            exchange_version=0,
            exchange_checksum=None,
        )
    )
    until(first, AttemptEnded)
    second = made()
    if is_changed:
        write(source, 2, "new")
        with pytest.warns(RuntimeWarning, match=r"are not adopted: .*p2\.parquet"):
            found = sealed(second)
    else:
        found = sealed(second)
    assert found.partitions == (Partitions() if is_changed else Partitions.first(2))


def sealed(of: SparkEngine) -> AttemptSealed:
    of.send(SealAttempt(ATTEMPT))
    (found,) = (one for one in until(of, AttemptSealed) if isinstance(one, AttemptSealed))
    return found


@pytest.mark.parametrize(
    ("change", "told"),
    [
        pytest.param(lambda path: path.unlink(), "is gone", id="gone"),
        pytest.param(lambda path: path.write_bytes(b"short"), "and has 5", id="another length"),
        pytest.param(lambda path: os.utime(path, (1, 1)), "was written again", id="another time"),
        pytest.param(lambda path: shutil.rmtree(path.parent), "is gone", id="the directory is gone"),
    ],
)
@pytest.mark.parametrize("files", [FILES, 12], ids=["few", "many"])
def test_each_change_of_a_file_is_told(
    spark: SparkSession, source: Path, change: Callable[[Path], None], told: str, files: int
) -> None:
    for number in range(FILES, files):
        write(source, number, "old")
    found = source_files("orders", spark.read.parquet(str(source)), lambda: None)
    assert found is not None and found.changed() == []
    change(source / "p1.parquet")
    lines = found.changed()
    assert len(lines) == (files if "directory" in told or not source.exists() else 1)
    assert any("p1.parquet" in line and told in line for line in lines)
    with pytest.raises(InputChanged, match=r"read it again: rk\.RunOptions\(replace=\['orders'\]\)"):
        found.refuse_change()


@pytest.mark.parametrize(
    ("before", "after", "is_changed"),
    [
        pytest.param(250, 0, False, id="listed in milliseconds and asked in seconds"),
        pytest.param(0, 250, False, id="the other way"),
        pytest.param(250, 1000, True, id="another second"),
        pytest.param(250, 750, True, id="both in milliseconds"),
    ],
)
def test_times_are_compared_as_exactly_as_both_are_told(
    spark: SparkSession, source: Path, before: int, after: int, is_changed: bool
) -> None:
    """A listing and a question about one object may tell the time of the same object with another precision."""
    file, second = source / "p1.parquet", 1_700_000_000_000

    def set_time(millis: int) -> None:
        os.utime(file, ns=((second + millis) * 1_000_000,) * 2)

    set_time(before)
    found = source_files("orders", spark.read.parquet(str(source)), lambda: None)
    set_time(after)
    assert found is not None and bool(found.changed()) == is_changed


def test_nothing_is_looked_at_where_no_file_is_read(spark: SparkSession) -> None:
    assert source_files("numbers", spark.range(5), lambda: None) is None
    assert SourceCheck(None).let_through(7) == 7


def test_only_partitions_that_are_read_are_looked_at(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(40).selectExpr("id", "id % 2 day").repartition(1).write.partitionBy("day").parquet(f"{tmp_path}/in")
    found = source_files("orders", spark.read.parquet(f"{tmp_path}/in").where("day = 1"), lambda: None)
    shutil.rmtree(tmp_path / "in" / "day=0")
    assert found is not None and found.changed() == []


def test_the_loop_asks_and_never_waits(spark: SparkSession, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits that came after a look began wait for the next one."""
    found = source_files("orders", spark.read.parquet(str(source)), lambda: None)
    assert found is not None
    check = SourceCheck(found)
    assert check.let_through(2) == 0, "a look begins"
    first = check._look
    assert first is not None
    first._thread.join()
    assert check.let_through(5) == 2
    assert check.let_through(3) == 0 and check._look is None, "the next look is not due yet"
    check._next_at = 0.0
    write(source, 1, "new")
    assert check.let_through(3) == 0
    assert check._look is not None
    check._look._thread.join()
    for _ in range(2):
        with pytest.raises(InputChanged):
            check.let_through(3)
    write(source, 1, "old")
    with pytest.raises(InputChanged):
        check.look_now()


def test_how_often_an_attempt_looks(spark: SparkSession, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once before the first task, once at the end, and in between at most once in a second."""
    folder, made = source.parent, []
    looked: list[SourceFiles] = []
    changed = SourceFiles.changed

    def noted(self: SourceFiles) -> list[str]:
        looked.append(self)
        return changed(self)

    class Noted(SourceCheck):
        def __init__(self, sources: SourceFiles | None) -> None:
            super().__init__(sources)
            made.append(sources)

    monkeypatch.setattr(attempts, "SourceCheck", Noted)
    monkeypatch.setattr(SourceFiles, "changed", noted)
    summary = pipeline(folder, lambda number: number).run(spark, str(folder / "kept"))
    (sources,) = [one for one in made if one is not None]
    assert summary.wall_ms is not None
    looks = sum(one is sources for one in looked)
    assert 2 <= looks <= 3 + summary.wall_ms // 1000
