"""Streaming pipelines on real Spark: regions that fail alone, come back alone, and give each row once."""

from __future__ import annotations

import functools
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from engine.number_streams import FAST, NumbersFolder, RunningStream, numbers, pipeline_of
from rekindle.engine.spark.stream.stream_prepare import SHUFFLE
from rekindle.errors import GraphRefused, Refused, RunFailed, StreamFound
from rekindle.journal.history import read
from rekindle.journal.keys import STREAMS
from rekindle.runtime.ownership import codec_of
from rekindle.service.streaming import name_of
from rekindle.storage.local_disk import LocalDisk
from rekindle.streams.region_changes import ChangeVerdict
from rekindle.streams.source_starts import instant_text
from rekindle.streams.stream_events import QueryStarted, StreamPhase
from rekindle.streams.stream_machine import STREAM
from rekindle.streams.stream_spec import RegionSpec

pytestmark = pytest.mark.timeout(900)
EVOLUTION = "spark.sql.streaming.queryEvolution.enableSourceEvolution"


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


def test_a_new_checkpoint_of_one_region_over_a_full_target_loses_nothing(
    spark: SparkSession, place: NumbersFolder
) -> None:
    def two(by: int) -> rk.Pipeline:
        pipeline = counted(place, by)
        pipeline.add_sink(lambda orders: None, rk.files(f"{place.folder}/plain"), name="plain")
        return pipeline

    def run(pipeline: rk.Pipeline, **given: Any) -> RunningStream:
        with RunningStream(spark, pipeline, place, available_now=True, **given) as stream:
            stream.ended()
        return stream

    place.feed(0)
    run(two(3))
    with pytest.raises(Refused, match="noted changes what the state means") as refused:
        run(two(4))
    assert "rk.RunOptions(new_checkpoint=['noted'], start_from='earliest')" in refused.value.hint
    with pytest.raises(Refused, match="so say where it begins to read"):
        run(two(4), new_checkpoint=["noted"])
    with pytest.raises(Refused, match=r"cannot begin at the latest file of FileSource"):
        run(two(4), new_checkpoint=["noted"], start_from="latest")
    with pytest.raises(Refused, match="2026-01-31T06:00:00 has no time zone"):
        run(two(4), new_checkpoint=["noted"], start_from="2026-01-31T06:00:00")
    with pytest.raises(Refused, match="other has no checkpoint to replace; regions with one: plain, noted"):
        run(two(4), new_checkpoint=["other"], start_from="earliest")
    assert place.rows("first") == Counter([0, 1, 2]) and place.rows("plain") == numbers(0), "nothing ran"
    place.feed(1)
    stream = run(two(4), new_checkpoint=["noted"], start_from="earliest")
    assert any("new checkpoint: reads from earliest on, and adds to the rows" in line for line in stream.lines)
    assert any("noted has a new checkpoint" in line for line in stream.lines)
    both = Counter([0, 1, 2]) + Counter([0, 1, 2, 3])
    assert place.rows("first") == both, "the old rows stay, and those of the new code are added"
    assert place.rows("plain") == numbers(0, 1), "the other region went on"
    read_back = rk.read_newest(spark, str(place.folder / "first"))
    assert Counter(row.id for row in read_back.collect()) == both, "entries of both generations count"
    (run_folder,) = (place.state / "live" / STREAMS).glob("*")
    folders = {one.relative_to(run_folder).as_posix() for one in run_folder.glob("checkpoints*/*")}
    assert folders == {"checkpoints/noted", "checkpoints/plain", "checkpoints.1/noted"}, "nothing was deleted"
    place.feed(2)
    stream = run(two(4))
    assert any("goes on after batch 1" in line for line in stream.lines), "with the new checkpoint"
    assert place.rows("first") == both and place.rows("plain") == numbers(0, 1, 2)
    now = time.time()
    for number, hours in enumerate((3, 1, 0)):
        os.utime(place.source / f"{number:05d}.json", (now - 3600 * hours,) * 2)
    since = instant_text(round((now - 2 * 3600) * 1000))
    stream = run(two(4), new_checkpoint=["plain"], start_from=since)
    assert any(f"files modified at {since} or later; older ones are skipped" in line for line in stream.lines)
    assert place.rows("plain") == numbers(0, 1, 2) + numbers(1, 2), "file 0 is older"
    place.feed(3)
    os.utime(place.source / "00003.json", (now - 3600 * 3,) * 2)
    place.feed(4)
    run(two(4))
    assert place.rows("plain") == numbers(0, 1, 2) + numbers(1, 2, 4), "and the next driver skips the same"
    drawn = two(4).graph(spark, str(place.state), options=rk.RunOptions(strategy="full"))
    assert 'orders {"logOffset":4}' in str(drawn) and "computes keyed, [state] first, noted with it" in str(drawn)
    assert "If noted fails (full), 2 of 2 regions restart:" in str(drawn.what_if("noted"))
    assert 'has read stream 0 up to {"logOffset":4}' in drawn.svg().replace("&quot;", '"')


