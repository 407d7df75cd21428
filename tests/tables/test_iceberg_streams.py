"""Streams into Iceberg tables on real Spark: each batch once, whatever died, froze or came between."""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from engine.number_streams import WAIT_SECONDS, NumbersFolder, RunningStream, numbers, run_all, uncommit
from rekindle.engine.spark.jvm import iceberg_calls
from rekindle.engine.spark.publish.sinks import publish
from rekindle.engine.spark.publish.stream_log_table import NOTED
from rekindle.errors import GraphRefused, Refused
from rekindle.master.facts.events import Fence
from rekindle.master.facts.stimuli import SinkFailed
from rekindle.publish import targets
from rekindle.publish.iceberg_log import PROPERTY_PREFIX
from rekindle.storage.stores import open_store
from rekindle.streams.stream_events import StreamPhase
from tables.conftest import Results

pytestmark = pytest.mark.timeout(900)
ONCE, TABLE = "once", "lake.live.orders"


@pytest.fixture
def place(tmp_path: Path) -> NumbersFolder:
    return NumbersFolder(tmp_path)


@pytest.fixture
def lake(tables: SparkSession) -> Iterator[SparkSession]:
    """A session whose catalog `lake` has an empty table."""
    tables.sql("CREATE DATABASE IF NOT EXISTS lake.live")
    tables.sql(f"CREATE TABLE {TABLE} (id BIGINT) USING iceberg")
    at = folder(tables)
    yield tables
    tables.sql(f"DROP TABLE IF EXISTS {TABLE} PURGE")
    assert at.name == "orders"
    shutil.rmtree(at, ignore_errors=True)


def folder(spark: SparkSession) -> Path:
    return Path(iceberg_calls.find(spark, TABLE).told.removeprefix("file:"))


def newest(spark: SparkSession) -> StaticTable:
    """As PyIceberg reads it."""
    metadata = json.loads(iceberg_calls.state(spark, TABLE))["version"]
    return StaticTable.from_metadata(metadata.removeprefix("file:"))


def ids(spark: SparkSession) -> Counter[int]:
    return Counter(newest(spark).scan().to_arrow().column("id").to_pylist())


def batches(spark: SparkSession) -> dict[str, int]:
    """The last batch of each region, by the properties of the table."""
    found = newest(spark).properties
    prefix = f"{PROPERTY_PREFIX}stream/"
    return {name.removeprefix(prefix).split("/")[0]: int(told) for name, told in found.items() if prefix in name}


def commits(spark: SparkSession) -> int:
    return len(newest(spark).snapshots())


def pipeline_of(place: NumbersFolder, table: str = TABLE, **given: Any) -> rk.Pipeline:
    """`once` drops what it saw before, which is state; it waits while the bad file is there, and says that it does."""
    pipeline, bad, reached = rk.Pipeline("live"), str(place.bad), str(place.folder / "reached")

    @pipeline.source
    def orders(spark: SparkSession) -> DataFrame:
        return place.read(spark)

    @pipeline.sink(rk.iceberg(table, **given))
    def once(orders: DataFrame) -> DataFrame:
        def looked_at(one: int) -> int:
            until = time.monotonic() + WAIT_SECONDS
            while Path(bad).exists():
                Path(reached).touch()
                if time.monotonic() > until:
                    raise ValueError("the bad file is there")
                time.sleep(0.05)
            return one

        one_task = orders.dropDuplicates(["id"]).repartition(1)  # Another core is free for what others do meanwhile.
        return one_task.select(F.udf(looked_at, "long")("id").alias("id"))

    return pipeline


def test_each_batch_is_one_commit_and_two_nights_read_each_file_once(lake: SparkSession, place: NumbersFolder) -> None:
    place.feed(0)
    place.feed(1, again=2)
    assert run_all(lake, pipeline_of(place), place).phase is StreamPhase.FINISHED
    assert ids(lake) == numbers(0, 1)
    place.feed(2, again=3)
    assert run_all(lake, pipeline_of(place), place).was_resumed
    assert ids(lake) == numbers(0, 1, 2)
    assert (batches(lake), commits(lake)) == ({ONCE: 2}, 3)
    told = [one.summary["rekindle.batch"].split()[-1] for one in newest(lake).snapshots() if one.summary]
    assert told == ["0", "1", "2"], "each snapshot names its batch"


