"""Results between the regions of a stream: one version for all readers, and failures that touch nobody else."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any, Literal

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from cli.calling import call
from engine.number_streams import PATIENT, NumbersFolder, RunningStream, numbers
from rekindle.errors import GraphRefused, Refused, RunFailed


@pytest.fixture
def place(tmp_path: Path) -> NumbersFolder:
    return NumbersFolder(tmp_path)


Kind = Literal["auto", "pipelined", "blocking", "caching", "memory"]
HOLDING: dict[str, Any] = {"keep_results_minutes": 0.0, "result_bytes_max": 1, "config": PATIENT}


def forked(place: NumbersFolder, *, result: Kind = "auto", by: int = 1, is_alone: bool = False) -> rk.Pipeline:
    """Two sinks over a step that is drawn anew each time: one passes on, and fails while the bad file is there; one
    keeps state, and `is_alone` where the other one left the code."""
    pipeline, bad = rk.Pipeline("live"), str(place.bad)

    @pipeline.source
    def orders(spark: SparkSession) -> DataFrame:
        return place.read(spark)

    @pipeline.step(result=result)
    def drawn(orders: DataFrame) -> DataFrame:
        draw = F.udf(lambda one: random.getrandbits(60), "long").asNondeterministic()
        return orders.select((F.col("id") * by).alias("id"), draw("id").alias("draw"))

    @pipeline.step(deterministic=True)
    def looked(drawn: DataFrame) -> DataFrame:
        def looked_at(one: int) -> int:
            if Path(bad).exists():
                raise ValueError("the bad file is there")
            return one

        return drawn.withColumn("id", F.udf(looked_at, "long")("id"))

    if not is_alone:
        pipeline.add_sink(lambda looked: None, rk.files(f"{place.folder}/fragile"), name="fragile")

    @pipeline.sink(rk.files(f"{place.folder}/once"))
    def once(drawn: DataFrame) -> DataFrame:
        return drawn.dropDuplicates(["id"])

    return pipeline


def draws(place: NumbersFolder, sink: str) -> Counter[tuple[int, int]]:
    found: Counter[tuple[int, int]] = Counter()
    for path in (place.folder / sink / "current").glob("*.parquet"):
        table = pq.read_table(path)
        found.update(zip(table.column("id").to_pylist(), table.column("draw").to_pylist(), strict=True))
    return found


def test_a_step_that_is_not_determinate_has_one_version_for_all_its_readers(
    spark: SparkSession, place: NumbersFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in (0, 1):
        place.feed(number)
    plan = forked(place).plan_stream(spark, str(place.state))
    assert plan.spec.names[0] == "drawn", "producers first"
    assert {one.name: one.reads for one in plan.spec.regions} == {
        "drawn": (),
        "fragile": ("drawn",),
        "once": ("drawn",),
    }
    assert plan.spec.region("fragile").steps == ("drawn", "looked", "fragile")
    with RunningStream(spark, forked(place), place, available_now=True) as stream:
        summary = stream.ended()
    assert place.rows("fragile") == place.rows("once") == numbers(0, 1)
    assert draws(place, "fragile") == draws(place, "once"), "both read what was drawn once"
    assert [one.restarts for one in summary.regions.values()] == [0, 0, 0]
    *_, last = sorted(place.state.glob("live/_streams/*/checkpoints/fragile/offsets/?"))
    assert '{"entry":1,"result":"drawn"}' in last.read_text().splitlines()
    log = [one for one in place.state.glob("live/_streams/*/results/drawn/*/drawn/*") if one.is_dir()]
    said = call(capsys, "gc", "--location", str(place.state), "--set", "gc.grace_hours=0")
    assert said.code == 0 and "every reader has passed its batch" in said.out
    kept = {one.parent.parent.name: sorted(batch.name.partition("-")[0] for batch in one.iterdir()) for one in log}
    assert kept == {"entries": ["1"], "data": ["1"]}, "the last batch stays"
    place.feed(2)
    with RunningStream(spark, forked(place), place, available_now=True) as stream:
        stream.ended()
    assert place.rows("fragile") == place.rows("once") == numbers(0, 1, 2), "the next day"
    assert draws(place, "fragile") == draws(place, "once")


def test_a_reader_that_fails_leaves_the_producer_and_the_other_reader_alone(
    spark: SparkSession, place: NumbersFolder
) -> None:
    with RunningStream(spark, forked(place, result="caching"), place) as stream:
        place.feed(0)
        stream.wait(lambda: place.rows("fragile") == place.rows("once") == numbers(0))
        place.bad.touch()
        place.feed(1)
        stream.wait(lambda: any("fragile restarts" in line for line in stream.lines))
        stream.wait(lambda: place.rows("once") == numbers(0, 1))
        place.bad.unlink()
        stream.wait(lambda: place.rows("fragile") == numbers(0, 1))
        summary = stream.stopped()
    assert summary.regions["fragile"].restarts >= 1
    assert summary.regions["drawn"].restarts == summary.regions["once"].restarts == 0
    assert draws(place, "fragile") == draws(place, "once"), "what was read again is what was drawn before"


def test_a_changed_producer_is_a_change_of_the_state_above_its_result(
    spark: SparkSession, place: NumbersFolder
) -> None:
    place.feed(0)
    with RunningStream(spark, forked(place), place, available_now=True) as stream:
        stream.ended()
    with (
        RunningStream(spark, forked(place, by=2), place, available_now=True) as stream,
        pytest.raises(Refused, match="once changes what the state means: it reads drawn, which changed"),
    ):
        stream.ended()


def test_a_batch_of_a_result_that_is_gone_is_named(spark: SparkSession, place: NumbersFolder) -> None:
    place.feed(0)
    with RunningStream(spark, forked(place), place, available_now=True) as stream:
        stream.ended()
    place.feed(1)
    place.bad.touch()
    with RunningStream(spark, forked(place), place) as stream:
        stream.wait(lambda: any("fragile gave up" in line for line in stream.lines))
        stream.ask()
    (entry,) = place.state.glob("live/_streams/*/results/drawn/entries/drawn/*/1")
    entry.rename(entry.with_name("hidden"))
    place.bad.unlink()
    with RunningStream(spark, forked(place), place) as stream, pytest.raises(Refused, match="its result lacks it"):
        stream.ended()


def test_other_kinds_of_results_are_refused_for_streams(spark: SparkSession, place: NumbersFolder) -> None:
    with pytest.raises(GraphRefused, match='drawn has result="blocking", and it is a stream'):
        forked(place, result="blocking").plan_stream(spark, str(place.state))
    with pytest.raises(GraphRefused, match="drawn is read by several sinks, so that each computes it"):
        forked(place, result="pipelined").plan_stream(spark, str(place.state))


def test_a_reader_that_comes_back_after_its_batches_went_is_told_which(
    spark: SparkSession, place: NumbersFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    def day(number: int, *, is_alone: bool) -> None:
        place.feed(number)
        pipeline = forked(place, result="caching", is_alone=is_alone)
        with RunningStream(spark, pipeline, place, available_now=True) as stream:
            stream.ended()

    day(0, is_alone=False)
    day(1, is_alone=True)
    day(2, is_alone=True)
    assert call(capsys, "gc", "--location", str(place.state), "--set", "gc.grace_hours=0").code == 0
    with pytest.raises(RunFailed, match=r"fragile gave up: .*batch 1 of the result of drawn is gone") as told:
        day(3, is_alone=False)
    assert "new_checkpoint=['fragile']" in str(told.value)
    assert place.rows("fragile") == numbers(0), "nothing was left out in silence"
    assert place.rows("once") == numbers(0, 1, 2, 3), "the other reader goes on"


def test_a_reader_starts_again_after_some_of_what_its_last_batch_read_were_released(
    spark: SparkSession, place: NumbersFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    """Spark asks a source for the last committed batch again, and reads none of it. Of a stream that is pinned none
    are."""
    gc = ("gc", "--location", str(place.state), "--set", "gc.grace_hours=0")

    def results(*words: str) -> str:
        said = call(capsys, "results", *words, "--location", str(place.state))
        assert said.code == 0, said.err
        return said.out

    def there() -> list[str]:
        return results("ls", "live/1").splitlines()[1].split()[:3]

    for days in ((0,), (1, 2, 3), (4,)):
        for number in days:
            place.feed(number)
        with RunningStream(spark, forked(place, result="caching"), place, available_now=True) as stream:
            stream.ended()
        results("pin", "live/1", "--why", "a look")
        before = there()
        assert call(capsys, *gc).code == 0 and there() == before and "pinned" in results("ls")
        results("unpin", "live/1")
        assert call(capsys, *gc).code == 0 and there()[:2] == ["live/1", "drawn"] and there()[2].startswith("1/")
        assert "the newest batch stays" in results("ls")
    assert place.rows("fragile") == place.rows("once") == numbers(0, 1, 2, 3, 4)


def test_a_stream_that_runs_releases_what_was_read_and_holds_a_producer_that_is_far_ahead(
    spark: SparkSession, place: NumbersFolder
) -> None:
    def entries() -> set[str]:
        return {one.name for one in place.state.glob("live/_streams/*/results/drawn/entries/drawn/*/*")}

    place.bad.touch()
    with RunningStream(spark, forked(place, result="caching"), place, **HOLDING) as stream:
        place.feed(0)
        stream.wait(lambda: any("drawn waits: its result has" in line for line in stream.lines))
        assert any("; fragile is 1 batches behind" in line for line in stream.lines)
        place.feed(1)
        place.feed(2)
        began = sum("fragile restarts" in line for line in stream.lines)
        stream.wait(lambda: sum("fragile restarts" in line for line in stream.lines) > began + 2)
        assert entries() == {"0"}, "nothing is added meanwhile"
        place.bad.unlink()
        stream.wait(lambda: place.rows("fragile") == place.rows("once") == numbers(0, 1, 2))
        stream.wait(lambda: entries() == {"2"})
        summary = stream.stopped()
    assert any("drawn goes on" in line for line in stream.lines)
    assert summary.regions["drawn"].restarts == 0, "to wait is no failure"
    kept = {one.name.partition("-")[0] for one in place.state.glob("live/_streams/*/results/drawn/data/drawn/*/*")}
    assert kept == {"2"} and list(place.state.glob("live/_gc/*")), "and the audit log has it"


def test_a_stream_that_is_stopped_while_its_producer_is_held_goes_on_the_next_day(
    spark: SparkSession, place: NumbersFolder
) -> None:
    place.bad.touch()
    with RunningStream(spark, forked(place, result="caching"), place, **HOLDING) as stream:
        place.feed(0)
        stream.wait(lambda: any("drawn waits: its result has" in line for line in stream.lines))
        place.feed(1)
        with pytest.raises(RunFailed, match="drawn: its checkpoint is kept"):
            stream.stopped()
    place.bad.unlink()
    with RunningStream(spark, forked(place, result="caching"), place, available_now=True) as stream:
        stream.ended()
    assert place.rows("fragile") == place.rows("once") == numbers(0, 1)
