"""A poison record on real Spark: its region goes on without it, once for all others, and `reproduce` names it."""

from __future__ import annotations

import json
import re
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


def readers(place: NumbersFolder) -> rk.Pipeline:
    """A caching and a memory result, and a reader of each, which fails for one record; and for every other one while
    the bad file is there and that one is left out."""
    pipeline = rk.Pipeline("live")
    pipeline.add_source(place.read, name="orders")
    state, bad = str(place.state), str(place.bad)

    def looked_at(one: int) -> int:
        if one == POISON:
            raise ValueError(f"{one} is bad")
        if Path(bad).exists() and any(Path(state).glob("live/_streams/*/quarantine/reader/*.jsonl")):
            raise ValueError("the bad file is there")
        return one

    def looked(rows: DataFrame) -> DataFrame:
        return rows.select(F.udf(looked_at, "long")("id").alias("id"), F.lit("a.b").alias("x.y"))

    pipeline.add_step(lambda orders: orders.withColumn("more", F.col("id") * 3), name="known", result="caching")
    pipeline.add_step(lambda orders: orders.withColumn("one more", F.lit(1)), name="held", result="memory")
    pipeline.add_sink(lambda known: looked(known), rk.files(f"{place.folder}/reader"), name="reader", quarantine=1)
    pipeline.add_sink(lambda held: looked(held), rk.files(f"{place.folder}/other"), name="other", quarantine=1)
    return pipeline


def test_a_region_goes_on_without_a_record_of_the_result_that_it_reads(
    spark: SparkSession, place: NumbersFolder
) -> None:
    """Rows of a result are told by their batch and content; the region that made it is not asked again."""
    for number in range(3):
        place.feed(number)
    with RunningStream(spark, readers(place), place, available_now=True) as stream:
        summary = stream.ended()
    rest = numbers(0, 1, 2) - Counter([POISON])
    assert place.rows("reader") == rest == place.rows("other"), stream.lines
    for name, result in (("reader", "known"), ("other", "held")):
        (left,) = summary.regions[name].quarantined
        assert re.fullmatch(rf"record \w+ of batch \d of the result of {result}", str(left.record))
        (kept,) = place.state.glob(f"live/_streams/*/quarantine/{name}/*.jsonl")
        assert json.loads(json.loads(kept.read_text())["record"])["id"] == POISON
        assert summary.regions[result].restarts == 0
    place.feed(3)
    with RunningStream(spark, readers(place), place, available_now=True) as stream:
        stream.ended()
    assert place.rows("reader") == rest + numbers(3) == place.rows("other"), "the next driver leaves it out too"


def test_a_record_stays_left_out_when_its_batch_is_made_again(spark: SparkSession, place: NumbersFolder) -> None:
    """In another file, and at another row."""
    for number in range(3):
        place.feed(number)
    place.bad.touch()
    with (
        RunningStream(spark, readers(place), place, available_now=True) as stream,
        pytest.raises(RunFailed, match=r"reader gave up: .*the bad file is there"),
    ):
        stream.ended()
    place.bad.unlink()
    for file in place.state.glob("live/_streams/*/results/known/data/known/*/*/*.parquet"):
        file.unlink()
    with RunningStream(spark, readers(place), place, available_now=True) as stream:
        summary = stream.ended()
    assert place.rows("reader") == numbers(0, 1, 2) - Counter([POISON]), stream.lines
    assert summary.regions["known"].replayed == 3 and len(summary.regions["reader"].quarantined) == 1


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
