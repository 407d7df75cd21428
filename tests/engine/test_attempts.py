"""Attempts on a real session: what they report, and what another driver finds of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from msgspec import structs
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from rekindle.engine.spark.jvm import file_calls
from rekindle.engine.spark.jvm.access import ours
from rekindle.engine.spark.plan import kept_frames, plans
from rekindle.engine.spark.plan.group import GroupSpec
from rekindle.engine.spark.plan.layout import Layout
from rekindle.engine.spark.plan.sources import pin
from rekindle.engine.spark.run import attempts, exchanges
from rekindle.engine.spark.run.attempts import Attempt
from rekindle.engine.spark.run.engine import SparkEngine
from rekindle.engine.spark.session import clone
from rekindle.errors import RunFailed
from rekindle.master.facts.digests import Digests
from rekindle.master.facts.stimuli import AttemptEnded, AttemptSealed, CommitsSeen, Stimulus
from rekindle.master.state.commands import CancelAttempt, Input, SealAttempt, StartAttempt
from rekindle.master.state.run_state import Segment
from rekindle.model.ids import AttemptId, Epoch, Generation
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.results import manifest
from support.reports import until
from support.spark_line import needs

N = 4
ATTEMPT = AttemptId("totals", Generation(0), Epoch(1), 1)


def totals(session: SparkSession, inputs: Mapping[str, DataFrame]) -> DataFrame:
    return session.range(100).selectExpr("id % 10 k").groupBy("k").agg(F.count("*").alias("n"))


def engine(spark: SparkSession, folder: Path) -> SparkEngine:
    return SparkEngine(
        spark,
        f"file:{folder}",
        {"totals": GroupSpec(step="totals", build=totals, inputs=(), keys=("k",), partitions=N)},
    )


def attempt(engine: SparkEngine) -> list[Stimulus]:
    engine.send(
        StartAttempt(
            attempt=ATTEMPT,
            partitions=Partitions.first(N),
            inputs=(),
            is_repeatable=True,
            is_first=True,
            exchange_version=0,
            exchange_checksum=None,
        )
    )
    return until(engine, AttemptEnded)


def sealed(engine: SparkEngine) -> AttemptSealed:
    engine.send(SealAttempt(ATTEMPT))
    (found,) = (one for one in until(engine, AttemptSealed) if isinstance(one, AttemptSealed))
    return found


def test_another_driver_finds_what_was_finished_and_can_read_it(spark: SparkSession, tmp_path: Path) -> None:
    reported = attempt(engine(spark, tmp_path))
    seen = [one for one in reported if isinstance(one, CommitsSeen)]
    commits = [commit for one in seen for commit in manifest.unpack(one.manifest)]
    other = engine(spark, tmp_path)
    found = sealed(other)
    assert found.partitions == Partitions.first(N) == Partitions(commit.partition for commit in commits)
    assert sorted(manifest.unpack(found.manifest), key=str) == sorted(commits, key=str)
    segment = Segment(ATTEMPT, found.partitions, found.manifest, Digests(found.partitions, None))
    rows = other.read(Input("totals", (segment,)), spark)
    assert {(row.k, row.n) for row in rows.collect()} == {(k, 10) for k in range(10)}


def test_without_its_label_an_attempt_is_not_adopted(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Attempt, "_label", lambda self, held: None)
    attempt(engine(spark, tmp_path))
    assert not sealed(engine(spark, tmp_path)).partitions


def test_an_attempt_that_never_began_seals_empty(spark: SparkSession, tmp_path: Path) -> None:
    assert not sealed(engine(spark, tmp_path)).partitions


def test_a_cancel_holds_that_comes_before_there_is_a_spark_job(spark: SparkSession, tmp_path: Path) -> None:
    """Spark forgets it: without ours the job would run to its end, hours after the run was given up."""
    gate = threading.Event()

    def build(session: SparkSession, inputs: Mapping[str, DataFrame]) -> DataFrame:
        gate.wait(60)
        return totals(session, inputs)

    made = SparkEngine(
        spark,
        f"file:{tmp_path}",
        {"totals": GroupSpec(step="totals", build=build, inputs=(), keys=("k",), partitions=N)},
    )
    made.send(
        StartAttempt(
            attempt=ATTEMPT,
            partitions=Partitions.first(N),
            inputs=(),
            is_repeatable=True,
            is_first=True,
            exchange_version=0,
            exchange_checksum=None,
        )
    )
    made.send(CancelAttempt(ATTEMPT))
    gate.set()
    assert until(made, AttemptEnded) == [AttemptEnded(attempt=ATTEMPT, was_cancelled=True)]
    made.close()
    assert not list(tmp_path.rglob("*.parquet"))


def test_a_directory_above_that_somebody_else_uses_is_no_trouble(spark: SparkSession, tmp_path: Path) -> None:
    """Each store says "not empty" with an exception of its own: this one with a plain one."""
    session = clone(
        spark, {"fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem", "fs.file.impl.disable.cache": "true"}
    )
    for name in ("e1-a1", "e1-a2"):
        (tmp_path / "g0" / name).mkdir(parents=True)
        (tmp_path / "g0" / name / "part").write_text(name)
    delete = ours(session).Bridge.delete
    delete(session._jsparkSession, f"file:{tmp_path}/g0/e1-a1", 3)
    assert [path.name for path in (tmp_path / "g0").iterdir()] == ["e1-a2"]
    delete(session._jsparkSession, f"file:{tmp_path}/g0/e1-a2", 1)
    assert not (tmp_path / "g0").exists(), "nobody uses it now"


def once_cured(flag: Path) -> Callable[[str], Column]:
    """A function of a column that fails until the flag is there."""

    def cured(value: int) -> int:
        if not flag.exists():
            raise ValueError("not yet")
        return value

    return lambda column: F.udf(cured, "long")(column)


def numbered(number: int, partitions: str) -> StartAttempt:
    attempt = AttemptId("totals", Generation(0), Epoch(1), number)
    return StartAttempt(
        attempt=attempt,
        partitions=Partitions.parse(partitions),
        inputs=(),
        is_repeatable=True,
        is_first=number == 1,
        exchange_version=0,
        exchange_checksum=None,
    )


@needs("checksums of map outputs")
def test_after_a_failed_map_stage_all_attempts_read_one_exchange(spark: SparkSession, tmp_path: Path) -> None:
    """Columnar rows lie between our exchange and the one that failed: each new plan of them would be another exchange,
    and partitions of two would stand together unseen."""
    flag, cure = tmp_path / "cured", once_cured(tmp_path / "cured")
    spark.range(100).selectExpr("id % 10 k").write.parquet(str(tmp_path / "a"))

    def build(session: SparkSession, inputs: Mapping[str, DataFrame]) -> DataFrame:
        rows = session.read.parquet(str(tmp_path / "a"))
        return rows.union(rows.select(cure("k").alias("k")).distinct())

    made = SparkEngine(
        spark,
        f"file:{tmp_path}/run",
        {"totals": GroupSpec(step="totals", build=build, inputs=(), keys=("k",), partitions=N)},
    )
    made.send(numbered(1, "0-3"))
    (failed,) = (one for one in until(made, AttemptEnded) if isinstance(one, AttemptEnded))
    assert failed.failures and "not yet" in failed.failures[0].cause.root.text
    flag.touch()
    checksums = set()
    for number, wanted in ((2, "0-1"), (3, "2-3")):
        made.send(numbered(number, wanted))
        told = until(made, AttemptEnded)
        assert told[-1] == AttemptEnded(attempt=numbered(number, wanted).attempt)
        checksums |= {(one.exchange_version, one.exchange_checksum) for one in told if isinstance(one, CommitsSeen)}
    held = made._generations["totals", 0].held
    assert held.rdd().id() == held.rdd().id()
    assert all(exchanges.look(spark, number, N).tasks for number in plans.exchanges(held.rdd())), "they were run"
    assert len(checksums) == 1 and None not in next(iter(checksums))
    made.close()


def test_a_broadcast_that_failed_is_made_again_and_blames_no_partition(spark: SparkSession, tmp_path: Path) -> None:
    flag, cure = tmp_path / "cured", once_cured(tmp_path / "cured")

    def build(session: SparkSession, inputs: Mapping[str, DataFrame]) -> DataFrame:
        small = session.range(0, 10, 1, N).select(cure("id").alias("k"), F.lit("name").alias("name"))
        return session.range(100).selectExpr("id % 10 k", "id").join(F.broadcast(small), "k")

    made = SparkEngine(
        spark,
        f"file:{tmp_path}/run",
        {"totals": GroupSpec(step="totals", build=build, inputs=(), keys=("k",), partitions=N)},
    )
    made.send(numbered(1, "0-3"))
    (failed,) = (one for one in until(made, AttemptEnded) if isinstance(one, AttemptEnded))
    assert [bool(failure.partitions) for failure in failed.failures] == [False]
    flag.touch()
    made.send(numbered(2, "0-3"))
    assert until(made, AttemptEnded)[-1] == AttemptEnded(attempt=numbered(2, "0-3").attempt)
    made.close()


def test_what_no_task_met_blames_no_partition(spark: SparkSession, tmp_path: Path) -> None:
    """It is tried again: with every partition blamed, one such failure would be poison of the whole step."""

    def build(session: SparkSession, inputs: Mapping[str, DataFrame]) -> DataFrame:
        raise ValueError("no plan today")

    made = SparkEngine(
        spark,
        f"file:{tmp_path}",
        {"totals": GroupSpec(step="totals", build=build, inputs=(), keys=("k",), partitions=N)},
    )
    (ended,) = (one for one in attempt(made) if isinstance(one, AttemptEnded))
    assert [str(failure.partitions) for failure in ended.failures] == [""]
    made.close()


@needs("checksums of map outputs")
def test_a_map_task_without_rows_has_a_checksum(spark: SparkSession, tmp_path: Path) -> None:
    def build(session: SparkSession, inputs: Mapping[str, DataFrame]) -> DataFrame:
        return session.range(0, 100, 1, N).where("id < 25").selectExpr("id % 10 k").groupBy("k").count()

    made = SparkEngine(
        spark,
        f"file:{tmp_path}",
        {"totals": GroupSpec(step="totals", build=build, inputs=(), keys=("k",), partitions=N)},
    )
    told = [one for one in attempt(made) if isinstance(one, CommitsSeen)]
    assert told and all(one.exchange_checksum for one in told)
    made.close()


def test_a_number_of_splits_that_the_user_wants_puts_no_files_together(spark: SparkSession, tmp_path: Path) -> None:
    reported = attempt(engine(spark, tmp_path))
    seen = [one for one in reported if isinstance(one, CommitsSeen)]
    files = [
        (f"results/totals/g0/e1-a1/{commit.name}", commit.bytes)
        for one in seen
        for commit in manifest.unpack(one.manifest)
        if commit.name
    ]
    session = clone(spark, {"spark.sql.files.maxPartitionNum": "1"})
    schema = totals(session, {})._jdf.schema()
    rows = kept_frames.read(session, f"file:{tmp_path}", files, schema, Layout((), len(files)), is_by_file=True)
    assert rows.rdd.getNumPartitions() == len(files) > 1


def broken(session: SparkSession, inputs: Mapping[str, DataFrame]) -> DataFrame:
    """One bad row: above the exchange it blames its partition, below it blames nobody."""
    rows = session.range(100).selectExpr("id", "id % 10 k")
    bad = F.expr("if(id = 7, raise_error('bad row'), id)")
    return rows.withColumn("id", bad) if inputs else rows.repartition(N, "k").withColumn("id", bad)


@pytest.mark.parametrize(("is_below", "blamed"), [(False, 1), (True, 0)], ids=["final task", "map task"])
def test_a_failed_final_task_blames_its_partition_and_a_map_task_none(
    spark: SparkSession, tmp_path: Path, is_below: bool, blamed: int
) -> None:
    def build(session: SparkSession, inputs: Mapping[str, DataFrame]) -> DataFrame:
        return broken(session, {"x": session.range(1)} if is_below else {})

    made = SparkEngine(
        spark,
        f"file:{tmp_path}",
        {"totals": GroupSpec(step="totals", build=build, inputs=(), keys=("k",), partitions=N)},
    )
    ended = [one for one in attempt(made) if isinstance(one, AttemptEnded)]
    made.close()
    (failure,) = ended[0].failures
    assert len(failure.partitions) == blamed
    assert "bad row" in failure.cause.root.text


def test_a_file_that_is_gone_short_or_flipped_is_reported_as_lost(spark: SparkSession, tmp_path: Path) -> None:
    made = engine(spark, tmp_path)
    seen = [one for one in attempt(made) if isinstance(one, CommitsSeen)]
    segments = tuple(Segment(ATTEMPT, one.partitions, one.manifest, Digests(one.partitions, None)) for one in seen)
    files = {commit.partition: commit.name for one in seen for commit in manifest.unpack(one.manifest) if commit.name}
    folder = tmp_path / "results" / "totals" / "g0" / "e1-a1"
    (first, second, third), rest = sorted(files)[:3], sorted(files)[3:]
    (folder / files[first]).unlink()
    (folder / files[second]).write_bytes((folder / files[second]).read_bytes()[:100])
    flipped = bytearray((folder / files[third]).read_bytes())
    flipped[30] ^= 1
    (folder / files[third]).write_bytes(flipped)
    reader = GroupSpec(
        step="reader",
        build=lambda session, inputs: inputs["totals"].where("n > 0"),
        inputs=("totals",),
        keys=("k",),
        partitions=N,
    )
    made = SparkEngine(
        spark,
        f"file:{tmp_path}",
        {"totals": GroupSpec(step="totals", build=totals, inputs=(), keys=("k",), partitions=N), "reader": reader},
    )
    lost: set[int] = set()
    for number in files:
        each = AttemptId("reader", Generation(0), Epoch(1), 10 + number)
        wanted = Partitions((number,))
        made.send(
            StartAttempt(
                attempt=each,
                partitions=wanted,
                inputs=(Input("totals", segments),),
                is_repeatable=True,
                is_first=True,
                exchange_version=0,
                exchange_checksum=None,
            )
        )
        (ended,) = (one for one in until(made, AttemptEnded) if isinstance(one, AttemptEnded))
        assert bool(ended.failures) == (number not in rest)
        lost |= set(ended.lost.results.get("totals", Partitions()))
    made.close()
    assert lost == {first, second, third}


def doubled(session: SparkSession, inputs: Mapping[str, DataFrame]) -> DataFrame:
    return inputs["totals"].selectExpr("k", "n * 2 n")


def ran(engine: SparkEngine, command: StartAttempt) -> tuple[Segment, ...]:
    """One attempt that ends well, and what it committed."""
    engine.send(command)
    reported = until(engine, AttemptEnded)
    assert not [one for one in reported if isinstance(one, AttemptEnded) and one.failures]
    return tuple(
        Segment(command.attempt, one.partitions, one.manifest, Digests(one.partitions, None))
        for one in reported
        if isinstance(one, CommitsSeen)
    )


def kept_of_last(spark: SparkSession, tmp_path: Path, is_known: bool) -> tuple[set[int], set[int]]:
    """The keys that the last partition of `doubled` should have, and has, after its input was made in a second attempt.
    Of the same generation in the same application: the plan that is held was made over other files."""
    groups = {
        "totals": GroupSpec(step="totals", build=totals, inputs=(), keys=("k",), partitions=N),
        "doubled": GroupSpec(step="doubled", build=doubled, inputs=("totals",), keys=("k",), partitions=N),
    }
    made = SparkEngine(spark, f"file:{tmp_path}", groups)
    everything, last = Partitions.first(N), Partitions((N - 1,))

    def start(step: str, number: int, wanted: Partitions, *inputs: Segment) -> StartAttempt:
        each = AttemptId(step, Generation(0), Epoch(1), number)
        return StartAttempt(
            attempt=each,
            partitions=wanted,
            inputs=(Input("totals", inputs),) if inputs else (),
            is_repeatable=True,
            is_first=number < 3,
            exchange_version=0,
            exchange_checksum=None,
        )

    first = ran(made, start("totals", 1, everything if is_known else everything - last))
    ran(made, start("doubled", 2, everything if is_known else everything - last, *first))
    again = ran(made, start("totals", 3, last))
    for file in (tmp_path / "results/totals/g0/e1-a1").glob(f"part-*_{N - 1:05d}.*"):
        file.unlink()
    segments = ran(made, start("doubled", 4, last, *again))
    rows = made.read(Input("doubled", segments), spark).collect()
    expected = {row.k for row in made.read(Input("totals", again), spark).collect()}
    made.close()
    return expected, {row.k for row in rows if row.n == 20}


def regrouped(session: SparkSession, inputs: Mapping[str, DataFrame]) -> DataFrame:
    return inputs["totals"].selectExpr("k % 3 j", "n").groupBy("j").agg(F.sum("n").alias("n"))


def after_a_loss(spark: SparkSession, tmp_path: Path, *, tells: bool) -> list[Stimulus]:
    """What an attempt behind an exchange reports that is given one partition of its input from a new attempt, while
    another one is gone: the master believed that the exchange has it."""
    groups = {
        "totals": GroupSpec(step="totals", build=totals, inputs=(), keys=("k",), partitions=N),
        "regrouped": GroupSpec(step="regrouped", build=regrouped, inputs=("totals",), keys=("j",), partitions=N),
    }
    made = SparkEngine(spark, f"file:{tmp_path}", groups)
    everything, again, gone = Partitions.first(N), Partitions((1,)), Partitions((2,))

    def start(step: str, number: int, wanted: Partitions, *inputs: Input) -> StartAttempt:
        return StartAttempt(
            attempt=AttemptId(step, Generation(0), Epoch(1), number),
            partitions=wanted,
            inputs=inputs,
            is_repeatable=True,
            is_first=number < 3,
            exchange_version=0,
            exchange_checksum=None,
        )

    first = ran(made, start("totals", 1, everything))
    ran(made, start("regrouped", 2, Partitions((0,)), Input("totals", first)))
    second = ran(made, start("totals", 3, again))
    left = tuple(structs.replace(one, partitions=one.partitions - again - gone) for one in first)
    known = Input("totals", (*left, *second), absent=gone if tells else Partitions())
    made.send(start("regrouped", 4, everything - Partitions((0,)), known))
    reported = until(made, AttemptEnded)
    made.close()
    return reported


@needs("checksums of map outputs")
@pytest.mark.parametrize("is_eager", [False, True])
def test_no_checksum_covers_what_an_eager_step_found_out(spark: SparkSession, tmp_path: Path, is_eager: bool) -> None:
    """Its constant may lie above the exchange: equal map outputs say nothing about it."""
    groups = {"totals": GroupSpec(step="totals", build=totals, inputs=(), keys=("k",), partitions=N, is_eager=is_eager)}
    reported = attempt(SparkEngine(spark, f"file:{tmp_path}", groups))
    checksums = {one.exchange_checksum for one in reported if isinstance(one, CommitsSeen)}
    assert (checksums == {None}) == is_eager


def test_nothing_is_planned_over_an_input_that_is_not_whole(spark: SparkSession, tmp_path: Path) -> None:
    (ended,) = after_a_loss(spark, tmp_path, tells=True)
    assert isinstance(ended, AttemptEnded) and ended.was_cancelled and ended.has_lost_plan


def test_control_what_is_planned_over_the_rest_loses_rows(spark: SparkSession, tmp_path: Path) -> None:
    reported = after_a_loss(spark, tmp_path, tells=False)
    assert [one for one in reported if isinstance(one, CommitsSeen)], "as if all were there"


@pytest.mark.parametrize("is_known", [False, True], ids=["was not there yet", "was made again"])
def test_an_attempt_reads_the_files_it_is_told_of_and_not_those_of_an_older_one(
    spark: SparkSession, tmp_path: Path, is_known: bool
) -> None:
    expected, found = kept_of_last(spark, tmp_path, is_known)
    assert expected == found and expected


def test_control_a_plan_over_older_files_loses_rows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts.HeldPlan, "reads", lambda self, command: True)
    expected, found = kept_of_last(spark, tmp_path, is_known=False)
    assert expected and not found


def test_a_failure_names_the_files_and_a_source_that_changed_is_not_read(spark: SparkSession, tmp_path: Path) -> None:
    lake = f"file:{tmp_path / 'lake'}"
    spark.range(10).selectExpr("id", "id % 3 k").coalesce(1).write.parquet(lake)
    (name,) = (path.name for path in (tmp_path / "lake").glob("part-*"))

    def build(session: SparkSession, inputs: Mapping[str, DataFrame]) -> DataFrame:
        return session.read.parquet(lake).withColumn("id", F.expr("if(id = 7, raise_error('bad row'), id)"))

    group = GroupSpec(
        step="totals", build=build, inputs=(), keys=("k",), partitions=N, source=str(pin(build(spark, {})))
    )
    made = SparkEngine(spark, f"file:{tmp_path / 'run'}", {"totals": group})
    (ended,) = (one for one in attempt(made) if isinstance(one, AttemptEnded))
    cause = ended.failures[0].cause
    assert f"(reading {tmp_path}/lake/{name})" in cause.text and cause.files == (f"{lake}/{name}",)
    spark.range(10, 11).selectExpr("id", "id % 3 k").write.mode("append").parquet(lake)
    made.close()
    made = SparkEngine(spark, f"file:{tmp_path / 'other'}", {"totals": group})
    (ended,) = (one for one in attempt(made) if isinstance(one, AttemptEnded))
    made.close()
    assert "the input of totals changed" in ended.failures[0].cause.text
    assert not ended.failures[0].cause.is_recoverable


class Telling(Attempt):
    """An attempt that stays on its way: what the commit protocol says is put into its mouth."""

    def __init__(self, report: list[Stimulus]) -> None:
        generation = SimpleNamespace(look=lambda: None, version=0, checksum=lambda: "equal", counted=EMPTY)
        command = StartAttempt(
            attempt=ATTEMPT,
            partitions=Partitions.first(100),
            inputs=(),
            is_repeatable=True,
            is_first=True,
            exchange_version=0,
            exchange_checksum=None,
        )
        super().__init__(
            command, "file:/nowhere", "a", "tag", lambda: cast(attempts.HeldPlan, generation), report.append
        )
        self._generation = cast(attempts.HeldPlan, generation)

    def is_over(self) -> bool:
        return False

    def says(self, partition: int) -> None:
        self._drained = lambda directory: f"{partition}\t0\t0\n"
        self.drain()


def test_the_first_commit_is_reported_at_once_and_later_ones_together() -> None:
    """Before the first report nobody knows what the exchanges held, and a new driver can adopt nothing."""
    found: list[Stimulus] = []
    telling = Telling(found)
    telling.says(3)
    telling.says(4)
    assert [(one.partitions, one.exchange_checksum) for one in found if isinstance(one, CommitsSeen)] == [
        (Partitions((3,)), "equal")
    ]


def test_what_the_storage_refuses_ends_the_wait_for_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = engine(spark, tmp_path)

    def refuse(spark: SparkSession, path: str) -> bytes:
        raise OSError("no answer")

    monkeypatch.setattr(file_calls, "get_file", refuse)
    made.send(SealAttempt(ATTEMPT))
    deadline = time.monotonic() + 60
    with pytest.raises(RunFailed, match="could not list what totals/g0/e1-a1 committed: OSError: no answer"):
        while time.monotonic() < deadline:
            assert made.poll(200) == []
    made.close()
