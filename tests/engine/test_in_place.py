"""Nights that add to a target cost what they bring: nothing of the nights before is copied, listed or read."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession

from engine.test_append_keys import days, result
from rekindle.engine.spark.publish import current, versions
from rekindle.engine.spark.publish.files import read_newest
from rekindle.engine.spark.publish.publication import Publication
from rekindle.engine.spark.publish.sinks import publish
from rekindle.errors import Refused
from rekindle.master.facts.events import Fence
from rekindle.master.facts.stimuli import SinkDone, SinkFailed
from rekindle.publish import pointers
from rekindle.publish.pointers import FORMAT, IN_PLACE, Pointer, newest, top_of
from rekindle.publish.targets import Files, files
from rekindle.storage.stores import open_store

HIVE = {"hive_partition_by": "day"}


def append(spark: SparkSession, folder: Path, target: Files, number: int, rows: int, key: str) -> None:
    what = result(spark, folder, target, Fence(number, 1, 1), rows, key)
    assert publish(spark, what, open_store) == SinkDone("out", Fence(number, 1, 1))


def readers(spark: SparkSession, target: Files) -> list[dict[str, int]]:
    """How many rows each day has, as different readers see it."""
    here = f"{target.path}/current"
    tables = ds.dataset(here, partitioning="hive").to_table().to_pylist()
    found = duckdb.execute(
        f"select day::varchar, count(*) from read_parquet('{here}/**/*.parquet', hive_partitioning=true) group by 1"
    ).fetchall()
    return [
        days(read_newest(spark, target.path, open_store)),
        days(spark.read.parquet(f"file:{here}")),
        {day: sum(row["day"] == day for row in tables) for day in {row["day"] for row in tables}},
        dict(found),
    ]


@pytest.mark.parametrize("layout", [{}, HIVE], ids=["plain", "hive"])
def test_what_is_there_stays_where_it_is(spark: SparkSession, tmp_path: Path, layout: dict[str, str]) -> None:
    target = files(f"{tmp_path}/out", mode="append", **layout)  # type: ignore[arg-type]
    written = []
    for number, key in enumerate("abc", 1):
        before = set((tmp_path / "out/versions").rglob("*.parquet"))
        append(spark, tmp_path, target, number, number * 10, key)
        written.append(set((tmp_path / "out/versions").rglob("*.parquet")) - before)
    assert [len({path.relative_to(tmp_path / "out/versions").parts[0] for path in one}) for one in written] == [1, 1, 1]
    for seen in readers(spark, target):
        assert seen == {"a": 10, "b": 20, "c": 30}
    append(spark, tmp_path, target, 4, 5, "b")
    for seen in readers(spark, target):
        assert seen == {"a": 10, "b": 5, "c": 30}


@pytest.mark.parametrize("layout", [{}, HIVE], ids=["plain", "hive"])
def test_a_target_of_an_older_release_goes_on(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: dict[str, str]
) -> None:
    """Whose versions are whole directories: what is there is named where it is from the next night on."""
    target = files(f"{tmp_path}/out", mode="append", **layout)  # type: ignore[arg-type]
    whole = pointers.compose
    with monkeypatch.context() as old:
        old.setattr(versions, "compose", lambda *a, **k: whole(*a, **{**k, "stays": False}))
        append(spark, tmp_path, target, 1, 10, "a")
        append(spark, tmp_path, target, 2, 20, "b")
    top = top_of(open_store(target.path))
    assert top.format < IN_PLACE and top.is_one_directory
    append(spark, tmp_path, target, 3, 30, "c")
    top = top_of(open_store(target.path))
    assert top.format == IN_PLACE and len(top.folders) == 2
    for seen in readers(spark, target):
        assert seen == {"a": 10, "b": 20, "c": 30}


def test_one_day_is_read_without_the_others(spark: SparkSession, tmp_path: Path) -> None:
    """Every file of the other days is gone: nobody asks for it."""
    target = files(f"{tmp_path}/out", mode="append", hive_partition_by="day")
    for number, key in enumerate("abc", 1):
        append(spark, tmp_path, target, number, 10, key)
    for path in (tmp_path / "out/versions").rglob("*.parquet"):
        if "day=b" not in str(path):
            path.unlink()
    assert days(read_newest(spark, target.path, open_store).where("day = 'b'")) == {"b": 10}


def test_types_of_directories_are_those_of_the_columns(spark: SparkSession, tmp_path: Path) -> None:
    target = files(f"{tmp_path}/out", mode="append", hive_partition_by=["day", "code"])
    rows = spark.sql(
        "select id, date'2026-11-01' day, cast(case id when 0 then null when 1 then 7 else 12 end as smallint) code "
        "from range(3)"
    )
    for number in (1, 2):
        written = tmp_path / f"rows-{number}"
        rows.coalesce(1).write.parquet(str(written))
        found = tuple((f"file:{path}", path.stat().st_size) for path in sorted(written.glob("part-*")))
        what = Publication(
            sink="out",
            owner="daily",
            target=target,
            fence=Fence(number, 1, 1),
            files=found,
            schema=rows.schema.json(),
            key=str(number),
        )
        assert publish(spark, what, open_store) == SinkDone("out", Fence(number, 1, 1))
    seen = read_newest(spark, target.path, open_store)
    assert seen.dtypes == rows.dtypes
    assert sorted(map(str, seen.collect())) == sorted(map(str, rows.union(rows).collect()))
    assert [row["id"] for row in seen.where("code is null").collect()] == [0, 0]
    assert [row["id"] for row in seen.where("code > 6 and day = date'2026-11-01'").orderBy("id").collect()] == [
        1,
        1,
        2,
        2,
    ]


def test_another_layout_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    append(spark, tmp_path, files(f"{tmp_path}/out", mode="append", hive_partition_by="day"), 1, 10, "a")
    for columns in ((), ("id",)):
        target = files(f"{tmp_path}/out", mode="append", hive_partition_by=columns)
        what = result(spark, tmp_path, target, Fence(2, 1, 1), 10, "b")
        answer = publish(spark, what, open_store)
        assert isinstance(answer, SinkFailed) and "hive_partition_by=['day']" in answer.failure.cause.text


def test_a_view_that_was_begun_and_never_finished_is_made_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = files(f"{tmp_path}/out", mode="append")
    append(spark, tmp_path, target, 1, 10, "a")

    def dies(base: str, pointer: Pointer) -> str:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(current, "_view", dies)
        with pytest.raises(KeyboardInterrupt):
            append(spark, tmp_path, target, 2, 20, "b")
    assert days(spark.read.parquet(f"file:{target.path}/current")) == {"a": 10}, "the old version, whole"
    assert days(read_newest(spark, target.path, open_store)) == {"a": 10, "b": 20}
    append(spark, tmp_path, target, 2, 20, "b")
    assert [seen == {"a": 10, "b": 20} for seen in readers(spark, target)] == [True] * 4


def test_days_without_rows_leave_what_can_be_read(spark: SparkSession, tmp_path: Path) -> None:
    target = files(f"{tmp_path}/out", mode="append")
    for number, (rows, key) in enumerate([(0, "a"), (10, "b"), (0, "b")], 1):
        append(spark, tmp_path, target, number, rows, key)
        seen = days(read_newest(spark, target.path, open_store))
        assert seen == days(spark.read.parquet(f"file:{target.path}/current")) == ({"b": rows} if rows else {})


def test_a_version_of_a_newer_release_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pointer = Pointer(fence=Fence(1, 1, 1), owner="daily", version="v", schema="", parts=(), format=FORMAT + 1)
    store = open_store(f"{tmp_path}/out")
    store.put_if_absent(f"{pointers.POINTERS}{1:020d}", pointers.encode(pointer))
    with pytest.raises(Refused, match="newer Rekindle"):
        newest(store)
