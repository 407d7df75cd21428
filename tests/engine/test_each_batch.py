"""`rk.each_batch`: a function takes batches, is called again with the same key, and may hang without harm to others."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import rekindle as rk
from engine.number_streams import NumbersFolder, RunningStream, numbers
from rekindle.errors import GraphRefused, Refused, RunFailed
from rekindle.publish.targets import Target
from rekindle.streams.stream_spec import Delivery

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def place(tmp_path: Path) -> NumbersFolder:
    return NumbersFolder(tmp_path)


class Calls:
    """What a function was called with. It raises, or hangs, while a file is there."""

    def __init__(self, place: NumbersFolder) -> None:
        self.bad, self.hold = place.bad, place.folder / "hold"
        self.keys: list[str] = []
        self.rows: dict[str, list[int]] = {}

    def write(self, rows: DataFrame, key: str) -> None:
        self.keys.append(key)
        while self.hold.exists():
            time.sleep(0.1)
        if self.bad.exists():
            raise ValueError("the database is down")
        self.rows[key] = [row.id for row in rows.collect()]

    def found(self) -> Counter[int]:
        return Counter(one for found in self.rows.values() for one in found)


def pipeline_of(place: NumbersFolder, target: Target) -> rk.Pipeline:
    pipeline = rk.Pipeline("live")
    pipeline.add_source(lambda spark: place.read(spark), name="orders")
    pipeline.add_sink(lambda orders: None, rk.files(f"{place.folder}/plain"), name="plain")
    pipeline.add_sink(lambda orders: None, target, name="database")
    return pipeline


def test_a_batch_that_failed_is_given_again_with_the_same_key(spark: SparkSession, place: NumbersFolder) -> None:
    calls = Calls(place)
    pipeline = pipeline_of(place, rk.each_batch(lambda rows, key: calls.write(rows, key), "orders db"))
    place.feed(0)
    with RunningStream(spark, pipeline, place) as stream:
        stream.wait(lambda: calls.found() == numbers(0))
        place.bad.touch()
        place.feed(1)
        stream.wait(lambda: any("database failed: ValueError: the database is down" in line for line in stream.lines))
        place.bad.unlink()
        stream.wait(lambda: calls.found() == numbers(0, 1) == place.rows("plain"))
        summary = stream.stopped()
    first, *again = calls.keys
    assert len(again) > 1 and len(set(again)) == 1 and again[0] != first, "called again, with the key of its batch"
    assert first.startswith("database/") and first.endswith("/0") and again[0].endswith("/1")
    assert (summary.regions["plain"].restarts, summary.regions["database"].delivery) == (0, Delivery.AT_LEAST_ONCE)
    assert any("at least once: your function <lambda>() is called again after a crash" in line for line in stream.lines)
    assert "your function" in "\n".join(summary.lines())


def test_a_function_that_hangs_is_told_and_fenced_and_the_others_go_on(
    spark: SparkSession, place: NumbersFolder
) -> None:
    calls = Calls(place)
    pipeline = pipeline_of(place, rk.each_batch(lambda rows, key: calls.write(rows, key), "orders db"))
    place.feed(0)
    with RunningStream(spark, pipeline, place) as stream:
        stream.wait(lambda: calls.found() == numbers(0) == place.rows("plain"))
        stream.stopped()
    calls.hold.touch()
    place.feed(1)
    with RunningStream(spark, pipeline, place, stall_seconds=20) as stream:
        stream.wait(lambda: any("database gave up: its query does not stop" in line for line in stream.lines))
        place.feed(2)
        stream.wait(lambda: place.rows("plain") == numbers(0, 1, 2))
        stream.wait(lambda: bool(list(place.state.glob("live/_streams/*/fence/database/3"))))
        calls.hold.unlink()
        with pytest.raises(RunFailed, match="a function of it does not return"):
            stream.stopped()
    assert [key.rpartition("/")[2] for key in calls.keys] == ["0", "1"], "nothing after the batch that it was in"
    with RunningStream(spark, pipeline, place, available_now=True) as stream:
        stream.ended()
    assert calls.found() == numbers(0, 1, 2) == place.rows("plain"), "its key tells that batch 1 came twice"


def test_the_code_of_the_function_is_part_of_the_stream(spark: SparkSession, place: NumbersFolder) -> None:
    def once(rows: DataFrame) -> None:
        rows.collect()

    def twice(rows: DataFrame) -> None:
        rows.count()
        rows.collect()

    place.feed(0)
    with RunningStream(spark, pipeline_of(place, rk.each_batch(once, "db")), place, available_now=True) as stream:
        stream.ended()
    plan = pipeline_of(place, rk.each_batch(twice, "db", exactly_once=True)).plan_stream(spark, str(place.state))
    told = str(plan)
    assert "database: compatible from the next batch on (the function of its target: " in told
    assert "exactly once: by your word that twice() keeps the key with the rows" in told
    assert (
        str(pipeline_of(place, rk.each_batch(once, "db")).plan_stream(spark, str(place.state))).count("compatible") == 0
    )


def test_what_cannot_be_given_is_refused(spark: SparkSession, place: NumbersFolder) -> None:
    with pytest.raises(Refused, match=r"asks for partition, and may ask for batch, key"):
        rk.each_batch(lambda rows, partition: None, "db")
    with pytest.raises(Refused, match=r"rk\.each_batch has no name"):
        rk.each_batch(lambda rows: None, " ")
    batch = rk.Pipeline("batch")
    batch.add_source(lambda spark: spark.range(3), name="some")
    batch.add_sink(lambda some: None, rk.each_batch(lambda rows: None, "db"), name="out")
    with pytest.raises(GraphRefused, match="db, by a function for each batch takes streams only"):
        batch.run(spark, str(place.state), options=rk.RunOptions(quiet=True))


def test_two_streams_that_a_user_gave_one_name_have_other_keys(spark: SparkSession, tmp_path: Path) -> None:
    def key_of(folder: Path) -> str:
        folder.mkdir()
        one = NumbersFolder(folder)
        one.feed(0)
        calls = Calls(one)
        pipeline = pipeline_of(one, rk.each_batch(lambda rows, key: calls.write(rows, key), "orders db"))
        with RunningStream(spark, pipeline, one, available_now=True, new=True, run="nightly") as stream:
            stream.ended()
        (key,) = calls.keys
        return key

    first, second = key_of(tmp_path / "here"), key_of(tmp_path / "there")
    assert first != second, "a database that both write to would drop the rows of the second"
    assert first.startswith("database/nightly-") and second.startswith("database/nightly-")
