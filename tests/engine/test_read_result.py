"""`rk.read_result`: batches of the result of a step of a stream, read as a batch, and pinned while that is read."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from cli.calling import call
from engine.number_streams import FAST, NumbersFolder, RunningStream, numbers
from engine.test_stream_results import draws, forked
from rekindle.errors import NotFound, Refused, RunFailed


@pytest.fixture
def place(tmp_path: Path) -> NumbersFolder:
    return NumbersFolder(tmp_path)


def day(spark: SparkSession, place: NumbersFolder, *days: int, kind: str = "caching") -> None:
    """One batch a file; both readers pass them."""
    for number in days:
        place.feed(number)
    made = forked(place, result="memory" if kind == "memory" else "caching")
    with RunningStream(spark, made, place, available_now=True) as stream:
        stream.ended()


def read(spark: SparkSession, place: NumbersFolder, after: int | None = None, up_to: int | None = None) -> DataFrame:
    frame = rk.read_result(spark, "live", "drawn", after=after, up_to=up_to, location=str(place.state), pin_hours=0)
    assert isinstance(frame, DataFrame)
    return frame


def ids(frame: DataFrame) -> Counter[int]:
    return Counter(row["id"] for row in frame.collect())


def collected(capsys: pytest.CaptureFixture[str], place: NumbersFolder) -> list[int]:
    """The batches that are there after gc."""
    assert call(capsys, "gc", "--location", str(place.state), "--set", "gc.grace_hours=0").code == 0
    return sorted(int(one.name) for one in place.state.glob("live/_streams/*/results/drawn/entries/drawn/*/*"))


def nightly(place: NumbersFolder, bad: Path, pin_hours: float) -> rk.Pipeline:
    """Fails while the bad file is there, after the result was read."""
    pipeline, state = rk.Pipeline("nightly"), str(place.state)

    @pipeline.source
    def drawn(spark: SparkSession, last: int | None = None) -> DataFrame:
        frame = rk.read_result(spark, "live", "drawn", up_to=last, location=state, pin_hours=pin_hours)
        assert isinstance(frame, DataFrame)
        return frame

    @pipeline.sink(rk.files(f"{place.folder}/nightly"))
    def kept(drawn: DataFrame) -> DataFrame:
        def looked_at(one: int) -> int:
            if bad.exists():
                raise ValueError("the night is bad")
            return one

        return drawn.withColumn("id", F.udf(looked_at, "long")("id"))

    return pipeline


def failed_night(spark: SparkSession, place: NumbersFolder, pin_hours: float, **given: int) -> rk.Pipeline:
    bad = place.folder / "bad night"
    bad.touch()
    pipeline = nightly(place, bad, pin_hours)
    with pytest.raises(RunFailed):
        pipeline.run(spark, f"{place.folder}/nights", options=rk.RunOptions(quiet=True, config=FAST), **given)
    bad.unlink()
    return pipeline


def test_batches_are_read_by_their_numbers(spark: SparkSession, place: NumbersFolder) -> None:
    day(spark, place, 0, 1, 2)
    first = read(spark, place)
    assert ids(read(spark, place, up_to=1)) == numbers(0, 1) and ids(read(spark, place, after=1)) == numbers(2)
    day(spark, place, 3)
    assert ids(first) == numbers(0, 1, 2), "later batches do not change it"
    assert Counter(map(tuple, read(spark, place).collect())) == draws(place, "once"), "one version for all"
    with pytest.raises(NotFound, match="the result of drawn has no batch 9 yet: its newest is batch 3"):
        read(spark, place, up_to=9)
    with pytest.raises(NotFound, match="has no batch after batch 3 yet"):
        read(spark, place, after=3)


def test_what_is_not_there_is_refused_by_name(
    spark: SparkSession, place: NumbersFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(NotFound, match="there is no stream of live"):
        read(spark, place)
    day(spark, place, 0, 1, 2)
    assert collected(capsys, place) == [2]
    assert ids(read(spark, place)) == numbers(2), "the oldest that is there comes first"
    with pytest.raises(Refused, match="batch 0 of the result of drawn is gone: every reader had passed it"):
        read(spark, place, after=-1)
    with pytest.raises(NotFound, match="live has no step fragile with a result") as told:
        rk.read_result(spark, "live", "fragile", location=str(place.state))
    assert "its results are drawn" in str(told.value)


def test_a_result_in_memory_is_refused(spark: SparkSession, place: NumbersFolder) -> None:
    day(spark, place, 0, kind="memory")
    with pytest.raises(Refused, match="the result of drawn is in the memory of its stream"):
        read(spark, place)


def resumed(spark: SparkSession, place: NumbersFolder, pipeline: rk.Pipeline, **given: int) -> Counter[int]:
    pipeline.run(spark, f"{place.folder}/nights", options=rk.RunOptions(quiet=True), **given)
    return ids(rk.read_newest(spark, f"{place.folder}/nightly"))


def test_a_night_that_fails_is_resumed_over_the_same_batches(
    spark: SparkSession, place: NumbersFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    """The stream goes on meanwhile, and nothing that the night reads is released."""
    day(spark, place, 0, 1)
    pipeline = failed_night(spark, place, 24.0, last=1)
    day(spark, place, 2)
    assert collected(capsys, place) == [0, 1, 2]
    assert resumed(spark, place, pipeline, last=1) == numbers(0, 1)


def test_a_night_that_names_no_last_batch_is_refused_where_there_are_more(
    spark: SparkSession, place: NumbersFolder
) -> None:
    """As with every other source that changed."""
    day(spark, place, 0)
    pipeline = failed_night(spark, place, 24.0)
    day(spark, place, 1)
    with pytest.raises(Refused, match="another graph: step kept had 1 partitions and now has 2"):
        resumed(spark, place, pipeline)


def test_control_without_a_pin_the_batches_of_a_failed_night_are_released(
    spark: SparkSession, place: NumbersFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    """Refused, and never other rows."""
    day(spark, place, 0, 1)
    pipeline = failed_night(spark, place, -1.0, last=1)
    day(spark, place, 2)
    assert collected(capsys, place) == [2]
    assert not list(place.state.glob("live/_streams/*/results/drawn/pins/drawn/*/*")), "a pin goes after its time"
    with pytest.raises(Refused, match="batch 1 of the result of drawn is gone"):
        resumed(spark, place, pipeline, last=1)
