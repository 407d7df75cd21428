"""Neighbours of the cases on views and settings: a step gets something that is not one of its declared inputs.

Bare Spark runs the functions one after the other, so that the later one sees it. Where the first step is complete and
only the second runs again, nothing makes it: those cases fail the second step once, and resume.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cases.case import EQUAL_OR_REFUSED, UNPROMISED, Finding, add, case
from cases.context import LATE_X, Context, Step, by_k, kept, rows, same

VIEW = "case_hidden"
HANDED: dict[str, Any] = {}
QUICK = {"view", "replaced-view", "global-view-over-kept"}


def by_view(context: Context, check: Any) -> list[Step]:
    def counts(orders: DataFrame) -> DataFrame:
        found = orders.groupBy("k").count()
        found.createOrReplaceTempView(VIEW)
        return found

    def joined(spark: SparkSession, orders: DataFrame, counts: DataFrame) -> DataFrame:
        return orders.join(spark.table(VIEW), "k").withColumn("y", check("x"))

    return [by_k(counts), by_k(joined)]


def by_global_view(context: Context, check: Any) -> list[Step]:
    def counts(orders: DataFrame) -> DataFrame:
        found = orders.groupBy("k").count()
        found.createOrReplaceGlobalTempView(VIEW)
        return found

    def joined(spark: SparkSession, orders: DataFrame, counts: DataFrame) -> DataFrame:
        return orders.join(spark.table(f"global_temp.{VIEW}"), "k").withColumn("y", check("x"))

    return [by_k(counts), by_k(joined)]


def by_replaced_view(context: Context, check: Any) -> list[Step]:
    """As `by_view`, where the session has an older view of that name with other rows."""
    context.spark.sql("select cast(id as bigint) k, -1L count from range(40)").createOrReplaceTempView(VIEW)
    return by_view(context, check)


def by_view_over_kept(context: Context, check: Any) -> list[Step]:
    """As `by_global_view`, where the step that makes the view reads a kept one."""

    def large(orders: DataFrame) -> DataFrame:
        return orders.where("x > 5")

    def counts(large: DataFrame) -> DataFrame:
        found = large.groupBy("k").count()
        found.createOrReplaceGlobalTempView(VIEW)
        return found

    def joined(spark: SparkSession, orders: DataFrame, counts: DataFrame) -> DataFrame:
        return orders.join(spark.table(f"global_temp.{VIEW}"), "k").withColumn("y", check("x"))

    return [by_k(large), by_k(counts), by_k(joined)]


def by_dict(context: Context, check: Any) -> list[Step]:
    def counts(orders: DataFrame) -> DataFrame:
        HANDED["counts"] = orders.groupBy("k").count()
        found: DataFrame = HANDED["counts"]
        return found

    def joined(orders: DataFrame, counts: DataFrame) -> DataFrame:
        return orders.join(HANDED["counts"], "k").withColumn("y", check("x"))

    return [by_k(counts), by_k(joined)]


def by_dict_over_kept(context: Context, check: Any) -> list[Step]:
    """As `by_dict`, where the step that fills the dict reads a kept one."""

    def large(orders: DataFrame) -> DataFrame:
        return orders.where("x > 5")

    def counts(large: DataFrame) -> DataFrame:
        HANDED["counts"] = large.groupBy("k").count()
        found: DataFrame = HANDED["counts"]
        return found

    def joined(orders: DataFrame, counts: DataFrame) -> DataFrame:
        return orders.join(HANDED["counts"], "k").withColumn("y", check("x"))

    return [by_k(large), by_k(counts), by_k(joined)]


def by_setting(context: Context, check: Any) -> list[Step]:
    def counts(spark: SparkSession, orders: DataFrame) -> DataFrame:
        spark.conf.set("spark.sql.ansi.enabled", "false")
        return orders.groupBy("k").count()

    def joined(counts: DataFrame, orders: DataFrame) -> DataFrame:
        number = F.col("s").cast("int").alias("number")
        return orders.join(counts, "k").select("id", "k", "x", number).withColumn("y", check("x"))

    return [by_k(counts), by_k(joined)]


def by_function(context: Context, check: Any) -> list[Step]:
    def counts(spark: SparkSession, orders: DataFrame) -> DataFrame:
        spark.sql("create or replace temporary function case_twice(x bigint) returns bigint return x * 2")
        return orders.groupBy("k").count()

    def joined(counts: DataFrame, orders: DataFrame) -> DataFrame:
        return orders.join(counts, "k").selectExpr("id", "k", "x", "case_twice(x) as z").withColumn("y", check("x"))

    return [by_k(counts), by_k(joined)]


WAYS: dict[str, tuple[str, Callable[[Context, Any], list[Step]]]] = {
    "view": ("a temporary view", by_view),
    "global-view": ("a global temporary view", by_global_view),
    "replaced-view": ("a temporary view, of which the session has an older one", by_replaced_view),
    "global-view-over-kept": ("a global temporary view over a kept step", by_view_over_kept),
    "dict": ("a dict of the module", by_dict),
    "dict-over-kept": ("a dict of the module that holds a frame over a kept step", by_dict_over_kept),
    "setting": ("a setting of the session (ANSI off)", by_setting),
    "function": ("a temporary SQL function", by_function),
}


def handed(way: Callable[[Context, Any], list[Step]], *, is_resumed: bool) -> Callable[[Context], Finding]:
    def play(context: Context) -> Finding:
        flag = context.path("fixed")

        def answer(x: int) -> int:
            if x == LATE_X and not Path(flag).exists():
                raise ValueError("not yet")
            return x

        steps = way(context, F.udf(answer, "int"))
        Path(flag).touch()
        with context.settings({}):
            expected = rows(context.bare(steps, context.tables.small))
        _forget(context.spark)
        steps = way(context, F.udf(answer, "int"))
        try:
            if is_resumed:
                Path(flag).unlink()
                context.fail_late(context.pipeline(steps, context.tables.small))
                Path(flag).touch()
                _forget(context.spark)
                steps = way(context, F.udf(answer, "int"))
            context.run(context.pipeline(steps, context.tables.small))
            return same(expected, rows(context.published()))
        finally:
            _forget(context.spark)

    return play


def _forget(spark: SparkSession) -> None:
    """As a new driver would find it."""
    HANDED.clear()
    spark.catalog.dropTempView(VIEW)
    spark.catalog.dropGlobalTempView(VIEW)
    spark.sql("drop temporary function if exists case_twice")
    spark.catalog.clearCache()


for _name, (_words, _way) in WAYS.items():
    add(
        f"63:{_name}",
        f"A step hands something to the next by {_words}.",
        handed(_way, is_resumed=False),
        EQUAL_OR_REFUSED,
        is_quick=_name in QUICK,
    )
    add(
        f"64:{_name}",
        f"A step hands something to the next by {_words}; the next fails once and is resumed as in a new driver.",
        handed(_way, is_resumed=True),
        EQUAL_OR_REFUSED,
        is_quick=False,
    )


@case("65")
def active_session_in_a_step(context: Context) -> Finding:
    """A step takes the session by getActiveSession and by builder.getOrCreate, and uses views of its own."""

    def viewed(orders: DataFrame) -> DataFrame:
        orders.createOrReplaceTempView("case_active")
        active = SparkSession.getActiveSession()
        assert active is not None
        count = SparkSession.builder.getOrCreate().sql("select count(*) n from case_active")
        return active.sql("select k, x from case_active").crossJoin(count)

    try:
        return context.compare(by_k(viewed))
    finally:
        context.spark.catalog.dropTempView("case_active")


@case("66", EQUAL_OR_REFUSED)
def batch_id_over_a_resume(context: Context) -> Finding:
    """A step puts a new uuid4 on its rows, fails for one of them, and is resumed: one batch id in the result."""
    flag = context.path("fixed")

    def answer(x: int) -> int:
        if x == LATE_X and not Path(flag).exists():
            raise ValueError("not yet")
        return x

    check = F.udf(answer, "int")

    def stamped(orders: DataFrame) -> DataFrame:
        return orders.withColumn("batch", F.lit(str(uuid.uuid4()))).withColumn("y", check("x"))

    context.fail_late(context.pipeline([by_k(stamped)], context.tables.small))
    Path(flag).touch()
    context.run(context.pipeline([by_k(stamped)], context.tables.small))
    found = context.published()
    return same((200, 1), (found.count(), found.select("batch").distinct().count()), "(rows, batches)")


@case("67")
def broadcast_variable_and_accumulator(context: Context) -> Finding:
    """A Python function reads a broadcast variable and adds to an accumulator."""
    table = context.spark.sparkContext.broadcast({"rate": 3})
    seen = context.spark.sparkContext.accumulator(0)

    def price(x: int) -> int:
        seen.add(1)
        return x * int(table.value["rate"])

    function = F.udf(price, "int")

    def priced(orders: DataFrame) -> DataFrame:
        return orders.select("k", function("x").alias("y"))

    expected = rows(context.bare([priced], context.tables.small)), seen.value
    seen.value = 0
    context.run(context.pipeline([by_k(priced)], context.tables.small))
    return same(expected, (rows(context.published()), seen.value))


@case("68", EQUAL_OR_REFUSED)
def checkpoint_in_a_step(context: Context) -> Finding:
    """A step makes a local checkpoint of its frame."""

    def marked(orders: DataFrame) -> DataFrame:
        return orders.where("x > 5").localCheckpoint()

    def counted(marked: DataFrame) -> DataFrame:
        return marked.groupBy("k").count()

    return context.compare(marked, counted)


@case("68b", EQUAL_OR_REFUSED)
def lazy_checkpoint_in_a_step(context: Context) -> Finding:
    """A step makes a lazy local checkpoint of its frame."""

    def marked(orders: DataFrame) -> DataFrame:
        return orders.where("x > 5").localCheckpoint(eager=False)

    def counted(marked: DataFrame) -> DataFrame:
        return marked.groupBy("k").count()

    return context.compare(marked, counted)


@case("69", is_quick=False)
def observed_frame(context: Context) -> Finding:
    """A step observes the count of its rows under a name."""

    def observed(orders: DataFrame) -> DataFrame:
        return orders.observe("case_metrics", F.count(F.lit(1)).alias("n"))

    def counted(observed: DataFrame) -> DataFrame:
        return observed.groupBy("k").count()

    return context.compare(observed, counted)


@case("70")
def step_that_returns_its_input(context: Context) -> Finding:
    """A kept step returns its input as it is, and another one does so with that."""

    def first(orders: DataFrame) -> DataFrame:
        return orders

    def second(first: DataFrame) -> DataFrame:
        return first

    return context.compare(kept(first, result="blocking"), kept(second, result="blocking"))


@case("71", EQUAL_OR_REFUSED)
def column_of_another_frame(context: Context) -> Finding:
    """A kept step filters `orders`, and the next filters its result by a column of `orders`."""

    def large(orders: DataFrame) -> DataFrame:
        return orders.where("x > 5")

    def odd(large: DataFrame, orders: DataFrame) -> DataFrame:
        return large.where(orders["x"] % 2 == 1)

    return context.compare(kept(large, result="blocking"), odd)


@case("71b", EQUAL_OR_REFUSED)
def column_of_another_frame_dropped(context: Context) -> Finding:
    """A kept step filters `orders`, and the next drops a column from it that is named by `orders`."""

    def large(orders: DataFrame) -> DataFrame:
        return orders.where("x > 5")

    def narrow(large: DataFrame, orders: DataFrame) -> DataFrame:
        return large.drop(orders["x"])

    return context.compare(kept(large, result="blocking"), narrow)


@case("71c", EQUAL_OR_REFUSED)
def columns_of_both_sides(context: Context) -> Finding:
    """A step joins two kept steps by an expression, and the next selects by the columns of both, given as inputs."""

    def left(orders: DataFrame) -> DataFrame:
        return orders.select("id", "k")

    def right(orders: DataFrame) -> DataFrame:
        return orders.groupBy(F.col("k").alias("k")).count()

    def joined(left: DataFrame, right: DataFrame) -> DataFrame:
        return left.join(right, left.k == right.k)

    def selected(joined: DataFrame, left: DataFrame, right: DataFrame) -> DataFrame:
        return joined.select(left["id"], right["k"], "count")

    blocking = {"result": "blocking"}
    return context.compare(kept(left, **blocking), kept(right, **blocking), kept(joined, result="pipelined"), selected)


@case("71d", EQUAL_OR_REFUSED)
def column_dropped_by_alias(context: Context) -> Finding:
    """A kept step gives its result an alias, and the next drops a column that is named by the alias."""

    def counts(orders: DataFrame) -> DataFrame:
        return orders.groupBy("k").agg(F.count("*").alias("n"), F.max("x").alias("most")).alias("o")

    def narrow(counts: DataFrame) -> DataFrame:
        return counts.drop(F.col("o.most"))

    return context.compare(kept(counts, result="blocking"), narrow)


@case("72", EQUAL_OR_REFUSED)
def file_metadata_above_a_kept_step(context: Context) -> Finding:
    """A step filters and is kept, the next selects _metadata.file_path."""

    def large(orders: DataFrame) -> DataFrame:
        return orders.where("x > 5")

    def named(large: DataFrame) -> DataFrame:
        return large.select("id", F.element_at(F.split("_metadata.file_path", "/"), -2).alias("folder"))

    return context.compare(kept(large, result="blocking"), named)


@case("72b")
def file_name_above_a_fused_step(context: Context) -> Finding:
    """A pipelined step filters, the next asks for the name of the file that each row came from."""

    def large(orders: DataFrame) -> DataFrame:
        return orders.where("x > 5")

    def named(large: DataFrame) -> DataFrame:
        return large.select("id", F.element_at(F.split(F.input_file_name(), "/"), -2).alias("folder"))

    return context.compare(kept(large, result="pipelined"), named)


@case("72c", UNPROMISED)
def file_name_of_a_kept_frame(context: Context) -> Finding:
    """The on-ramp keeps a frame, and the script asks for the names of its files: they are Rekindle's (documented)."""
    frame = context.spark.read.parquet(context.tables.small).where("x > 5")
    folder = F.element_at(F.split(F.input_file_name(), "/"), -2).alias("folder")
    expected = rows(frame.select("id", folder))
    with context.script("named") as run:
        return same(expected, rows(run.keep(frame, "large").select("id", folder)))