def test_a_batch_that_the_table_has_is_computed_and_dropped(lake: SparkSession, place: NumbersFolder) -> None:
    place.feed(0)
    place.feed(1)
    run_all(lake, pipeline_of(place), place)
    uncommit(place, ONCE)
    place.feed(2, again=5)
    assert run_all(lake, pipeline_of(place), place).phase is StreamPhase.FINISHED
    assert ids(lake) == numbers(0, 1, 2), "the state of the batch that was dropped has its ids"
    assert (batches(lake), commits(lake)) == ({ONCE: 2}, 3)


def test_control_without_its_property_the_same_death_doubles_rows(lake: SparkSession, place: NumbersFolder) -> None:
    place.feed(0)
    place.feed(1)
    run_all(lake, pipeline_of(place), place)
    uncommit(place, ONCE)
    (name,) = (one for one in newest(lake).properties if one.startswith(PROPERTY_PREFIX))
    lake.sql(f"ALTER TABLE {TABLE} SET TBLPROPERTIES ('{name}' = '0')")
    run_all(lake, pipeline_of(place), place)
    assert ids(lake) in (numbers(0, 1, 1), numbers(0, 0, 1)), "whichever file was read last"


def in_a_batch(spark: SparkSession, place: NumbersFolder, act: str) -> RunningStream:
    """The second batch of a stream, while which somebody else commits; the stream, which has read all."""
    place.feed(0)
    with RunningStream(spark, pipeline_of(place), place) as stream:
        stream.wait(lambda: ids(spark) == numbers(0))
        place.bad.touch()
        place.feed(1)
        stream.wait((place.folder / "reached").exists)
        spark.sql(act)
        place.bad.unlink()
        stream.wait(lambda: batches(spark) == {ONCE: 1})
        place.feed(2)
        stream.wait(lambda: batches(spark) == {ONCE: 2})
        assert stream.stopped().regions[ONCE].restarts == 0, "\n".join(stream.lines)
    return stream


def test_a_commit_of_others_in_a_batch_costs_no_restart(lake: SparkSession, place: NumbersFolder) -> None:
    in_a_batch(lake, place, f"INSERT INTO {TABLE} VALUES (99)")
    assert ids(lake) == numbers(0, 1, 2) + Counter([99])
    assert commits(lake) == 4


def test_a_driver_that_was_frozen_in_a_batch_adds_nothing_when_its_successor_has(
    lake: SparkSession, place: NumbersFolder
) -> None:
    """The successor's commit of the same batch, with its property, comes after the look and before the commit."""
    place.feed(0)
    run_all(lake, pipeline_of(place), place)
    place.bad.touch()
    place.feed(1)
    with RunningStream(lake, pipeline_of(place), place) as stream:
        stream.wait((place.folder / "reached").exists)
        version = json.loads(iceberg_calls.state(lake, TABLE))["version"]
        number = {name: "1" for name in newest(lake).properties if name.startswith(PROPERTY_PREFIX)}
        assert iceberg_calls.commit(lake, TABLE, version, removed=(), added=(), properties=number, told={})
        place.bad.unlink()
        (checkpoint,) = place.state.glob(f"live/_streams/*/checkpoints/{ONCE}")
        stream.wait((checkpoint / "commits" / "1").exists)
        assert stream.stopped().regions[ONCE].restarts == 0, "\n".join(stream.lines)
    assert ids(lake) == numbers(0), "the successor's commit had no rows, and this batch none either"
    assert (batches(lake), commits(lake)) == ({ONCE: 1}, 2)


