"""A region that starts again in its driver: its functions are called anew, and what they make is compared with what was
judged when the driver began."""

from __future__ import annotations

import contextlib
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from engine.number_streams import PATIENT, NumbersFolder, RunningStream
from rekindle.engine.spark.stream import region_sinks
from rekindle.errors import RunFailed
from rekindle.streams.region_changes import ChangeVerdict, RegionChange

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def place(tmp_path: Path) -> NumbersFolder:
    return NumbersFolder(tmp_path)


def reading(place: NumbersFolder) -> rk.Pipeline:
    """Both read a number from a file while they are built, and fail while the bad file is there; `once` has state."""
    pipeline, bad, number = rk.Pipeline("live"), str(place.bad), place.folder / "number"

    def looked_at(one: int) -> int:
        if Path(bad).exists():
            raise ValueError("the bad file is there")
        return one

    def checked(frame: DataFrame) -> DataFrame:
        return frame.withColumn("id", F.udf(looked_at, "long")("id"))

    def once(orders: DataFrame) -> DataFrame:
        return checked(orders).selectExpr(f"id % {number.read_text()} as id").dropDuplicates(["id"])

    def moved(orders: DataFrame) -> DataFrame:
        return checked(orders.selectExpr(f"id + {number.read_text()} as id"))

    pipeline.add_source(place.read, name="orders")
    pipeline.add_sink(once, rk.files(f"{place.folder}/once"))
    pipeline.add_sink(moved, rk.files(f"{place.folder}/moved"))
    return pipeline


def restarted(spark: SparkSession, place: NumbersFolder, over: str) -> RunningStream:
    """The number is another one when both start again; until a line says that `once` gave up, or it has read all."""
    (place.folder / "number").write_text("3")
    place.feed(0)
    with RunningStream(spark, reading(place), place, config=PATIENT) as stream:
        stream.wait(lambda: place.rows("once") == Counter(range(3)) and place.rows("moved") == Counter(range(3, 8)))
        place.bad.touch()
        place.feed(1)
        for name in ("once", "moved"):
            stream.wait(lambda name=name: any(f"{name} restarts" in line for line in stream.lines))  # type: ignore[misc]
        (place.folder / "number").write_text("10")
        place.bad.unlink()
        stream.wait(lambda: place.rows("moved") == Counter([*range(3, 8), *range(15, 20)]))
        stream.wait(lambda: any(over in line for line in stream.lines) or len(place.rows("once")) > 3)
        with contextlib.suppress(RunFailed):
            stream.stopped()
    return stream


def test_state_of_another_meaning_is_refused_and_other_changes_are_told(
    spark: SparkSession, place: NumbersFolder
) -> None:
    lines = restarted(spark, place, "once gave up").lines
    assert place.rows("once") == Counter(range(3)), lines
    told = "its functions make something else now than when the stream began: "
    assert any(f"once: {told}once: plan; this changes what the state means" in line for line in lines), lines
    assert any(f"moved: {told}moved: plan; it counts from the next batch on" in line for line in lines), lines


def test_control_state_has_rows_of_two_meanings_where_nobody_looks(
    spark: SparkSession, place: NumbersFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    same = RegionChange("once", ChangeVerdict.SAME)
    monkeypatch.setattr(region_sinks, "restart_change", lambda judged, now: same)
    restarted(spark, place, "once gave up")
    assert place.rows("once") == Counter([*range(3), *range(5, 10)]), "neither by 3 nor by 10"
