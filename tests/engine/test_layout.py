"""Our own partition numbers: every row lies where the layout says, in every plan and for every type of key."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

from rekindle.engine.spark.jvm.access import ours
from rekindle.engine.spark.plan import kept_frames, layout, plans
from rekindle.engine.spark.run import results
from rekindle.engine.spark.session import clone, group_session
from rekindle.model.partitions import Partitions
from rekindle.results import manifest

N = 7
Build = Callable[[SparkSession], DataFrame]


def keep(held: layout.PlannedQuery, folder: Path, wanted: Partitions | None = None) -> list[manifest.Commit]:
    """Write it, and give what the driver saw committed."""
    directory = f"file:{folder}"
    results.write(held, directory, wanted or Partitions.first(held.partitions), "test", is_first=wanted is None)
    protocol = ours(held.session).AttemptCommitProtocol
    return manifest.from_driver(protocol.drain(directory))


def back(held: layout.PlannedQuery, folder: Path, commits: list[manifest.Commit]) -> DataFrame:
    files = [(commit.name, commit.bytes) for commit in commits if commit.bytes >= 0]
    return kept_frames.read(clone(held.session, {}), f"file:{folder}", files, held.schema, held.layout)


@F.udf(LongType())  # type: ignore[untyped-decorator]
def doubled(k: int) -> int:
    return k * 2


def sides(s: SparkSession) -> tuple[DataFrame, DataFrame]:
    """Two sides of a join; three rows of ten have one key."""
    left = s.range(500).selectExpr("id", "if(id % 10 < 3, 7, id % 50) k")
    return left, s.range(45).selectExpr("id k", "id * 2 v")


def merged(s: SparkSession, how: str = "inner") -> DataFrame:
    left, right = sides(s)
    return left.hint("merge").join(right, "k", how)


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
    "Python over a source": (
        lambda s: (
            s.range(500).selectExpr("id", "id % 50 k").withColumn("d", doubled("id")).where("d % 3 = 0").alias("x")
        ),
        ("k",),
    ),
    "a key that Python made": (lambda s: s.range(500).withColumn("k", doubled(F.col("id") % 50)), ("k",)),
    "a join by the keys": (merged, ("k",)),
    "a join that keeps rows without a match": (lambda s: merged(s, "right"), ("k",)),
    "an aggregation above a join": (lambda s: merged(s).groupBy("k").count(), ("k",)),
    "a join by other keys": (merged, ("id",)),
    "rows that are sorted": (lambda s: s.range(500).selectExpr("id", "id % 50 k").orderBy("id"), ("k",)),
}


@pytest.mark.parametrize("name", BUILDS)
def test_every_row_lies_in_its_partition(spark: SparkSession, tmp_path: Path, name: str) -> None:
    build, keys = BUILDS[name]
    session = group_session(spark, {})
    held = layout.hold(build(session), session, layout.Layout(keys, N))
    commits = keep(held, tmp_path / "a")
    assert [commit.partition for commit in sorted(commits, key=lambda c: c.partition)] == list(range(N))
    found = back(held, tmp_path / "a", commits).withColumn("lies", F.spark_partition_id()).collect()
    expected = build(spark).repartition(N, *keys).withColumn("lies", F.spark_partition_id()).collect()
    assert sorted(map(str, found)) == sorted(map(str, expected))


TEXT = "id % 50 k", "concat('x', id) t"
# Whether the exchange of a result by k stands below the Python of its step.
PLACES: dict[str, tuple[Build, bool]] = {
    "nothing is used up": (lambda s: s.range(9).selectExpr("id", *TEXT).withColumn("d", doubled("id")), True),
    "a number is used up": (lambda s: s.range(9).selectExpr("id", *TEXT).select("k", "t", doubled("id")), True),
    "two functions, one over the other": (
        lambda s: s.range(9).selectExpr("id", *TEXT).withColumn("d", doubled("id")).withColumn("e", doubled("d")),
        True,
    ),
    "text that nobody reads does not count": (
        lambda s: s.range(9).selectExpr("id", *TEXT).select("k", doubled("id")),
        True,
    ),
    "text is used up": (lambda s: s.range(9).selectExpr("id", *TEXT).select("k", doubled(F.length("t"))), False),
    "the key is made by Python": (lambda s: s.range(9).withColumn("k", doubled("id")), False),
    "a filter in Python": (lambda s: s.range(9).selectExpr("id", *TEXT).where(doubled("id") > 3), False),
    "an id of the input's partition": (
        lambda s: s.range(9).selectExpr("id", *TEXT).select("k", doubled("id"), F.spark_partition_id()),
        False,
    ),
    "no Python at all": (lambda s: s.range(9).selectExpr("id", *TEXT), False),
}


@pytest.mark.parametrize("name", PLACES)
def test_the_exchange_stands_below_python_where_that_moves_nothing_wider(spark: SparkSession, name: str) -> None:
    build, is_below = PLACES[name]
    session = group_session(spark, {})
    held = layout.hold(build(session), session, layout.Layout(("k",), N))
    lines = str(held.plan.toString()).splitlines()
    exchange = next(at for at, line in enumerate(lines) if "Exchange hashpartitioning" in line)
    assert held.shape.exchanges == 1
    assert any("EvalPython" in line for line in lines[:exchange]) is is_below


def test_a_pruned_write_keeps_the_numbers(spark: SparkSession, tmp_path: Path) -> None:
    session = group_session(spark, {})
    held = layout.hold(session.range(500).selectExpr("id", "id % 50 k"), session, layout.Layout(("k",), N))
    some = keep(held, tmp_path / "a", Partitions((1, 4, 6)))
    assert {commit.partition for commit in some} == {1, 4, 6}
    rest = keep(held, tmp_path / "a", Partitions((0, 2, 3, 5)))
    read = back(held, tmp_path / "a", some + rest)
    assert read.where(F.spark_partition_id() != F.expr(f"pmod(hash(k), {N})")).count() == 0
    assert read.count() == 500


def test_empty_partitions_are_committed_too(spark: SparkSession, tmp_path: Path) -> None:
    session = group_session(spark, {})
    held = layout.hold(session.range(500).selectExpr("id", "1 k"), session, layout.Layout(("k",), N))
    commits = keep(held, tmp_path / "a")
    assert len(commits) == N
    assert sum(commit.bytes >= 0 for commit in commits) <= 2  # Spark writes a file for its first task, empty or not.
    listed = manifest.from_listing(ours(spark).Bridge.list(session._jsparkSession, f"file:{tmp_path}/a"))
    assert sorted(listed, key=lambda c: c.partition) == sorted(commits, key=lambda c: c.partition)


def test_an_empty_exchange_keeps_its_partitions(spark: SparkSession, tmp_path: Path) -> None:
    session = group_session(spark, {})
    held = layout.hold(session.range(500).where("id < 0").selectExpr("id", "id k"), session, layout.Layout(("k",), N))
    assert len(keep(held, tmp_path / "a")) == N


# What adaptive execution needs to rewrite a join of a few rows: one side sent to all, the key with most rows split.
EAGER = {
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.autoBroadcastJoinThreshold": "10MB",
    "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": "1",
    "spark.sql.adaptive.skewJoin.skewedPartitionFactor": "1.1",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "100",
}


def joined_by_key(spark: SparkSession) -> layout.PlannedQuery:
    session = group_session(clone(spark, EAGER), {})
    left, right = sides(session)
    held = layout.hold(left.join(right, "k"), session, layout.Layout(("k",), N))
    assert (held.way, held.shape.exchanges) == (layout.ShufflePlacement.JOINED, 2)
    return held


def misplaced(held: layout.PlannedQuery, folder: Path) -> int:
    read = back(held, folder, keep(held, folder))
    return int(read.where(F.spark_partition_id() != F.expr(f"pmod(hash(k), {N})")).count())


def test_a_join_by_the_keys_needs_no_exchange_of_ours_and_no_sort(spark: SparkSession, tmp_path: Path) -> None:
    held = joined_by_key(spark)
    assert misplaced(held, tmp_path) == 0
    assert "ShuffledHashJoin" in str(held.plan.toString())


def test_a_join_that_adaptive_execution_may_rewrite_misplaces_rows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: neither told to leave the join, nor held to the layout whatever it makes of it, nor watched."""
    monkeypatch.setattr(layout, "STAYS_JOINED", {})
    monkeypatch.setattr(layout, "_held_to", lambda frame, lies, joins_stay=False: frame)
    monkeypatch.setattr(layout, "UNCOALESCED", {"spark.sql.adaptive.coalescePartitions.enabled": "false"})
    monkeypatch.setattr(results, "LAWS", ())
    assert misplaced(joined_by_key(spark), tmp_path) > 0


