"""Each step twice over a sample: what differs is named, what fails is told, nothing else is said."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.model.kinds import Determinism
from rekindle.pipeline.step_trial import Trial


@pytest.fixture
def pipeline(spark: SparkSession, tmp_path: Path) -> rk.Pipeline:
    spark.range(300).selectExpr("id", "id % 7 as k").write.parquet(str(tmp_path / "orders"))
    made = rk.Pipeline("trial")

    @made.source
    def orders(spark: SparkSession) -> DataFrame:
        return spark.read.parquet(str(tmp_path / "orders"))

    return made


def tried(spark: SparkSession, pipeline: rk.Pipeline, rows: int = 200) -> dict[str, Trial]:
    return {trial.step: trial for trial in pipeline.try_steps(spark, rows=rows)}


def test_what_depends_on_order_or_chance_is_named(spark: SparkSession, pipeline: rk.Pipeline) -> None:
    @pipeline.step
    def clean(orders: DataFrame, least: int = 3) -> DataFrame:
        return orders.where(F.col("id") >= least)

    @pipeline.step
    def first(clean: DataFrame) -> DataFrame:
        return clean.groupBy("k").agg(F.first("id").alias("x"))

    @pipeline.step(deterministic=True)
    def drawn(clean: DataFrame) -> DataFrame:
        return clean.withColumn("x", F.udf(lambda value: value + random.randrange(10**9), "long")("id"))

    @pipeline.step
    def counted(drawn: DataFrame) -> DataFrame:
        return drawn.groupBy("k").count()

    found = tried(spark, pipeline)
    assert list(found) == ["clean", "first", "drawn", "counted"]
    assert found["clean"].is_same and found["clean"].level is Determinism.DETERMINATE
    assert 190 <= found["clean"].rows <= 200
    assert found["first"].different and found["first"].level is Determinism.UNKNOWN
    assert found["first"].doubts[0].startswith("First at test_trials.py:")
    assert found["drawn"].different == found["clean"].rows and found["drawn"].is_word_broken
    assert found["counted"].is_same and found["counted"].rows == 7, "each step is judged by what it does itself"


def test_rows_that_only_the_second_run_has_are_seen(spark: SparkSession, pipeline: rk.Pipeline) -> None:
    """One row for each partition: the second run has more of them, and all that the first one has."""

    def one_row_each(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        if any(len(frame) for frame in frames):
            yield pd.DataFrame({"x": [1]})

    @pipeline.step(deterministic=True)
    def marked(orders: DataFrame) -> DataFrame:
        return orders.mapInPandas(one_row_each, "x long")

    assert tried(spark, pipeline)["marked"].is_word_broken


def test_what_fails_is_told_and_so_is_who_reads_it(spark: SparkSession, pipeline: rk.Pipeline) -> None:
    @pipeline.step
    def broken(orders: DataFrame) -> DataFrame:
        return orders.withColumn("x", F.expr("raise_error('no such thing')"))

    @pipeline.step
    def reader(broken: DataFrame) -> DataFrame:
        return broken.select("id")

    @pipeline.step
    def apart(orders: DataFrame) -> DataFrame:
        return orders.select("id")

    @pipeline.step
    def mistyped(orders: DataFrame) -> DataFrame:
        return orders.select("idd")

    @pipeline.source
    def nowhere(spark: SparkSession) -> DataFrame:
        return spark.read.parquet("/no/such/place")

    @pipeline.step
    def never(apart: DataFrame) -> DataFrame:
        return apart.where("id < 0")

    found = tried(spark, pipeline)
    assert "no such thing" in found["broken"].failure and not found["broken"].is_same
    assert found["reader"].failure == "it reads broken, which failed"
    assert "idd" in found["mistyped"].failure and "/no/such/place" in found["nowhere"].failure
    assert found["apart"].is_same and found["never"].is_empty and not found["never"].is_same


def test_rows_with_maps_and_structs_are_compared_by_value(spark: SparkSession, pipeline: rk.Pipeline) -> None:
    @pipeline.step
    def nested(orders: DataFrame) -> DataFrame:
        return orders.selectExpr("map('a', id, 'b', k) m", "named_struct('x', array(id)) st", "cast(id as double) d")

    @pipeline.step
    def again(nested: DataFrame) -> DataFrame:
        return nested

    assert all(trial.is_same for trial in tried(spark, pipeline).values())
