"""Kafka as the source and the target of a stream, against a real broker."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import rekindle as rk
from build_jar import JAR
from engine.number_streams import NumbersFolder, RunningStream
from parts import kafka_jars
from rekindle.engine.spark.jvm import stream_calls
from rekindle.errors import GraphRefused, Refused, RunFailed
from rekindle.streams.source_starts import instant_text
from support.drivers import kill_driver, start_driver
from support.kafka import KafkaBroker
from support.signals import when

pytestmark = pytest.mark.timeout(900)
NUMBERS = 30
SETTINGS = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
}

# `sent` waits in the middle of a batch while the file `hold` is there; what other tasks sent is in the topic then.
SCRIPT = """
    import sys, time
    from pathlib import Path
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F
    import rekindle as rk

    folder, brokers = sys.argv[1:]

    def waits(value):
        while value == "7" and Path(f"{folder}/hold").exists():
            time.sleep(0.1)
        return value

    spark = SparkSession.builder.getOrCreate()
    pipeline = rk.Pipeline("live")

    @pipeline.source
    def orders(spark):
        reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", brokers)
        return reader.option("subscribe", "in").option("startingOffsets", "earliest").load()

    @pipeline.sink(rk.files(f"{folder}/plain"))
    def plain(orders):
        return orders.selectExpr("cast(cast(value as string) as long) as id")

    @pipeline.sink(rk.kafka("out", brokers), deterministic=True)
    def sent(orders):
        return orders.select("key", F.udf(waits)(F.col("value").cast("string")).alias("value"))

    # Asks the topic for its partitions.
    parts = rk.Pipeline("parts")
    parts.add_source(orders, shards=3)
    parts.add_sink(plain, rk.files(f"{folder}/parts"))
    assert len(parts.plan_stream(spark, f"{folder}/state").spec.regions) == 3

    while True:
        try:
            options = rk.RunOptions(available_now=True, stale_seconds=3, say=print)
            print("done", pipeline.run(spark, f"{folder}/state", options=options), flush=True)
            break
        except rk.StillOwned:
            time.sleep(0.5)
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker() as running:
        yield running


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    """With Spark's Kafka connector, which is the user's."""
    for jar in sorted(kafka_jars().iterdir()):
        spark.sql(f"ADD JAR '{jar}'")
    return spark


@pytest.fixture
def place(tmp_path: Path) -> NumbersFolder:
    return NumbersFolder(tmp_path)


def feed(spark: SparkSession, broker: KafkaBroker, topic: str, first: int, count: int) -> None:
    made = spark.range(first, first + count).selectExpr("cast(id as string) as key", "cast(id as string) as value")
    writer = made.write.format("kafka").option("kafka.bootstrap.servers", broker.address)
    writer.option("topic", topic).save()


def raw(spark: SparkSession, broker: KafkaBroker, topic: str) -> DataFrame:
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", broker.address)
    return reader.option("subscribe", topic).option("includeHeaders", "true").load()


def values(records: DataFrame) -> Counter[int]:
    return Counter(int(row.value) for row in records.select("value").collect())


def stream(spark: SparkSession, broker: KafkaBroker, topic: str) -> DataFrame:
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", broker.address)
    return reader.option("subscribe", topic).option("startingOffsets", "earliest").load()


def test_a_driver_killed_in_a_batch_doubles_records_the_reader_drops_them_and_lost_ones_are_named(
    session: SparkSession, broker: KafkaBroker, place: NumbersFolder
) -> None:
    broker.make_topic("in", 3)
    broker.make_topic("out", 2)
    feed(session, broker, "in", 0, NUMBERS)
    script, hold = place.folder / "live.py", place.folder / "hold"
    script.write_text(dedent(SCRIPT))
    hold.touch()
    settings = {**SETTINGS, "spark.jars": ",".join(map(str, [JAR, *sorted(kafka_jars().iterdir())]))}
    first = start_driver(script, str(place.folder), broker.address, folder=place.folder, settings=settings)
    try:
        when(lambda: not first.is_alive() or raw(session, broker, "out").count() >= 3, sign=first.printed, every_s=0.3)
        kill_driver(first)
    finally:
        first.end()
    was_sent = values(raw(session, broker, "out"))
    assert 3 <= was_sent.total() < NUMBERS, "some rows were sent, and the batch did not end"
    hold.unlink()
    feed(session, broker, "in", NUMBERS, 5)
    # Spark was started with the connector, and our jar is added when the session is there.
    settings["spark.jars"] = ",".join(map(str, sorted(kafka_jars().iterdir())))
    second = start_driver(script, str(place.folder), broker.address, folder=place.folder, settings=settings)
    try:
        assert second.wait() == 0, second.text()[-3000:]
    finally:
        second.end()
    every = Counter(range(NUMBERS + 5))
    found = raw(session, broker, "out")
    assert values(found) == every + was_sent, "Kafka keeps what it was sent"
    assert values(rk.read_kafka(session, "out", broker.address)) == every
    assert place.rows("plain") == every, "and files are exact"
    headers = {header.key for row in found.collect() for header in row.headers}
    names = ("region", "generation", "batch", "query", "partition", "row")
    assert headers == {f"rekindle.{name}" for name in names}
    assert "at least once: a driver that dies in a batch has sent some of its rows" in second.text()
    feed(session, broker, "in", NUMBERS + 5, 30)
    highest = raw(session, broker, "in").groupBy("partition").agg({"offset": "max"}).collect()
    for partition, offset in highest:
        broker.lose_records("in", offset, partition)
    third = start_driver(script, str(place.folder), broker.address, folder=place.folder, settings=settings)
    try:
        assert third.wait() != 0
    finally:
        third.end()
    said = r"plain gave up: .*; the topic no longer has what is to be read next: .*\bin-\d"
    assert re.search(said, third.text()), third.text()[-3000:]
    assert "plain restarts" not in third.text(), "to try again would not bring them back"
    assert place.rows("plain") == every


