"""The order of rows across a cut: what is sorted in one step and read in the next."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as parquet
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import rekindle as rk
from cases.case import Finding, case
from cases.context import Context, rows, same


def ranked(orders: DataFrame) -> DataFrame:
    return orders.orderBy(F.desc("amount"))


@case("1")
def limit_after_order(context: Context) -> Finding:
    """One step orders the rows, the next takes the first ten."""

    def top(ranked: DataFrame) -> DataFrame:
        return ranked.limit(10)

    return context.compare(ranked, top, source=context.tables.large)


@case("1b")
def offset_after_order(context: Context) -> Finding:
    """One step orders 200 rows, the sink skips the first 195."""

    def ordered(orders: DataFrame) -> DataFrame:
        return orders.orderBy(F.desc("x"))

    def tail(ordered: DataFrame) -> DataFrame:
        return ordered.offset(195)

    return context.compare(ordered, tail)


@case("2a")
def limit_of_a_kept_frame(context: Context) -> Finding:
    """The on-ramp keeps an ordered frame, and the script takes the first ten rows of it."""
    frame = ranked(context.spark.read.parquet(context.tables.large))
    expected = rows(frame.limit(10))
    with context.script("ordered") as run:
        return same(expected, rows(run.keep(frame, "ranked").limit(10)))


@case("2b")
def first_of_a_kept_frame(context: Context) -> Finding:
    """The on-ramp keeps an ordered frame, and the script asks for its first row."""
    frame = ranked(context.spark.read.parquet(context.tables.large))
    expected = frame.first()
    with context.script("ordered") as run:
        return same(expected, run.keep(frame, "ranked").first())


@case("2c")
def collect_of_a_kept_frame(context: Context) -> Finding:
    """The on-ramp keeps an ordered frame, and the script collects all rows in their order."""
    frame = ranked(context.spark.read.parquet(context.tables.large))
    expected = frame.collect()
    with context.script("ordered") as run:
        return same(expected, run.keep(frame, "ranked").collect())


@case("3")
def numbers_after_order(context: Context) -> Finding:
    """One step orders the rows, the next numbers them with monotonically_increasing_id."""

    def numbered(ranked: DataFrame) -> DataFrame:
        return ranked.withColumn("n", F.monotonically_increasing_id())

    source = context.tables.large
    expected = [row.amount for row in context.bare([ranked, numbered], source).orderBy("n").collect()]
    context.run(context.pipeline([ranked, numbered], source))
    return same(expected, [row.amount for row in context.published().orderBy("n").collect()])


@case("4")
def sorted_directory(context: Context) -> Finding:
    """A sink sorts its rows into a directory, whose files are read in the order of their names."""

    def sorted_rows(orders: DataFrame) -> DataFrame:
        return orders.orderBy("amount")

    source, bare, ours = context.tables.large, context.path("bare"), context.path("ours")
    context.bare([sorted_rows], source).write.parquet(bare)
    context.run(context.pipeline([sorted_rows], source, target=rk.directory(ours)))
    return same(in_file_order(bare, "amount"), in_file_order(ours, "amount"))


def in_file_order(path: str, column: str) -> list[object]:
    """One column of a directory of Parquet files, file after file by name."""
    files = sorted(Path(path).glob("*.parquet"))
    return [value for file in files for value in parquet.read_table(file).column(column).to_pylist()]
