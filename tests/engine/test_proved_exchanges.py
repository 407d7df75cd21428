"""Exchanges that are proved by what is below them: what is reused without a checksum, and what must not be."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.engine.spark.plan import layout
from rekindle.engine.spark.run import attempts
from rekindle.engine.spark.run import engine as run_engine
from rekindle.failover.backoff import FixedDelay
from rekindle.master.facts.config import BackoffSpec, MasterConfig

ROWS, KEYS, PARTITIONS, POISON = 400, 8, 4, 3
# Poison is tried last, after everything else has finished: so the number of partitions that are kept is known.
OPTIONS = rk.RunOptions(config=MasterConfig(backoff=BackoffSpec.of(FixedDelay(10, 2))))
Make = Callable[[DataFrame, Callable[[int], int]], DataFrame]


def python_above(orders: DataFrame, judge: Callable[[int], int]) -> DataFrame:
    return orders.withColumn("judged", F.udf(judge, "long")("k"))


def python_above_a_sum(orders: DataFrame, judge: Callable[[int], int]) -> DataFrame:
    summed = orders.groupBy("k").agg(F.max("id").alias("id"))
    return summed.withColumn("judged", F.udf(judge, "long")("k"))


def key_by_chance(orders: DataFrame, judge: Callable[[int], int]) -> DataFrame:
    """Python makes the key, another one each time it is called."""
    drawn = orders.drop("k").withColumn("k", F.udf(lambda _: random.randrange(KEYS), "long")("id"))
    return drawn.repartition(PARTITIONS, "k").withColumn("judged", F.udf(judge, "long")("k"))


def pipeline(spark: SparkSession, folder: Path, make: Make) -> rk.Pipeline:
    if not (folder / "orders").exists():
        rows = spark.range(ROWS).selectExpr("id", f"id % {KEYS} k").repartition(3)
        rows.write.parquet(str(folder / "orders"))
        (folder / "poison").touch()
    made = rk.Pipeline("proved")

    def judge(k: int) -> int:
        if k == POISON and (folder / "poison").exists():
            raise ValueError(f"cannot judge {k}")
        return k * 2

    @made.source
    def orders(spark: SparkSession) -> DataFrame:
        return spark.read.parquet(str(folder / "orders"))

    @made.step(partition_by="k", partitions=PARTITIONS)
    def judged(orders: DataFrame) -> DataFrame:
        return make(orders, judge)

    @made.sink(rk.files(str(folder / "out")))
    def out(judged: DataFrame) -> None: ...

    return made


def resumed(spark: SparkSession, folder: Path, make: Make) -> tuple[int, int, Counter[int]]:
    """What the second driver reused, the generation that it published, and how often each id is there. Each run in this
    process plans anew, as a new driver does: the exchanges of the first one are no use to it."""
    with pytest.raises(rk.RunFailed, match="cannot judge"):
        pipeline(spark, folder, make).run(spark, str(folder / "runs"), options=OPTIONS)
    (folder / "poison").unlink()
    done = pipeline(spark, folder, make).run(spark, str(folder / "runs"), options=OPTIONS)
    rows = rk.read_newest(spark, str(folder / "out")).select("id").collect()
    step = done.steps["judged"]
    return step.reused, step.generation, Counter(row.id for row in rows)


@pytest.mark.parametrize("make", [python_above, python_above_a_sum])
def test_a_new_driver_reuses_what_stands_above_a_determinate_exchange(
    spark: SparkSession, tmp_path: Path, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where Spark has no checksums nobody looks at the exchanges at all."""
    monkeypatch.setattr(run_engine, "without_checksums", lambda spark: "this Spark has no checksums")

    def nobody_looks(*given: object) -> None:
        raise AssertionError("an exchange was looked at")

    monkeypatch.setattr(attempts, "ExchangeMonitor", nobody_looks)
    reused, generation, ids = resumed(spark, tmp_path, make)
    assert (reused, generation) == (PARTITIONS - 1, 0)
    assert set(ids.values()) == {1}


def test_opaque_work_below_an_exchange_is_not_mixed(spark: SparkSession, tmp_path: Path) -> None:
    reused, generation, ids = resumed(spark, tmp_path, key_by_chance)
    assert (reused, generation) == (0, 1)
    assert set(ids) == set(range(ROWS)) and set(ids.values()) == {1}


def test_control_without_the_table_rows_of_two_versions_are_mixed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "_is_determinate_below", lambda *given: True)
    reused, _, ids = resumed(spark, tmp_path, key_by_chance)
    assert reused == PARTITIONS - 1
    assert set(ids) != set(range(ROWS)) or set(ids.values()) != {1}, "rows are lost, or there twice"


def below(spark: SparkSession, frame: DataFrame) -> bool:
    held = layout.hold(frame, spark, layout.Layout(("k",), PARTITIONS))
    return held.has_equal_exchanges


@pytest.mark.parametrize(
    ("text", "is_proved"),
    [
        pytest.param("select id, id % 5 k from range(100)", True, id="nothing but a range"),
        pytest.param("select k, max(id) m from t group by k", True, id="an aggregate"),
        pytest.param("select k, first(id) m from t group by k", False, id="the first row of a group is made below"),
        pytest.param("select k, row_number() over (partition by k order by 1) m from t", True, id="ties, above"),
        pytest.param("select id, k, current_timestamp() m from t", False, id="a constant of the query"),
        pytest.param("select id, cast(rand() * 5 as int) k from t", False, id="a random key"),
        pytest.param("select id, k, (select max(id) from t) m from t", True, id="a determinate subquery"),
        pytest.param("select id, k, (select first(id) from t) m from t", False, id="a subquery that is not"),
        pytest.param("select /*+ broadcast(b) */ a.id, a.k from t a join t b on a.id = b.id", True, id="a broadcast"),
        pytest.param(
            "select /*+ broadcast(b) */ a.id, a.k from t a join (select first(id) id, k from t group by k) b "
            "on a.id = b.id",
            False,
            id="a broadcast of what is not determinate",
        ),
        pytest.param("select id, k, _metadata.row_index at from files", False, id="places of rows"),
        pytest.param("select id, k from t limit 7", False, id="a limit without an order"),
    ],
)
def test_what_is_below_decides(spark: SparkSession, tmp_path: Path, text: str, is_proved: bool) -> None:
    session = spark.newSession()
    session.range(100).selectExpr("id", "id % 5 k").write.parquet(str(tmp_path / "t"))
    session.read.parquet(str(tmp_path / "t")).createOrReplaceTempView("t")
    assert below(session, session.sql(text.replace("files", f"parquet.`{tmp_path}/t`"))) is is_proved
