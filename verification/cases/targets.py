"""Sources and targets: what is replaced, appended or asked for again while a run is not finished, or after it."""

from __future__ import annotations

import threading
import time
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from cases.case import EQUAL_OR_STOPPED, REFUSED, Finding, Outcome, case
from cases.context import Context, by_k, kept, same
from rekindle.failover.backoff import FixedDelay


def failing(folder: str, at: int, times: int) -> Any:
    """A Python function that raises for one value, as often as it is told to, and returns its argument otherwise."""
    Path(folder).mkdir()

    def answer(x: int) -> int:
        if x == at:
            count = len(list(Path(folder).iterdir()))
            Path(folder, str(count)).touch()
            if count < times:
                raise ValueError("service down")
        return x

    return F.udf(answer, "long")


@case("5", is_quick=False)
def batch_id_made_while_built(context: Context) -> Finding:
    """A step puts a new uuid4 on its rows, and its input is late by one partition."""
    late = failing(context.path("calls"), 77, 2)

    def priced(orders: DataFrame) -> DataFrame:
        return orders.withColumn("y", late("x"))

    def stamped(priced: DataFrame) -> DataFrame:
        return priced.withColumn("batch", F.lit(str(uuid.uuid4())))

    context.run(context.pipeline([by_k(priced), by_k(stamped)], context.tables.small))
    return same((200, 1), _counts(context.published(), "batch"), "(rows, batches)")


@case("6", is_quick=False)
def numbers_after_a_retry(context: Context) -> Finding:
    """A kept step numbers its rows with monotonically_increasing_id, and its input is late by one partition."""
    late = failing(context.path("calls"), 77, 2)

    def priced(orders: DataFrame) -> DataFrame:
        return orders.withColumn("y", late("x"))

    def numbered(priced: DataFrame) -> DataFrame:
        return priced.withColumn("n", F.monotonically_increasing_id())

    context.run(context.pipeline([priced, kept(numbered, result="blocking")], context.tables.small))
    return same((200, 200), _counts(context.published(), "n"), "(rows, numbers)")


@case("17", EQUAL_OR_STOPPED, is_quick=False)
def source_replaced_before_a_retry(context: Context) -> Finding:
    """A source file is replaced while a partition waits for its retry: one version, or an error that says so."""
    folder = Path(context.path("source"))
    folder.mkdir()
    for number in range(4):
        _write(folder, number, "old")
    late = failing(context.path("calls"), 377, 2)

    def priced(orders: DataFrame) -> DataFrame:
        return orders.withColumn("y", late("id"))

    def replace() -> None:
        while not list(Path(context.path("calls")).iterdir()):
            time.sleep(0.1)
        time.sleep(1.5)
        _write(folder, 3, "new")

    replacing = threading.Thread(target=replace)
    replacing.start()
    try:
        context.run(context.pipeline([priced], str(folder)), context.options(FixedDelay(6, 5000)))
    except rk.RekindleError as error:
        if "changed" not in str(error):
            return Finding(Outcome.DIFFERENT, f"stopped without saying that a source changed: {error}")
        raise
    finally:
        replacing.join()
    found = sorted((row.v, row["count"]) for row in context.published().groupBy("v").count().collect())
    if len(found) == 1:
        return Finding(Outcome.EQUAL, f"{found}")
    return Finding(Outcome.DIFFERENT, f"published rows of both versions: {found}")


@case("18", REFUSED)
def location_inside_a_target(context: Context) -> Finding:
    """The location lies inside the directory that rk.replace replaces, beside a file of the user."""
    lake = context.folder / "lake"
    (lake / "other").mkdir(parents=True)
    precious = lake / "other" / "precious.csv"
    precious.write_text("1\n")

    def counts(orders: DataFrame) -> DataFrame:
        return orders.groupBy("k").count()

    target = rk.replace(str(lake), atomic=False)
    made = context.pipeline([by_k(counts)], context.tables.small, target=target)
    try:
        made.run(context.spark, str(lake / "state"), options=context.options())
    except rk.RekindleError:
        if precious.exists():
            raise
    records = sum(len(list(folder.iterdir())) for folder in lake.glob("state/*/*/journal"))
    left = "is there" if precious.exists() else "is deleted"
    return Finding(Outcome.DIFFERENT, f"published; precious.csv {left}, {records} journal records are left")


