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
