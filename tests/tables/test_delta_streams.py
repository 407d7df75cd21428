"""Streams into Delta tables on real Spark: each batch once, whatever died between a commit of the table and one of the
checkpoint."""

from __future__ import annotations

import shutil
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from engine.number_streams import NumbersFolder, RunningStream, numbers, run_all, uncommit
from rekindle.engine.spark.publish.sinks import publish
from rekindle.engine.spark.publish.stream_log_table import NOTED
from rekindle.errors import GraphRefused, Refused
from rekindle.master.facts.events import Fence
from rekindle.master.facts.stimuli import SinkFailed
from rekindle.publish import targets
from rekindle.publish.table_fences import STREAM_PREFIX
from rekindle.storage.stores import open_store
from rekindle.streams.stream_events import StreamPhase
from support.delta import TableSeen
from tables.conftest import Results

pytestmark = pytest.mark.timeout(900)
ONCE, EACH = "once", "each"


@pytest.fixture
def place(tmp_path: Path) -> NumbersFolder:
    return NumbersFolder(tmp_path)


def ids(place: NumbersFolder, table: str = ONCE) -> Counter[int]:
    """By the text of the log, and by a reader of Parquet that is not Delta."""
    found, path = Counter[int](), place.folder / table
    for row, count in TableSeen.of(path).rows(path).items():
        found[row[0]] += count
    return found


def batches(place: NumbersFolder, table: str = ONCE) -> dict[str, int]:
    """The last batch of each transaction of a stream."""
    found = TableSeen.of(place.folder / table).transactions
    return {name.removeprefix(STREAM_PREFIX).split("/")[0]: number for name, number in found.items()}


def pipeline_of(place: NumbersFolder, table: str = "", **given: Any) -> rk.Pipeline:
    """`once` drops what it saw before, which is state."""
    pipeline, bad = rk.Pipeline("live"), str(place.bad)

    @pipeline.source
    def orders(spark: SparkSession) -> DataFrame:
        return place.read(spark)

    @pipeline.sink(rk.delta(table or f"{place.folder}/{ONCE}", **given))
    def once(orders: DataFrame) -> DataFrame:
        def looked_at(one: int) -> int:
            if Path(bad).exists():
                raise ValueError("the bad file is there")
            return one

        return orders.dropDuplicates(["id"]).select(F.udf(looked_at, "long")("id").alias("id"))

    return pipeline


def test_each_batch_is_one_commit_and_two_nights_read_each_file_once(
    tables: SparkSession, place: NumbersFolder
) -> None:
    place.feed(0)
    place.feed(1, again=2)
    assert run_all(tables, pipeline_of(place), place).phase is StreamPhase.FINISHED
    assert ids(place) == numbers(0, 1)
    place.feed(2, again=3)
    assert run_all(tables, pipeline_of(place), place).was_resumed
    assert ids(place) == numbers(0, 1, 2)
    assert batches(place) == {ONCE: 2}
    assert tables.read.format("delta").load(f"{place.folder}/{ONCE}").count() == 15
    assert TableSeen.of(place.folder / ONCE).version == 2, "one commit for each batch"


def test_a_region_that_fails_comes_back_and_gives_each_row_once(tables: SparkSession, place: NumbersFolder) -> None:
    place.feed(0)
    with RunningStream(tables, pipeline_of(place), place) as stream:
        stream.wait(lambda: (place.folder / ONCE / "_delta_log").exists() and ids(place) == numbers(0))
        place.bad.touch()
        place.feed(1, again=2)
        stream.wait(lambda: any("once failed: ValueError" in line for line in stream.lines))
        place.bad.unlink()
        stream.wait(lambda: ids(place) == numbers(0, 1))
        summary = stream.stopped()
    assert 1 <= summary.regions[ONCE].restarts <= 3


def test_a_batch_that_the_table_has_is_computed_and_dropped(tables: SparkSession, place: NumbersFolder) -> None:
    place.feed(0)
    place.feed(1)
    run_all(tables, pipeline_of(place), place)
    uncommit(place, ONCE)
    place.feed(2, again=5)
    assert run_all(tables, pipeline_of(place), place).phase is StreamPhase.FINISHED
    assert ids(place) == numbers(0, 1, 2), "the state of the batch that was dropped has its ids"
    assert batches(place) == {ONCE: 2}


