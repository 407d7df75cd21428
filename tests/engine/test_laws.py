"""Rows are where we say they are, and all of them: whatever plan Spark ends with, or the run ends.

Each law is seen to be needed: without it, and with an exchange trusted that adaptive execution splits, rows are lost.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

import rekindle as rk
from rekindle.engine.spark.jvm import plan_calls
from rekindle.engine.spark.jvm.access import ours
from rekindle.engine.spark.plan import kept_frames, layout, plans
from rekindle.engine.spark.run import results
from rekindle.engine.spark.session import clone, group_session
from rekindle.errors import RowsNotConserved
from rekindle.model.partitions import Partitions
from rekindle.results import manifest

N = 4
ROWS = 6_000
TRIES_MAX = 5
# Adaptive execution splits a partition of an exchange that is larger than this.
SMALL = {
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "32KB",
    "spark.sql.adaptive.coalescePartitions.minPartitionSize": "1KB",
}
Build = Callable[[SparkSession], DataFrame]


def keep(held: layout.PlannedQuery, folder: Path) -> list[manifest.Commit]:
    results.write(held, f"file:{folder}", Partitions.first(held.partitions), "test", is_first=True)
    protocol = ours(held.session).AttemptCommitProtocol
    return manifest.from_driver(protocol.drain(f"file:{folder}"))


def back(held: layout.PlannedQuery, folder: Path, commits: list[manifest.Commit]) -> DataFrame:
    files = [(commit.name, commit.bytes) for commit in commits if commit.bytes >= 0]
    return kept_frames.read(clone(held.session, {}), f"file:{folder}", files, held.schema, held.layout)


def misplaced(held: layout.PlannedQuery, folder: Path) -> int:
    named = ", ".join(plan_calls.quoted(key) for key in held.layout.keys)
    read = back(held, folder, keep(held, folder))
    return int(read.where(F.spark_partition_id() != F.expr(f"pmod(hash({named}), {held.partitions})")).count())


def trust_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every exchange is trusted, whoever may split it, and Spark is held to nothing."""
    monkeypatch.setattr(plans, "LEFT_ALONE", plans.LEFT_ALONE | {"REBALANCE_PARTITIONS_BY_COL"})
    monkeypatch.setattr(layout, "UNCOALESCED", {"spark.sql.adaptive.coalescePartitions.enabled": "false"})
    monkeypatch.setattr(layout, "_held_to", lambda frame, lies, joins_stay=False: frame)


@pytest.fixture
def source(spark: SparkSession, tmp_path: Path) -> str:
    path = f"file:{tmp_path}/source"
    frame = spark.range(0, ROWS, 1, 3).selectExpr("id", "id % 3 k", "sha2(cast(id as string), 256) v")
    frame.write.parquet(path)
    return path


def spread(source: str, folder: Path) -> rk.Pipeline:
    pipeline = rk.Pipeline("spread")

    @pipeline.source
    def orders(spark: SparkSession) -> DataFrame:
        return spark.read.parquet(source)

    @pipeline.step(partition_by="k", partitions=2)
    def balanced(orders: DataFrame) -> DataFrame:
        return orders.hint("rebalance", "k")

    @pipeline.sink(rk.files(f"file:{folder}/out"))
    def counted(balanced: DataFrame) -> DataFrame:
        return balanced.groupBy("k").count()

    return pipeline


def ran(spark: SparkSession, source: str, folder: Path) -> dict[int, int]:
    small = clone(spark, SMALL)
    spread(source, folder).run(small, f"file:{folder}/state", options=rk.RunOptions(sweep=None))
    found = [tuple(row) for row in rk.read_newest(spark, f"file:{folder}/out").collect()]
    assert len(found) == len({k for k, _ in found}), "each key once"
    return dict(found)


