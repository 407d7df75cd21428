"""A topic as the result of a step of a stream, against a real broker: what counts of its records is what the log says,
whoever else sent something."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from build_jar import JAR
from engine.number_streams import PATIENT, NumbersFolder, RunningStream, numbers
from parts import kafka_jars
from rekindle.errors import GraphRefused, Refused, RunFailed
from support.drivers import start_driver
from support.kafka import KafkaBroker

pytestmark = pytest.mark.timeout(900)
# The first task of each batch fails once when it has sent some rows, and is tried again.
SCRIPT = """
    import sys
    from pathlib import Path
    from pyspark import TaskContext
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F
    import rekindle as rk

    folder, brokers = sys.argv[1:]

    def fails_first(one):
        if one == 15_000 and TaskContext.get().attemptNumber() == 0:
            raise ValueError("the first attempt fails")
        return str(one)

    pipeline = rk.Pipeline("live")

    @pipeline.source
    def orders(spark):
        return spark.readStream.schema("id long").json(f"{folder}/in")

    @pipeline.step(result=rk.kafka("tried", brokers), deterministic=True)
    def sent(orders):
        return orders.select(F.udf(fails_first)("id").alias("value"))

    for name in ("plain", "other"):
        pipeline.add_sink(
            lambda sent: sent.selectExpr("cast(value as long) as id"), rk.files(f"{folder}/{name}"), name=name
        )
    pipeline.run(SparkSession.builder.getOrCreate(), f"{folder}/state", options=rk.RunOptions(available_now=True))
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker() as running:
        yield running


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    for jar in sorted(kafka_jars().iterdir()):
        spark.sql(f"ADD JAR '{jar}'")
    return spark


@pytest.fixture
def place(tmp_path: Path) -> NumbersFolder:
    return NumbersFolder(tmp_path)


def forked(
    place: NumbersFolder, topic: str, broker: KafkaBroker, *, draws: bool = True, poison: int = -1
) -> rk.Pipeline:
    """A step whose rows may be drawn anew each time, and two readers; `fragile` fails while the bad file is there, and
    for one number."""
    pipeline, bad = rk.Pipeline("live"), str(place.bad)

    @pipeline.source
    def orders(spark: SparkSession) -> DataFrame:
        return place.read(spark)

    @pipeline.step(result=rk.kafka(topic, broker.address), deterministic=not draws)
    def drawn(orders: DataFrame) -> DataFrame:
        more = "uuid()" if draws else "id * 2"
        of_users = "array(named_struct('key', 'who', 'value', binary('a user')))"
        headers = f"if(id % 2 = 0, {of_users}, null) as headers"
        return orders.selectExpr("cast(id as string) as key", f"concat(id, ' ', {more}) as value", headers)

    def looked_at(value: str) -> int:
        if Path(bad).exists():
            raise ValueError("the bad file is there")
        if int(value.split()[0]) == poison:
            raise ValueError(f"{poison} is poison")
        return int(value.split()[0])

    @pipeline.sink(rk.files(f"{place.folder}/fragile"), quarantine=1 if poison >= 0 else 0)
    def fragile(drawn: DataFrame) -> DataFrame:
        return drawn.select(F.udf(looked_at, "long")("value").alias("id"), "value")

    @pipeline.sink(rk.files(f"{place.folder}/plain"))
    def plain(drawn: DataFrame) -> DataFrame:
        return drawn.selectExpr("cast(split(value, ' ')[0] as long) as id", "value")

    return pipeline


def values(place: NumbersFolder, sink: str) -> Counter[str]:
    found = Counter[str]()
    for path in Path(place.folder / sink / "current").resolve().glob("*.parquet"):
        found.update(pq.read_table(path, columns=["value"]).column("value").to_pylist())
    return found


def records(session: SparkSession, broker: KafkaBroker, topic: str) -> int:
    reader = session.read.format("kafka").option("kafka.bootstrap.servers", broker.address)
    return len(reader.option("subscribe", topic).load().select("offset").collect())


def test_readers_of_a_topic_have_one_version_and_what_others_sent_is_not_in_it(
    session: SparkSession, broker: KafkaBroker, place: NumbersFolder
) -> None:
    broker.make_topic("drawn", 2)
    pipeline = forked(place, "drawn", broker)
    with RunningStream(session, pipeline, place, config=PATIENT) as stream:
        place.feed(0)
        stream.wait(lambda: place.rows("fragile") == place.rows("plain") == numbers(0))
        place.bad.touch()
        broker.send("drawn", ["0 somebody else"])
        place.feed(1)
        stream.wait(lambda: any("fragile restarts" in line for line in stream.lines))
        stream.wait(lambda: place.rows("plain") == numbers(0, 1))
        place.bad.unlink()
        stream.wait(lambda: place.rows("fragile") == numbers(0, 1))
        summary = stream.stopped()
    assert summary.regions["drawn"].restarts == summary.regions["plain"].restarts == 0
    assert values(place, "fragile") == values(place, "plain")
    assert records(session, broker, "drawn") == 11, "each was sent once, and one by somebody else"
    place.feed(2)
    with RunningStream(session, pipeline, place, available_now=True) as stream:
        stream.ended()
    assert place.rows("fragile") == place.rows("plain") == numbers(0, 1, 2)
    assert not list(place.state.rglob("results/drawn/data/**/*.parquet")), "rows are in the topic only"
    with pytest.raises(Refused, match="records of the topic drawn, and nobody said which brok"):
        rk.read_result(session, "live", "drawn", location=str(place.state))
    assert Counter(row["value"] for row in read(session, place, broker).collect()) == values(place, "plain")
    assert Counter(row["key"] for row in read(session, place, broker, up_to=1).collect()) == Counter(
        str(one) for one in numbers(0, 1)
    ), "what somebody else sent is not in it"