def test_without_the_transaction_the_same_death_doubles_rows(tables: SparkSession, place: NumbersFolder) -> None:
    """The control: the same death with Delta's writer alone."""
    pipeline, table = rk.Pipeline("live"), f"{place.folder}/{EACH}"

    @pipeline.source
    def orders(spark: SparkSession) -> DataFrame:
        return place.read(spark)

    def add(rows: DataFrame) -> None:
        rows.write.format("delta").mode("append").save(table)

    @pipeline.sink(rk.each_batch(add, "a table"))
    def each(orders: DataFrame) -> None: ...

    place.feed(0)
    place.feed(1)
    run_all(tables, pipeline, place)
    uncommit(place, EACH)
    run_all(tables, pipeline, place)
    assert ids(place, EACH) in (numbers(0, 1, 1), numbers(0, 0, 1)), "whichever file was read last"


def test_of_two_drivers_in_one_batch_one_adds_it(tables: SparkSession, place: NumbersFolder) -> None:
    """The query of a driver that was frozen in a batch, woken beside its successor: both have computed the rows."""
    place.feed(0)
    run_all(tables, pipeline_of(place), place)
    table, gate = f"{place.folder}/{ONCE}", threading.Barrier(2)
    answers: list[str] = []

    def add() -> None:
        writer = tables.range(50, 55).write.format("delta").mode("append")
        writer = writer.option("txnAppId", f"{STREAM_PREFIX}both/live").option("txnVersion", 7)
        gate.wait(60)
        try:
            writer.save(table)
            answers.append("added")
        except Exception as error:
            answers.append(type(error).__name__)

    both = [threading.Thread(target=add) for _ in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join(120)
    assert ids(place) == numbers(0) + Counter(range(50, 55)), answers


def test_a_new_checkpoint_adds_its_rows_and_a_table_that_is_another_one_is_refused(
    tables: SparkSession, place: NumbersFolder
) -> None:
    place.feed(0)
    run_all(tables, pipeline_of(place), place)
    place.feed(1)
    run_all(tables, pipeline_of(place), place)
    run_all(tables, pipeline_of(place), place, new_checkpoint=[ONCE], start_from="earliest")
    assert ids(place) == numbers(0, 0, 1, 1)
    shutil.rmtree(place.folder / ONCE)
    with pytest.raises(Refused, match=r"once has committed batch \d+, and Delta table .* lacks it"):
        run_all(tables, pipeline_of(place), place)


def test_a_table_by_its_name(tables: SparkSession, place: NumbersFolder) -> None:
    tables.sql("CREATE DATABASE IF NOT EXISTS live_gold")
    place.feed(0)
    with pytest.raises(Refused, match=r"there is no table live_gold\.orders") as refused:
        run_all(tables, pipeline_of(place, "live_gold.orders"), place)
    statement = "CREATE TABLE live_gold.orders (`id` bigint) USING delta"
    assert statement in str(refused.value)
    tables.sql(statement)
    run_all(tables, pipeline_of(place, "live_gold.orders"), place)
    assert Counter(row.id for row in tables.table("live_gold.orders").collect()) == numbers(0)
    tables.sql("ALTER TABLE live_gold.orders ADD COLUMN note STRING")
    place.feed(1)
    run_all(tables, pipeline_of(place, "live_gold.orders"), place)
    assert Counter(row.id for row in tables.table("live_gold.orders").collect()) == numbers(0, 1)
    tables.sql("DROP TABLE live_gold.orders")


def test_two_streams_and_batches_do_not_share_a_table(
    tables: SparkSession, place: NumbersFolder, results: Results
) -> None:
    place.feed(0)
    run_all(tables, pipeline_of(place), place)
    table = f"{place.folder}/{ONCE}"
    what = results.of(targets.delta(table), Fence(1, 1, 1), "select id from range(3)")
    answer = publish(tables, what, open_store)
    assert isinstance(answer, SinkFailed) and "is the target of once, which is a stream" in answer.failure.cause.text
    with pytest.raises(Refused, match="this stream would add to its rows"):
        run_all(tables, pipeline_of(place), place, new=True)
    run_all(tables, pipeline_of(place), place, new=True, take_target=[ONCE])
    assert ids(place) == numbers(0, 0)
    assert sorted(one.name for one in (place.folder / ONCE / NOTED / "owners").iterdir()) == ["1", "2"]
    batch = results.of(targets.delta(f"{place.folder}/gold"), Fence(1, 1, 1), "select id from range(3)")
    publish(tables, batch, open_store)
    with pytest.raises(Refused, match="is the target of daily, which publishes batches"):
        run_all(tables, pipeline_of(place, f"{place.folder}/gold"), place, new=True)


def test_what_a_table_cannot_take_is_refused_before_anything_starts(tables: SparkSession, place: NumbersFolder) -> None:
    with pytest.raises(GraphRefused, match="which adds rows and replaces none"):
        run_all(tables, pipeline_of(place, partition={"id": "1"}), place)
    tables.sql(f"CREATE TABLE delta.`{place.folder}/{ONCE}` (id int) USING delta")
    with pytest.raises(Refused, match="id is int in the table and bigint in the stream"):
        run_all(tables, pipeline_of(place), place)
    other = f"{place.folder}/other"
    tables.sql(f"CREATE TABLE delta.`{other}` (name string) USING delta")
    with pytest.raises(Refused, match="id is not in the table"):
        run_all(tables, pipeline_of(place, other), place)
    forgets = f"{place.folder}/forgets"
    properties = "TBLPROPERTIES ('delta.setTransactionRetentionDuration' = 'interval 1 day')"
    tables.sql(f"CREATE TABLE delta.`{forgets}` (id bigint) USING delta {properties}")
    with pytest.raises(Refused, match="forgets transactions"):
        run_all(tables, pipeline_of(place, forgets), place)
    assert not list(place.state.glob("live/_streams/*/checkpoints/*"))


def test_shards_add_to_one_table(tables: SparkSession, place: NumbersFolder) -> None:
    for number in range(6):
        place.feed(number)

    def sharded(shards: int) -> rk.Pipeline:
        pipeline = rk.Pipeline("live")

        @pipeline.source(shards=shards)
        def orders(spark: SparkSession) -> DataFrame:
            return place.read(spark)

        @pipeline.sink(rk.delta(f"{place.folder}/{ONCE}"))
        def once(orders: DataFrame) -> None: ...

        return pipeline

    run_all(tables, sharded(2), place)
    place.feed(6)
    run_all(tables, sharded(4), place)
    assert ids(place) == numbers(*range(7))


def test_a_table_with_partitions_and_a_generated_column_takes_a_stream(
    tables: SparkSession, place: NumbersFolder
) -> None:
    """Delta's own writer does for each row what the table asks for."""
    table = f"{place.folder}/{ONCE}"
    tables.sql(
        f"CREATE TABLE delta.`{table}` (id bigint, odd bigint GENERATED ALWAYS AS (id % 2)) USING delta "
        "PARTITIONED BY (odd)"
    )
    place.feed(0)
    run_all(tables, pipeline_of(place), place)
    found = tables.read.format("delta").load(table).collect()
    assert {(row.id, row.odd) for row in found} == {(one, one % 2) for one in range(5)}


def test_a_zombie_of_a_stream_whose_table_was_taken_is_fenced(tables: SparkSession, place: NumbersFolder) -> None:
    place.feed(0)
    with RunningStream(tables, pipeline_of(place), place) as stream:
        stream.wait(lambda: (place.folder / ONCE / "_delta_log").exists() and ids(place) == numbers(0))
        store = open_store(f"{place.folder}/{ONCE}/{NOTED}")
        store.put_if_absent("owners/2", b"once\tanother-stream")
        place.feed(1)
        stream.wait(lambda: any("another stream took this target" in line for line in stream.lines))
        stream.ask()
    assert ids(place) == numbers(0)
