"""Streaming regions on a disk and on HDFS: a driver that lost its region ends with a sentence, a batch counts once."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from rekindle.engine.spark.jvm.access import Package, ours
from rekindle.engine.spark.session import attach
from rekindle.storage.stores import open_store
from stream_fence.driver import start
from stream_fence.regions import KEPT, ONCE, DriverOrder, StreamPlace

FENCED = "fenced: another driver took this region with epoch 2, this one has epoch 1"
STORES = ("disk", pytest.param("hdfs", marks=pytest.mark.hdfs))


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> StreamPlace:
    attach(spark)
    found = StreamPlace(tmp_path)
    if request.param == "hdfs":
        hdfs = request.getfixturevalue("hdfs")
        url = hdfs.url(uuid.uuid4().hex)
        found = StreamPlace(tmp_path, url, open_store(url, hdfs.store_settings))
    found.source.mkdir()
    found.feed(0)
    found.feed(1)
    return found


def run(spark: SparkSession, place: StreamPlace, region: str, epoch: int = 1) -> None:
    """What there is to read, and no more. Raises what ends the query."""
    query = start(spark, DriverOrder(folder=str(place.folder), epoch=epoch, url=place.url, ends=True), region)
    query.awaitTermination()


def entries(place: StreamPlace, region: str) -> dict[str, bytes | None]:
    folder = f"target/entries/{region}/0/"
    return {name: place.store.get(folder + name) for name in place.store.list_after(folder)}


@pytest.mark.parametrize("region", [KEPT, ONCE])
def test_a_driver_that_lost_its_region_ends_with_a_sentence(
    spark: SparkSession, place: StreamPlace, region: str
) -> None:
    run(spark, place, region)
    place.feed(2)
    place.store.put("fence/2", b"")
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
    place.store.delete(f"checkpoints/{region}/commits/1")
    written = entries(place, region)
    place.feed(2)
    run(spark, place, region)
    assert {**entries(place, region), **written} == entries(place, region) and len(written) == 2
    assert place.found(region) == place.expected(region, 3)


def test_another_checkpoint_does_not_write_into_the_same_generation(spark: SparkSession, place: StreamPlace) -> None:
    """Its batch 0 would be taken for the one that is there, and its rows would be lost."""
    run(spark, place, KEPT)
    checkpoint = f"checkpoints/{KEPT}/"
    place.store.delete_many(checkpoint, [one.name for page in place.store.walk(checkpoint) for one in page])
    with pytest.raises(StreamingQueryException, match=r"batch 0 was committed to .* from other offsets"):
        run(spark, place, KEPT)
    assert place.found(KEPT) == place.expected(KEPT, 2)


@pytest.mark.parametrize("replaces", [False, True])
def test_of_many_that_put_the_same_entry_one_wins(spark: SparkSession, place: StreamPlace, replaces: bool) -> None:
    """The control, which may replace what is there, lets all of them win."""
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    path = Package(spark, "org.apache.hadoop.fs").Path(f"{place.url}/offsets/7")
    files = ours(spark).FencedCheckpoints(path.getParent(), settings)
    files.mkdirs(path.getParent())

    def put(number: int) -> int | None:
        stream = files.createAtomic(path, replaces)
        stream.write(number)
        try:
            stream.close()
        except Exception as error:
            assert "FileAlreadyExists" in str(error)
            return None
        return number

    with ThreadPoolExecutor(1 if replaces else 8) as threads:
        won = [one for one in threads.map(put, range(8)) if one is not None]
    assert len(won) == (8 if replaces else 1)
    names = [one.name for page in place.store.walk("offsets/") for one in page if not one.name.endswith(".crc")]
    assert names == ["7"], "nothing else is left"
    assert replaces or place.store.get("offsets/7") == bytes(won)


def test_an_entry_that_is_given_up_is_never_put(spark: SparkSession, place: StreamPlace) -> None:
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    path = Package(spark, "org.apache.hadoop.fs").Path(f"{place.url}/offsets/7")
    stream = ours(spark).FencedCheckpoints(path.getParent(), settings).createAtomic(path, False)
    stream.write(1)
    stream.cancel()
    stream.close()
    assert [one.name for page in place.store.walk("offsets/") for one in page] == []