def test_streams_with_names_are_added_removed_and_reordered_over_one_checkpoint(
    spark: SparkSession, place: NumbersFolder
) -> None:
    for name in "abc":
        (place.folder / name).mkdir()
    folders = {name: NumbersFolder(place.folder / name) for name in "abc"}

    def run(*names: str, **places: str) -> str:
        pipeline = rk.Pipeline("live")
        for name in names:
            folder = folders[places.get(name, name)].source
            pipeline.add_source(
                lambda spark, name=name, folder=folder: spark.readStream.name(name).schema("id long").json(str(folder)),
                name=name,
            )
        scope: dict[str, Any] = {"reduce": functools.reduce, "DataFrame": DataFrame}
        united = eval(f"lambda {', '.join(names)}: reduce(DataFrame.union, [{', '.join(names)}])", scope)
        pipeline.add_sink(united, rk.files(f"{place.folder}/all"), name="all")
        with RunningStream(spark, pipeline, place, available_now=True) as stream:
            stream.ended()
        return "\n".join(stream.lines)

    spark.conf.set(EVOLUTION, "true")
    try:
        folders["a"].feed(0)
        folders["b"].feed(1)
        run("a", "b")
        folders["a"].feed(2)
        folders["c"].feed(3)
        told = run("c", "b", "a")
        assert "all: compatible from the next batch on (the stream c is added" in told, told
        assert place.rows("all") == numbers(0, 1, 2, 3), "each row once, though all streams have other numbers"
        folders["b"].feed(4)
        folders["c"].feed(5)
        assert "the stream b is removed, and what it has left is not read" in run("a", "c")
        assert place.rows("all") == numbers(0, 1, 2, 3, 5)
        with pytest.raises(Refused, match="the stream b was removed before: Spark would read it from its beginning"):
            run("a", "b", "c")
        with pytest.raises(Refused, match="the stream c is removed and d is added, at the same place"):
            run("a", "d", d="c")
        assert place.rows("all") == numbers(0, 1, 2, 3, 5), "nothing ran"
    finally:
        spark.conf.unset(EVOLUTION)


def test_a_checkpoint_that_another_driver_replaces_meanwhile_is_not_taken_for_the_old_one(
    spark: SparkSession, place: NumbersFolder
) -> None:
    meanwhile: list[Callable[[], object]] = []

    def orders(spark: SparkSession) -> DataFrame:
        while meanwhile:
            meanwhile.pop()()
        return place.read(spark)

    def passed() -> rk.Pipeline:
        pipeline = rk.Pipeline("live")
        pipeline.add_source(orders)
        pipeline.add_sink(lambda orders: None, rk.files(f"{place.folder}/plain"), name="plain")
        return pipeline

    def replaced() -> None:
        given = {"new_checkpoint": ["plain"], "start_from": "earliest"}
        with RunningStream(spark, passed(), place, available_now=True, **given) as other:
            other.ended()

    place.feed(0)
    with RunningStream(spark, passed(), place, available_now=True) as stream:
        known = stream.ended().run
    meanwhile.append(replaced)
    with (
        RunningStream(spark, passed(), place, available_now=True, run=known) as stream,
        pytest.raises(Refused, match="another driver replaced a checkpoint of this stream meanwhile"),
    ):
        stream.ended()
    assert place.rows("plain") == numbers(0) + numbers(0)
    with (
        RunningStream(spark, passed(), place, available_now=True, start_from="latest") as stream,
        pytest.raises(Refused, match="and no region gets one"),
    ):
        stream.ended()


def test_functions_that_the_code_does_not_lead_to_are_compared_as_spark_is_given_them(
    spark: SparkSession, place: NumbersFolder
) -> None:
    """A function that the session has by its name, and a value that is read while a step is built."""

    def keyed(by: int) -> rk.Pipeline:
        spark.udf.register("marked", lambda n: n % by, "long")
        pipeline = rk.Pipeline("live")
        pipeline.add_source(lambda spark: place.read(spark), name="orders")
        pipeline.add_step(lambda orders: orders.withColumn("key", F.expr("marked(id)")), name="keyed")
        pipeline.add_sink(lambda keyed: keyed.dropDuplicates(["key"]), rk.files(f"{place.folder}/first"), name="first")
        return pipeline

    place.feed(0)
    with RunningStream(spark, keyed(3), place, available_now=True) as stream:
        stream.ended()
    (same,), (other,) = (keyed(by).plan_stream(spark, str(place.state)).changes for by in (3, 4))
    assert same.verdict is ChangeVerdict.SAME and other.verdict is ChangeVerdict.MIXES_STATE
    assert "udf:marked" in other.told[0]