def test_results_that_lie_together_are_joined_without_an_exchange(spark: SparkSession, tmp_path: Path) -> None:
    sides = []
    for side in ("left", "right"):
        session = group_session(spark, {})
        held = layout.hold(session.range(500).selectExpr("id % 50 k", f"id {side}"), session, layout.Layout(("k",), N))
        sides.append(back(held, tmp_path / side, keep(held, tmp_path / side)))
    session = group_session(spark, {})
    joined = sides[0].join(sides[1], "k").withColumn("d", doubled("k"))
    assert layout.hold(joined, session, layout.Layout(("k",), N)).shape.is_narrow
    joined = joined.groupBy("k").count().withColumn("d", doubled("k"))
    assert layout.hold(joined, session, layout.Layout(("k",), N)).shape.is_narrow
    assert not layout.hold(joined, session, layout.Layout(("k",), N + 1)).shape.is_narrow
    assert not layout.hold(joined, session, layout.Layout(("count",), N)).shape.is_narrow


def numbered(spark: SparkSession, build: Build, partitions: int = N) -> layout.PlannedQuery:
    session = group_session(spark, {})
    frame = build(session)
    return layout.hold(frame, session, layout.choose(frame, (), partitions))


CHOICES: dict[str, tuple[Build, str]] = {
    "an aggregation lies by its keys": (
        lambda s: s.range(9).selectExpr("id % 3 k").groupBy("k").count(),
        "7 by k",
    ),
    "a join that was asked to broadcast leaves the rows in their splits": (
        lambda s: s.range(0, 90, 1, 5).join(F.broadcast(s.range(9).toDF("k")), F.col("id") == F.col("k")),
        "5 by split",
    ),
    "also where the other side streams": (
        lambda s: F.broadcast(s.range(9).toDF("k")).join(s.range(0, 90, 1, 5), F.col("id") == F.col("k")),
        "5 by split",
    ),
    "a join by its keys, however Spark will run it": (
        lambda s: s.range(9).join(s.range(9).withColumnRenamed("id", "k"), F.col("id") == F.col("k")),
        "7 by id",
    ),
    "a narrow step by the splits of its source": (lambda s: s.range(0, 90, 1, 5).where("id > 3"), "5 by split"),
    "Python too": (lambda s: s.range(0, 90, 1, 5).withColumn("d", doubled("id")), "5 by split"),
    "a total order is bound to the application": (lambda s: s.range(9).orderBy(F.desc("id")), "7 bound"),
    "a limit is one partition": (lambda s: s.range(9).limit(3), "1 alone"),
    "a union by all of its plain columns": (lambda s: s.range(9).union(s.range(9)), "7 by id"),
    "a cross join too": (lambda s: s.range(3).selectExpr("id + 0 id").crossJoin(s.range(3).toDF("b")), "7 by id, b"),
}


