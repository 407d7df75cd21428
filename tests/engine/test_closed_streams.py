"""A stream that was given up while its driver slept: what the driver does when it wakes up."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import rekindle as rk
from engine.number_streams import NumbersFolder, RunningStream, numbers, pipeline_of
from rekindle.errors import Fenced
from rekindle.gc import close_stream as closing
from rekindle.gc.collect_run import GcRules
from rekindle.gc.policy import Retention
from rekindle.journal.keys import streams_of
from rekindle.storage.stores import open_store

SINKS = ("plain", "fragile", "once")
# Whoever is silent for so long counts as one that sleeps: everybody.
RULES = GcRules(terms=Retention(grace_ms=0, retention_ms=0), stale_seconds=-1.0)


@pytest.fixture
def place(tmp_path: Path) -> NumbersFolder:
    return NumbersFolder(tmp_path)


def give_up(place: NumbersFolder) -> None:
    store = open_store(str(place.state))
    (run,) = streams_of(store, "live")
    closing.close_stream(store, "live", run, 1, RULES)


def test_a_driver_that_wakes_up_adds_nothing(spark: SparkSession, place: NumbersFolder) -> None:
    place.feed(0)
    with RunningStream(spark, pipeline_of(place), place) as stream:
        stream.wait(lambda: all(place.rows(sink) == numbers(0) for sink in SINKS))
        give_up(place)
        place.feed(1)
        with pytest.raises(Fenced):
            stream.ended()
    assert all(place.rows(sink) == numbers(0) for sink in SINKS), "its targets stay, and nothing came"
    with pytest.raises(rk.RekindleError, match="is closed"):
        pipeline_of(place).run(spark, str(place.state), options=rk.RunOptions(quiet=True, available_now=True))
    options = rk.RunOptions(quiet=True, available_now=True, new=True, take_target=SINKS)
    pipeline_of(place).run(spark, str(place.state), options=options)
    assert all(place.rows(sink) == numbers(0, 0, 1) for sink in SINKS), "a new stream reads from the beginning"


def test_control_without_the_fence_its_batches_count(
    spark: SparkSession, place: NumbersFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(closing, "_fence", lambda *_: None)
    monkeypatch.setattr(closing, "_remove", lambda *_: None)
    place.feed(0)
    with RunningStream(spark, pipeline_of(place), place) as stream:
        stream.wait(lambda: all(place.rows(sink) == numbers(0) for sink in SINKS))
        give_up(place)
        place.feed(1)
        stream.wait(lambda: place.rows("plain") == numbers(0, 1))
