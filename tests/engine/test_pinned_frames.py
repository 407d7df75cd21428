"""Frames over a list of files that was pinned, without a stream: they give the rows of those files, and no others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from rekindle.engine.spark.jvm import stream_calls
from rekindle.engine.spark.session import attach
from rekindle.engine.spark.stream.input_lists import decoded, keep, kept
from rekindle.engine.spark.stream.input_looks import InputLooks
from rekindle.engine.spark.stream.pinned_reader import PinnedReader, changed_files, over
from rekindle.errors import InputChanged
from rekindle.storage.local_disk import LocalDisk
from rekindle.streams.pinned_inputs import EarlierInput, InputLook, PinnedInput

VALUES = """
select 1 id, date'2026-01-01' day, timestamp'2026-01-01 10:30:00.123' at, 'a b/c=%25' word, 1.50bd price union all
select 2, null, null, null, null union all
select 3, date'1999-12-31', timestamp'1999-12-31 23:59:59', '', -0.01bd
"""
BY = ("day", "at", "word", "price")


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=str)


@pytest.fixture
def folder(spark: SparkSession, tmp_path: Path) -> Path:
    attach(spark)
    spark.sql(VALUES).write.partitionBy(*BY).parquet(f"{tmp_path}/in")
    return tmp_path


def by_path(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.read.parquet(f"{folder}/in")


def with_schema(spark: SparkSession, folder: Path) -> DataFrame:
    """What is gone does not change the types of what is left."""
    return spark.read.schema(spark.sql(VALUES).schema).parquet(f"{folder}/in")


def by_condition(spark: SparkSession, folder: Path) -> DataFrame:
    return by_path(spark, folder).where("day = date'2026-01-01' or price < 0")


def by_subquery(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.sql(f"select (select sum(id) from parquet.`{folder}/in`) total, count(*) n from parquet.`{folder}/in`")


def by_table(spark: SparkSession, folder: Path) -> DataFrame:
    spark.sql("drop table if exists pinned_names")
    by = ", ".join(BY)
    spark.sql(
        "create table pinned_names (id int, day date, at timestamp, word string, price decimal(3, 2)) using parquet "
        f"partitioned by ({by}) location '{folder}/in'"
    )
    spark.sql("msck repair table pinned_names")
    return spark.table("pinned_names")


@pytest.mark.parametrize("made", [by_path, by_condition, by_subquery, by_table])
def test_rows_and_values_of_directories_are_what_they_were(
    spark: SparkSession, folder: Path, made: Callable[[SparkSession, Path], DataFrame]
) -> None:
    before = made(spark, folder)
    pinned, expected = decoded(stream_calls.batch_inputs(before)), rows(before)
    store = LocalDisk(folder / "state")
    keep(store, "names", pinned)
    assert expected and kept(store, "names", pinned.pin().digest) == pinned, "as the next driver finds it"
    spark.sql(VALUES).write.mode("append").partitionBy(*BY).parquet(f"{folder}/in")
    after = made(spark, folder)
    now = decoded(stream_calls.batch_inputs(after))
    assert now.pin().files == 2 * pinned.pin().files and not [*now.differences(pinned)]
    frame = over("names", after, pinned)
    assert rows(after) != expected and rows(frame) == expected
    assert not decoded(stream_calls.batch_inputs(frame)).leaves, "what is pinned is no input that could be pinned"


def test_what_is_not_as_it_was_pinned_is_refused(spark: SparkSession, folder: Path) -> None:
    pinned = decoded(stream_calls.batch_inputs(with_schema(spark, folder)))
    digest, store = pinned.pin().digest, LocalDisk(folder / "state")
    reader = PinnedReader({"names": pinned.pin()}, store)
    with pytest.raises(InputChanged, match="the list of what was pinned is gone"):
        reader.read("named", "names", with_schema(spark, folder))
    keep(store, "names", pinned)
    assert len(rows(reader.read("named", "names", with_schema(spark, folder)))) == 3
    with pytest.raises(InputChanged, match=r"it reads \S+, and \S+/in was pinned"):
        reader.read("named", "names", spark.read.parquet(f"{folder}/in/day=2026-01-01"))
    with pytest.raises(InputChanged, match="has other columns now: id was int, is bigint"):
        reader.read("named", "names", spark.read.schema("id long").parquet(f"{folder}/in"))
    with pytest.raises(InputChanged, match="the number of its inputs is 0, and was 1 when they were pinned"):
        reader.read("named", "names", spark.range(1))
    held = over("names", with_schema(spark, folder), pinned)
    gone = next(folder.glob("in/day=2026-01-01/**/*.parquet"))
    gone.unlink()
    assert [line.rpartition("/")[2] for line in changed_files("names", held)] == [f"{gone.name} is gone"]
    with pytest.raises(InputChanged, match="is gone"):
        reader.read("named", "names", with_schema(spark, folder))
    taken = PinnedInput(digest=digest, earlier={"named": EarlierInput(4, digest)})
    with pytest.raises(InputChanged, match="is gone"):
        PinnedReader({"names": taken}, store).read_for("named", 4, "names", with_schema(spark, folder))


def test_a_planned_batch_keeps_the_earlier_list_as_long_as_its_files_are_there(
    spark: SparkSession, folder: Path
) -> None:
    store, reads = LocalDisk(folder / "state"), {"names": ("named", "other")}

    def look(pins: dict[str, PinnedInput], *taken: str, committed: int = 3) -> InputLook:
        looks = InputLooks(
            pins=pins,
            taken=frozenset(taken),
            store=store,
            committed={"named": committed, "other": 7},
            planned={"named": 4, "other": 7},
            readers=reads,
        )
        looks.read("names", with_schema(spark, folder))
        looks.keep()
        return looks.looks["names"]

    old = look({}).pin
    spark.sql(VALUES).write.mode("append").partitionBy(*BY).parquet(f"{folder}/in")
    held = look({"names": old})
    assert held.pin == old and held.newer is not None and (held.newer.files, held.is_taken) == (6, False)
    taken = look({"names": old}, "names")
    assert taken.is_taken and taken.newer is None and taken.pin.earlier == {"named": EarlierInput(4, old.digest)}
    pins = {"names": taken.pin}
    assert look(pins, "names").pin == taken.pin and not look(pins, "names").is_taken, "there is nothing newer"
    assert look(pins, committed=4).pin.earlier == {}, "it is committed"
    gone = Path(kept_files(store, old.digest)[0])
    gone.unlink()
    assert [line.rpartition("/")[2] for line in look(pins).changed] == [f"{gone.name} is gone"], "of both lists, once"
    again = look(pins, "names")
    assert again.is_taken and again.pin.earlier == {} and not again.changed
    assert [line[:50] for line in again.told] == ["batch 4 of named was planned with what was pinned "]


def kept_files(store: LocalDisk, digest: str) -> list[str]:
    found = kept(store, "names", digest)
    assert found is not None
    return [path.removeprefix("file:") for leaf in found.leaves for one in leaf.directories for path, _, _ in one.files]


def test_what_cannot_be_pinned_is_told(spark: SparkSession, folder: Path) -> None:
    cached = by_path(spark, folder).cache()
    try:
        found = decoded(stream_calls.batch_inputs(cached.where("id > 1")))
        assert (found.leaves, found.loose) == ((), ("a cached frame",))
    finally:
        cached.unpersist(blocking=True)
    lines = spark.sparkContext.textFile(f"{folder}/in").toDF("string")
    assert decoded(stream_calls.batch_inputs(lines)).loose == ("an RDD or rows given by the driver",)
    given = spark.createDataFrame([(1, "a")], "id int, name string").join(spark.range(3), "id")
    assert decoded(stream_calls.batch_inputs(given)).pin() == PinnedInput(), "its rows belong to the code"
