"""The location of runs, targets and sources lie apart, however they are spelt."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import rekindle as rk
from rekindle.engine.spark.publish import replaced, versions
from rekindle.errors import GraphRefused, Refused, RekindleError, RunFailed
from rekindle.failover.backoff import NoRestart
from rekindle.master.facts.config import BackoffSpec, MasterConfig
from rekindle.master.facts.events import Event, SinkPublished
from rekindle.master.state.run_state import RunState
from rekindle.publish import overlap
from rekindle.publish.overlap import is_inside
from rekindle.publish.targets import Target

ONCE = MasterConfig(backoff=BackoffSpec.of(NoRestart()))


@pytest.mark.parametrize(
    ("inner", "outer", "expected"),
    [
        ("/lake/out", "/lake", True),
        ("/lake", "/lake/", True),
        ("/lake/outside", "/lake/out", False),
        ("file:/lake/out", "/lake", True),
        ("file:///lake/out", "/lake//", True),
        ("/lake/a/../out/day", "/lake/out", True),
        ("/lake/out/..", "/lake/out", False),
        ("s3://lake/out/day", "s3a://lake/out", True),
        ("s3n://lake//out", "S3A://lake/out/", True),
        ("s3a://lake/a/../out", "s3a://lake/out", True),
        ("s3a://lake/out", "s3a://other/out", False),
        ("s3a://lake/out", "gs://lake/out", False),
        ("s3a://lake/outside", "s3a://lake/out", False),
        ("s3a://lake/a#1/b", "s3a://lake/a#2", False),
        ("s3a://lake", "s3a://lake", True),
        ("/lake/out", "s3a://lake", False),
    ],
)
def test_what_lies_inside(inner: str, outer: str, expected: bool) -> None:
    assert is_inside(inner, outer) is expected


def test_a_link_leads_to_the_same_place(tmp_path: Path) -> None:
    (tmp_path / "lake" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "lake")
    assert is_inside(f"{tmp_path}/link/new/out", f"{tmp_path}/lake")
    assert is_inside(f"{tmp_path}/lake/deep", f"{tmp_path}/link")
    assert is_inside(f"file:{tmp_path}/link/not/there", f"{tmp_path}/lake/not")
    assert not is_inside(f"{tmp_path}/link/deep", f"{tmp_path}/lake/new")
    (tmp_path / "dangling").symlink_to(tmp_path / "lake" / "later")
    assert is_inside(f"{tmp_path}/dangling/out", f"{tmp_path}/lake")


def test_letters_of_another_case_where_the_disk_ignores_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = f"{tmp_path}/Lake/out", f"{tmp_path}/lake"
    assert not is_inside(one, other), "this disk tells them apart"
    monkeypatch.setattr(overlap, "_ignores_case", lambda folder: True)
    assert is_inside(one, other) and not is_inside(f"{tmp_path}/Lakes/out", other)


def test_what_exists_is_compared_by_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a disk that ignores case answers: both names exist, and are one directory."""
    (tmp_path / "lake").mkdir()
    (tmp_path / "LAKE").symlink_to(tmp_path / "lake")
    monkeypatch.setattr(os.path, "realpath", lambda path: path)
    assert is_inside(f"{tmp_path}/LAKE/out", f"{tmp_path}/lake")


def pipeline(source: Path, **targets: Target) -> rk.Pipeline:
    made = rk.Pipeline("daily")

    def orders(spark: SparkSession) -> DataFrame:
        return spark.read.schema("id long").parquet(str(source))

    def out(orders: DataFrame) -> DataFrame:
        return orders.selectExpr("id", "id * 2 price")

    made.add_source(orders)
    for name, target in targets.items():
        made.add_sink(out, target, name=name, partition_by="id", partitions=2)
    return made


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Path:
    spark.range(10).write.parquet(str(tmp_path / "orders"))
    return tmp_path


def refused(spark: SparkSession, made: rk.Pipeline, location: str, *words: str) -> None:
    """By `plan` and by `run`, with both places named."""
    for ask in (made.plan, made.run):
        with pytest.raises(GraphRefused) as said:
            ask(spark, location)
        assert all(word in str(said.value) for word in words), str(said.value)
        assert said.value.hint


