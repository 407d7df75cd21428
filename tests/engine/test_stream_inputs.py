"""A batch input that is joined to a stream: every batch of every driver reads what was pinned, until the user takes
what is newer."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from engine.number_streams import ROWS, NumbersFolder, RunningStream
from rekindle.errors import InputChanged, Refused, RunFailed
from rekindle.journal.history import read
from rekindle.journal.keys import STREAMS
from rekindle.runtime.ownership import codec_of
from rekindle.service.streaming import look, name_of
from rekindle.storage.local_disk import LocalDisk
from rekindle.streams.stream_events import StreamOpened
from rekindle.streams.stream_machine import STREAM
from rekindle.streams.stream_state import StreamState

GO_ON = "restore what was pinned; or take what there is now: rk.RunOptions(replace=['names'])"
Names = Callable[[SparkSession], DataFrame]


@pytest.fixture
def place(tmp_path: Path) -> NumbersFolder:
    made = NumbersFolder(tmp_path)
    (tmp_path / "names").mkdir()
    return made


def write(place: NumbersFolder, name: str, file: str = "a") -> None:
    ids = list(range(10 * ROWS))
    pq.write_table(pa.table({"id": ids, "name": [name] * len(ids)}), place.folder / "names" / f"{file}.parquet")


def overwrite(place: NumbersFolder, name: str) -> None:
    """As Spark does it: the old files are gone, the new ones have other names."""
    shutil.rmtree(place.folder / "names")
    (place.folder / "names").mkdir()
    write(place, name, file=name)


def pipeline_of(place: NumbersFolder, names: Names | None = None, sinks: Sequence[str] = ("named",)) -> rk.Pipeline:
    """`named` fails while the bad file is there; `first` joins the same names, and drops what it saw."""
    pipeline, bad = rk.Pipeline("live"), str(place.bad)

    def orders(spark: SparkSession) -> DataFrame:
        return place.read(spark)

    def named(orders: DataFrame, names: DataFrame) -> DataFrame:
        def looked_at(one: int) -> int:
            if Path(bad).exists():
                raise ValueError("the bad file is there")
            return one

        return orders.join(names, "id").select(F.udf(looked_at, "long")("id").alias("id"), "name")

    def first(orders: DataFrame, names: DataFrame) -> DataFrame:
        return orders.join(names, "id").dropDuplicates(["id"])

    pipeline.add_source(orders)
    pipeline.add_source(names or (lambda spark: spark.read.parquet(f"{place.folder}/names")), name="names")
    for one in (named, first):
        if one.__name__ in sinks:
            pipeline.add_sink(one, rk.files(f"{place.folder}/{one.__name__}"))
    return pipeline


def names_of(place: NumbersFolder, sink: str = "named") -> dict[int, list[str]]:
    """The names with which each file of numbers was joined, and no other."""
    found: dict[int, list[str]] = {}
    for path in (place.folder / sink / "current").glob("*.parquet"):
        for row in pq.read_table(path).to_pylist():
            found.setdefault(row["id"] // ROWS, []).append(row["name"])
    return {number: sorted(set(seen)) if len(seen) == ROWS else seen for number, seen in sorted(found.items())}


def state_of(place: NumbersFolder) -> StreamState:
    store = LocalDisk(place.state)
    (run,) = store.list_folders(f"live/{STREAMS}/")
    state = look(store, "live", run).state
    assert state is not None
    return state


def taken(place: NumbersFolder) -> list[tuple[str, ...]]:
    store = LocalDisk(place.state)
    (run,) = store.list_folders(f"live/{STREAMS}/")
    events = read(store, name_of("live", run), codec_of(STREAM)).events
    return [one.taken for one in events if isinstance(one, StreamOpened)]


def bare(spark: SparkSession, place: NumbersFolder, number: int, names: str = "") -> Counter[tuple[int, str]]:
    """The rows of one batch, as Spark alone joins them with the names, or with one file of those."""
    rows = spark.read.schema("id long").json(f"{place.source}/{number:05d}.json")
    joined = rows.join(spark.read.parquet(f"{place.folder}/names/{names}"), "id")
    return Counter((row.id, row.name) for row in joined.collect())


def day(spark: SparkSession, place: NumbersFolder, pipeline: rk.Pipeline, **given: Any) -> list[str]:
    with RunningStream(spark, pipeline, place, available_now=True, **given) as stream:
        stream.ended()
    return stream.lines


def test_a_new_input_is_read_only_when_it_is_taken_by_name(spark: SparkSession, place: NumbersFolder) -> None:
    both = pipeline_of(place, sinks=("named", "first"))
    write(place, "old")
    place.feed(0)
    lines = day(spark, place, both)
    assert any(line.startswith("  names  pinned at this start: 1 file, ") for line in lines)
    write(place, "added", file="b")
    place.feed(1)
    old = bare(spark, place, 0, "a.parquet") + bare(spark, place, 1, "a.parquet")
    lines = day(spark, place, both)
    assert any(line.startswith("    there is something newer, which is not read: 2 files") for line in lines)
    assert names_of(place) == names_of(place, "first") == {0: ["old"], 1: ["old"]}, "what was added is not read"
    overwrite(place, "new")
    place.feed(2)
    with pytest.raises(
        InputChanged, match=r"the input of names is not what was pinned: \S*a.parquet is gone"
    ) as refused:
        day(spark, place, both)
    assert refused.value.hint == GO_ON
    plan = str(both.plan_stream(spark, str(place.state)))
    assert "it is not what was pinned" in plan and "take what there is now: rk.RunOptions(replace=['names'])" in plan
    assert names_of(place) == {0: ["old"], 1: ["old"]}, "nothing ran"
    with pytest.raises(Refused, match="orders reads no batch input; steps with one: names"):
        day(spark, place, both, replace=["orders"])
    lines = day(spark, place, both, replace=["names"])
    assert any("takes what there is now, from the next batch on: 1 file" in line for line in lines)
    assert any(line.endswith("names: what there is now is read from the next batch on") for line in lines)
    assert any(line.startswith("  first: rows in its state keep what they had of names") for line in lines)
    assert names_of(place) == names_of(place, "first") == {0: ["old"], 1: ["old"], 2: ["new"]}
    assert taken(place) == [(), (), ("names",)]
    rows = rk.read_newest(spark, f"{place.folder}/named").collect()
    assert Counter((row.id, row.name) for row in rows) == old + bare(spark, place, 2), "as bare Spark joins each batch"


def test_a_planned_batch_keeps_the_input_that_it_was_planned_with(spark: SparkSession, place: NumbersFolder) -> None:
    named = pipeline_of(place)
    write(place, "old")
    place.feed(0)
    place.bad.touch()
    with pytest.raises(RunFailed):
        day(spark, place, named)
    assert names_of(place) == {}
    write(place, "new", file="b")
    with pytest.raises(RunFailed):
        day(spark, place, named, replace=["names"])
    held = state_of(place).pins["names"]
    assert {name: one.batch for name, one in held.earlier.items()} == {"named": 0} and held.files == 2
    place.bad.unlink()
    place.feed(1)
    lines = day(spark, place, named)
    assert any("batch 0 of named was planned before, and reads what was pinned before" in line for line in lines)
    both = sorted(["old", "new"] * ROWS)
    assert {name: sorted(seen) for name, seen in names_of(place).items()} == {0: ["old"], 1: both}


def test_a_file_that_changes_under_a_running_region_is_not_read(spark: SparkSession, place: NumbersFolder) -> None:
    write(place, "old")
    place.feed(0)
    with RunningStream(spark, pipeline_of(place), place) as stream:
        stream.wait(lambda: names_of(place) == {0: ["old"]})
        place.bad.touch()
        place.feed(1)
        stream.wait(lambda: any("named failed: ValueError" in line for line in stream.lines))
        write(place, "added", file="b")
        place.bad.unlink()
        stream.wait(lambda: names_of(place) == {0: ["old"], 1: ["old"]})
        write(place, "replaced, and longer")
        place.feed(2)
        with pytest.raises(
            RunFailed, match=r"the input of names changed while the run was on: .*had .* bytes"
        ) as failed:
            stream.ended()
    assert "or take what there is now: rk.RunOptions(replace=['names'])" in failed.value.hint
    assert names_of(place) == {0: ["old"], 1: ["old"]}


def test_versions_partitions_and_what_cannot_be_pinned(spark: SparkSession, place: NumbersFolder) -> None:
    def version(name: str) -> None:
        made = rk.Pipeline("names")
        made.add_source(lambda spark: spark.range(10 * ROWS).selectExpr("id", f"'{name}' name"), name="rows")
        made.add_sink(lambda rows: None, rk.files(f"{place.folder}/published"), name="out")
        made.run(spark, str(place.folder / "runs"), options=rk.RunOptions(quiet=True, new=True))

    def names(spark: SparkSession) -> DataFrame:
        newest = rk.read_newest(spark, f"{place.folder}/published")
        link = spark.read.parquet(f"{place.folder}/published/current").selectExpr("id", "name as link")
        parts = spark.read.parquet(f"{place.folder}/parts").selectExpr("id", "name as part", "day")
        given = spark.createDataFrame([(1,)], "one int").join(spark.range(1).selectExpr("id zero"))
        return newest.join(link, "id").join(parts, "id").join(given).where("day = date'2026-01-01'")

    first = pipeline_of(place, names, sinks=("first",))
    parts = spark.range(10 * ROWS).selectExpr("id", "'p' name", "date'2026-01-01' day")
    parts.write.partitionBy("day").parquet(f"{place.folder}/parts")
    version("v1")
    place.feed(0)
    day(spark, place, first)
    version("v2")
    parts.selectExpr("id", "'q' name", "date'2026-01-02' day").write.mode("append").partitionBy("day").parquet(
        f"{place.folder}/parts"
    )
    place.feed(1)
    lines = day(spark, place, first)
    assert names_of(place, "first") == {0: ["v1"], 1: ["v1"]}, "the version that was pinned is still there, and is read"
    rows = rk.read_newest(spark, f"{place.folder}/first").select("link", "part", "day").distinct().collect()
    assert [(one.link, one.part, str(one.day)) for one in rows] == [("v1", "p", "2026-01-01")]
    assert not any("not pinned" in line for line in lines), "rows that the driver gave belong to the code"
    place.feed(2)
    lines = day(spark, place, first, replace=["names"])
    assert names_of(place, "first") == {0: ["v1"], 1: ["v1"], 2: ["v2"]}

    def loose(spark: SparkSession) -> DataFrame:
        return (
            spark.sparkContext.textFile(f"{place.folder}/names").map(len).toDF("id long").selectExpr("id", "'x' name")
        )

    told = str(pipeline_of(place, loose).plan_stream(spark, f"{place.folder}/other"))
    assert "reads an RDD or rows given by the driver anew at each start: not pinned" in told
