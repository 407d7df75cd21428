"""`pipeline.run` on one local Spark application: from declared steps to published files, and again."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.failover.backoff import NoRestart
from rekindle.journal.history import read
from rekindle.master.facts.config import BackoffSpec, MasterConfig
from rekindle.master.facts.events import RunStarted
from rekindle.runtime.opening import codec
from rekindle.storage.stores import open_store

ONE_TRY = rk.RunOptions(config=MasterConfig(backoff=BackoffSpec.of(NoRestart())))


@pytest.fixture
def made(spark: SparkSession, tmp_path: Path) -> rk.Pipeline:
    """Two kept aggregations, a join of them that lies together with both, and a sink."""
    spark.range(200).selectExpr("id", "id % 7 as k").write.parquet(str(tmp_path / "orders"))
    pipeline = rk.Pipeline("daily")

    @pipeline.source
    def orders(spark: SparkSession) -> DataFrame:
        return spark.read.schema("id long, k long").parquet(str(tmp_path / "orders"))

    @pipeline.step
    def clean(orders: DataFrame, least: int = 0) -> DataFrame:
        return orders.where(F.col("id") >= least)

    @pipeline.step
    def counted(clean: DataFrame) -> DataFrame:
        return clean.groupBy("k").agg(F.count("*").alias("n"))

    @pipeline.step
    def scored(clean: DataFrame, counted: DataFrame) -> DataFrame:
        poison = tmp_path / "poison"

        def score(k: int) -> int:
            if k == 3 and poison.exists():
                raise ValueError(f"cannot score {k}")
            return k * 2

        best = clean.groupBy("k").agg(F.max("id").alias("best"))
        return counted.join(best, "k").withColumn("score", F.udf(score, "long")("k"))

    @pipeline.sink(rk.files(str(tmp_path / "out")))
    def daily(scored: DataFrame) -> None: ...

    return pipeline


def rows(spark: SparkSession, folder: Path) -> list[Any]:
    return sorted(tuple(row) for row in rk.read_newest(spark, str(folder / "out")).collect())


def test_a_run_publishes_and_a_second_one_of_the_same_key_is_done(
    spark: SparkSession, made: rk.Pipeline, tmp_path: Path
) -> None:
    first = made.run(spark, str(tmp_path / "runs"), least=0)
    assert not first.was_done and not first.was_resumed
    assert {name: step.computed for name, step in first.steps.items()} == {"counted": 3, "scored": 3}
    assert rows(spark, tmp_path) == [(k, len(range(k, 200, 7)), max(range(k, 200, 7)), k * 2) for k in range(7)]
    store = open_store(str(tmp_path / "runs"))
    begun = next(iter(read(store, f"daily/{first.run}", codec()).events))
    assert isinstance(begun, RunStarted) and begun.doubts["scored"][0].startswith("PythonUDF")
    again = made.run(spark, str(tmp_path / "runs"), least=0)
    assert again.was_done and again.run == first.run
    other = made.run(spark, str(tmp_path / "runs"), least=100)
    assert not other.was_done and other.run != first.run
    assert sum(row[1] for row in rows(spark, tmp_path)) == 100
    new = made.run(spark, str(tmp_path / "runs"), least=0, options=rk.RunOptions(new=True))
    assert new.run != first.run and not new.was_resumed


def test_a_run_that_failed_goes_on_where_it_stopped(spark: SparkSession, made: rk.Pipeline, tmp_path: Path) -> None:
    (tmp_path / "poison").touch()
    with pytest.raises(rk.RunFailed, match="cannot score 3") as caught:
        made.run(spark, str(tmp_path / "runs"), options=ONE_TRY)
    assert "counted: 3 of 3 partitions kept" in str(caught.value)
    (tmp_path / "poison").unlink()
    resumed = made.run(spark, str(tmp_path / "runs"), options=ONE_TRY)
    assert resumed.was_resumed
    assert resumed.steps["counted"].computed == 0
    assert 1 <= resumed.steps["scored"].computed <= 3
    assert len(rows(spark, tmp_path)) == 7


def test_a_word_for_a_fused_step_is_given_for_the_kept_one(
    spark: SparkSession, made: rk.Pipeline, tmp_path: Path
) -> None:
    with pytest.raises(rk.Refused, match="clean is pipelined into counted and scored"):
        made.run(spark, str(tmp_path / "runs"), options=rk.RunOptions(accept_change=["clean"]))
    with pytest.raises(rk.Refused, match=r"there is no step score\n.*did you mean scored"):
        made.run(spark, str(tmp_path / "runs"), options=rk.RunOptions(accept_change=["score"]))


def test_what_an_eager_step_found_out_is_of_all_its_input_also_when_it_goes_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Its input was committed by two attempts. Read pointwise, the rest of it would count the rows of one of them."""
    spark.range(200).selectExpr("id", "id % 7 as k").write.parquet(str(tmp_path / "orders"))
    pipeline = rk.Pipeline("daily")

    def weak(step: str) -> Any:
        def check(k: int) -> int:
            if k == 3 and (tmp_path / step).exists():
                committed = f"runs/daily/*/results/{step}/*/*/_committed/*"
                deadline = time.monotonic() + 400  # Not how long it may take: a test that waits for ever must end.
                while len(list(tmp_path.glob(committed))) < 2:
                    if time.monotonic() > deadline:
                        raise TimeoutError(f"the other partitions of {step} never committed")
                    time.sleep(0.05)
                raise ValueError(f"{step} cannot do {k}")
            return k

        return F.udf(check, "long")("k")

    @pipeline.source
    def orders(spark: SparkSession) -> DataFrame:
        return spark.read.schema("id long, k long").parquet(str(tmp_path / "orders"))

    @pipeline.step(result="blocking", partition_by="k", partitions=3, deterministic=True)
    def counted(orders: DataFrame) -> DataFrame:
        return orders.groupBy("k").agg(F.count("*").alias("n")).withColumn("ok", weak("counted"))

    @pipeline.step(eager=True, partition_by="k", partitions=3, deterministic=True)
    def shared(counted: DataFrame) -> DataFrame:
        total = counted.agg(F.sum("n")).first()
        return counted.select("k", F.lit(total[0] if total else 0).alias("total"), weak("shared").alias("ok"))

    pipeline.add_sink(lambda shared: shared, rk.files(str(tmp_path / "out")), name="daily")
    for step in ("counted", "shared"):
        (tmp_path / step).touch()
        with pytest.raises(rk.RunFailed, match=f"{step} cannot do 3"):
            pipeline.run(spark, str(tmp_path / "runs"), options=ONE_TRY)
        (tmp_path / step).unlink()
    last = pipeline.run(spark, str(tmp_path / "runs"), options=ONE_TRY)
    assert last.steps["counted"].computed == 0 and last.steps["shared"].computed < 3
    assert rows(spark, tmp_path) == [(k, 200, k) for k in range(7)]