def test_every_overlap_is_refused_before_anything_runs(spark: SparkSession, lake: Path) -> None:
    out, kept, orders = rk.replace(f"{lake}/out", atomic=False), str(lake / "kept"), lake / "orders"
    refused(spark, pipeline(orders, out=out), f"{lake}/out/kept", "the location of the runs", "is inside", "out")
    refused(spark, pipeline(orders, out=rk.files(f"{kept}/out")), kept, "the target of out", "is inside")
    two = pipeline(orders, out=rk.files(f"{lake}/out"), more=rk.directory(f"{lake}/out/more"))
    refused(spark, two, kept, "the target of more", "the target of out")
    refused(spark, pipeline(orders, out=rk.replace(str(lake), atomic=False)), "/nowhere/kept", "reads", "target of out")
    refused(spark, pipeline(orders, out=rk.files(f"{orders}/out")), kept, "the target of out", "reads")
    refused(spark, pipeline(orders, out=rk.files(f"{lake}-out")), str(lake), "reads", "the location of the runs")
    (lake / "link").symlink_to(lake / "kept")
    refused(spark, pipeline(orders, out=rk.files(f"{lake}/link/out")), kept, "the target of out")
    assert not [path for path in lake.rglob("*.parquet") if "orders" not in path.parts], "nothing was computed"


def test_a_pipeline_may_read_the_version_that_it_replaces(spark: SparkSession, lake: Path) -> None:
    """Case 31: yesterday's state and today's delta."""
    target, location = rk.files(f"{lake}/state"), str(lake / "kept")
    pipeline(lake / "orders", out=target).run(spark, location)
    made = rk.Pipeline("daily")

    def before(spark: SparkSession) -> DataFrame:
        return rk.read_newest(spark, f"{lake}/state")

    def out(before: DataFrame) -> DataFrame:
        return before.selectExpr("id", "price + 1 price")

    made.add_source(before)
    made.add_sink(out, target, partition_by="id", partitions=2)
    made.run(spark, location, options=rk.RunOptions(new=True))
    assert {row["price"] - 2 * row["id"] for row in rk.read_newest(spark, f"{lake}/state").collect()} == {1}


def test_a_directory_that_is_replaced_keeps_what_is_not_ours(spark: SparkSession, lake: Path) -> None:
    """Case 18: a folder of the user's, and the location of the runs, were deleted by a run that was done."""
    out, location = lake / "out", str(lake / "kept")
    made = pipeline(lake / "orders", out=rk.replace(str(out), atomic=False))
    (out / "other").mkdir(parents=True)
    (out / "other" / "precious.csv").write_text("1\n")
    spark.range(3).write.mode("append").parquet(str(out))
    for ask in (made.plan, made.run):
        with pytest.raises(Refused, match="files that Rekindle did not publish: other/"):
            ask(spark, location)
    assert (out / "other" / "precious.csv").exists()
    (out / "other").rename(lake / "other")
    made.run(spark, location)
    assert spark.read.parquet(str(out)).count() == 10, "the files that were there were handed over"
    (out / "later.parquet").write_bytes(next(out.glob("part-*")).read_bytes())
    with pytest.raises(Refused, match=r"did not publish: later\.parquet"):
        made.run(spark, location, options=rk.RunOptions(new=True))
    assert (out / "later.parquet").exists()
    (out / "later.parquet").unlink()
    made.run(spark, location, options=rk.RunOptions(new=True))
    assert spark.read.parquet(str(out)).count() == 10


def test_a_resume_that_has_replaced_a_directory_leaves_what_others_put_there(
    spark: SparkSession, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run was refused for a directory that it had no more to do with."""
    out, location, is_published = lake / "out", str(lake / "kept"), threading.Event()
    made = pipeline(lake / "orders", out=rk.replace(str(out), atomic=False), gold=rk.files(str(lake / "gold")))

    def watch(events: tuple[Event, ...], state: RunState) -> None:
        if any(isinstance(event, SinkPublished) and event.sink == "out" for event in events):
            is_published.set()

    def fail(*arguments: object, **options: object) -> None:
        assert is_published.wait(120)
        raise Refused("the storage of gold is away")

    with monkeypatch.context() as patched:
        patched.setattr(versions, "put_version", fail)
        with pytest.raises(RunFailed, match="the storage of gold is away"):
            made.run(spark, location, options=rk.RunOptions(config=ONCE, watcher=watch))
    (out / "later.parquet").write_bytes(next(out.glob("part-*")).read_bytes())
    assert made.run(spark, location, options=rk.RunOptions(config=ONCE)).was_resumed
    assert (out / "later.parquet").exists() and rk.read_newest(spark, str(lake / "gold")).count() == 10


def test_what_was_handed_over_goes_although_the_first_publisher_died(
    spark: SparkSession, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, location = lake / "out", str(lake / "kept")
    spark.range(3).write.parquet(str(out))
    made = pipeline(lake / "orders", out=rk.replace(str(out), atomic=False))

    def die(*arguments: object) -> None:
        raise RekindleError("the driver is dead")

    with monkeypatch.context() as patched:
        patched.setattr(replaced, "_exchange", die)
        with pytest.raises(RekindleError, match="the driver is dead"):
            made.run(spark, location, options=rk.RunOptions(config=ONCE))
    made.run(spark, location)
    assert spark.read.parquet(str(out)).count() == 10
