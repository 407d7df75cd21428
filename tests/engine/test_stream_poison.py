"""A poison record on real Spark: its region goes on without it, once for all others, and `reproduce` names it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from engine.number_streams import NumbersFolder, RunningStream, numbers
from rekindle.errors import RunFailed

pytestmark = pytest.mark.timeout(900)
POISON = 7


@pytest.fixture
def place(tmp_path: Path) -> NumbersFolder:
    return NumbersFolder(tmp_path)


def pipeline_of(place: NumbersFolder, quarantine: int, *bad: int) -> rk.Pipeline:
    """`fragile` fails for some numbers, `once` keeps state above the same failure."""
    pipeline = rk.Pipeline("live")

    def looked_at(one: int) -> int:
        if one in bad:
            raise ValueError(f"{one} is bad")
        return one

    def fragile(orders: DataFrame) -> DataFrame:
        return orders.select(F.udf(looked_at, "long")("id").alias("id"))

    def once(orders: DataFrame) -> DataFrame:
        return fragile(orders).dropDuplicates(["id"])

    pipeline.add_source(place.read, name="orders")
    pipeline.add_sink(fragile, rk.files(f"{place.folder}/fragile"), quarantine=quarantine)
    pipeline.add_sink(once, rk.files(f"{place.folder}/once"), quarantine=quarantine)
    return pipeline


def test_a_region_goes_on_without_the_record_that_fails(spark: SparkSession, place: NumbersFolder) -> None:
    for number in range(3):
        place.feed(number)
    with RunningStream(spark, pipeline_of(place, 2, POISON), place, available_now=True) as stream:
        summary = stream.ended()
    rest = numbers(0, 1, 2) - Counter([POISON])
    assert place.rows("fragile") == rest == place.rows("once"), stream.lines
    for name in ("fragile", "once"):
        (left,) = summary.regions[name].quarantined
        assert left.record.place.endswith("/00001.json") and left.cause.text.startswith("ValueError: 7 is bad")
        (kept,) = place.state.glob(f"live/_streams/*/quarantine/{name}/{left.batch}-*.jsonl")
        told = json.loads(kept.read_text())
        assert json.loads(told["record"]) == {"id": POISON} and told["error"] == left.cause.text
    place.feed(3)
    with RunningStream(spark, pipeline_of(place, 2, POISON), place, available_now=True) as stream:
        stream.ended()
    assert place.rows("fragile") == rest + numbers(3), "the next driver leaves it out too"
    assert any("goes on without record" in line for line in stream.lines)


def test_a_region_goes_on_without_a_record_of_the_result_that_it_reads(
    spark: SparkSession, place: NumbersFolder
) -> None:
    """Rows of a result are told by their segment and number; the region that made it is not asked again."""

    def pipeline() -> rk.Pipeline:
        made = pipeline_of(place, 2, POISON)

        @made.step(result="caching")
        def known(orders: DataFrame) -> DataFrame:
            return orders.withColumn("drawn", F.rand())

        def looked_at(one: int) -> int:
            if one == POISON:
                raise ValueError(f"{one} is bad")
            return one

        @made.sink(rk.files(f"{place.folder}/reader"), quarantine=2)
        def reader(known: DataFrame) -> DataFrame:
            return known.select(F.udf(looked_at, "long")("id").alias("id"), F.lit("a.b").alias("x.y"))

        return made

    for number in range(3):
        place.feed(number)
    with RunningStream(spark, pipeline(), place, available_now=True) as stream:
        summary = stream.ended()
    rest = numbers(0, 1, 2) - Counter([POISON])
    assert place.rows("reader") == rest, stream.lines
    (left,) = summary.regions["reader"].quarantined
    assert left.record.place.endswith(".parquet") and "/results/known/" in left.record.place
    (kept,) = place.state.glob("live/_streams/*/quarantine/reader/*.jsonl")
    assert json.loads(json.loads(kept.read_text())["record"])["id"] == POISON
    assert summary.regions["known"].restarts == 0
    place.feed(3)
    with RunningStream(spark, pipeline(), place, available_now=True) as stream:
        stream.ended()
    assert place.rows("reader") == rest + numbers(3), "the next driver leaves it out too"


def test_over_its_bound_a_region_gives_up_and_reproduce_names_the_record(
    spark: SparkSession, place: NumbersFolder
) -> None:
    place.feed(0)
    pipeline = pipeline_of(place, 1, 2, 3)
    with (
        RunningStream(spark, pipeline, place, available_now=True) as stream,
        pytest.raises(RunFailed, match="would be 2 records in quarantine, and 1 are allowed"),
    ):
        stream.ended()
    assert not place.rows("fragile") and not list(place.state.glob("live/_streams/*/quarantine/*/*"))
    opened = pipeline.reproduce(spark, str(place.state), "fragile")
    assert opened.vertex == "batch 0 of fragile"
    tried = opened.attempt(5)
    assert "ValueError" in tried.failure and "/00000.json" in tried.failure
    assert not place.rows("fragile")