def stateful_steps(spark: SparkSession, place: NumbersFolder, **steps: Callable[..., DataFrame]) -> RegionSpec:
    """The region of the last of these steps."""
    pipeline = rk.Pipeline("steps")
    pipeline.add_source(lambda spark: place.read(spark).withColumn("at", F.timestamp_seconds("id")), name="orders")
    *before, last = steps
    for name in before:
        pipeline.add_step(steps[name], name=name)
    pipeline.add_sink(steps[last], rk.files(f"{place.folder}/{last}"), name=last)
    (region,) = pipeline.plan_stream(spark, str(place.state)).spec.regions
    return region


def test_steps_at_or_below_state_are_found_wherever_it_stands(spark: SparkSession, place: NumbersFolder) -> None:
    unread = stateful_steps(
        spark,
        place,
        passed=lambda orders: orders.where("id > 1"),
        other=lambda orders: orders.dropDuplicates(["id"]),
        top=lambda passed, other: passed.dropDuplicates(["id"]),
    )
    assert unread.stateful == ("orders", "passed", "other", "top"), "a step has state beside an input it does not read"
    common = stateful_steps(
        spark,
        place,
        keyed=lambda orders: orders.select("id"),
        both=lambda keyed: keyed.subtract(keyed.sparkSession.range(9)),
        named=lambda both: both.selectExpr("id + 1 as next"),
    )
    assert common.stateful == ("orders", "keyed", "both") and common.operators == ("Aggregate",)
    above = stateful_steps(
        spark,
        place,
        once=lambda orders: orders.dropDuplicates(["id"]),
        shown=lambda once: once.where("id > 1"),
    )
    assert above.stateful == ("orders", "once", "shown"), "Spark may move a filter below the state it stands above"
    late = stateful_steps(
        spark,
        place,
        once=lambda orders: orders.withWatermark("at", "1 second").dropDuplicates(["id", "at"]),
        late=lambda once: once.withColumn("then", F.col("at") + F.expr("interval 1 hour")).withWatermark(
            "then", "1 day"
        ),
    )
    assert late.stateful == ("orders", "once", "late"), "the lowest watermark counts for all of a query"
    stateless = stateful_steps(spark, place, plain=lambda orders: orders.withWatermark("at", "1 second"))
    assert (stateless.stateful, stateless.operators) == ((), ())


def test_the_plan_tells_settings_that_a_checkpoint_has_otherwise(spark: SparkSession, place: NumbersFolder) -> None:
    place.feed(0)
    with RunningStream(spark, counted(place, by=3), place, available_now=True) as stream:
        stream.ended()
    had = spark.conf.get(SHUFFLE)
    spark.conf.set(SHUFFLE, "400")
    try:
        (note,) = counted(place, by=3).plan_stream(spark, str(place.state)).notes
        assert note == f"noted: {SHUFFLE} is 400 here, and its checkpoint has {had}, which Spark goes on to use"
        fresh = counted(place, by=3).plan_stream(
            spark, str(place.folder / "fresh"), options=rk.RunOptions(take_target=["noted"])
        )
        (many,) = fresh.notes
        assert many.startswith("noted: each batch has 400 tasks for its state, on ")
    finally:
        spark.conf.set(SHUFFLE, str(had))


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
    pipeline.add_step(lambda orders: orders.withColumn("u", F.expr("uuid()")), name="marked", result="pipelined")
    pipeline.add_sink(lambda marked: None, rk.files(f"{place.folder}/t"), name="t")
    pipeline.add_sink(lambda marked: None, rk.files(f"{place.folder}/s"), name="s")
    refused("marked is read by several sinks.*: Uuid")
    pipeline = rk.Pipeline("live")
    pipeline.add_source(lambda spark: spark.readStream.format("rate").load(), name="ticks")
    pipeline.add_step(lambda ticks: ticks, name="passed", result="pipelined")
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
    assert "exactly once to files" in told and "has no batch yet" in told and ": all files" in told
    assert FAST.backoff.kind == "fixed"


def test_a_filter_above_the_state_is_judged_as_a_change_of_it(spark: SparkSession, place: NumbersFolder) -> None:
    """Spark moves a filter by a key below the aggregate: groups that are in the state come out all the same. A column
    that is added above the state changes nothing below."""

    def counting(shown: Callable[[DataFrame], DataFrame]) -> rk.Pipeline:
        pipeline = rk.Pipeline("live")
        pipeline.add_source(lambda spark: place.read(spark), name="orders")
        pipeline.add_step(lambda orders: orders.dropDuplicates(["id"]), name="once")
        pipeline.add_sink(shown, rk.files(f"{place.folder}/shown"), inputs={"once": "once"}, name="shown")
        return pipeline

    def verdict(shown: Callable[[DataFrame], DataFrame]) -> ChangeVerdict:
        (change,) = counting(shown).plan_stream(spark, str(place.state)).changes
        return change.verdict

    place.feed(0)
    with RunningStream(spark, counting(lambda once: once.select("id")), place, available_now=True) as stream:
        stream.ended()
    assert verdict(lambda once: once.select("id").where("id <> 1")) is ChangeVerdict.MIXES_STATE
    assert verdict(lambda once: once.select("id", F.lit(1).alias("one"))) is ChangeVerdict.COMPATIBLE
