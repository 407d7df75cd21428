"""Attempts on a real session: what they report, and what another driver finds of them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rekindle.engine.spark import manifest
from rekindle.engine.spark.attempts import Attempt
from rekindle.engine.spark.engine import GroupSpec, SparkEngine
from rekindle.master.commands import Input, SealAttempt, StartAttempt
from rekindle.master.digests import Digests
from rekindle.master.state import Segment
from rekindle.master.stimuli import AttemptEnded, AttemptSealed, CommitsSeen, Stimulus
from rekindle.model.ids import AttemptId, Epoch, Generation
from rekindle.model.partitions import Partitions

N = 4
ATTEMPT = AttemptId("totals", Generation(0), Epoch(1), 1)


def totals(session: SparkSession, inputs: Mapping[str, DataFrame]) -> DataFrame:
    return session.range(100).selectExpr("id % 10 k").groupBy("k").agg(F.count("*").alias("n"))


def engine(spark: SparkSession, folder: Path) -> SparkEngine:
    return SparkEngine(spark, f"file:{folder}", {"totals": GroupSpec("totals", totals, (), ("k",), N)})


def until(engine: SparkEngine, kind: type[Stimulus]) -> list[Stimulus]:
    """What is reported up to and with the first report of a kind."""
    found: list[Stimulus] = []
    deadline = time.monotonic() + 60
    while not any(isinstance(one, kind) for one in found):
        assert time.monotonic() < deadline, f"no {kind.__name__}: {found}"
        found += engine.poll(200)
    return found


def attempt(engine: SparkEngine) -> list[Stimulus]:
    engine.send(StartAttempt(ATTEMPT, Partitions.first(N), (), True, True, 0, None))
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
    rows = other.read("totals", Input("totals", (segment,)), spark)
    assert {(row.k, row.n) for row in rows.collect()} == {(k, 10) for k in range(10)}


def test_without_its_label_an_attempt_is_not_adopted(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Attempt, "_label", lambda self, held: None)
    attempt(engine(spark, tmp_path))
    assert not sealed(engine(spark, tmp_path)).partitions


def test_an_attempt_that_never_began_seals_empty(spark: SparkSession, tmp_path: Path) -> None:
    assert not sealed(engine(spark, tmp_path)).partitions


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

    made = SparkEngine(spark, f"file:{tmp_path}", {"totals": GroupSpec("totals", build, (), ("k",), N)})
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
    reader = GroupSpec("reader", lambda session, inputs: inputs["totals"].where("n > 0"), ("totals",), ("k",), N)
    made = SparkEngine(
        spark, f"file:{tmp_path}", {"totals": GroupSpec("totals", totals, (), ("k",), N), "reader": reader}
    )
    lost: set[int] = set()
    for number in files:
        each = AttemptId("reader", Generation(0), Epoch(1), 10 + number)
        wanted = Partitions((number,))
        made.send(StartAttempt(each, wanted, (Input("totals", segments),), True, True, 0, None))
        (ended,) = (one for one in until(made, AttemptEnded) if isinstance(one, AttemptEnded))
        assert bool(ended.failures) == (number not in rest)
        lost |= set(ended.lost.results.get("totals", Partitions()))
    made.close()
    assert lost == {first, second, third}
