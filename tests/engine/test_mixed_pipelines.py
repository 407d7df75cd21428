"""Sinks of batches beside sinks of streams in one pipeline: a run of its own first, then the stream."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import rekindle as rk
from engine.number_streams import FAST, NumbersFolder, RunningStream, numbers
from rekindle.errors import GraphRefused

pytestmark = pytest.mark.timeout(600)


class MixedFolder(NumbersFolder):
    """Beside the numbers, a folder of people."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.people = folder / "people" / "more.json"
        self.people.parent.mkdir()
        self.people.with_name("first.json").write_text("".join(f'{{"id":{one}}}\n' for one in range(20)))


@pytest.fixture
def place(tmp_path: Path) -> MixedFolder:
    return MixedFolder(tmp_path)


def mixed(place: MixedFolder) -> rk.Pipeline:
    """`names` are published as a batch, which fails while the bad file is there, and orders joined with them."""
    pipeline, bad = rk.Pipeline("live"), place.bad

    def people(spark: SparkSession) -> DataFrame:
        return spark.read.schema("id long").json(str(place.people.parent))

    def names(people: DataFrame) -> DataFrame:
        if bad.exists():
            raise ValueError("the bad file is there")
        return people.selectExpr("id", "concat('name ', id) as name")

    def known(spark: SparkSession) -> DataFrame:
        found = rk.read_newest(spark, f"{place.folder}/names")
        assert isinstance(found, DataFrame)
        return found

    pipeline.add_source(place.read, name="orders")
    pipeline.add_source(people)
    pipeline.add_source(known)
    pipeline.add_sink(names, rk.files(f"{place.folder}/names"))
    pipeline.add_sink(lambda orders, known: orders.join(known, "id"), rk.files(f"{place.folder}/named"), name="named")
    return pipeline


def run(spark: SparkSession, place: MixedFolder, *files: int) -> list[str]:
    for number in files:
        place.feed(number)
    with RunningStream(spark, mixed(place), place, available_now=True) as stream:
        stream.ended()
    return stream.lines


def test_what_a_batch_publishes_is_there_before_the_stream_reads_it(spark: SparkSession, place: MixedFolder) -> None:
    lines = run(spark, place, 0)
    assert lines[0] == "names of live: a run of its own, before the stream"
    assert place.rows("named") == numbers(0) and rk.read_newest(spark, f"{place.folder}/names").count() == 20
    lines = run(spark, place, 1)
    assert place.rows("named") == numbers(0, 1) and any("done" in line for line in lines[:6]), lines
    told = list(mixed(place).plan_stream(spark, str(place.state)).lines())
    stream = next(at for at, line in enumerate(told) if line.startswith("stream "))
    assert any("names" in line for line in told[:stream]) and any("named" in line for line in told[stream:])
    assert rk.read_newest(spark, f"{place.folder}/names").count() == 20


def test_a_first_start_waits_for_the_batch_and_a_later_one_does_not(spark: SparkSession, place: MixedFolder) -> None:
    place.bad.touch()
    place.feed(0)
    options = rk.RunOptions(quiet=True, available_now=True, config=FAST)
    with pytest.raises(GraphRefused, match="the bad file is there"):
        mixed(place).run(spark, str(place.state), options=options)
    assert place.rows("named") == Counter()
    place.bad.unlink()
    run(spark, place)
    assert place.rows("named") == numbers(0)


def test_a_batch_that_fails_later_keeps_no_region_from_its_input(spark: SparkSession, place: MixedFolder) -> None:
    """Another file among what it reads: it is published anew."""
    run(spark, place, 0)
    place.bad.touch()
    place.people.write_text('{"id":40}\n')
    place.feed(1)
    with (
        RunningStream(spark, mixed(place), place, available_now=True) as stream,
        pytest.raises(GraphRefused, match="the bad file is there"),
    ):
        stream.ended()
    assert place.rows("named") == numbers(0, 1), stream.lines
    assert "the stream goes on" in stream.lines
    place.bad.unlink()
    run(spark, place)
    assert rk.read_newest(spark, f"{place.folder}/names").count() == 21
