"""Streaming pipelines on real Spark: regions that fail alone, come back alone, and give each row once."""

from __future__ import annotations

import shutil
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from engine.number_streams import FAST, NumbersFolder, RunningStream, numbers, pipeline_of
from rekindle.errors import GraphRefused, Refused, RunFailed, StreamFound
from rekindle.journal.history import read
from rekindle.journal.keys import STREAMS
from rekindle.runtime.ownership import codec_of
from rekindle.service.streaming import name_of
from rekindle.storage.local_disk import LocalDisk
from rekindle.streams.stream_events import QueryStarted, StreamPhase
from rekindle.streams.stream_machine import STREAM

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def place(tmp_path: Path) -> NumbersFolder:
    return NumbersFolder(tmp_path)


def queries(place: NumbersFolder) -> dict[str, list[int]]:
    """The numbers of all queries that the journal has, by region."""
    store = LocalDisk(place.state)
    (run,) = store.list_folders(f"live/{STREAMS}/")
    found: dict[str, list[int]] = {}
    for event in read(store, name_of("live", run), codec_of(STREAM)).events:
        if isinstance(event, QueryStarted):
            found.setdefault(event.region, []).append(event.number)
    return found


def records(place: NumbersFolder) -> int:
    store = LocalDisk(place.state)
    (run,) = store.list_folders(f"live/{STREAMS}/")
    return len(read(store, name_of("live", run), codec_of(STREAM)).records)


def test_a_region_fails_and_comes_back_alone(spark: SparkSession, place: NumbersFolder) -> None:
    place.feed(0)
    with RunningStream(spark, pipeline_of(place), place) as stream:
        stream.wait(lambda: all(place.rows(sink) == numbers(0) for sink in ("plain", "fragile", "once")))
        before = records(place)
        place.bad.touch()
        place.feed(1, again=2)
        stream.wait(lambda: any("fragile failed: ValueError: the bad file is there" in line for line in stream.lines))
        stream.wait(lambda: place.rows("plain") == numbers(0, 1) + Counter([0, 1]))
        place.bad.unlink()
        stream.wait(lambda: place.rows("fragile") == numbers(0, 1) + Counter([0, 1]))
        stream.wait(lambda: place.rows("once") == numbers(0, 1))
        summary = stream.stopped()
    again = summary.regions["fragile"].restarts
    assert summary.phase is StreamPhase.STOPPED and 1 <= again <= 3
    assert (summary.regions["plain"].restarts, summary.regions["once"].restarts) == (0, 0)
    assert queries(place) == {"plain": [1], "once": [1], "fragile": list(range(1, again + 2))}
    assert records(place) - before <= 3 * again + 2 + 3, "three for a restart, and those of the stop"
    assert {name: one.batch for name, one in summary.regions.items()} == {"plain": 1, "fragile": 1, "once": 1}
    read_back = rk.read_newest(spark, str(place.folder / "once"))
    assert Counter(row.id for row in read_back.collect()) == numbers(0, 1)


def test_two_nights_in_a_row_read_each_file_once(spark: SparkSession, place: NumbersFolder) -> None:
    place.feed(0)
    with RunningStream(spark, pipeline_of(place), place, available_now=True) as stream:
        first = stream.ended()
    assert first.phase is StreamPhase.FINISHED and not first.was_resumed
    place.feed(1)
    place.feed(2)
    with RunningStream(spark, pipeline_of(place), place, available_now=True) as stream:
        second = stream.ended()
    assert second.was_resumed and second.run == first.run
    assert {sink: place.rows(sink) for sink in ("plain", "fragile", "once")} == dict.fromkeys(
        ("plain", "fragile", "once"), numbers(0, 1, 2)
    )
    with RunningStream(spark, pipeline_of(place), place, available_now=True) as stream:
        stream.ended()
    assert place.rows("plain") == numbers(0, 1, 2), "the day after, with nothing new"
    assert any("goes on after batch 2" in line for line in stream.lines)