def test_a_rebalanced_step_by_its_keys_has_all_rows(spark: SparkSession, source: str, tmp_path: Path) -> None:
    assert ran(spark, source, tmp_path) == dict.fromkeys(range(3), ROWS // 3)


def test_without_the_laws_an_exchange_that_is_split_loses_rows(
    spark: SparkSession, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trust_as_it_was(monkeypatch)
    monkeypatch.setattr(results, "LAWS", ())
    try:
        found = sum(ran(spark, source, tmp_path).values())
    except AssertionError as error:
        assert "each key once" in str(error)
    else:
        assert found < ROWS


@pytest.mark.parametrize("law", results.LAWS)
def test_each_law_ends_the_run_before_anything_counts(
    spark: SparkSession, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, law: str
) -> None:
    trust_as_it_was(monkeypatch)
    monkeypatch.setattr(results, "LAWS", (law,))
    with pytest.raises(RowsNotConserved, match="balanced: 0 of 2 partitions kept") as caught:
        ran(spark, source, tmp_path)
    assert "config('spark.sql.adaptive.enabled', 'false')" in str(caught.value)
    assert not (tmp_path / "out").exists()


def grouped_over_a_join(s: SparkSession) -> DataFrame:
    """Rows lie by k; a join by z moves them; an aggregation by k and x would move them back. When the other side of the
    join turns out small, it is sent to all, and the rows that lie by k are good enough for Spark. The small side is
    done first."""
    big = s.range(0, 8_000_000, 1, 8).selectExpr("id % 40 k", "id").groupBy("k")
    small = s.range(0, 70, 1, 1).selectExpr("id % 7 w", "id").groupBy("w").agg(F.count("id").alias("n"))
    kept = big.agg(F.max("id").alias("x"), F.sum("id").alias("z"))
    return small.join(kept, F.col("z") % 7 == F.col("w"), "right").groupBy("k", "x").agg(F.count("n").alias("n"))


def replanned(spark: SparkSession) -> layout.PlannedQuery:
    settings = {
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.adaptive.autoBroadcastJoinThreshold": "10MB",
    }
    session = group_session(clone(spark, settings), {})
    return layout.hold(grouped_over_a_join(session), session, layout.Layout(("k", "x"), N))


def test_an_exchange_that_spark_finds_unnecessary_later_is_made_all_the_same(
    spark: SparkSession, tmp_path: Path
) -> None:
    assert misplaced(replanned(spark), tmp_path) == 0


def test_left_to_spark_those_rows_would_lie_elsewhere(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the small side is not done first Spark has no choice left: then it is tried again."""
    trust_as_it_was(monkeypatch)
    told = r"LawViolated: row 1 of partition \d belongs to partition \d by its keys"
    with pytest.raises(Py4JJavaError, match=told):
        for number in range(TRIES_MAX):
            misplaced(replanned(spark), tmp_path / f"watched{number}")
    monkeypatch.setattr(results, "LAWS", ())
    assert any(misplaced(replanned(spark), tmp_path / f"left{number}") for number in range(TRIES_MAX))


def rows(s: SparkSession) -> DataFrame:
    return s.range(0, 300, 1, 5).selectExpr("id", "id % 40 k")


# The number of partitions that the user asks for, in the plan, is the number that is kept.
NUMBERED: dict[str, tuple[Build, str]] = {
    "a range by number": (lambda s: rows(s).repartitionByRange(50, "k"), "50 bound"),
    "a range": (lambda s: rows(s).repartitionByRange("k"), "8 bound"),
    "a total order": (lambda s: rows(s).orderBy("k"), "8 bound"),
    "round robin": (lambda s: rows(s).repartition(50), "8 by id, k"),
    "fewer": (lambda s: rows(s).coalesce(3), "8 by id, k"),
    "one": (lambda s: rows(s).coalesce(1), "1 alone"),
    "rebalanced": (lambda s: rows(s).hint("rebalance"), "8 by id, k"),
}


@pytest.mark.parametrize(("build", "expected"), NUMBERED.values(), ids=NUMBERED)
def test_no_number_of_partitions_loses_a_row(spark: SparkSession, tmp_path: Path, build: Build, expected: str) -> None:
    session = group_session(spark, {})
    frame = build(session)
    chosen = layout.choose(frame, (), 8)
    assert str(chosen) == expected
    held = layout.hold(frame, session, chosen)
    commits = keep(held, tmp_path)
    assert {commit.partition for commit in commits} <= set(range(held.partitions))
    assert sum(commit.rows for commit in commits) == 300 == back(held, tmp_path, commits).count()


def test_where_nobody_says_partitions_that_of_the_plan_stays(spark: SparkSession) -> None:
    session = group_session(spark, {})
    usual = int(str(session.conf.get("spark.sql.shuffle.partitions")))
    assert str(layout.choose(rows(session).repartition(50), (), usual)) == "50 by id, k"
    assert str(layout.choose(rows(session).coalesce(3), (), usual)) == "3 by id, k"


def test_a_layout_that_spark_does_not_follow_ends_the_write(spark: SparkSession, tmp_path: Path) -> None:
    session = group_session(spark, {})
    frame = rows(session).repartitionByRange(50, "k")
    held = layout.hold(frame, session, layout.Layout((), 8, is_bound=True))
    with pytest.raises(Py4JJavaError, match=r"LawViolated: Spark writes \d+ partitions where the layout has 8"):
        keep(held, tmp_path)
    listed = ours(spark).Bridge.list(session._jsparkSession, f"file:{tmp_path}")
    assert manifest.VIOLATED in listed and manifest.from_listing(listed) == []


@F.udf(LongType())  # type: ignore[untyped-decorator]
def doubled(k: int) -> int:
    return k * 2


NAMED: dict[str, tuple[Build, tuple[str, ...]]] = {
    "a column beside a struct that has its path": (
        lambda s: rows(s).select("id", F.struct((F.col("id") * 7).alias("b")).alias("a"), F.col("k").alias("a.b")),
        ("a.b",),
    ),
    "a backtick": (lambda s: rows(s).withColumnRenamed("k", "a`b"), ("a`b",)),
    "two lines": (lambda s: rows(s).withColumnRenamed("k", "a\nb").withColumn("d", doubled("id")), ("a\nb",)),
    "an aggregation by such a name": (lambda s: rows(s).groupBy(F.col("k").alias("a.b")).count(), ("a.b",)),
}


@pytest.mark.parametrize(("build", "keys"), NAMED.values(), ids=NAMED)
def test_keys_are_columns_whatever_their_names(
    spark: SparkSession, tmp_path: Path, build: Build, keys: tuple[str, ...]
) -> None:
    session = group_session(spark, {})
    assert misplaced(layout.hold(build(session), session, layout.Layout(keys, N)), tmp_path) == 0


def test_names_that_differ_by_case_are_two_columns_where_spark_says_so(spark: SparkSession, tmp_path: Path) -> None:
    session = group_session(clone(spark, {"spark.sql.caseSensitive": "true"}), {})
    frame = rows(session).selectExpr("id k", "k K")
    assert misplaced(layout.hold(frame, session, layout.Layout(("K",), N)), tmp_path) == 0


def test_an_exchange_is_known_by_what_it_is_and_where_it_comes_from(spark: SparkSession) -> None:
    session = group_session(spark, {})
    found = {
        name: [node.own.origin for node in plans._initial(frame).below() if node.is_exchange]
        for name, frame in {
            "number": rows(session).repartition(5, "k"),
            "keys": rows(session).repartition("k"),
            "rebalance": rows(session).hint("rebalance", "k"),
            "aggregation": rows(session).groupBy("k").count(),
        }.items()
    }
    assert found == {
        "number": ["REPARTITION_BY_NUM"],
        "keys": ["REPARTITION_BY_COL"],
        "rebalance": ["REBALANCE_PARTITIONS_BY_COL"],
        "aggregation": ["ENSURE_REQUIREMENTS"],
    }
