"""Streaming queries of a script, supervised: they go on from the checkpoints that they have."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from engine.number_streams import FAST, NumbersFolder, numbers
from rekindle.engine.spark.stream import stream_engine
from rekindle.errors import GraphRefused, Refused, RunFailed
from rekindle.onramp import ScriptRun

pytestmark = pytest.mark.spark


@pytest.fixture
def place(tmp_path: Path) -> NumbersFolder:
    return NumbersFolder(tmp_path)


def supervised(
    spark: SparkSession,
    place: NumbersFolder,
    declare: Callable[[ScriptRun], object],
    name: str = "script",
    **given: Any,
) -> list[str]:
    """What was told of a run of these queries that ended when all input was read."""
    lines: list[str] = []
    options = replace(rk.RunOptions(available_now=True, config=FAST), **given)
    with rk.run(name, spark, str(place.state), options=options, tell=lines.append) as run:
        declare(run)
    return lines


def rows(spark: SparkSession, place: NumbersFolder, name: str) -> Counter[int]:
    return Counter(row.id for row in spark.read.parquet(str(place.folder / name)).select("id").collect())


def writer(frame: DataFrame, place: NumbersFolder, name: str) -> Any:
    return frame.writeStream.format("parquet").option("path", str(place.folder / name))


def test_a_query_goes_on_from_the_checkpoint_that_the_script_had(spark: SparkSession, place: NumbersFolder) -> None:
    """What bare Spark had read is not read again, and what comes is read once; also the day after."""
    checkpoint = str(place.folder / "their-checkpoint")
    place.feed(0)
    bare = writer(place.read(spark), place, "out").option("checkpointLocation", checkpoint)
    bare.trigger(availableNow=True).start().awaitTermination()
    place.feed(1)

    def declare(run: ScriptRun) -> None:
        run.stream(writer(place.read(spark), place, "out"), "orders", checkpoint=checkpoint)

    lines = supervised(spark, place, declare)
    assert any("goes on after batch 0" in line for line in lines), lines
    assert rows(spark, place, "out") == numbers(0, 1)
    place.feed(2)
    supervised(spark, place, declare)
    assert rows(spark, place, "out") == numbers(0, 1, 2)


def test_the_checkpoint_of_its_writer_is_found(spark: SparkSession, place: NumbersFolder) -> None:
    """One that is overlooked would be a position that is lost, and rows that come twice."""
    checkpoint = str(place.folder / "their-checkpoint")
    place.feed(0)

    def made() -> Any:
        return writer(place.read(spark), place, "out").option("CHECKPOINTlocation", checkpoint)

    made().trigger(availableNow=True).start().awaitTermination()
    place.feed(1)
    supervised(spark, place, lambda run: run.stream(made(), "orders"))
    assert rows(spark, place, "out") == numbers(0, 1)
    with pytest.raises(GraphRefused, match="orders has two checkpoints"):
        supervised(spark, place, lambda run: run.stream(made(), "orders", checkpoint="/elsewhere"))


def test_one_that_fails_restarts_alone(spark: SparkSession, place: NumbersFolder) -> None:
    place.feed(0)
    marker = place.folder / "fails"
    marker.touch()
    path = str(marker)

    def fragile(one: int) -> int:
        if Path(path).exists():
            Path(path).unlink()
            raise ValueError("this batch fails")
        return one

    def declare(run: ScriptRun) -> None:
        frame = place.read(spark).select(F.udf(fragile, "long")("id").alias("id"))
        run.stream(writer(frame, place, "fragile"), "fragile")
        run.stream(writer(place.read(spark), place, "healthy"), "healthy")

    lines = supervised(spark, place, declare)
    assert any("fragile failed: " in line for line in lines) and not any("healthy failed" in line for line in lines)
    assert rows(spark, place, "fragile") == rows(spark, place, "healthy") == numbers(0)


def test_the_settings_of_the_script_are_its_own_again(spark: SparkSession, place: NumbersFolder) -> None:
    name = "spark.sql.streaming.stopTimeout"
    spark.conf.set(name, "7s")
    try:
        place.feed(0)
        supervised(spark, place, lambda run: run.stream(writer(place.read(spark), place, "out"), "orders"))
        assert spark.conf.get(name) == "7s"
        assert spark.conf.get("spark.rekindle.stream.fence", None) is None
        assert spark.conf.get("spark.sql.streaming.checkpointFileManagerClass", None) is None
    finally:
        spark.conf.unset(name)


def test_a_function_that_hangs_is_told_and_the_others_go_on(
    spark: SparkSession, place: NumbersFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How long Spark waits for a query that is stopped is the setting of the script's session: for ever."""
    monkeypatch.setattr(stream_engine, "STOP_SECONDS", 1)
    monkeypatch.setattr(stream_engine, "STOP_GRACE_SECONDS", 1.0)
    released = threading.Event()
    place.feed(0)

    def hangs(rows: DataFrame, batch: int) -> None:
        released.wait()

    def declare(run: ScriptRun) -> None:
        run.stream(place.read(spark).writeStream.foreachBatch(hangs), "hung")
        run.stream(writer(place.read(spark), place, "healthy"), "healthy")

    try:
        with pytest.raises(RunFailed, match="hung gave up: its query does not stop"):
            supervised(spark, place, declare, stall_seconds=6.0)
    finally:
        released.set()
    assert rows(spark, place, "healthy") == numbers(0)


