"""A stream in shards, on real Spark: each shard is a region that reads its part, fails alone, and shares the target."""

from __future__ import annotations

import time
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from engine.number_streams import NumbersFolder, RunningStream, numbers
from rekindle.errors import GraphRefused, Refused, RunFailed
from rekindle.service import shard_starts
from rekindle.streams.source_starts import instant_text

pytestmark = pytest.mark.timeout(900)
FILES = range(8)


@pytest.fixture
def place(tmp_path: Path) -> NumbersFolder:
    made = NumbersFolder(tmp_path)
    for number in FILES:
        made.feed(number)
    return made


def sharded(place: NumbersFolder, shards: int = 3, *, result: str = "auto") -> rk.Pipeline:
    """Numbers through a step to a sink that fails for the first number while the bad file is there."""
    pipeline, bad = rk.Pipeline("live"), str(place.bad)
    pipeline.add_source(place.read, name="orders", shards=shards)

    @pipeline.step(result="caching" if result == "caching" else "auto")
    def drawn(orders: DataFrame) -> DataFrame:
        return orders.withColumn("draw", F.rand())

    @pipeline.sink(rk.files(f"{place.folder}/plain"))
    def plain(drawn: DataFrame) -> DataFrame:
        def looked_at(one: int) -> int:
            if one == 0 and Path(bad).exists():
                raise ValueError("the bad file is there")
            return one

        return drawn.withColumn("id", F.udf(looked_at, "long")("id"))

    return pipeline


def read_newest(spark: SparkSession, place: NumbersFolder) -> Counter[int]:
    return Counter(row.id for row in rk.read_newest(spark, f"{place.folder}/plain").collect())


def has_files(place: NumbersFolder, count: int) -> bool:
    return place.rows("plain") == numbers(*range(count))


@pytest.mark.parametrize("result", ["auto", "caching"])
def test_each_shard_reads_its_files_and_all_of_them_are_read_once(
    spark: SparkSession, place: NumbersFolder, result: str
) -> None:
    plan = sharded(place, result=result).plan_stream(spark, str(place.state))
    every = [name for name in plan.spec.names if name.startswith("plain")]
    assert every == ["plain.0", "plain.1", "plain.2"]
    assert plan.spec.region("plain.1").shards == 3 and plan.spec.region("plain.1").shard_of == "plain"
    for day in (0, 1):
        with RunningStream(spark, sharded(place, result=result), place, available_now=True) as stream:
            stream.ended()
        expected = numbers(*FILES, *([len(FILES)] if day else []))
        assert place.rows("plain") == read_newest(spark, place) == expected, stream.lines
        place.feed(len(FILES))
    wrote = {one.name for one in (place.folder / "plain" / "entries").iterdir()}
    assert wrote == set(every), "each shard had files"


def test_a_shard_that_fails_leaves_the_others_alone(spark: SparkSession, place: NumbersFolder) -> None:
    place.bad.touch()
    with RunningStream(spark, sharded(place), place) as stream:
        stream.wait(lambda: any(" gave up" in line for line in stream.lines))
        (failed,) = {line.split()[1] for line in stream.lines if " gave up" in line}
        others = [one for one in ("plain.0", "plain.1", "plain.2") if one != failed]
        entries = place.folder / "plain" / "entries"
        was = {one: sum(1 for _ in (entries / one).rglob("*")) for one in others}
        for number in range(8, 16):
            place.feed(number)
        stream.wait(lambda: all(sum(1 for _ in (entries / one).rglob("*")) > was[one] for one in others))
        place.bad.unlink()
        stream.ask()
    assert 0 not in place.rows("plain"), "it waits for somebody to correct it"
    with RunningStream(spark, sharded(place), place, available_now=True) as stream:
        summary = stream.ended()
    assert place.rows("plain") == numbers(*range(16))
    assert [summary.regions[one].restarts for one in others] == [0, 0]


def test_shards_are_compacted_side_by_side_and_current_has_all_of_them(
    spark: SparkSession, place: NumbersFolder
) -> None:
    with RunningStream(spark, sharded(place, 2), place, compact_batches=2) as stream:
        fed = len(FILES)
        while len({line.split()[1] for line in stream.lines if " are compacted" in line}) < 2:
            stream.wait(partial(has_files, place, fed))
            place.feed(fed)
            fed += 1
        stream.wait(partial(has_files, place, fed))
        stream.stopped()
    assert read_newest(spark, place) == numbers(*range(fed))


def test_a_function_with_a_parameter_reads_its_part_itself(spark: SparkSession, place: NumbersFolder) -> None:
    pipeline = rk.Pipeline("live")

    @pipeline.source(shards=2)
    def orders(spark: SparkSession, shard: rk.Shard) -> DataFrame:
        return place.read(spark).where(f"id % {shard.of} = {shard.number}")

    @pipeline.sink(rk.files(f"{place.folder}/plain"))
    def plain(orders: DataFrame) -> None: ...

    with RunningStream(spark, pipeline, place, available_now=True) as stream:
        summary = stream.ended()
    assert list(summary.regions) == ["plain.0", "plain.1"]
    assert place.rows("plain") == numbers(*FILES)
    more = rk.Pipeline("live")
    more.add_source(orders, shards=4)
    more.add_sink(plain, rk.files(f"{place.folder}/plain"))
    with pytest.raises(GraphRefused, match="orders reads its part itself, and nobody knows"):
        more.plan_stream(spark, str(place.state))