@case("19")
def append_of_an_earlier_day(context: Context) -> Finding:
    """Day 1 fails, day 2 is appended, then day 1 is corrected and resumed, and asked for once more."""
    flag = Path(context.path("fixed"))
    made = _by_day(context, flag)
    context.fail(made, day="1")
    context.run(made, day="2")
    flag.touch()
    for _ in range(2):
        context.run(made, day="1")
        finding = same([(1, 100), (2, 100)], _by(context.published(), "day"), "(day, rows)")
        if finding.outcome is not Outcome.EQUAL:
            break
    return finding


@case("20")
def append_again_with_a_late_row(context: Context) -> Finding:
    """A script appends a day, its input gets one late row, and it is started again for the same day."""
    source = context.path("source")
    base = context.spark.read.parquet(context.tables.small).where("day = 1")
    base.coalesce(1).write.parquet(source)
    for _ in range(2):
        with context.script("daily", day="1") as run:
            frame = context.spark.read.parquet(source).where("x >= 0")
            target = rk.files(context.path("out"), mode="append")
            run.publish(frame, target, name="orders", partition_by="k", partitions=2)
        base.where("id = 0").coalesce(1).write.mode("append").parquet(source)
    return same(101, context.published().count())


@case("21")
def asked_again_after_success(context: Context) -> Finding:
    """A run that is done is asked for again after its source grew and its code changed: the summary names both."""
    source = context.path("source")
    base = context.spark.read.parquet(context.tables.small)
    base.coalesce(1).write.parquet(source)
    context.run(_priced(context, source, 1))
    base.coalesce(1).write.mode("append").parquet(source)
    summary = context.run(_priced(context, source, 5))
    if not summary.was_done:
        return same(400, context.published().count(), "it ran again")
    told = " ".join(line for line in str(summary).splitlines() if "changed" in line)
    if "the input changed" in told and "rate" in told:
        return Finding(Outcome.EQUAL, told)
    return Finding(Outcome.DIFFERENT, f"no word of both changes: {str(summary).splitlines()[0]}; {told}")


def _priced(context: Context, source: str, rate: int) -> rk.Pipeline:
    pipeline = rk.Pipeline("daily")

    @pipeline.source
    def orders(spark: SparkSession) -> DataFrame:
        return spark.read.parquet(source)

    @pipeline.sink(rk.files(context.path("out")))
    def priced(orders: DataFrame) -> DataFrame:
        return orders.select("k", (F.col("x") * rate).alias("y"))

    return pipeline


def _by_day(context: Context, flag: Path) -> rk.Pipeline:
    """A pipeline that appends the rows of one day, of which one is bad until the flag is there."""
    source, fixed = context.tables.small, str(flag)

    def check(x: int) -> int:
        if x == 100 and not Path(fixed).exists():
            raise ValueError("bad row of day 1")
        return x

    checked = F.udf(check, "long")
    pipeline = rk.Pipeline("daily")

    @pipeline.source
    def orders(spark: SparkSession) -> DataFrame:
        return spark.read.parquet(source)

    @pipeline.sink(rk.files(context.path("out"), mode="append"), partition_by="k", partitions=2)
    def rows_of(orders: DataFrame, day: str) -> DataFrame:
        return orders.where(F.col("day") == int(day)).withColumn("y", checked("x"))

    return pipeline


def _write(folder: Path, number: int, version: str) -> None:
    ids = list(range(number * 100, number * 100 + 100))
    parquet.write_table(pa.table({"id": ids, "v": [version] * 100}), folder / f"part-{number}.parquet")


def _counts(frame: DataFrame, column: str) -> tuple[int, int]:
    return frame.count(), frame.select(column).distinct().count()


def _by(frame: DataFrame, column: str) -> list[tuple[Any, int]]:
    return sorted((row[0], row[1]) for row in frame.groupBy(column).count().collect())
