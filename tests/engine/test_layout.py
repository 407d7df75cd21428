"""Our own partition numbers: every row lies where the layout says, in every plan and for every type of key."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

from rekindle.engine.spark import layout, manifest, results
from rekindle.engine.spark.session import clone, group_session, jvm
from rekindle.model.partitions import Partitions

N = 7
Build = Callable[[SparkSession], DataFrame]


def keep(held: layout.Held, folder: Path, wanted: Partitions | None = None) -> list[manifest.Commit]:
    """Write it, and give what the driver saw committed."""
    directory = f"file:{folder}"
    results.write(held, directory, wanted or Partitions.first(held.partitions), "test", is_first=wanted is None)
    protocol = jvm(held.session).rekindle.spark.AttemptCommitProtocol
    return manifest.from_driver(protocol.drain(directory))


def back(held: layout.Held, folder: Path, commits: list[manifest.Commit]) -> DataFrame:
    files = [(commit.name, commit.bytes) for commit in commits if commit.bytes >= 0]
    return results.read(clone(held.session, {}), f"file:{folder}", files, held.schema, held.keys, held.partitions)


@F.udf(LongType())  # type: ignore[untyped-decorator]
def doubled(k: int) -> int:
    return k * 2


BUILDS: dict[str, tuple[Build, tuple[str, ...]]] = {
    "an exchange of our own": (lambda s: s.range(500).selectExpr("id", "id % 50 k"), ("k",)),
    "an aggregation's exchange": (lambda s: s.range(500).selectExpr("id % 50 k").groupBy("k").count(), ("k",)),
    "Python above an aggregation": (
        lambda s: s.range(500).selectExpr("id % 50 k").groupBy("k").count().withColumn("d", doubled("k")),
        ("k",),
    ),
    "the user's own exchange": (lambda s: s.range(500).selectExpr("id", "id % 50 k").repartition(N, "k"), ("k",)),
    "text keys": (lambda s: s.range(500).selectExpr("id", "concat('x', id % 50) k"), ("k",)),
    "decimal, date and null keys": (
        lambda s: s.range(500).selectExpr(
            "id", "cast(id % 9 as decimal(10,2)) a", "date_add(date'2026-01-01', cast(id % 5 as int)) b"
        ),
        ("a", "b"),
    ),
    "keys that are null": (lambda s: s.range(500).selectExpr("id", "if(id % 3 = 0, null, id % 50) k"), ("k",)),
    "collated keys": (lambda s: s.range(500).selectExpr("id", "collate(concat('X', id % 50), 'UTF8_LCASE') k"), ("k",)),
    "a renamed key above an aggregation": (
        lambda s: s.range(500).selectExpr("id % 50 g").groupBy("g").count().withColumnRenamed("g", "k"),
        ("k",),
    ),
    "rows that are sorted": (lambda s: s.range(500).selectExpr("id", "id % 50 k").orderBy("id"), ("k",)),
}


@pytest.mark.parametrize("name", BUILDS)
def test_every_row_lies_in_its_partition(spark: SparkSession, tmp_path: Path, name: str) -> None:
    build, keys = BUILDS[name]
    session = group_session(spark)
    held = layout.hold(build(session), session, keys, N)
    commits = keep(held, tmp_path / "a")
    assert [commit.partition for commit in sorted(commits, key=lambda c: c.partition)] == list(range(N))
    found = back(held, tmp_path / "a", commits).withColumn("lies", F.spark_partition_id()).collect()
    expected = build(spark).repartition(N, *keys).withColumn("lies", F.spark_partition_id()).collect()
    assert sorted(map(str, found)) == sorted(map(str, expected))


def test_a_pruned_write_keeps_the_numbers(spark: SparkSession, tmp_path: Path) -> None:
    session = group_session(spark)
    held = layout.hold(session.range(500).selectExpr("id", "id % 50 k"), session, ("k",), N)
    some = keep(held, tmp_path / "a", Partitions((1, 4, 6)))
    assert {commit.partition for commit in some} == {1, 4, 6}
    rest = keep(held, tmp_path / "a", Partitions((0, 2, 3, 5)))
    read = back(held, tmp_path / "a", some + rest)
    assert read.where(F.spark_partition_id() != F.expr(f"pmod(hash(k), {N})")).count() == 0
    assert read.count() == 500


def test_empty_partitions_are_committed_too(spark: SparkSession, tmp_path: Path) -> None:
    session = group_session(spark)
    held = layout.hold(session.range(500).selectExpr("id", "1 k"), session, ("k",), N)
    commits = keep(held, tmp_path / "a")
    assert len(commits) == N
    assert sum(commit.bytes >= 0 for commit in commits) <= 2  # Spark writes a file for its first task, empty or not.
    listed = manifest.from_listing(jvm(spark).rekindle.spark.Bridge.list(session._jsparkSession, f"file:{tmp_path}/a"))
    assert sorted(listed, key=lambda c: c.partition) == sorted(commits, key=lambda c: c.partition)


def test_an_empty_exchange_keeps_its_partitions(spark: SparkSession, tmp_path: Path) -> None:
    session = group_session(spark)
    held = layout.hold(session.range(500).where("id < 0").selectExpr("id", "id k"), session, ("k",), N)
    assert len(keep(held, tmp_path / "a")) == N


def test_results_that_lie_together_are_joined_without_an_exchange(spark: SparkSession, tmp_path: Path) -> None:
    sides = []
    for side in ("left", "right"):
        session = group_session(spark)
        held = layout.hold(session.range(500).selectExpr("id % 50 k", f"id {side}"), session, ("k",), N)
        sides.append(back(held, tmp_path / side, keep(held, tmp_path / side)))
    session = group_session(spark)
    joined = sides[0].join(sides[1], "k").withColumn("d", doubled("k"))
    assert layout.hold(joined, session, ("k",), N).shape.is_narrow
    joined = joined.groupBy("k").count().withColumn("d", doubled("k"))
    assert layout.hold(joined, session, ("k",), N).shape.is_narrow
    assert not layout.hold(joined, session, ("k",), N + 1).shape.is_narrow
    assert not layout.hold(joined, session, ("count",), N).shape.is_narrow