def test_a_number_of_shards_that_is_no_multiple_is_refused(spark: SparkSession, place: NumbersFolder) -> None:
    """Other regions would read from the beginning what is in the target already."""
    with RunningStream(spark, sharded(place, 2), place, available_now=True) as stream:
        stream.ended()
    for count in (3, 1):
        with (
            RunningStream(spark, sharded(place, count), place, available_now=True) as stream,
            pytest.raises(Refused, match=f"plain was read in 2 shards, and is in {count} now"),
        ):
            stream.ended()
    assert place.rows("plain") == numbers(*FILES)


@pytest.mark.parametrize(("counts", "result"), [((1, 2, 4), "auto"), ((2, 4), "caching")])
def test_shards_become_more_and_each_row_is_read_once(
    spark: SparkSession, place: NumbersFolder, counts: tuple[int, ...], result: str
) -> None:
    """Also where the old ones have listed files, and read some of them, that fall to a new one; and the night after."""
    fed, lines = len(FILES), []
    if counts[0] == 1:
        # A checkpoint that does not begin with the first file: neither may those that go on from it.
        with RunningStream(spark, sharded(place, 1, result=result), place, available_now=True) as stream:
            stream.ended()
        anew = {"new_checkpoint": ["plain"], "start_from": instant_text(round(time.time() * 1000))}
        with RunningStream(spark, sharded(place, 1, result=result), place, available_now=True, **anew) as stream:
            stream.ended()
    for count in (*counts, counts[-1]):
        if fed > len(FILES):
            lines = list(sharded(place, count, result=result).plan_stream(spark, str(place.state)).lines())
        with RunningStream(spark, sharded(place, count, result=result), place, available_now=True) as stream:
            summary = stream.ended()
        assert read_newest(spark, place) == place.rows("plain") == numbers(*range(fed)), stream.lines
        assert len([one for one in summary.regions if one.startswith("plain")]) == count
        for number in range(fed, fed + 6):
            place.feed(number)
        fed += 6
    assert not any("stood" in line for line in lines), "the last start changed nothing"
    before = [line for line in stream.lines if "plain.3" in line]
    assert before and summary.regions["plain.3"].restarts == 0


def test_shards_become_more_only_when_nothing_is_on_its_way(spark: SparkSession, place: NumbersFolder) -> None:
    """A planned batch may be in the target already, or come there: its rows would be read by the new shards, too."""
    place.bad.touch()
    with RunningStream(spark, sharded(place, 2), place, available_now=True) as stream, pytest.raises(RunFailed):
        stream.ended()
    plan = list(sharded(place, 4).plan_stream(spark, str(place.state)).lines())
    assert any("where plain.1 stood" in line for line in plan), plan
    place.bad.unlink()
    with (
        RunningStream(spark, sharded(place, 4), place, available_now=True) as stream,
        pytest.raises(Refused, match=r"there cannot be more shards yet: batch \d of plain.\d is planned") as refused,
    ):
        stream.ended()
    assert "run it with shards=2 and --available-now until it has finished" in str(refused.value.hint)
    for count in (2, 4):
        with RunningStream(spark, sharded(place, count), place, available_now=True) as stream:
            stream.ended()
    assert place.rows("plain") == numbers(*FILES)


def test_control_a_batch_that_is_planned_comes_twice_where_nobody_looks(
    spark: SparkSession, place: NumbersFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows are in the target, and its commit is lost: as a driver leaves them that dies in between."""
    with RunningStream(spark, sharded(place, 2), place, available_now=True) as stream:
        stream.ended()
    for commit in place.state.glob("live/_streams/*/checkpoints/plain.*/commits/*7*"):
        commit.unlink()
    with RunningStream(spark, sharded(place, 4), place, available_now=True) as stream, pytest.raises(Refused):
        stream.ended()
    assert place.rows("plain") == numbers(*FILES)
    monkeypatch.setattr(shard_starts, "refused_split", lambda parents, frozen: "")
    with RunningStream(spark, sharded(place, 4), place, available_now=True) as stream:
        stream.ended()
    assert place.rows("plain") != numbers(*FILES)


def test_what_a_shard_cannot_do_right_is_refused(spark: SparkSession, place: NumbersFolder) -> None:
    def pipeline_of(*, is_stateful: bool = False, is_joined: bool = False) -> rk.Pipeline:
        pipeline = rk.Pipeline("live")
        pipeline.add_source(place.read, name="orders", shards=2)
        pipeline.add_source(place.read, name="others")

        def sink(orders: DataFrame) -> DataFrame:
            return orders.dropDuplicates(["id"]) if is_stateful else orders

        def both(orders: DataFrame, others: DataFrame) -> DataFrame:
            return orders.unionByName(others)

        pipeline.add_sink(both if is_joined else sink, rk.files(f"{place.folder}/plain"), name="plain")
        return pipeline

    with pytest.raises(GraphRefused, match=r"plain keeps state .*: the state of each would miss"):
        pipeline_of(is_stateful=True).plan_stream(spark, str(place.state))
    with pytest.raises(GraphRefused, match="reads the stream others, which is not: each of them would read all of it"):
        pipeline_of(is_joined=True).plan_stream(spark, str(place.state))
    rate = rk.Pipeline("live")
    rate.add_source(lambda spark: spark.readStream.format("rate").load(), name="ticks", shards=2)
    rate.add_sink(lambda ticks: None, rk.files(f"{place.folder}/plain"), name="plain")
    with pytest.raises(GraphRefused, match="nobody but its function knows the parts of rate"):
        rate.plan_stream(spark, str(place.state))
    batch = rk.Pipeline("daily")
    batch.add_source(lambda spark: spark.range(3), name="ids", shards=2)
    batch.add_sink(lambda ids: None, rk.files(f"{place.folder}/daily"), name="daily")
    with pytest.raises(GraphRefused, match="ids has shards=2, and is no stream"):
        batch.run(spark, str(place.state), options=rk.RunOptions(quiet=True))
