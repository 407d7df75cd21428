"""A stream whose source, location, results and targets lie on HDFS: a region fails, goes on, and each row is there."""

from __future__ import annotations

import uuid
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from cli.calling import call
from engine import number_streams
from engine.number_streams import ROWS, NumbersFolder, RunningStream, numbers
from rekindle.engine.spark.publish.stream_compaction import StreamCompactor
from rekindle.errors import RunFailed
from rekindle.storage.stores import open_store
from support.hadoop import HadoopCluster

COMPACT_AFTER = 4


class NumbersOnHdfs(NumbersFolder):
    """The same folder, but for what makes a region fail: Python looks for that on the disk of this machine."""

    def __init__(self, folder: Path, hdfs: HadoopCluster) -> None:
        super().__init__(folder)
        self.url = hdfs.url(uuid.uuid4().hex)
        self.settings = hdfs.store_settings
        self.store = open_store(self.url, self.settings)

    def feed(self, number: int, again: int = 0) -> None:
        ids = [*range(number * ROWS, (number + 1) * ROWS), *range((number - 1) * ROWS, (number - 1) * ROWS + again)]
        self.store.put(f"in/{number:05d}.json", "".join(f'{{"id":{one}}}\n' for one in ids).encode())

    def read(self, spark: SparkSession) -> DataFrame:
        return spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).json(f"{self.url}/in")

    def found(self, spark: SparkSession, sink: str) -> Counter[int]:
        rows = rk.read_newest(spark, f"{self.url}/{sink}", storage=self.settings).select("id").collect()
        return Counter(row.id for row in rows)


def pipeline_of(place: NumbersOnHdfs) -> rk.Pipeline:
    """A result between regions, of which one reader fails while the bad file is there, and one keeps state; and a sink
    that reads the source itself."""
    pipeline, bad = rk.Pipeline("live"), str(place.bad)

    @pipeline.source
    def orders(spark: SparkSession) -> DataFrame:
        return place.read(spark)

    @pipeline.step(result="caching")
    def passed(orders: DataFrame) -> DataFrame:
        return orders.where("id >= 0")

    @pipeline.sink(rk.files(f"{place.url}/fragile"))
    def fragile(passed: DataFrame) -> DataFrame:
        def looked_at(one: int) -> int:
            if Path(bad).exists():
                raise ValueError("the bad file is there")
            return one

        return passed.select(F.udf(looked_at, "long")("id").alias("id"))

    @pipeline.sink(rk.files(f"{place.url}/plain"))
    def plain(orders: DataFrame) -> None: ...

    @pipeline.sink(rk.files(f"{place.url}/once"))
    def once(passed: DataFrame) -> DataFrame:
        return passed.dropDuplicates(["id"])

    return pipeline


@pytest.mark.timeout(1800)  # HDFS starts for it, and four queries twice; on a busy machine each takes minutes.
def test_a_stream_on_hdfs_goes_on_after_a_failure_and_each_row_is_there_once(
    hdfs: HadoopCluster,
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(number_streams, "WAIT_SECONDS", 1500.0)
    place = NumbersOnHdfs(tmp_path, hdfs)
    location = f"{place.url}/runs"
    place.state = location  # type: ignore[assignment]
    given = {"available_now": True, "storage": place.settings, "compact_batches": 0}
    place.feed(0)
    place.feed(1, again=2)
    place.bad.touch()
    with (
        RunningStream(spark, pipeline_of(place), place, **given) as stream,
        pytest.raises(RunFailed, match="the bad file is there"),
    ):
        stream.ended()
    again = numbers(0, 1) + Counter([0, 1])
    assert place.found(spark, "once") == numbers(0, 1)
    place.bad.unlink()
    for number in (2, 3):
        place.feed(number)
    with RunningStream(spark, pipeline_of(place), place, **given) as stream:
        summary = stream.ended()
    # A reader of a result takes all that is there in one batch.
    found = {name: one.batch for name, one in summary.regions.items()}
    assert found == {"passed": 3, "plain": 3, "fragile": 1, "once": 1}
    assert place.found(spark, "fragile") == place.found(spark, "plain") == again + numbers(2, 3)
    assert place.found(spark, "once") == numbers(0, 1, 2, 3)
    bare = Counter(row.id for row in spark.read.schema("id long").json(f"{place.url}/in").collect())
    assert bare == place.found(spark, "fragile"), "as Spark alone reads the source"

    target = open_store(f"{place.url}/plain", place.settings)
    [generation] = target.list_folders("entries/plain/")
    compactor = StreamCompactor(
        spark=spark, base=f"{place.url}/plain", store=target, region="plain", generation=generation
    )
    assert "4 files before, 1 now" in compactor.compact(COMPACT_AFTER).told
    assert place.found(spark, "plain") == again + numbers(2, 3)

    options = ("--location", location, "--storage", f"webhdfs={hdfs.web}")
    assert "live" in call(capsys, "runs", *options).out
    said = call(capsys, "gc", *options, "--set", "gc.grace_hours=0", "--set", "gc.retention_hours=0")
    assert said.code == 0, said
    assert place.found(spark, "fragile") == place.found(spark, "plain") == again + numbers(2, 3)
    assert place.found(spark, "once") == numbers(0, 1, 2, 3)