@pytest.mark.parametrize(("build", "expected"), CHOICES.values(), ids=CHOICES)
def test_a_step_without_keys_finds_its_own(spark: SparkSession, build: Build, expected: str) -> None:
    session = group_session(spark, {})
    assert str(layout.choose(build(session), (), N, {"other": layout.Layout(("id",), N)})) == expected


def test_over_sources_alone_their_pinned_sizes_decide(spark: SparkSession) -> None:
    session = group_session(spark, {})
    frame = session.range(0, 90, 1, 5).join(session.range(9).toDF("k"), F.col("id") == F.col("k"))
    assert str(layout.choose(frame, (), N)) == "5 by split"
    assert str(layout.choose(frame, (), N, {"other": layout.Layout(("id",), N)})) == "7 by id"


def test_where_no_number_is_asked_for_that_of_the_plan_stays(spark: SparkSession) -> None:
    session = group_session(spark, {})
    assert str(layout.choose(session.range(9).repartition(5, "id"), (), 3)) == "5 by id"
    assert str(layout.choose(session.range(9).repartition(5, "id"), (), N)) == "7 by id"


def test_a_total_order_is_kept_in_order_and_fewer_partitions_than_asked_for_are_empty(
    spark: SparkSession, tmp_path: Path
) -> None:
    held = numbered(spark, lambda s: s.range(3).selectExpr("id + 0 id").orderBy(F.desc("id")))
    commits = keep(held, tmp_path)
    assert {commit.partition for commit in commits} <= set(range(N))
    rows = {
        commit.partition: spark.read.parquet(f"{tmp_path}/{commit.name}").collect() for commit in commits if commit.name
    }
    assert [row.id for number in sorted(rows) for row in rows[number]] == [2, 1, 0]