def test_what_an_attempt_that_failed_has_sent_is_left_out(
    session: SparkSession, broker: KafkaBroker, place: NumbersFolder
) -> None:
    """By the numbers of attempts that the log has. The topic has it, so that a reader without them has it twice."""
    broker.make_topic("tried", 2)
    count = 20_000
    (place.source / "0.json").write_text("".join(f'{{"id":{one}}}\n' for one in range(count)))
    script = place.folder / "live.py"
    script.write_text(dedent(SCRIPT))
    settings = {
        "spark.master": "local[2,4]",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.jars": ",".join(map(str, [JAR, *sorted(kafka_jars().iterdir())])),
    }
    driver = start_driver(script, str(place.folder), broker.address, folder=place.folder, settings=settings)
    try:
        assert driver.wait() == 0, driver.text()[-3000:]
    finally:
        driver.end()
    assert records(session, broker, "tried") > count, "the first attempt has sent some"
    assert place.rows("plain") == place.rows("other") == Counter(range(count))


def read(session: SparkSession, place: NumbersFolder, broker: KafkaBroker, up_to: int | None = None) -> DataFrame:
    found = rk.read_result(
        session, "live", "drawn", location=str(place.state), brokers=broker.address, pin_hours=0, up_to=up_to
    )
    assert isinstance(found, DataFrame)
    return found


@pytest.mark.parametrize("draws", [False, True], ids=["equal rows", "other rows"])
def test_records_that_the_topic_no_longer_has_are_made_again(
    session: SparkSession, broker: KafkaBroker, place: NumbersFolder, draws: bool
) -> None:
    """As any batch of a result that is lost. `plain` has read them: other rows do not count."""
    topic = f"short-{draws}"
    broker.make_topic(topic, 1)
    place.feed(0)
    place.feed(1)
    place.bad.touch()
    pipeline = forked(place, topic, broker, draws=draws)
    with RunningStream(session, pipeline, place, available_now=True) as stream, pytest.raises(RunFailed):
        stream.ended()
    place.bad.unlink()
    broker.lose_records(topic, 3)
    with pytest.raises(Refused, match=r"the topic short-\w+, which no longer has those of batch 0"):
        read(session, place, broker)
    with RunningStream(session, pipeline, place, available_now=True) as stream:
        if draws:
            with pytest.raises(RunFailed) as told:
                stream.ended()
            assert "batch 0 of drawn was made again with other rows, and plain has read it" in str(told.value)
            assert place.rows("fragile") == Counter()
        else:
            assert stream.ended().regions["drawn"].replayed == 1
            assert values(place, "fragile") == values(place, "plain")
            assert {row["headers"][0]["key"] for row in read(session, place, broker).collect() if row["headers"]} == {
                "who"
            }
    assert place.rows("plain") == numbers(0, 1)


def test_a_reader_of_a_topic_goes_on_without_the_record_that_fails(
    session: SparkSession, broker: KafkaBroker, place: NumbersFolder
) -> None:
    broker.make_topic("poisoned", 2)
    place.feed(0)
    place.feed(1)
    with RunningStream(session, forked(place, "poisoned", broker, poison=7), place, available_now=True) as stream:
        summary = stream.ended()
    (left,) = summary.regions["fragile"].quarantined
    assert str(left.record).endswith(" of the result of drawn")
    assert place.rows("fragile") == numbers(0, 1) - Counter([7]) and place.rows("plain") == numbers(0, 1)
    assert summary.regions["drawn"].restarts == 0


def test_what_is_no_record_or_no_stream_is_refused(
    session: SparkSession, broker: KafkaBroker, place: NumbersFolder
) -> None:
    live, batch = rk.Pipeline("live"), rk.Pipeline("batch")
    topic = rk.kafka("refused", broker.address)
    live.add_source(lambda spark: place.read(spark), name="orders")
    batch.add_source(lambda spark: spark.range(3), name="orders")
    for pipeline in (live, batch):
        pipeline.add_step(lambda orders: orders.selectExpr("id", "id as more"), name="sent", result=topic)
        pipeline.add_sink(lambda sent: sent, rk.files(f"{place.folder}/out"), name="out")
    other = rk.Pipeline("live")
    other.add_source(lambda spark: place.read(spark), name="orders")
    other.add_step(lambda orders: orders, name="sent", result=rk.files(f"{place.folder}/sent"))
    other.add_sink(lambda sent: sent, rk.files(f"{place.folder}/out"), name="out")
    with pytest.raises(GraphRefused, match=r"sent has its result in files .*/sent, and no region can read it"):
        other.plan_stream(session, str(place.state))
    said = r"sent has its result in kafka topic refused at .*, which takes the columns value and key .*id bigint"
    with pytest.raises(GraphRefused, match=said):
        live.plan_stream(session, str(place.state))
    with pytest.raises(GraphRefused, match=r"sent has its result in kafka topic refused at .*, and is no stream"):
        batch.run(session, str(place.folder / "batches"), options=rk.RunOptions(quiet=True))