def test_a_region_that_gives_up_leaves_the_others_alone_and_is_tried_again_by_the_next_start(
    spark: SparkSession, place: NumbersFolder
) -> None:
    place.bad.touch()
    place.feed(0)
    with RunningStream(spark, pipeline_of(place), place) as stream:
        stream.wait(lambda: any(line.endswith("go on without it") for line in stream.lines))
        place.feed(1)
        stream.wait(lambda: place.rows("plain") == numbers(0, 1) == place.rows("once"))
        with pytest.raises(RunFailed, match="fragile gave up: poison: batch 0 failed 3 times in the same way"):
            stream.stopped()
    assert queries(place)["fragile"] == [1, 2, 3] and place.rows("fragile") == Counter()
    place.bad.unlink()
    with RunningStream(spark, pipeline_of(place), place, available_now=True) as stream:
        stream.ended()
    assert place.rows("fragile") == numbers(0, 1) == place.rows("plain")


def test_full_restarts_every_region_once(spark: SparkSession, place: NumbersFolder) -> None:
    place.feed(0)
    with RunningStream(spark, pipeline_of(place), place, strategy="full") as stream:
        stream.wait(lambda: all(place.rows(sink) == numbers(0) for sink in ("plain", "fragile", "once")))
        place.bad.touch()
        place.feed(1)
        stream.wait(lambda: any("fragile failed" in line for line in stream.lines))
        place.bad.unlink()
        stream.wait(lambda: all(place.rows(sink) == numbers(0, 1) for sink in ("plain", "fragile", "once")))
        stream.stopped()
    found = queries(place)
    assert found["plain"] == found["once"] == found["fragile"] and len(found["plain"]) > 1


def test_a_batch_that_takes_too_long_is_a_failure_of_its_region(spark: SparkSession, place: NumbersFolder) -> None:
    pipeline, bad = rk.Pipeline("live"), str(place.bad)

    @pipeline.source
    def orders(spark: SparkSession) -> DataFrame:
        return place.read(spark)

    @pipeline.sink(rk.files(f"{place.folder}/plain"))
    def plain(orders: DataFrame) -> None: ...

    @pipeline.sink(rk.files(f"{place.folder}/slow"))
    def slow(orders: DataFrame) -> DataFrame:
        def waits(one: int) -> int:
            while Path(bad).exists():
                time.sleep(0.1)
            return one

        return orders.select(F.udf(waits, "long")("id").alias("id"))

    place.feed(0)
    with RunningStream(spark, pipeline, place) as stream:
        stream.wait(lambda: place.rows("slow") == numbers(0))
        stream.stopped()
    place.bad.touch()
    place.feed(1)
    with RunningStream(spark, pipeline, place, stall_seconds=20) as stream:
        stream.wait(lambda: place.rows("plain") == numbers(0, 1))
        stream.wait(lambda: any("made no progress for 20 s" in line for line in stream.lines))
        place.bad.unlink()
        stream.wait(lambda: place.rows("slow") == numbers(0, 1))
        summary = stream.stopped()
    assert summary.regions["slow"].restarts >= 1, "a busy machine may find a batch too long once more"


def counted(place: NumbersFolder, by: int, note: str = "a") -> rk.Pipeline:
    pipeline = rk.Pipeline("live")

    @pipeline.source
    def orders(spark: SparkSession) -> DataFrame:
        return place.read(spark)

    @pipeline.step
    def keyed(orders: DataFrame) -> DataFrame:
        return orders.withColumn("key", F.col("id") % by)

    @pipeline.step
    def first(keyed: DataFrame) -> DataFrame:
        return keyed.dropDuplicates(["key"])

    @pipeline.sink(rk.files(f"{place.folder}/first"))
    def noted(first: DataFrame) -> DataFrame:
        return first.withColumn("note", F.lit(note))

    return pipeline


def test_changed_code_at_or_below_state_is_refused_until_it_is_accepted(
    spark: SparkSession, place: NumbersFolder
) -> None:
    place.feed(0)
    with RunningStream(spark, counted(place, by=3), place, available_now=True) as stream:
        stream.ended()
    assert place.rows("first") == Counter([0, 1, 2])
    with (
        RunningStream(spark, counted(place, by=4), place, available_now=True) as stream,
        pytest.raises(Refused, match="noted changes what the state means: keyed: "),
    ):
        stream.ended()
    assert place.rows("first") == Counter([0, 1, 2]), "nothing ran"
    with RunningStream(spark, counted(place, by=3, note="b"), place, available_now=True) as stream:
        stream.ended()
    assert any("noted: compatible from the next batch on (noted: " in line for line in stream.lines)
    place.feed(1)
    with RunningStream(spark, counted(place, by=4), place, available_now=True, accept_change=["noted"]) as stream:
        stream.ended()
    assert place.rows("first") == Counter([0, 1, 2, 7]), "the state has keys of both meanings, as the user accepted"