def test_poison_is_named_by_the_batch_that_the_checkpoint_has(spark: SparkSession, place: NumbersFolder) -> None:
    """The journal knows nothing of batches that were committed before."""
    checkpoint = str(place.folder / "their-checkpoint")
    place.feed(0)
    bare = writer(place.read(spark), place, "out").option("checkpointLocation", checkpoint)
    bare.trigger(availableNow=True).start().awaitTermination()
    place.feed(1)

    def broken(one: int) -> int:
        raise ValueError("always")

    def declare(run: ScriptRun) -> None:
        frame = place.read(spark).select(F.udf(broken, "long")("id").alias("id"))
        run.stream(writer(frame, place, "out"), "orders", checkpoint=checkpoint)

    with pytest.raises(RunFailed, match="orders gave up: poison: batch 1 failed"):
        supervised(spark, place, declare)


def test_a_checkpoint_is_that_of_one_stream(spark: SparkSession, place: NumbersFolder) -> None:
    checkpoint = str(place.folder / "their-checkpoint")
    place.feed(0)

    def declare(run: ScriptRun) -> None:
        run.stream(writer(place.read(spark), place, "out"), "orders", checkpoint=checkpoint)

    supervised(spark, place, declare)
    with pytest.raises(Refused, match=r"is that of orders in stream .*: two drivers on it could do a batch twice"):
        supervised(spark, place, declare, name="other_script")
    place.feed(1)
    supervised(spark, place, declare, name="other_script", take_target=["orders"])
    assert rows(spark, place, "out") == numbers(0, 1)


def test_a_checkpoint_by_the_setting_of_the_session_is_found(spark: SparkSession, place: NumbersFolder) -> None:
    setting = "spark.sql.streaming.checkpointLocation"
    spark.conf.set(setting, str(place.folder / "checkpoints"))
    try:
        place.feed(0)
        named = writer(place.read(spark), place, "out").queryName("theirs")
        named.trigger(availableNow=True).start().awaitTermination()
        place.feed(1)
        again = writer(place.read(spark), place, "out").queryName("theirs")
        supervised(spark, place, lambda run: run.stream(again, "orders"))
        assert rows(spark, place, "out") == numbers(0, 1)
        with pytest.raises(GraphRefused, match="nobody knows which checkpoint below it is its own"):
            supervised(spark, place, lambda run: run.stream(writer(place.read(spark), place, "out"), "orders"))
    finally:
        spark.conf.unset(setting)


def test_a_query_that_ends_by_its_own_trigger_has_finished(spark: SparkSession, place: NumbersFolder) -> None:
    place.feed(0)
    once = writer(place.read(spark), place, "out").trigger(once=True)
    lines = supervised(spark, place, lambda run: run.stream(once, "orders"), available_now=False)
    assert any("orders has read all its input" in line for line in lines), lines


def test_what_cannot_be_supervised_is_refused(spark: SparkSession, place: NumbersFolder) -> None:
    place.feed(0)

    def twice(run: ScriptRun) -> None:
        for name in ("first", "second"):
            run.stream(writer(place.read(spark), place, name), name, checkpoint=str(place.folder / "same"))

    with pytest.raises(GraphRefused, match="second has the checkpoint of first"):
        supervised(spark, place, twice)
    with pytest.raises(GraphRefused, match="is a DataFrame, and only the writer of a streaming DataFrame"):
        supervised(spark, place, lambda run: run.stream(place.read(spark), "orders"))


def test_changed_state_is_refused_and_a_give_up_is_told(spark: SparkSession, place: NumbersFolder) -> None:
    place.feed(0)

    def keyed(by: int) -> Callable[[ScriptRun], object]:
        frame = place.read(spark).withColumn("key", F.col("id") % by).dropDuplicates(["key"])
        return lambda run: run.stream(writer(frame, place, "once"), "once")

    supervised(spark, place, keyed(3))
    with pytest.raises(Refused, match="once changes what the state means"):
        supervised(spark, place, keyed(4))

    def broken(one: int) -> int:
        raise ValueError("always")

    frame = place.read(spark).select(F.udf(broken, "long")("id").alias("id"))
    with pytest.raises(RunFailed, match="broken gave up: poison"):
        supervised(spark, place, lambda run: run.stream(writer(frame, place, "broken"), "broken"), name="other_script")
