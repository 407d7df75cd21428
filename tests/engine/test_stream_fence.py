"""Streaming regions: a driver that lost its region ends with a sentence, and a batch counts once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from rekindle.engine.spark.jvm.access import root as jvm
from rekindle.engine.spark.session import attach
from stream_fence.driver import start
from stream_fence.regions import KEPT, ONCE, DriverOrder, StreamPlace

FENCED = "fenced: another driver took this region with epoch 2, this one has epoch 1"


@pytest.fixture
def place(spark: SparkSession, tmp_path: Path) -> StreamPlace:
    attach(spark)
    found = StreamPlace(tmp_path)
    found.source.mkdir()
    found.feed(0)
    found.feed(1)
    return found


def run(spark: SparkSession, place: StreamPlace, region: str, epoch: int = 1) -> None:
    """What there is to read, and no more. Raises what ends the query."""
    query = start(spark, DriverOrder(folder=str(place.folder), epoch=epoch, ends=True), region)
    query.awaitTermination()


def entry(place: StreamPlace, region: str, batch: int) -> Path:
    return place.target / "entries" / region / "0" / str(batch)


@pytest.mark.parametrize("region", [KEPT, ONCE])
def test_a_driver_that_lost_its_region_ends_with_a_sentence(
    spark: SparkSession, place: StreamPlace, region: str
) -> None:
    run(spark, place, region)
    place.feed(2)
    (place.folder / "fence").mkdir()
    (place.folder / "fence" / "2").touch()
    with pytest.raises(Py4JJavaError, match=FENCED):
        run(spark, place, region)
    assert place.found(region) == place.expected(region, 2), "nothing of it counts"
    run(spark, place, region, epoch=2)
    assert place.found(region) == place.expected(region, 3)


@pytest.mark.parametrize("region", [KEPT, ONCE])
def test_a_batch_whose_entry_is_there_is_computed_and_its_rows_dropped(
    spark: SparkSession, place: StreamPlace, region: str
) -> None:
    """As after a death between the entry and Spark's own commit. The state goes on as if nothing had happened."""
    run(spark, place, region)
    (place.checkpoint(region) / "commits" / "1").unlink()
    written = {one: one.read_text() for one in entry(place, region, 0).parent.iterdir()}
    place.feed(2)
    run(spark, place, region)
    assert {one: one.read_text() for one in written} == written
    assert place.found(region) == place.expected(region, 3)


def test_another_checkpoint_does_not_write_into_the_same_generation(spark: SparkSession, place: StreamPlace) -> None:
    """Its batch 0 would be taken for the one that is there, and its rows would be lost."""
    run(spark, place, KEPT)
    place.checkpoint(KEPT).rename(place.folder / "set aside")
    with pytest.raises(StreamingQueryException, match=r"batch 0 was committed to .* from other offsets"):
        run(spark, place, KEPT)
    assert place.found(KEPT) == place.expected(KEPT, 2)


def test_of_many_that_put_the_same_entry_one_wins(spark: SparkSession, tmp_path: Path) -> None:
    attach(spark)
    java, settings = jvm(spark), spark.sparkContext._jsc.hadoopConfiguration()
    path = java.org.apache.hadoop.fs.Path(f"file:{tmp_path}/offsets/7")
    files = java.rekindle.spark.FencedCheckpoints(path.getParent(), settings)

    def put(number: int) -> int | None:
        stream = files.createAtomic(path, False)
        stream.write(number)
        try:
            stream.close()
        except Exception as error:
            assert "FileAlreadyExists" in str(error)
            return None
        return number

    with ThreadPoolExecutor(8) as threads:
        won = [one for one in threads.map(put, range(8)) if one is not None]
    assert len(won) == 1 and (tmp_path / "offsets/7").read_bytes() == bytes(won)
    assert [one.name for one in (tmp_path / "offsets").iterdir()] == ["7"], "nothing else is left"