def test_a_target_of_another_stream_is_added_to_only_on_the_users_word(
    spark: SparkSession, place: NumbersFolder
) -> None:
    place.feed(0)
    with RunningStream(spark, pipeline_of(place), place, available_now=True) as stream:
        stream.ended()
    with (
        RunningStream(spark, pipeline_of(place), place, available_now=True, new=True) as stream,
        pytest.raises(Refused, match="has this target; this stream would add to its rows"),
    ):
        stream.ended()
    with RunningStream(spark, pipeline_of(place), place, available_now=True) as stream:
        stream.ended()
    assert place.rows("plain") == numbers(0), "a start that was refused did not take the key from the stream"
    sinks = ["plain", "fragile", "once"]
    with RunningStream(spark, pipeline_of(place), place, available_now=True, new=True, take_target=sinks) as stream:
        stream.ended()
    assert place.rows("plain") == numbers(0) + numbers(0), (
        "a new checkpoint reads from the beginning, and loses nothing"
    )


def two_sources(place: NumbersFolder, *, is_swapped: bool, column: str = "id") -> rk.Pipeline:
    pipeline = rk.Pipeline("live")

    def read(spark: SparkSession, names: str) -> DataFrame:
        return spark.readStream.schema("id long").json(f"{place.source}/{names}")

    pipeline.add_source(lambda spark: read(spark, "*[02468].json"), name="even")
    pipeline.add_source(lambda spark: read(spark, "*[13579].json"), name="odd")

    def both(even: DataFrame, odd: DataFrame) -> DataFrame:
        united = odd.union(even) if is_swapped else even.union(odd)
        return united.withColumnRenamed("id", column)

    pipeline.add_sink(both, rk.files(f"{place.folder}/both"))
    return pipeline


def test_streams_that_change_places_are_refused(spark: SparkSession, place: NumbersFolder) -> None:
    """Spark has positions by the number of a stream: all rows came twice."""
    place.feed(0)
    place.feed(1)
    with RunningStream(spark, two_sources(place, is_swapped=False), place, available_now=True) as stream:
        stream.ended()
    for pipeline, said in [
        (two_sources(place, is_swapped=True), "its streams come from other places, or in another order"),
        (two_sources(place, is_swapped=False, column="other"), r"has other columns .*: id was bigint, is gone"),
    ]:
        with (
            RunningStream(spark, pipeline, place, available_now=True) as stream,
            pytest.raises(Refused, match=said),
        ):
            stream.ended()
    assert place.rows("both") == numbers(0, 1)


def test_a_sink_that_went_and_came_back_is_compared_with_what_it_was(spark: SparkSession, place: NumbersFolder) -> None:
    place.feed(0)
    with RunningStream(spark, counted(place, by=3), place, available_now=True) as stream:
        stream.ended()
    with RunningStream(spark, pipeline_of(place), place, available_now=True) as stream:
        stream.ended()
    with (
        RunningStream(spark, counted(place, by=4), place, available_now=True) as stream,
        pytest.raises(Refused, match="noted changes what the state means: keyed: "),
    ):
        stream.ended()


def test_a_target_that_lost_what_the_checkpoint_has_is_refused(spark: SparkSession, place: NumbersFolder) -> None:
    place.feed(0)
    with RunningStream(spark, counted(place, by=3), place, available_now=True) as stream:
        stream.ended()
    shutil.rmtree(place.folder / "first")
    with (
        RunningStream(spark, counted(place, by=3), place, available_now=True) as stream,
        pytest.raises(Refused, match=r"has committed batch 0, and files .*/first lacks it"),
    ):
        stream.ended()


def test_a_function_that_exits_while_its_query_starts_is_a_failure(spark: SparkSession, place: NumbersFolder) -> None:
    pipeline, calls = rk.Pipeline("live"), [0]

    def orders(spark: SparkSession) -> DataFrame:
        calls[0] += 1
        if calls[0] == 3:
            sys.exit(1)
        return place.read(spark)

    pipeline.add_source(orders)
    pipeline.add_sink(lambda orders: None, rk.files(f"{place.folder}/plain"), name="plain")
    place.feed(0)
    with RunningStream(spark, pipeline, place, available_now=True) as stream:
        summary = stream.ended()
    assert summary.regions["plain"].restarts == 1 and place.rows("plain") == numbers(0)


