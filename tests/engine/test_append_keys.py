"""Appending on real Spark: by key (pipeline and parameters), in whatever order runs end, wherever a publisher dies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.engine.spark.publish import tables, versions
from rekindle.engine.spark.publish.files import read_newest
from rekindle.engine.spark.publish.publication import Publication
from rekindle.engine.spark.publish.sinks import publish
from rekindle.errors import Refused, RunFailed
from rekindle.failover.backoff import NoRestart
from rekindle.master.facts.config import BackoffSpec, MasterConfig
from rekindle.master.facts.events import Fence
from rekindle.master.facts.stimuli import SinkDone
from rekindle.publish import pointers
from rekindle.publish.pointers import newest, top_of
from rekindle.publish.targets import Files, Table, Target
from rekindle.storage.stores import open_store

ONCE = rk.RunOptions(config=MasterConfig(backoff=BackoffSpec.of(NoRestart())))


class Crash(BaseException):
    """The driver dies here."""


def result(spark: SparkSession, folder: Path, target: Target, fence: Fence, rows: int, key: str) -> Publication:
    frame = spark.range(rows).withColumn("day", F.lit(key))
    written = folder / f"result-{key}-{rows}"
    frame.repartition(2).write.mode("ignore").parquet(str(written))
    found = tuple((f"file:{path}", path.stat().st_size) for path in sorted(written.glob("part-*")))
    return Publication(
        sink="out", owner="daily", target=target, fence=fence, files=found, schema=frame.schema.json(), key=key
    )


def days(frame: DataFrame) -> dict[str, int]:
    return {str(row["day"]): row["count"] for row in frame.groupBy("day").count().collect()}


def read(spark: SparkSession, target: Files | Table) -> dict[str, int]:
    if isinstance(target, Files):
        return days(read_newest(spark, target.path, open_store))
    base = tables.base_of(spark, target)
    if newest(open_store(base)).pointer is not None:
        tables.follow(spark, target, base, lambda: top_of(open_store(base)))
    return days(spark.table(target.name))


def dies_before_the_copy(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(versions, "_fill", die)


def dies_after_the_copy(patched: pytest.MonkeyPatch) -> None:
    fill = versions._fill

    def filled(*arguments: object) -> None:
        fill(*arguments)  # type: ignore[arg-type]
        die()

    patched.setattr(versions, "_fill", filled)


def dies_after_the_pointer(patched: pytest.MonkeyPatch) -> None:
    advance = pointers.advance

    def put(*arguments: object, **options: object) -> None:
        advance(*arguments, **options)  # type: ignore[arg-type]
        die()

    patched.setattr(versions, "advance", put)


def dies_in_the_catalog(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(tables, "follow", die)


def die(*arguments: object, **options: object) -> None:
    raise Crash


@pytest.mark.parametrize("kind", ["files", "table"])
@pytest.mark.parametrize(
    "dies", [dies_before_the_copy, dies_after_the_copy, dies_after_the_pointer, dies_in_the_catalog]
)
def test_a_key_that_is_published_again_is_old_or_new_wherever_its_publisher_dies(
    spark: SparkSession, tmp_path: Path, kind: str, dies: Callable[[pytest.MonkeyPatch], None]
) -> None:
    name = f"appended_{dies.__name__}"
    target = rk.files(f"{tmp_path}/out", "append") if kind == "files" else rk.table(name, "append", f"{tmp_path}/out")
    try:
        for fence, rows, key in ((Fence(1, 1, 1), 10, "1"), (Fence(2, 1, 1), 20, "2")):
            publish(spark, result(spark, tmp_path, target, fence, rows, key), open_store)
        again = result(spark, tmp_path, target, Fence(3, 1, 1), 11, "1")
        with pytest.MonkeyPatch.context() as patched:
            dies(patched)
            if kind == "files" and dies is dies_in_the_catalog:
                assert publish(spark, again, open_store) == SinkDone("out", again.fence)
            else:
                with pytest.raises(Crash):
                    publish(spark, again, open_store)
        assert read(spark, target) in ({"1": 10, "2": 20}, {"1": 11, "2": 20}), "old or new, never both"
        resumed = result(spark, tmp_path, target, Fence(3, 2, 1), 11, "1")
        assert publish(spark, resumed, open_store) == SinkDone("out", Fence(3, 2, 1))
        assert read(spark, target) == {"1": 11, "2": 20}
    finally:
        spark.sql(f"DROP TABLE IF EXISTS {name}")


def test_two_keys_that_append_at_once_are_both_in(spark: SparkSession, tmp_path: Path) -> None:
    """The later run comes first while the earlier one sleeps between its copy and its pointer."""
    target = rk.files(f"{tmp_path}/out", "append")
    earlier = result(spark, tmp_path, target, Fence(1, 1, 1), 10, "1")
    later = result(spark, tmp_path, target, Fence(2, 1, 1), 20, "2")
    fill = versions._fill
    woken: list[bool] = []

    def asleep(*arguments: object) -> None:
        fill(*arguments)  # type: ignore[arg-type]
        if not woken:
            woken.append(True)
            assert publish(spark, later, open_store) == SinkDone("out", later.fence)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(versions, "_fill", asleep)
        assert publish(spark, earlier, open_store) == SinkDone("out", earlier.fence)
    assert read(spark, target) == {"1": 10, "2": 20}
    pointer = newest(open_store(target.path)).pointer
    assert pointer is not None and [one.fence.order for one in pointer.parts] == [2, 1]


def daily(folder: Path, target: Target) -> rk.Pipeline:
    made = rk.Pipeline("daily")
    fixed = str(folder / "fixed")

    def checked(number: int) -> int:
        if number == 100 and not Path(fixed).exists():
            raise ValueError("a bad row of day 1")
        return number

    check = F.udf(checked, "long")

    def orders(spark: SparkSession) -> DataFrame:
        return spark.read.parquet(str(folder / "orders"))

    def out(orders: DataFrame, day: str) -> DataFrame:
        return orders.where(F.col("day") == day).withColumn("checked", check("id"))

    made.add_source(orders)
    made.add_sink(out, target, partition_by="id", partitions=2)
    return made


@pytest.fixture
def orders(spark: SparkSession, tmp_path: Path) -> Path:
    """100 rows of each of two days; the row 100 of day 1 is bad until a file `fixed` is there."""
    frame = spark.range(200).select("id", (F.col("id") % 2 + 1).cast("string").alias("day"))
    frame.repartition(2).write.parquet(str(tmp_path / "orders"))
    return tmp_path


@pytest.mark.parametrize("kind", ["files", "table"])
def test_a_day_that_failed_is_appended_after_the_next_one(spark: SparkSession, orders: Path, kind: str) -> None:
    """Case 19: it was refused for ever, with all its work."""
    target = rk.files(f"{orders}/out", "append") if kind == "files" else rk.table("late_day", "append", f"{orders}/out")
    made, location = daily(orders, target), str(orders / "kept")
    try:
        with pytest.raises(RunFailed, match="a bad row of day 1"):
            made.run(spark, location, options=ONCE, day="1")
        made.run(spark, location, options=ONCE, day="2")
        assert read(spark, target) == {"2": 100}
        (orders / "fixed").touch()
        assert made.run(spark, location, options=ONCE, day="1").was_resumed
        assert read(spark, target) == {"1": 100, "2": 100}
        assert made.run(spark, location, options=ONCE, day="1").was_done
        made.run(spark, location, options=rk.RunOptions(new=True), day="1")
        assert read(spark, target) == {"1": 100, "2": 100}, "a new run of the same day replaces that day"
    finally:
        spark.sql("DROP TABLE IF EXISTS late_day")


def test_a_script_that_appends_the_same_key_again_replaces_its_rows(spark: SparkSession, orders: Path) -> None:
    """Case 20: one late row in the input, and all rows of the day were there twice."""
    target, source = rk.files(f"{orders}/out", "append"), str(orders / "orders")

    def script(day: str) -> None:
        frame = spark.read.parquet(source).where(F.col("day") == day)
        with rk.run("script", spark, str(orders / "kept"), tell=lambda line: None, day=day) as run:
            run.publish(frame, target, name="daily", partition_by="id", partitions=2)

    script("1")
    script("2")
    spark.range(1).select("id", F.lit("1").alias("day")).write.mode("append").parquet(source)
    script("1")
    assert read(spark, target) == {"1": 101, "2": 100}


@pytest.mark.parametrize("kind", ["files", "table"])
def test_an_append_that_reads_its_own_rows_of_the_same_key_is_refused(
    spark: SparkSession, orders: Path, kind: str
) -> None:
    """What is new is appended: a second start with the same parameters found nothing new, and put that in place of the
    100 rows that the first had brought."""
    target = rk.files(f"{orders}/out", "append") if kind == "files" else rk.table("own_rows", "append", f"{orders}/out")
    made, new, source = rk.Pipeline("daily"), rk.RunOptions(new=True), str(orders / "orders")

    def there(spark: SparkSession) -> DataFrame:
        if newest(open_store(f"{orders}/out")).pointer is None:
            return spark.range(0)
        return rk.read_newest(spark, target.path) if isinstance(target, Files) else spark.table(target.name)

    def out(orders: DataFrame, there: DataFrame, day: str) -> DataFrame:
        return orders.where(F.col("day") <= day).join(there.select("id"), "id", "left_anti")

    made.add_source(lambda spark: spark.read.parquet(source), name="orders")
    made.add_source(there)
    made.add_sink(out, target, partition_by="id", partitions=2)
    try:
        made.run(spark, str(orders / "kept"), day="1")
        with pytest.raises(Refused, match="holds the rows that run 1 appended with the same parameters") as refused:
            made.run(spark, str(orders / "kept"), options=new, day="1")
        assert "run with other parameters, or read another target" in refused.value.hint
        assert read(spark, target) == {"1": 100}
        made.run(spark, str(orders / "kept"), day="2")
        assert read(spark, target) == {"1": 100, "2": 100}, "the first run of a key may read what others appended"
    finally:
        spark.sql("DROP TABLE IF EXISTS own_rows")


def test_a_script_that_reads_its_own_rows_of_the_same_key_is_refused(spark: SparkSession, orders: Path) -> None:
    target, source = rk.files(f"{orders}/out", "append"), str(orders / "orders")

    def script(day: str) -> None:
        frame = spark.read.parquet(source).where(F.col("day") == day)
        if newest(open_store(target.path)).pointer is not None:
            frame = frame.join(rk.read_newest(spark, target.path).select("id"), "id", "left_anti")
        with rk.run("script", spark, str(orders / "kept"), tell=lambda line: None, day=day) as run:
            run.publish(frame, target, name="daily", partition_by="id", partitions=2)

    script("1")
    script("2")
    assert read(spark, target) == {"1": 100, "2": 100}
    with pytest.raises(Refused, match="with the same parameters"):
        script("1")
    assert read(spark, target) == {"1": 100, "2": 100}
