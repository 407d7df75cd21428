"""Where rows are: keys and hints that say how the rows of a step are distributed over its partitions."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cases.case import EQUAL_OR_REFUSED, Finding, case
from cases.context import Context, by_k, kept, rows, same

# Small enough that adaptive execution splits the partitions of a few hundred kilobytes.
SMALL_PARTITIONS = {
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "64KB",
    "spark.sql.adaptive.coalescePartitions.minPartitionSize": "1KB",
}


def spread(orders: DataFrame) -> DataFrame:
    return orders.hint("rebalance", "k")


def counted(spread: DataFrame) -> DataFrame:
    return spread.groupBy("k").count()


@case("7", EQUAL_OR_REFUSED)
def rebalance_by_key(context: Context) -> Finding:
    """A step rebalances by k and is kept by k in four partitions, the next counts by k."""
    return context.compare(by_k(spread), by_k(counted), source=context.tables.wide, settings=SMALL_PARTITIONS)


@case("7b")
def rebalance_in_sql(context: Context) -> Finding:
    """A step selects with a REBALANCE(k) hint in SQL, and says nothing about its layout."""

    def hinted(orders: DataFrame) -> DataFrame:
        return orders.sparkSession.sql("select /*+ REBALANCE(k) */ * from {orders}", orders=orders)

    smaller = {**SMALL_PARTITIONS, "spark.sql.adaptive.advisoryPartitionSizeInBytes": "16KB"}
    return context.compare(hinted, source=context.tables.wide, settings=smaller)


@case("7c", EQUAL_OR_REFUSED)
def rebalance_into_fewer(context: Context) -> Finding:
    """A step rebalances by k and is kept by k in two partitions, the next counts by k."""
    return context.compare(by_k(spread, 2), by_k(counted, 2), source=context.tables.wide, settings=SMALL_PARTITIONS)


@case("7d", EQUAL_OR_REFUSED)
def rebalance_of_a_kept_frame(context: Context) -> Finding:
    """The on-ramp keeps a frame that is rebalanced by k, by k in two partitions."""
    frame = context.spark.read.parquet(context.tables.wide).hint("rebalance", "k")
    with context.settings(SMALL_PARTITIONS), context.script("spread") as run:
        expected = rows(frame.groupBy("k").count())
        found = run.keep(frame, "spread", partition_by="k", partitions=2)
        return same(expected, rows(found.groupBy("k").count()))


@case("9a", EQUAL_OR_REFUSED)
def dotted_name_beside_a_struct(context: Context) -> Finding:
    """A step is kept by the column `a.b`, beside a struct a with a field b; the next groups by the column."""

    def left(orders: DataFrame) -> DataFrame:
        struct = F.struct((F.col("x") * 7).alias("b")).alias("a")
        return orders.select("id", struct, F.col("k").alias("a.b"))

    def grouped(left: DataFrame) -> DataFrame:
        return left.groupBy(F.col("`a.b`").alias("key")).count()

    return context.compare(kept(left, partition_by="a.b", partitions=4), grouped)


@case("9e", EQUAL_OR_REFUSED)
def dotted_name_joined(context: Context) -> Finding:
    """Two steps are kept by a column `a.b`, one of them beside a struct a with a field b, and joined by it."""

    def left(orders: DataFrame) -> DataFrame:
        struct = F.struct((F.col("x") * 7).alias("b")).alias("a")
        return orders.select("id", struct, F.col("k").alias("a.b"))

    def right(orders: DataFrame) -> DataFrame:
        return orders.groupBy(F.col("k").alias("a.b")).agg(F.count("*").alias("n"))

    def joined(left: DataFrame, right: DataFrame) -> DataFrame:
        both = left.join(right, left["`a.b`"] == right["`a.b`"])
        return both.select("id", right["`a.b`"].alias("key"), "n")

    key = {"partition_by": "a.b", "partitions": 4}
    return context.compare(kept(left, **key), kept(right, **key), joined)


@case("9b")
def dotted_name_as_key(context: Context) -> Finding:
    """A step is kept by a column whose name has a dot."""

    def left(orders: DataFrame) -> DataFrame:
        return orders.select("id", F.col("k").alias("a.b"))

    return context.compare(kept(left, partition_by="a.b", partitions=4))


@case("9c")
def dotted_names_in_a_union(context: Context) -> Finding:
    """A step unites two frames, one with dots in its names, and calls a Python function; no layout is given."""
    one = F.udf(lambda x: x + 1, "int")

    def united(orders: DataFrame) -> DataFrame:
        dotted = orders.select(F.col("id").alias("order.id"), F.col("k").alias("order.k"))
        return dotted.union(orders.select("id", "k")).withColumn("y", one(F.lit(1)))

    return context.compare(united)


@case("15", is_quick=False)
def union_with_swapped_columns(context: Context) -> Finding:
    """Two steps kept by k are united by position with their columns swapped, and counted by k."""

    def first(orders: DataFrame) -> DataFrame:
        return orders.select("k", F.col("x").cast("long").alias("v"))

    def second(orders: DataFrame) -> DataFrame:
        return orders.select("k", F.col("x").cast("long").alias("v"))

    def united(first: DataFrame, second: DataFrame) -> DataFrame:
        return first.union(second.select("v", "k"))

    def summed(united: DataFrame) -> DataFrame:
        return united.groupBy("k").agg(F.count("*").alias("n"), F.sum("v").alias("s"))

    return context.compare(by_k(first), by_k(second), by_k(united), by_k(summed))


@case("33", is_quick=False)
def collated_key(context: Context) -> Finding:
    """A step is kept by a text that is compared without case, then grouped and joined by it."""

    def texts(orders: DataFrame) -> DataFrame:
        return orders.select("id", F.collate("s", "UTF8_LCASE").alias("s"))

    def counts(texts: DataFrame) -> DataFrame:
        return texts.groupBy("s").agg(F.count("*").alias("n"))

    def joined(texts: DataFrame, counts: DataFrame) -> DataFrame:
        return texts.join(counts, "s").select("id", "n")

    key = {"partition_by": "s", "partitions": 4}
    return context.compare(kept(texts, **key), kept(counts, **key), joined)


@case("34")
def names_that_differ_in_case(context: Context) -> Finding:
    """Names are case-sensitive, a step has the columns k and K, and is kept by K."""

    def both(orders: DataFrame) -> DataFrame:
        return orders.select("k", (F.col("k") + 1).alias("K"))

    step = kept(both, partition_by="K", partitions=2)
    return context.compare(step, settings={"spark.sql.caseSensitive": "true"})
