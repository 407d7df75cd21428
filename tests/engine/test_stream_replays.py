"""Batches of results between regions that cannot be read any more: exactly those are made again, and no reader sees two
versions of one. On real Spark; who computed which row is noted by the step itself."""

from __future__ import annotations

import random
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from engine.number_streams import PATIENT, ROWS, NumbersFolder, RunningStream, numbers
from rekindle.engine.spark.stream import result_replays
from rekindle.errors import RunFailed

pytestmark = pytest.mark.timeout(600)
Kind = Literal["caching", "memory"]


class ReplayedFolder(NumbersFolder):
    """Beside the numbers, which of them the step `clean` has computed, and how often."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.calls = folder / "calls"

    def computed(self) -> Counter[int]:
        """By file: how often each of its rows was computed."""
        found = Counter(int(line) for line in self.calls.read_text().split()) if self.calls.exists() else Counter()
        return Counter({number // ROWS: count for number, count in found.items()})

    def has_read(self, sink: str, files: int) -> bool:
        return self.rows(sink) == numbers(*range(files))

    def parts(self) -> list[Path]:
        """The files of the result of `clean`."""
        return sorted(self.state.glob("live/_streams/*/results/clean/data/clean/*/*/*.parquet"))

    def again(self) -> list[str]:
        return sorted(one.name for one in self.state.glob("live/_streams/*/results/clean/replays/clean/*/*"))


@pytest.fixture
def place(tmp_path: Path) -> ReplayedFolder:
    return ReplayedFolder(tmp_path)


def forked(
    place: ReplayedFolder, result: Kind, *, draws: bool = False, is_alone: bool = False, is_chained: bool = False
) -> rk.Pipeline:
    """`clean` notes what it computes, and may draw. `fragile` fails while the bad file is there; `plain` passes on, and
    is not there where `fragile` `is_alone`."""
    pipeline, bad, calls = rk.Pipeline("live"), str(place.bad), str(place.calls)

    def noted(one: int) -> int:
        with Path(calls).open("a") as log:
            log.write(f"{one}\n")
        return random.getrandbits(50) if draws else one * 3

    def looked_at(one: int) -> int:
        if Path(bad).exists():
            raise ValueError("the bad file is there")
        return one

    @pipeline.source
    def orders(spark: SparkSession) -> DataFrame:
        return place.read(spark)

    @pipeline.step(result=result, deterministic=not draws)
    def clean(orders: DataFrame) -> DataFrame:
        return orders.withColumn("price", F.udf(noted, "long").asNondeterministic()("id"))

    if is_chained:

        @pipeline.step(result=result, deterministic=True)
        def priced(clean: DataFrame) -> DataFrame:
            return clean.withColumn("more", F.col("price") + 1)

        pipeline.add_sink(lambda priced: checked(priced), rk.files(f"{place.folder}/fragile"), name="fragile")
    else:
        pipeline.add_sink(lambda clean: checked(clean), rk.files(f"{place.folder}/fragile"), name="fragile")
    if not is_alone:
        pipeline.add_sink(lambda clean: None, rk.files(f"{place.folder}/plain"), name="plain")

    def checked(frame: DataFrame) -> DataFrame:
        return frame.withColumn("id", F.udf(looked_at, "long")("id"))

    return pipeline


def prices(place: NumbersFolder, sink: str) -> dict[int, int]:
    found: dict[int, int] = {}
    for path in (place.folder / sink / "current").glob("*.parquet"):
        table = pq.read_table(path)
        found |= dict(zip(table.column("id").to_pylist(), table.column("price").to_pylist(), strict=True))
    return found


def left_behind(spark: SparkSession, place: ReplayedFolder, files: int, **given: Any) -> None:
    """`fragile` has planned its first batch and committed none; the others have read all."""
    place.bad.touch()
    for number in range(files):
        place.feed(number)
    with (
        RunningStream(spark, forked(place, **given), place, available_now=True) as stream,
        pytest.raises(RunFailed, match="the bad file is there"),
    ):
        stream.ended()
    place.bad.unlink()


def go_on(spark: SparkSession, place: ReplayedFolder, **given: Any) -> tuple[rk.StreamSummary, list[str]]:
    with RunningStream(spark, forked(place, **given), place, available_now=True) as stream:
        return stream.ended(), stream.lines


def test_a_reader_that_fails_reads_its_batch_again_from_memory(spark: SparkSession, place: ReplayedFolder) -> None:
    with RunningStream(spark, forked(place, "memory"), place, config=PATIENT) as stream:
        place.feed(0)
        stream.wait(lambda: place.rows("fragile") == place.rows("plain") == numbers(0))
        place.bad.touch()
        place.feed(1)
        stream.wait(lambda: any("fragile restarts" in line for line in stream.lines))
        stream.wait(lambda: place.rows("plain") == numbers(0, 1))
        place.bad.unlink()
        stream.wait(lambda: place.rows("fragile") == numbers(0, 1))
        summary = stream.stopped()
    assert place.computed() == {0: 1, 1: 1} and place.parts() == [] and place.again() == []
    assert summary.regions["clean"].restarts == summary.regions["plain"].restarts == 0
    assert prices(place, "fragile") == prices(place, "plain")


@pytest.mark.parametrize("result", ["memory", "caching"])
def test_a_new_driver_makes_again_what_vanished_with_the_old_one_and_nothing_else(
    spark: SparkSession, place: ReplayedFolder, result: Kind
) -> None:
    left_behind(spark, place, 3, result=result)
    place.feed(3)
    summary, lines = go_on(spark, place, result=result)
    vanished = {0: 2, 1: 2, 2: 2} if result == "memory" else {0: 1, 1: 1, 2: 1}
    assert place.computed() == vanished | {3: 1}, lines
    assert place.rows("fragile") == place.rows("plain") == numbers(0, 1, 2, 3)
    assert prices(place, "fragile") == prices(place, "plain")
    assert summary.regions["clean"].restarts == summary.regions["plain"].restarts == 0
    assert summary.regions["clean"].replayed == (3 if result == "memory" else 0)
    assert place.again() == (["0.1", "1.1", "2.1"] if result == "memory" else [])


def test_over_its_capacity_the_oldest_batches_go_and_are_made_again_for_who_needs_them(
    spark: SparkSession, place: ReplayedFolder
) -> None:
    place.bad.touch()
    with RunningStream(spark, forked(place, "memory"), place, config=PATIENT, memory_bytes_max=1) as stream:
        for number in range(3):
            place.feed(number)
            stream.wait(partial(place.has_read, "plain", number + 1))
        place.bad.unlink()
        stream.wait(lambda: place.rows("fragile") == numbers(0, 1, 2))
        summary = stream.stopped()
    told = "\n".join(stream.lines)
    assert place.again() in (["0.1", "1.1"], ["1.1"]), "unless the first was read before it went; the newest one stays"
    assert sorted(place.computed().values()) == [1] * (3 - len(place.again())) + [2] * len(place.again()), told
    assert summary.regions["clean"].replayed == len(place.again())
    assert summary.regions["clean"].restarts == summary.regions["plain"].restarts == 0


def test_a_memory_result_of_a_memory_result_is_made_again_upwards(spark: SparkSession, place: ReplayedFolder) -> None:
    left_behind(spark, place, 2, result="memory", is_chained=True)
    summary, lines = go_on(spark, place, result="memory", is_chained=True)
    assert place.computed() == {0: 2, 1: 2} and place.rows("fragile") == place.rows("plain") == numbers(0, 1), lines
    assert prices(place, "fragile") == prices(place, "plain")
    replayed = {name: one.replayed for name, one in summary.regions.items()}
    assert replayed == {"clean": 2, "priced": 1, "fragile": 0, "plain": 0}, "one batch of it read both of clean"


def test_other_rows_do_not_take_the_place_of_what_somebody_has_read(spark: SparkSession, place: ReplayedFolder) -> None:
    left_behind(spark, place, 1, result="memory", draws=True)
    said = "batch 0 of clean was made again with other rows, and plain has read it"
    with pytest.raises(RunFailed, match=f"fragile gave up: replay: {said}"):
        go_on(spark, place, result="memory", draws=True)
    assert place.rows("fragile") == Counter() and place.rows("plain") == numbers(0) and place.again() == []


def test_control_two_readers_see_two_versions_where_nobody_looks(
    spark: SparkSession, place: ReplayedFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result_replays, "refused_replacement", lambda *given, **told: "")
    left_behind(spark, place, 1, result="memory", draws=True)
    go_on(spark, place, result="memory", draws=True)
    assert place.rows("fragile") == place.rows("plain") == numbers(0)
    assert prices(place, "fragile") != prices(place, "plain")


def test_other_rows_count_where_nobody_has_read_the_first(spark: SparkSession, place: ReplayedFolder) -> None:
    left_behind(spark, place, 2, result="memory", draws=True, is_alone=True)
    _, lines = go_on(spark, place, result="memory", draws=True, is_alone=True)
    assert place.rows("fragile") == numbers(0, 1) and place.computed() == {0: 2, 1: 2}
    assert any("with other rows, which nobody had read" in line for line in lines)


@pytest.mark.parametrize("how", ["gone", "short", "flipped"])
def test_a_file_of_a_caching_result_that_cannot_be_read_is_made_again(
    spark: SparkSession, place: ReplayedFolder, how: str
) -> None:
    left_behind(spark, place, 2, result="caching")
    (file,) = (one for one in place.parts() if one.parent.name.startswith("1-"))
    body = file.read_bytes()
    damaged = {"short": body[:-20], "flipped": body[:30] + bytes([body[30] ^ 1]) + body[31:]}
    if how == "gone":
        file.unlink()
    else:
        file.write_bytes(damaged[how])
        file.with_name(f".{file.name}.crc").unlink()
    summary, lines = go_on(spark, place, result="caching")
    assert place.rows("fragile") == place.rows("plain") == numbers(0, 1), lines
    assert sorted(place.computed().values()) == [1, 2] and place.again() == ["1.1"], lines
    assert prices(place, "fragile") == prices(place, "plain")
    assert summary.regions["clean"].restarts == 0
    read = rk.read_result(spark, "live", "clean", location=str(place.state)).collect()
    assert Counter(row["id"] for row in read) == numbers(0, 1), "of what was made again the newest counts"


def test_what_a_batch_read_that_is_gone_too_is_said(spark: SparkSession, place: ReplayedFolder) -> None:
    left_behind(spark, place, 1, result="memory")
    (place.source / "00000.json").unlink()
    with pytest.raises(RunFailed, match=r"fragile gave up: replay: .*00000\.json"):
        go_on(spark, place, result="memory")


def test_the_plan_says_what_becomes_of_batches_that_are_lost(spark: SparkSession, place: ReplayedFolder) -> None:
    place.source.joinpath("0.json").write_text('{"id":1}\n')
    pipeline = forked(place, "memory", draws=True)

    @pipeline.step(result="memory")
    def first(orders: DataFrame) -> DataFrame:
        return orders.dropDuplicates(["id"])

    pipeline.add_sink(lambda first: None, rk.files(f"{place.folder}/first"), name="firsts")
    plan = pipeline.plan_stream(spark, str(place.state))
    told = list(plan.lines())
    kinds = {one.name: (one.result, one.target) for one in plan.spec.regions if one.result}
    assert kinds == {"clean": ("memory", "its memory result"), "first": ("caching", "its caching result")}
    state = "it keeps state (Deduplicate)"
    assert f"  first: {state}, so that a batch that vanished could not be made again: its result is caching" in told
    assert f"    a batch that is lost cannot be made again: {state}" in told
    assert "    batches vanish with executors, with the driver, and beyond stream.memory_bytes_max" in told
    assert any("it is not proved to have the same rows then (deterministic=False" in line for line in told)