def test_kafka_sources_that_change_places_are_refused(
    session: SparkSession, broker: KafkaBroker, place: NumbersFolder
) -> None:
    for topic, at in (("even", 0), ("odd", 10)):
        broker.make_topic(topic)
        feed(session, broker, topic, at, 3)

    def pipeline_of(*, is_swapped: bool) -> rk.Pipeline:
        pipeline = rk.Pipeline("live")
        pipeline.add_source(lambda spark: stream(spark, broker, "even"), name="even")
        pipeline.add_source(lambda spark: stream(spark, broker, "odd"), name="odd")

        def both(even: DataFrame, odd: DataFrame) -> DataFrame:
            united = odd.union(even) if is_swapped else even.union(odd)
            return united.selectExpr("cast(cast(value as string) as long) as id")

        pipeline.add_sink(both, rk.files(f"{place.folder}/both"))
        return pipeline

    with RunningStream(session, pipeline_of(is_swapped=False), place, available_now=True) as running:
        running.ended()
    with (
        RunningStream(session, pipeline_of(is_swapped=True), place, available_now=True) as running,
        pytest.raises(Refused, match="its streams come from other places, or in another order"),
    ):
        running.ended()
    assert place.rows("both") == Counter([0, 1, 2, 10, 11, 12])
    (told,) = stream_calls.streams_of(stream(session, broker, "even"))
    assert told == f"kafka[subscribe=even, kafka.bootstrap.servers={broker.address}]"


def test_shards_of_a_topic_read_partitions_of_their_own(
    session: SparkSession, broker: KafkaBroker, place: NumbersFolder
) -> None:
    broker.make_topic("sharded", 3)
    feed(session, broker, "sharded", 0, NUMBERS)

    def pipeline_of(shards: int) -> rk.Pipeline:
        pipeline = rk.Pipeline("live")
        pipeline.add_source(lambda spark: stream(spark, broker, "sharded"), name="orders", shards=shards)

        def plain(orders: DataFrame) -> DataFrame:
            return orders.selectExpr("cast(cast(value as string) as long) as id")

        pipeline.add_sink(plain, rk.files(f"{place.folder}/plain"))
        return pipeline

    with pytest.raises(GraphRefused, match="its topics have 3 partitions: shard 3 would read none"):
        pipeline_of(4).plan_stream(session, str(place.state))
    for day in (1, 2):
        with RunningStream(session, pipeline_of(2), place, available_now=True) as running:
            running.ended()
        assert place.rows("plain") == Counter(range(NUMBERS * day))
        feed(session, broker, "sharded", NUMBERS * day, NUMBERS)
    read = {}
    for region in ("plain.0", "plain.1"):
        *_, last = sorted(place.state.glob(f"live/_streams/*/checkpoints/{region}/offsets/?"))
        read[region] = set(json.loads(last.read_text().splitlines()[-1])["sharded"])
    assert read == {"plain.0": {"0", "2"}, "plain.1": {"1"}}, "no partition is read twice"


