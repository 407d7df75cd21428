"""Whose a target is: the runs of one pipeline in one location; and which targets a run has."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace as changed
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import rekindle as rk
from rekindle.engine.spark.publish import copying, sinks
from rekindle.engine.spark.publish.files import read_newest
from rekindle.engine.spark.publish.publication import Publication
from rekindle.engine.spark.publish.sinks import publish
from rekindle.errors import GraphRefused, Refused, RunFailed
from rekindle.master.facts.events import Fence
from rekindle.master.facts.stimuli import SinkDone, SinkFailed, SinkFenced
from rekindle.publish.targets import Files, Replace, Target, directory, files, replace
from rekindle.service.running import stores_of
from rekindle.storage.stores import open_store
from support.shop import shop

FIRST = Fence(1, 1, 1)


def result(
    spark: SparkSession, folder: Path, target: Target, rows: int, place: str, fence: Fence = FIRST
) -> Publication:
    """A committed result of so many rows, by a run that `place` counts."""
    frame = spark.range(rows)
    written = folder / f"{place}-{rows}"
    frame.repartition(2).write.parquet(str(written))
    found = tuple((f"file:{path}", path.stat().st_size) for path in sorted(written.glob("part-*")))
    return Publication(
        sink="out", owner="daily", target=target, fence=fence, files=found, schema=frame.schema.json(), place=place
    )


def count(spark: SparkSession, target: Files) -> int:
    return int(read_newest(spark, target.path, open_store).count())


@pytest.mark.parametrize("mode", ["overwrite", "append"])
def test_two_locations_publish_into_one_target_only_on_the_users_word(
    spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    target = files(f"{tmp_path}/out", mode)
    assert publish(spark, result(spark, tmp_path, target, 5, "aa"), open_store) == SinkDone("out", FIRST)
    other = result(spark, tmp_path, target, 7, "bb")
    answer = publish(spark, other, open_store)
    assert isinstance(answer, SinkFailed) and "another location" in answer.failure.cause.text
    assert count(spark, target) == 5
    assert publish(spark, changed(other, takes="aa"), open_store) == SinkDone("out", FIRST)
    assert count(spark, target) == (7 if mode == "overwrite" else 12)
    third = changed(result(spark, tmp_path, target, 8, "cc"), takes="aa")
    answer = publish(spark, third, open_store)
    assert isinstance(answer, SinkFailed), "the word was for what was seen: not to take it from whoever came since"
    late = publish(spark, result(spark, tmp_path, target, 9, "aa", Fence(2, 1, 1)), open_store)
    assert isinstance(late, SinkFailed) and "another location" in late.failure.cause.text
    after = result(spark, tmp_path, target, 11, "bb", Fence(1, 2, 1))
    assert publish(spark, after, open_store) == SinkDone("out", Fence(1, 2, 1))
    assert count(spark, target) == (11 if mode == "overwrite" else 16), "what the other location added stays"


@pytest.mark.parametrize("of", [files, lambda path: replace(path, atomic=False)], ids=["files", "replaced"])
def test_a_copy_of_a_location_is_not_told_that_it_published(
    spark: SparkSession, tmp_path: Path, of: Callable[[str], Target]
) -> None:
    """Both have a run of this number; the first one that publishes it wins, and its files stay."""
    target = of(f"{tmp_path}/out")
    first, second = result(spark, tmp_path, target, 5, "aa"), result(spark, tmp_path, target, 7, "aa")
    assert publish(spark, first, open_store) == SinkDone("out", FIRST)
    assert publish(spark, second, open_store) == SinkFenced("out", FIRST, FIRST)
    folder = tmp_path / "out" if isinstance(target, Replace) else tmp_path / "out/versions/*"
    assert spark.read.parquet(str(folder)).count() == 5


def test_a_directory_that_is_replaced_is_never_handed_over(spark: SparkSession, tmp_path: Path) -> None:
    target = replace(f"{tmp_path}/out", atomic=False)
    publish(spark, result(spark, tmp_path, target, 5, "aa"), open_store)
    answer = publish(spark, changed(result(spark, tmp_path, target, 7, "bb"), takes="aa"), open_store)
    assert isinstance(answer, SinkFailed) and "in another location" in answer.failure.cause.text
    assert spark.read.parquet(target.path).count() == 5


def test_what_is_staged_is_never_seen_and_does_not_stay(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A partition directory beside others: Spark shows `_rekindle-day=7` to those who read the directory above."""
    lake = tmp_path / "lake"
    spark.range(3).write.parquet(str(lake / "day=6"))
    target = directory(str(lake / "day=7"))
    first = result(spark, tmp_path, target, 5, "aa")

    def die(session: SparkSession, path: str, body: bytes) -> None:
        raise OSError("the driver is dead")

    with monkeypatch.context() as patched:
        patched.setattr(copying, "put", die)
        assert isinstance(publish(spark, first, open_store), SinkFailed)
    staged = [path.name for path in lake.iterdir() if path.name not in ("day=6", "day=7")]
    assert staged == [".rekindle-day=7-v1-1-1-aa"]
    assert spark.read.parquet(str(lake)).count() == 3
    (lake / staged[0]).rename(lake / "_rekindle-day=7-v1-1-1-aa")
    with pytest.raises(Exception, match=r"(?i)partition"):
        spark.read.parquet(str(lake)).count()
    (lake / "_rekindle-day=7-v1-1-1-aa").rename(lake / staged[0])
    again = changed(first, fence=Fence(1, 2, 1))
    assert publish(spark, again, open_store) == SinkDone("out", Fence(1, 2, 1))
    assert sorted(path.name for path in lake.iterdir()) == ["day=6", "day=7"]
    assert spark.read.parquet(str(lake)).count() == 8