def test_a_table_with_partitions_and_a_column_that_the_stream_lacks(lake: SparkSession, place: NumbersFolder) -> None:
    lake.sql(f"DROP TABLE {TABLE}")
    with pytest.raises(Refused, match=r"there is no table lake\.live\.orders") as refused:
        run_all(lake, pipeline_of(place), place)
    assert f"CREATE TABLE {TABLE} (`id` bigint) USING iceberg" in str(refused.value)
    lake.sql(f"CREATE TABLE {TABLE} (id BIGINT, note STRING) USING iceberg PARTITIONED BY (bucket(4, id))")
    place.feed(0)
    run_all(lake, pipeline_of(place), place)
    place.feed(1)
    lake.sql(f"ALTER TABLE {TABLE} ADD COLUMN more STRING")
    run_all(lake, pipeline_of(place), place)
    assert ids(lake) == numbers(0, 1)
    assert {row.note for row in lake.table(TABLE).collect()} == {None}


def test_two_streams_and_batches_do_not_share_a_table(
    lake: SparkSession, place: NumbersFolder, results: Results
) -> None:
    place.feed(0)
    run_all(lake, pipeline_of(place), place)
    what = results.of(targets.iceberg(TABLE), Fence(1, 1, 1), "select id from range(3)")
    answer = publish(lake, what, open_store)
    assert isinstance(answer, SinkFailed) and "is the target of once, which is a stream" in answer.failure.cause.text
    with pytest.raises(Refused, match="this stream would add to its rows"):
        run_all(lake, pipeline_of(place), place, new=True)
    run_all(lake, pipeline_of(place), place, new=True, take_target=[ONCE])
    assert ids(lake) == numbers(0, 0)
    lake.sql("CREATE TABLE IF NOT EXISTS lake.live.gold (id BIGINT) USING iceberg")
    try:
        publish(
            lake, results.of(targets.iceberg("lake.live.gold"), Fence(1, 1, 1), "select id from range(3)"), open_store
        )
        with pytest.raises(Refused, match="is the target of daily, which publishes batches"):
            run_all(lake, pipeline_of(place, "lake.live.gold"), place, new=True)
    finally:
        lake.sql("DROP TABLE lake.live.gold PURGE")


def test_what_a_table_cannot_take_is_refused_before_anything_starts(lake: SparkSession, place: NumbersFolder) -> None:
    with pytest.raises(GraphRefused, match="which adds rows and replaces none"):
        run_all(lake, pipeline_of(place, partition={"id": "1"}), place)
    lake.sql(f"ALTER TABLE {TABLE} SET TBLPROPERTIES ('write.wap.enabled' = 'true')")
    with pytest.raises(Refused, match="wait for an audit"):
        run_all(lake, pipeline_of(place), place)
    for columns, told in (
        ("id INT", "id is int in the table and bigint in the stream"),
        ("name STRING", "id is not in"),
    ):
        lake.sql(f"DROP TABLE {TABLE}")
        lake.sql(f"CREATE TABLE {TABLE} ({columns}) USING iceberg")
        with pytest.raises(Refused, match=told):
            run_all(lake, pipeline_of(place), place)
    assert not list(place.state.glob("live/_streams/*/checkpoints/*"))


def test_shards_add_to_one_table_at_once(lake: SparkSession, place: NumbersFolder) -> None:
    for number in range(6):
        place.feed(number)

    def sharded(shards: int) -> rk.Pipeline:
        pipeline = rk.Pipeline("live")

        @pipeline.source(shards=shards)
        def orders(spark: SparkSession) -> DataFrame:
            return place.read(spark)

        @pipeline.sink(rk.iceberg(TABLE))
        def once(orders: DataFrame) -> None: ...

        return pipeline

    run_all(lake, sharded(2), place)
    place.feed(6)
    run_all(lake, sharded(4), place)
    assert ids(lake) == numbers(*range(7))


def test_a_zombie_of_a_stream_whose_table_was_taken_is_fenced(lake: SparkSession, place: NumbersFolder) -> None:
    place.feed(0)
    with RunningStream(lake, pipeline_of(place), place) as stream:
        stream.wait(lambda: ids(lake) == numbers(0))
        store = open_store(f"{folder(lake)}/{NOTED}")
        store.put_if_absent("owners/2", b"once\tanother-stream")
        place.feed(1)
        stream.wait(lambda: any("another stream took this target" in line for line in stream.lines))
        stream.ask()
    assert ids(lake) == numbers(0)
