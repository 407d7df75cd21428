"""Recorded batches of a stream again, as batches, and the record in them that fails."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from engine.number_streams import NumbersFolder, RunningStream
from rekindle.engine.spark.session import attach, clone
from rekindle.engine.spark.stream.batch_replay import leaves_of, recorded, replayed, rows_of
from rekindle.engine.spark.stream.poison_finder import PoisonFinder
from rekindle.errors import Refused
from rekindle.journal.keys import STREAMS
from rekindle.storage.local_disk import LocalDisk

pytestmark = pytest.mark.timeout(900)
BATCHES = 12


@pytest.fixture
def place(tmp_path: Path) -> NumbersFolder:
    return NumbersFolder(tmp_path)


def entry_rows(target: Path, batch: int) -> Counter[int]:
    """The rows of one batch in the target."""
    (entry,) = target.glob(f"entries/*/*/{batch}")
    head, files = entry.read_text().splitlines()[:3], entry.read_text().splitlines()[3:]
    folder = target / head[2].partition("\t")[2]
    found = Counter[int]()
    for line in files:
        found.update(pq.read_table(folder / line.partition("\t")[0]).column("id").to_pylist())
    return found


def test_a_recorded_batch_gives_the_rows_of_its_entry(spark: SparkSession, place: NumbersFolder) -> None:
    pipeline = rk.Pipeline("live")
    pipeline.add_source(place.read, name="orders")
    pipeline.add_sink(lambda orders: orders.where("id % 4 != 1"), rk.files(f"{place.folder}/some"), name="some")
    for number in range(BATCHES):
        place.feed(number)
    with RunningStream(spark, pipeline, place, available_now=True) as stream:
        stream.ended()
    store = LocalDisk(place.state)
    (run,) = store.list_folders(f"live/{STREAMS}/")
    checkpoint = f"live/{STREAMS}/{run}/checkpoints/some"
    session = clone(spark, {})
    frame = place.read(session).where("id % 4 != 1")
    leaves = leaves_of(frame)
    (place.state / checkpoint / "sources/0/3").unlink()
    for batch in (3, 9, 11):
        rows = [rows_of(session, one) for one in recorded(lambda path: store, "", checkpoint, leaves, batch)]
        (made,) = replayed(session, frame, rows)
        assert not made.isStreaming
        found = Counter(row.id for row in made.collect())
        assert found == entry_rows(place.folder / "some", batch) and found, batch
    (place.state / checkpoint / "offsets/4").unlink()
    with pytest.raises(Refused, match="does not say what batch 4 reads: it has batches 0 to 11"):
        recorded(lambda path: store, "", checkpoint, leaves, 5)


def batch_of(folder: Path) -> LocalDisk:
    """A store with a checkpoint whose batch 0 has all files of a folder."""
    checkpoint = folder / "state" / "c"
    (checkpoint / "offsets").mkdir(parents=True)
    (checkpoint / "sources/0").mkdir(parents=True)
    (checkpoint / "offsets/0").write_text('v1\n{}\n{"logOffset":0}')
    lines = [
        json.dumps({"path": one.as_uri(), "timestamp": 0, "batchId": 0}) for one in sorted((folder / "in").iterdir())
    ]
    (checkpoint / "sources/0/0").write_text("\n".join(["v1", *lines]))
    return LocalDisk(folder / "state")


def checked(*bad: int) -> Column:
    def fails(one: int) -> int:
        if one in bad:
            raise ValueError(f"{one} is bad")
        return one

    return F.udf(fails, "long")("id").alias("id")


def finder(frame: DataFrame, folder: Path) -> PoisonFinder:
    return PoisonFinder(frame, recorded(lambda path: batch_of(folder), "", "c", leaves_of(frame), 0))


@pytest.fixture
def quiet(spark: SparkSession) -> SparkSession:
    attach(spark)
    return clone(spark, {"spark.sql.adaptive.enabled": "false"})


def test_a_row_of_parquet_is_named_by_its_number(quiet: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(2):
        ids = list(range(number * 6, number * 6 + 6))
        pq.write_table(pa.table({"id": ids}), tmp_path / "in" / f"a b {number}.parquet")
    frame = quiet.readStream.schema("id long").parquet(str(tmp_path / "in"))
    region = frame.select(checked(7, 8)).dropDuplicates(["id"]).where("id > 0")
    found = finder(region, tmp_path).find(5)
    assert not found.why, found.why
    assert [(one.record.number, one.cause.text.partition(",")[0]) for one in found.records] == [
        (1, "ValueError: 7 is bad"),
        (2, "ValueError: 8 is bad"),
    ]
    assert all("1.parquet" in one.record.place for one in found.records)
    assert [json.loads(one) for one in found.contents] == [{"id": 7}, {"id": 8}]
    assert found.tried <= 2 + 4 + 2, "files, log2 of the records, and two"


def test_a_line_of_json_is_named_by_its_content(quiet: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(2):
        ids = [*range(number * 6, number * 6 + 6), *([7, 7] if number == 1 else [])]
        text = "".join(json.dumps({"id": one}) + "\n" for one in ids)
        (tmp_path / "in" / f"{number}.json").write_text(text)
    frame = quiet.readStream.schema("id long, note string").json(str(tmp_path / "in"))
    found = finder(frame.select(checked(7)), tmp_path).find(5)
    (one,) = found.records
    assert (one.record.copies, one.record.place.rpartition("/")[2]) == (3, "1.json")
    assert json.loads(found.contents[0]) == {"id": 7, "note": None}
    assert found.tried <= 2 + 3 + 2, "files, log2 of the records of one, and two"


def test_where_every_record_fails_none_is_named(quiet: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.json").write_text('{"id":1}\n{"id":2}\n')
    frame = quiet.readStream.schema("id long").json(str(tmp_path / "in"))
    found = finder(frame.select(checked(1, 2)), tmp_path).find(5)
    assert not found.records and "every record of the batch fails" in found.why
