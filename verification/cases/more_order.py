"""Neighbours of the order cases: sorts, limits and partition numbers over several steps and over the on-ramp."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import rekindle as rk
from cases.case import EQUAL_OR_REFUSED, UNPROMISED, Finding, Outcome, case
from cases.context import Context, kept, rows, same
from cases.order import in_file_order, ranked


def top(ranked: DataFrame) -> DataFrame:
    return ranked.limit(10)


@case("50")
def sorted_partitions_in_pandas(context: Context) -> Finding:
    """One step sorts within partitions, and mapInPandas in the next counts the rows that are out of order."""

    def broken(batches: Iterator[Any]) -> Iterator[Any]:
        amounts = [amount for batch in batches for amount in batch.amount]
        yield pd.DataFrame({"n": [sum(one > later for one, later in pairwise(amounts))]})

    def sorted_parts(orders: DataFrame) -> DataFrame:
        return orders.repartition(4, "k").sortWithinPartitions("amount")

    def counted(sorted_parts: DataFrame) -> DataFrame:
        return sorted_parts.mapInPandas(broken, "n long").agg(F.sum("n").alias("n"))

    return context.compare(sorted_parts, counted, source=context.tables.large)


@case("51", UNPROMISED, is_quick=False)
def sorted_partitions_in_a_list(context: Context) -> Finding:
    """One step sorts within partitions of k, the next collects lists by k; Spark promises no order of lists."""

    def sorted_parts(orders: DataFrame) -> DataFrame:
        return orders.repartition(4, "k").sortWithinPartitions("k", "amount")

    def lists(sorted_parts: DataFrame) -> DataFrame:
        return sorted_parts.groupBy("k").agg(F.collect_list("amount").alias("amounts"))

    return context.compare(sorted_parts, lists, source=context.tables.large)


@case("52")
def one_sorted_file(context: Context) -> Finding:
    """A step orders the rows, the sink coalesces them into one file of a directory."""

    def one_file(ranked: DataFrame) -> DataFrame:
        return ranked.coalesce(1)

    return _directories(context, ranked, one_file, is_one_file=True)


@case("53")
def limit_after_order_and_filter(context: Context) -> Finding:
    """Three steps: order, filter, take the first ten."""

    def filtered(ranked: DataFrame) -> DataFrame:
        return ranked.where("k > 10")

    def first_ten(filtered: DataFrame) -> DataFrame:
        return filtered.limit(10)

    return context.compare(ranked, filtered, first_ten, source=context.tables.large)


@case("54", EQUAL_OR_REFUSED)
def limit_without_the_sort_column(context: Context) -> Finding:
    """Three steps: order, select other columns than the one sorted by and be kept, take the first ten."""

    def selected(ranked: DataFrame) -> DataFrame:
        return ranked.select("id")

    def first_ten(selected: DataFrame) -> DataFrame:
        return selected.limit(10)

    return context.compare(ranked, kept(selected, result="blocking"), first_ten, source=context.tables.large)


@case("54b")
def limit_without_the_sort_column_as_it_comes(context: Context) -> Finding:
    """Three steps: order, select other columns than the one sorted by, take the first ten; keeping is not asked for."""

    def selected(ranked: DataFrame) -> DataFrame:
        return ranked.select("id")

    def first_ten(selected: DataFrame) -> DataFrame:
        return selected.limit(10)

    return context.compare(ranked, selected, first_ten, source=context.tables.large)


@case("55")
def two_readers_of_an_order(context: Context) -> Finding:
    """A step orders the rows; one reader takes the first ten, another the next ten, and both are united."""

    def second_ten(ranked: DataFrame) -> DataFrame:
        return ranked.offset(10).limit(10)

    def united(top: DataFrame, second_ten: DataFrame) -> DataFrame:
        return top.union(second_ten)

    return context.compare(ranked, top, second_ten, united, source=context.tables.large)


@case("56")
def offset_of_a_kept_frame(context: Context) -> Finding:
    """The on-ramp keeps an ordered frame, and the script skips all but its last five rows."""
    frame = ranked(context.spark.read.parquet(context.tables.large))
    expected = frame.offset(19_995).collect()
    with context.script("ordered") as run:
        return same(expected, run.keep(frame, "ranked").offset(19_995).collect())


@case("57")
def tail_of_a_kept_frame(context: Context) -> Finding:
    """The on-ramp keeps an ordered frame, and the script asks for the tail of it."""
    frame = ranked(context.spark.read.parquet(context.tables.large))
    expected = frame.tail(5)
    with context.script("ordered") as run:
        return same(expected, run.keep(frame, "ranked").tail(5))


@case("58")
def pandas_of_a_kept_frame(context: Context) -> Finding:
    """The on-ramp keeps an ordered frame, and the script makes a pandas frame of it."""
    frame = ranked(context.spark.read.parquet(context.tables.large))
    expected = frame.toPandas()["amount"].tolist()
    with context.script("ordered") as run:
        return same(expected, run.keep(frame, "ranked").toPandas()["amount"].tolist())


@case("59")
def kept_frame_kept_again(context: Context) -> Finding:
    """The on-ramp keeps an ordered frame, a filter of it, and the script takes the first ten rows of that."""
    frame = ranked(context.spark.read.parquet(context.tables.large))
    expected = rows(frame.where("k > 10").limit(10))
    with context.script("ordered") as run:
        filtered = run.keep(run.keep(frame, "ranked").where("k > 10"), "filtered")
        return same(expected, rows(filtered.limit(10)))


@case("60", EQUAL_OR_REFUSED, is_quick=False)
def ranges_into_fewer_partitions(context: Context) -> Finding:
    """A step repartitions into 50 ranges of k and is given partitions=8, the next counts by k."""

    def by_range(orders: DataFrame) -> DataFrame:
        return orders.repartitionByRange(50, "k")

    def counted(by_range: DataFrame) -> DataFrame:
        return by_range.groupBy("k").count()

    return context.compare(kept(by_range, partition_by="k", partitions=8), counted, source=context.tables.large)


@case("61")
def number_of_partitions(context: Context) -> Finding:
    """A step repartitions into 50, and the next lists the partitions it sees."""

    def spread(orders: DataFrame) -> DataFrame:
        return orders.repartition(50)

    def counted(spread: DataFrame) -> DataFrame:
        return spread.select(F.spark_partition_id().alias("p")).distinct()

    return context.compare(spread, counted, source=context.tables.large)


@case("61b")
def ranges_in_order(context: Context) -> Finding:
    """A step repartitions into 8 ranges of the amount, and the next numbers the partitions: their numbers follow it."""

    def ranges(orders: DataFrame) -> DataFrame:
        return orders.repartitionByRange(8, "amount")

    def numbered(ranges: DataFrame) -> DataFrame:
        return ranges.select("amount", F.spark_partition_id().alias("p"))

    def disorder(numbered: DataFrame) -> DataFrame:
        bounds = numbered.groupBy("p").agg(F.min("amount").alias("low"), F.max("amount").alias("high"))
        later = bounds.select(F.col("p").alias("q"), F.col("low").alias("low_2"))
        return bounds.join(later, (F.col("q") > F.col("p")) & (F.col("low_2") < F.col("high"))).agg(F.count("*"))

    return context.compare(ranges, kept(numbered, result="pipelined"), disorder, source=context.tables.large)


@case("83")
def limited_order_read_again(context: Context) -> Finding:
    """One step orders and takes a hundred rows, the next takes the first three of them."""

    def hundred(orders: DataFrame) -> DataFrame:
        return orders.orderBy(F.desc("amount")).limit(100)

    def three(hundred: DataFrame) -> DataFrame:
        return hundred.limit(3)

    return context.compare(kept(hundred, result="blocking"), three, source=context.tables.large)


@case("84", is_quick=False)
def order_kept_in_memory(context: Context) -> Finding:
    """A step orders the rows and is kept in the memory of executors, the next takes the first ten."""
    return context.compare(kept(ranked, result="caching"), top, source=context.tables.large)


@case("85", is_quick=False)
def order_that_is_fused(context: Context) -> Finding:
    """A pipelined step orders the rows, the next takes the first ten."""
    return context.compare(kept(ranked, result="pipelined"), top, source=context.tables.large)


@case("86")
def sorted_result_published_in_place(context: Context) -> Finding:
    """A step orders the rows, a filter of it goes to a directory, whose files are read in the order of their names."""

    def filtered(ranked: DataFrame) -> DataFrame:
        return ranked.where("k > 10")

    return _directories(context, ranked, filtered)


@case("87", is_quick=False)
def order_into_replaced_directory(context: Context) -> Finding:
    """A sink orders the rows into rk.replace, whose files are read in the order of their names."""
    source, bare, ours = context.tables.large, context.path("bare"), context.path("ours")
    context.bare([ranked], source).write.parquet(bare)
    context.run(context.pipeline([ranked], source, target=rk.replace(ours, atomic=False)))
    return same(in_file_order(bare, "amount"), in_file_order(ours, "amount"))


@case("88", UNPROMISED, is_quick=False)
def random_numbers_above_a_kept_step(context: Context) -> Finding:
    """A step filters and is kept, the next draws rand(7); bare Spark promises it for the same partitions only."""

    def filtered(orders: DataFrame) -> DataFrame:
        return orders.where("x > 5")

    def drawn(filtered: DataFrame) -> DataFrame:
        return filtered.select("id", F.rand(7).alias("r"))

    return context.compare(kept(filtered, result="blocking"), drawn)


def _directories(context: Context, *steps: Any, is_one_file: bool = False) -> Finding:
    """The rows of both directories in the order of their files' names."""
    source, bare, ours = context.tables.large, context.path("bare"), context.path("ours")
    context.bare(steps, source).write.parquet(bare)
    context.run(context.pipeline(steps, source, target=rk.directory(ours)))
    finding = same(in_file_order(bare, "amount"), in_file_order(ours, "amount"))
    if finding.outcome is Outcome.EQUAL and is_one_file:
        return same(1, len(list(Path(ours).glob("*.parquet"))), "files")
    return finding