def pipeline(folder: Path, **targets: Target) -> rk.Pipeline:
    """Sinks over one step, each to the target it is given. The first one publishes the step itself."""
    made = shop(folder)

    @made.step(partition_by="id", partitions=2)
    def priced(orders: DataFrame) -> DataFrame:
        return orders.selectExpr("id", "id * 2 price")

    def sink(priced: DataFrame) -> DataFrame:
        return priced.where("id >= 0")

    def as_it_is(priced: DataFrame) -> DataFrame:
        return priced

    for number, (name, target) in enumerate(targets.items()):
        if number:
            made.add_sink(sink, target, name=name, partition_by="id", partitions=2)
        else:
            made.add_sink(as_it_is, target, name=name)
    return made


@pytest.fixture
def folder(spark: SparkSession, tmp_path: Path) -> Path:
    spark.range(10).write.parquet(str(tmp_path / "orders"))
    return tmp_path


def test_an_emptied_location_does_not_claim_what_it_never_wrote(spark: SparkSession, folder: Path) -> None:
    target = files(str(folder / "out"))
    location, made = str(folder / "kept"), pipeline(folder, daily=target)
    made.run(spark, location)
    shutil.rmtree(folder / "kept")
    spark.range(20).write.mode("overwrite").parquet(str(folder / "orders"))
    with pytest.raises(Refused, match=r"in another location") as refused:
        made.run(spark, location)
    assert "take the target: rk.RunOptions(take_target=['daily'])" in refused.value.hint
    with pytest.raises(Refused, match=r"in another location"):
        made.plan(spark, location)
    assert count(spark, target) == 10
    with pytest.raises(Refused, match="there is no sink"):
        made.run(spark, location, options=rk.RunOptions(take_target=("dayly",)))
    made.run(spark, location, options=rk.RunOptions(take_target=("daily",)))
    assert count(spark, target) == 20
    made.run(spark, location, options=rk.RunOptions(new=True))
    assert count(spark, target) == 20, "from then on it needs no word"


def test_a_run_that_is_done_is_not_done_for_another_target(spark: SparkSession, folder: Path) -> None:
    location = str(folder / "kept")
    pipeline(folder, daily=files(str(folder / "out"))).run(spark, location)
    moved = pipeline(folder, daily=files(str(folder / "elsewhere")))
    for ask in (moved.run, moved.plan):
        with pytest.raises(
            Refused,
            match=r"daily to files .*out, which the code no longer has, daily to files .*elsewhere is new",
        ):
            ask(spark, location)
    added = pipeline(folder, daily=files(str(folder / "out")), weekly=files(str(folder / "weekly")))
    with pytest.raises(Refused, match=r"weekly to files .*weekly is new"):
        added.run(spark, location)
    assert pipeline(folder, daily=files(str(folder / "out"))).run(spark, location).was_done


def test_only_what_nobody_can_have_read_may_go_elsewhere(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`daily` is published, `weekly` cannot be: its target is corrected, and that of `daily` is not touched."""
    location, daily, taken = str(folder / "kept"), files(str(folder / "out")), files(str(folder / "taken"))
    publish(spark, changed(result(spark, folder, taken, 3, "aa"), owner="others"), open_store)
    with monkeypatch.context() as patched:
        patched.setattr(sinks, "check", lambda *arguments, **named: None)
        with pytest.raises(RunFailed, match="is a target of others"):
            pipeline(folder, daily=daily, weekly=taken).run(spark, location)
    assert count(spark, daily) == 10
    free = files(str(folder / "free"))
    with pytest.raises(
        Refused, match=r"daily to files .*out (is|may be) published, but in the code it is now daily to files .*moved"
    ):
        pipeline(folder, daily=files(str(folder / "moved")), weekly=free).run(spark, location)
    with pytest.raises(Refused, match=r"other sinks: weekly to files .*taken is gone"):
        pipeline(folder, daily=daily).run(spark, location)
    summary = pipeline(folder, daily=daily, weekly=free).run(spark, location)
    assert summary.was_resumed and count(spark, free) == 10 and count(spark, taken) == 3
    assert pipeline(folder, daily=daily, weekly=free).run(spark, location).was_done


def test_two_spellings_of_one_target_are_refused(spark: SparkSession, folder: Path) -> None:
    out = folder / "out"
    with pytest.raises(GraphRefused, match="and so does daily"):
        pipeline(folder, daily=files(str(out)), weekly=files(f"file://{out}/")).run(spark, str(folder / "kept"))
    names = rk.table("gold_spelt"), rk.table("spark_catalog.default.gold_spelt")
    with pytest.raises(GraphRefused, match="are the same directory"):
        pipeline(folder, daily=names[0], weekly=names[1]).run(spark, str(folder / "kept"))


def test_a_name_with_signs_of_a_url_is_a_name(spark: SparkSession, tmp_path: Path) -> None:
    names, stores = ("a#1", "a#2", "a%41", "a?x"), stores_of({})
    for number, name in enumerate(names):
        target = files(f"{tmp_path}/{name}")
        assert publish(spark, result(spark, tmp_path, target, number + 1, "aa"), stores) == SinkDone("out", FIRST)
    assert [read_newest(spark, f"{tmp_path}/{name}", stores).count() for name in names] == [1, 2, 3, 4]
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("a")) == [
        "a#1",
        "a#2",
        "a%41",
        "a?x",
        *(f"aa-{rows}" for rows in range(1, 5)),
    ]