def test_shards_of_a_topic_become_more(session: SparkSession, broker: KafkaBroker, place: NumbersFolder) -> None:
    """Each goes on with its partitions where the old ones stood, and the old ones without those."""
    broker.make_topic("splitting", 4)

    def pipeline_of(shards: int) -> rk.Pipeline:
        pipeline = rk.Pipeline("live")
        pipeline.add_source(lambda spark: stream(spark, broker, "splitting"), name="orders", shards=shards)
        pipeline.add_sink(
            lambda orders: orders.selectExpr("cast(cast(value as string) as long) as id"),
            rk.files(f"{place.folder}/plain"),
            name="plain",
        )
        return pipeline

    for day, shards in enumerate((1, 2, 4, 4), 1):
        feed(session, broker, "splitting", NUMBERS * (day - 1), NUMBERS)
        with RunningStream(session, pipeline_of(shards), place, available_now=True) as running:
            summary = running.ended()
        assert place.rows("plain") == Counter(range(NUMBERS * day)), running.lines
        assert len(summary.regions) == shards


def test_a_new_checkpoint_of_a_topic_begins_where_the_user_says_whatever_its_own_options_are(
    session: SparkSession, broker: KafkaBroker, place: NumbersFolder
) -> None:
    broker.make_topic("again", 2)
    pipeline = rk.Pipeline("live")
    reader = session.readStream.format("kafka").option("kafka.bootstrap.servers", broker.address)
    pipeline.add_source(lambda spark: reader.option("subscribe", "again").load(), name="orders")
    allowed = [100]

    def plain(orders: DataFrame) -> DataFrame:
        allowed[0] -= 1
        if allowed[0] < 0:
            raise ValueError("its query does not start")
        return orders.selectExpr("cast(cast(value as string) as long) as id")

    pipeline.add_sink(plain, rk.files(f"{place.folder}/plain"))

    def run(start: str = "") -> str:
        given: dict[str, Any] = {"new_checkpoint": ["plain"], "start_from": start} if start else {}
        with RunningStream(session, pipeline, place, available_now=True, **given) as running:
            running.ended()
        return "\n".join(running.lines)

    def fed(first: int, count: int) -> Counter[int]:
        feed(session, broker, "again", first, count)
        return Counter(range(first, first + count))

    expected = fed(0, 6)
    told = run()
    stream = f"kafka[subscribe=again, kafka.bootstrap.servers={broker.address}]"
    assert f"begins with {stream}: only records that come after it starts; those that it has are skipped" in told
    assert place.rows("plain") == Counter()
    told = run("earliest")
    assert "reads from earliest on, and adds" in told and "no record is skipped" in told
    assert place.rows("plain") == expected
    last = raw(session, broker, "again").selectExpr("unix_millis(max(timestamp))").collect()[0][0]
    fed(6, 4)
    allowed[0] = 1
    with pytest.raises(RunFailed, match="its query does not start"):
        run("latest")
    allowed[0] = 100
    expected = expected + fed(10, 3)
    assert "10 records before are skipped" in run()
    assert place.rows("plain") == expected, "what came after it was said is read, whenever its first query starts"
    expected = expected + Counter(range(6, 13))
    told = run(instant_text(last + 1))
    assert "6 records before are skipped" in told and place.rows("plain") == expected
    counted = raw(session, broker, "again").groupBy("partition").count().collect()
    ends = {str(row.partition): row["count"] for row in counted}
    run("offsets:" + json.dumps({"again": {**ends, "0": ends["0"] - 1}}))
    assert place.rows("plain").total() == expected.total() + 1
    for offsets, why in (
        ({"0": 0}, "has the partitions 0, 1, and offsets are said for 0"),
        ({**ends, "0": 99}, "99 is"),
    ):
        with pytest.raises(Refused, match=why):
            run("offsets:" + json.dumps({"again": offsets}))


def test_what_a_topic_cannot_take_is_refused_before_anything_starts(
    session: SparkSession, broker: KafkaBroker, place: NumbersFolder
) -> None:
    target = rk.kafka("refused", broker.address)
    batch = rk.Pipeline("batch")
    batch.add_source(lambda spark: spark.range(3), name="some")
    batch.add_sink(lambda some: None, target, name="out")
    with pytest.raises(GraphRefused, match=r"kafka topic refused at .* takes streams only"):
        batch.run(session, str(place.folder / "batches"), options=rk.RunOptions(quiet=True))
    live = rk.Pipeline("live")
    live.add_source(lambda spark: place.read(spark), name="orders")
    live.add_sink(lambda orders: None, target, name="out")
    with pytest.raises(GraphRefused, match=r"takes the columns value and key .*; it does not take id bigint"):
        live.plan_stream(session, str(place.state))
    random = rk.Pipeline("live")
    random.add_source(lambda spark: place.read(spark), name="orders")
    random.add_sink(lambda orders: orders.selectExpr("uuid() as value"), target, name="out")
    told = str(random.plan_stream(session, str(place.state)))
    assert "at least once to kafka topic refused" in told
    assert "doubles cannot be told, because it may have other rows then: Uuid" in told
    assert not place.state.exists()
    assert not stream_calls.has_source(session, "nobody.has.this"), "as where the connector is missing"