def test_a_batch_does_not_publish_over_a_stream(spark: SparkSession, place: NumbersFolder) -> None:
    place.feed(0)
    with RunningStream(spark, counted(place, by=3), place, available_now=True) as stream:
        stream.ended()
    batch = rk.Pipeline("batch")
    batch.add_source(lambda spark: spark.range(3), name="some")
    batch.add_sink(lambda some: None, rk.files(f"{place.folder}/first"), name="out")
    with pytest.raises(Refused, match="is the target of noted, which is a stream"):
        batch.run(spark, str(place.state), options=rk.RunOptions(quiet=True))


def test_what_cannot_be_a_stream_is_refused_before_anything_starts(spark: SparkSession, place: NumbersFolder) -> None:
    def refused(said: str) -> None:
        with (
            RunningStream(spark, pipeline, place, available_now=True) as stream,
            pytest.raises(GraphRefused, match=said),
        ):
            stream.ended()

    pipeline = rk.Pipeline("live")
    pipeline.add_source(lambda spark: place.read(spark), name="orders")
    pipeline.add_sink(lambda orders: None, rk.files(f"{place.folder}/t", format="csv"), name="t")
    refused("t is a stream, whose files are Parquet")
    pipeline = rk.Pipeline("live")
    pipeline.add_source(lambda spark: place.read(spark), name="orders")
    pipeline.add_sink(lambda orders: None, rk.files(f"{place.folder}/t"), name="t", output_mode="complete")
    refused("rows in files do not change")
    pipeline = rk.Pipeline("live")
    pipeline.add_source(lambda spark: place.read(spark), name="orders")
    pipeline.add_step(lambda orders: orders.withColumn("u", F.expr("uuid()")), name="marked")
    pipeline.add_sink(lambda marked: None, rk.files(f"{place.folder}/t"), name="t")
    pipeline.add_sink(lambda marked: None, rk.files(f"{place.folder}/s"), name="s")
    refused("marked is read by several sinks.*: Uuid")
    pipeline = rk.Pipeline("live")
    pipeline.add_source(lambda spark: spark.readStream.format("rate").load(), name="ticks")
    pipeline.add_step(lambda ticks: ticks, name="passed")
    pipeline.add_sink(lambda passed: None, rk.files(f"{place.folder}/t"), name="t")
    pipeline.add_sink(lambda passed: None, rk.files(f"{place.folder}/s"), name="s")
    refused("passed is read by several sinks.*: the stream rate")
    with pytest.raises(StreamFound, match="streaming DataFrame"):
        pipeline.plan(spark, str(place.state))


def test_a_step_that_is_proved_to_be_determinate_is_computed_for_each_sink(
    spark: SparkSession, place: NumbersFolder
) -> None:
    def pipeline_at(source: Path) -> rk.Pipeline:
        pipeline = rk.Pipeline("live")

        def orders(spark: SparkSession) -> DataFrame:
            return spark.readStream.schema("id long").json(str(source))

        pipeline.add_source(orders)
        pipeline.add_step(lambda orders: orders.where("id > 0"), name="some")
        pipeline.add_sink(lambda some: None, rk.files(f"{place.folder}/t"), name="t")
        pipeline.add_sink(lambda some: None, rk.files(f"{place.folder}/s"), name="s")
        return pipeline

    place.feed(0)
    with RunningStream(spark, pipeline_at(place.source), place, available_now=True) as stream:
        stream.ended()
    assert place.rows("t") == place.rows("s") == Counter(range(1, 5))
    assert any("some is computed in several regions" in line for line in stream.lines)
    with (
        RunningStream(spark, pipeline_at(place.folder), place, available_now=True) as stream,
        pytest.raises(Refused, match="its streams come from other places, or in another order"),
    ):
        stream.ended()


def test_the_plan_of_a_stream_starts_nothing(spark: SparkSession, place: NumbersFolder) -> None:
    plan = pipeline_of(place).plan_stream(spark, str(place.state))
    stateful = {one.name: one.stateful for one in plan.spec.regions}
    assert stateful == {"plain": (), "fragile": (), "once": ("orders", "once")} and not place.state.exists()
    told = str(plan)
    assert told.startswith("new stream of live: 3 regions, each fails and restarts alone")
    assert "exactly once to files" in told and "starts at the beginning of its sources" in told
    assert FAST.backoff.kind == "fixed"