def test_over_a_numbered_result_a_file_is_a_partition_and_has_its_number(spark: SparkSession, tmp_path: Path) -> None:
    """Spark reads the largest file first; partition 0 is the smallest here."""
    first = numbered(spark, lambda s: s.range(0, 6000, 1, 4).where("id >= 1400 and not id between 3000 and 4499"))
    stored = tmp_path / "results" / "first" / "g0" / "e1-a1"
    commits = keep(first, stored)
    session = group_session(spark, {})
    files = [(commit.name, commit.bytes) for commit in commits if commit.bytes >= 0]
    stand_in = kept_frames.stand_in(session, "first", first.schema, first.layout)
    chosen = layout.choose(stand_in.selectExpr("id + 1 id"), (), N, {"first": first.layout})
    rows = kept_frames.read(session, f"file:{stored}", files, first.schema, first.layout, is_by_file=True)
    frame = rows.selectExpr("id + 1 id")
    assert str(chosen) == "4 by file"
    second = layout.hold(frame, session, chosen)
    again = {commit.partition: commit for commit in keep(second, tmp_path / "b")}
    for commit in commits:
        if commit.bytes < 0 and commit.partition not in again:
            continue
        low = spark.read.parquet(f"{stored}/{commit.name}").agg(F.min("id")).collect()[0][0]
        high = spark.read.parquet(f"{tmp_path / 'b'}/{again[commit.partition].name}").agg(F.min("id")).collect()[0][0]
        assert (low is None and high is None) or high == low + 1
    (one,) = keep(second, tmp_path / "c", Partitions((3,)))
    assert one.partition == 3
    rows = spark.read.parquet(f"{tmp_path / 'c'}/{one.name}").agg(F.min("id"), F.max("id")).collect()[0]
    assert tuple(rows) == (4501, 6000)


def test_counting_map_tasks_starts_no_spark_job(spark: SparkSession) -> None:
    session = group_session(spark, {})
    plain = session.range(0, 90, 1, 5).selectExpr("id % 3 k")
    joined = plain.join(F.broadcast(session.range(9).toDF("k")), "k").selectExpr("k % 2 g")
    scheduler = spark.sparkContext._jsc.sc().dagScheduler()

    def jobs_of_a_collect() -> int:
        before = scheduler.numTotalJobs()
        assert len(joined.groupBy("g").count().collect()) == 2
        return int(scheduler.numTotalJobs() - before)

    usual, before = jobs_of_a_collect(), scheduler.numTotalJobs()
    counted = plans.map_tasks(plain.groupBy("k").count()), plans.map_tasks(joined.groupBy("g").count())
    # A broadcast would be started by a thread of its own: when one that is asked for later is done, it was started.
    assert jobs_of_a_collect() == usual
    assert counted == (5, None)
    assert scheduler.numTotalJobs() == before + usual
