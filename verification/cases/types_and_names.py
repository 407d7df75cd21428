"""Neighbours of the cases on types and names: each type and each name is handed from a kept step to the next."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from cases.case import EQUAL, EQUAL_OR_REFUSED, Allowed, Finding, Outcome, add, case
from cases.context import Context, by_k, kept, rows, same

# A type: the expression that makes it, the expression that reads it, and what is allowed.
TYPES: dict[str, tuple[str, str, Allowed]] = {
    "timestamp-ntz": ("timestamp_ntz'2020-01-01 00:00:00' + make_dt_interval(0, 0, 0, x)", "cast(v as string)", EQUAL),
    "month-interval": ("make_ym_interval(x, 1)", "cast(v as string)", EQUAL),
    "day-interval": ("make_dt_interval(x, 1)", "cast(v as string)", EQUAL),
    "month-interval-in-struct": ("named_struct('i', make_ym_interval(x, 1))", "cast(v.i as string)", EQUAL),
    "day-interval-in-array": ("array(make_dt_interval(x, 1))", "cast(v[0] as string)", EQUAL),
    "calendar-interval-in-array": ("array(make_interval(0, 0, 0, x))", "cast(v[0] as string)", EQUAL_OR_REFUSED),
    "calendar-interval-in-map": ("map('a', make_interval(0, 0, 0, x))", "cast(v['a'] as string)", EQUAL_OR_REFUSED),
    "variant": ("parse_json(concat('{\"a\":', x, '}'))", "to_json(v)", EQUAL),
    "variant-in-struct": ("named_struct('j', parse_json(concat('[', x, ']')))", "to_json(v.j)", EQUAL),
    "void-in-struct": ("named_struct('a', null, 'b', x)", "v.b + coalesce(v.a, 0)", EQUAL_OR_REFUSED),
    "void-in-array": ("array(null)", "size(v)", EQUAL_OR_REFUSED),
    "void-in-map": ("map('a', null)", "size(v)", EQUAL_OR_REFUSED),
    "empty-struct": ("struct()", "cast(v as string)", EQUAL_OR_REFUSED),
    "collated-map-key": ("map(s collate utf8_lcase, x)", "v['KEY0']", EQUAL_OR_REFUSED),
    "collated-in-array": ("array(s collate utf8_lcase)", "array_contains(v, 'KEY0')", EQUAL),
    "collated-in-struct": ("named_struct('a', s collate utf8_lcase)", "v.a = 'KEY0'", EQUAL),
    "collated": ("s collate unicode_ci", "v = 'KEY0'", EQUAL),
    "wide-decimal": ("cast(x as decimal(38, 18)) / 7", "cast(v as string)", EQUAL),
    "binary": ("unhex(hex(x))", "hex(v)", EQUAL),
    "nested": ("array(named_struct('m', map(x, array(s))))", "to_json(v)", EQUAL),
    "double-specials": (
        "case x % 4 when 0 then double('NaN') when 1 then -0.0D else 1D / 3 end",
        "cast(v as string)",
        EQUAL,
    ),
    "old-date": ("date'0001-01-01' + x", "cast(v as string)", EQUAL),
    "old-timestamp": ("timestamp'1582-10-04 00:00:00' + make_dt_interval(x)", "cast(v as string)", EQUAL),
    "nanosecond-less": ("timestamp_micros(x)", "unix_micros(v)", EQUAL),
}

NAMES = {
    "backtick": "a`b",
    "line-break": "a\nb",
    "tab": "a\tb",
    "leading-space": " a",
    "trailing-space": "a ",
    "emoji": "🔥",
    "empty": "",
    "comma": "a,b",
    "braces": "a{b}",
    "equals": "a=b;(c)",
    "quotes": "a'b\"c",
    "backslash": "a\\b",
    "hash": "a#1",
    "percent": "a%20b",
    "umlaut": "größe",
    "combining": "gro\u0308ße",
    "dots": "a..b",
    "star": "*",
    "keyword": "select",
    "metadata": "_metadata",
    "underscore": "_x",
    "bucket": "a_00001",
}


def typed(made: str, read: str) -> Callable[[Context], Finding]:
    """The case in which a kept step has a column of the type, and the next reads it."""

    def play(context: Context) -> Finding:
        def left(orders: DataFrame) -> DataFrame:
            return orders.selectExpr("id", "k", f"{made} as v")

        def right(left: DataFrame) -> DataFrame:
            return left.selectExpr("id", f"{read} as v")

        return context.compare(by_k(left), right)

    return play


def quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def named(name: str) -> Callable[[Context], Finding]:
    """The case in which a step is kept by a column of that name, and the next groups by it."""

    def play(context: Context) -> Finding:
        def left(orders: DataFrame) -> DataFrame:
            return orders.select("id", F.col("k").alias(name))

        def right(left: DataFrame) -> DataFrame:
            return left.groupBy(F.col(quoted(name)).alias("key")).count()

        return context.compare(kept(left, partition_by=name, partitions=4), right)

    return play


for _name, (_made, _read, _allowed) in TYPES.items():
    _sentence = f"A kept step has a column of {_made}, which the next reads."
    add(f"73:{_name}", _sentence, typed(_made, _read), _allowed, is_quick=False)
for _name, _column in NAMES.items():
    add(
        f"75:{_name}",
        f"A step is kept by a column called {_column!r}, and the next groups by it.",
        named(_column),
        EQUAL_OR_REFUSED,
        is_quick=False,
    )


@case("74", EQUAL_OR_REFUSED)
def unusual_names(context: Context) -> Finding:
    """A kept step has columns with line breaks, tabs, quotes, emoji, stars and an empty name, which the next reads."""

    def left(orders: DataFrame) -> DataFrame:
        return orders.select("id", *(F.col("k").alias(name) for name in NAMES.values()))

    def right(left: DataFrame) -> DataFrame:
        return left.select("id", *(F.col(quoted(name)).alias(plain) for plain, name in NAMES.items()))

    return context.compare(kept(left, result="blocking"), right)


@case("76", EQUAL_OR_REFUSED)
def doubled_names_renamed(context: Context) -> Finding:
    """A step hands on two columns k, and the next renames all columns by position."""

    def left(orders: DataFrame) -> DataFrame:
        counts = orders.groupBy("k").count()
        return orders.select("id", "k").join(counts, orders.k == counts.k)

    def right(left: DataFrame) -> DataFrame:
        return left.toDF("id", "k", "k_again", "n")

    return context.compare(left, right)


@case("76b", EQUAL_OR_REFUSED)
def doubled_names_in_case(context: Context) -> Finding:
    """A kept step hands on the columns v and V without case sensitivity, and the next selects another."""

    def left(orders: DataFrame) -> DataFrame:
        return orders.select("id", F.col("k").alias("v"), F.col("x").alias("V"))

    def right(left: DataFrame) -> DataFrame:
        return left.select("id")

    return context.compare(kept(left, result="blocking"), right)


@case("76c", EQUAL_OR_REFUSED)
def doubled_names_published(context: Context) -> Finding:
    """A sink publishes two columns k; bare Spark refuses to write them."""

    def left(orders: DataFrame) -> DataFrame:
        counts = orders.groupBy("k").count()
        return orders.join(counts, orders.k == counts.k)

    context.run(context.pipeline([left], context.tables.small))
    return Finding(Outcome.DIFFERENT, f"published {context.published().columns}")


@case("77", EQUAL_OR_REFUSED, is_quick=False)
def fields_that_differ_in_case(context: Context) -> Finding:
    """Names are case-sensitive, and a kept step has a struct with the fields a and A."""

    def left(orders: DataFrame) -> DataFrame:
        return orders.select("id", "k", F.struct(F.col("x").alias("a"), F.col("s").alias("A")).alias("v"))

    def right(left: DataFrame) -> DataFrame:
        return left.select("id", "v.a", "v.A")

    return context.compare(by_k(left), right, settings={"spark.sql.caseSensitive": "true"})


@case("78")
def qualifiers_of_a_join(context: Context) -> Finding:
    """A step joins x and y, named by aliases, and the next selects x.id and y.k."""

    def joined(orders: DataFrame) -> DataFrame:
        left, right = orders.alias("x"), orders.where("x > 5").alias("y")
        return left.join(right, F.col("x.id") == F.col("y.id"))

    def selected(joined: DataFrame) -> DataFrame:
        return joined.select("x.id", "y.k")

    return context.compare(joined, selected)


@case("79", EQUAL_OR_REFUSED, is_quick=False)
def metadata_of_a_column(context: Context) -> Finding:
    """A kept step gives a column metadata, and the next makes a column of what it finds there."""

    def marked(orders: DataFrame) -> DataFrame:
        return orders.select("id", F.col("k").alias("k", metadata={"unit": "piece", "comment": "the key"}))

    def read(marked: DataFrame) -> DataFrame:
        return marked.withColumn("unit", F.lit(str(sorted(marked.schema["k"].metadata.items()))))

    return context.compare(by_k(marked), read)


@case("79b", EQUAL_OR_REFUSED)
def metadata_of_a_kept_frame(context: Context) -> Finding:
    """The on-ramp keeps a frame whose column has metadata and whose columns are never null."""
    frame = context.spark.range(10).select(F.col("id").alias("id", metadata={"unit": "piece"}))
    with context.script("marked") as run:
        found = run.keep(frame, "marked").schema["id"]
    expected = frame.schema["id"]
    return same((expected.metadata,), (found.metadata,))


@case("80", is_quick=False)
def char_and_varchar(context: Context) -> Finding:
    """A source is a table with CHAR and VARCHAR columns; a kept step filters it, the next measures them."""
    context.spark.sql("create table case_chars (id bigint, c char(5), v varchar(5)) using parquet")
    context.spark.sql("insert into case_chars select id, 'ab', 'cd ' from range(20)")

    def chars(spark: SparkSession) -> DataFrame:
        return spark.table("case_chars")

    def large(chars: DataFrame) -> DataFrame:
        return chars.where("id > 5")

    def measured(large: DataFrame) -> DataFrame:
        texts = ("id", "length(c) as c", "length(v) as v", "c = 'ab' as is_same", "v = 'cd' as is_other")
        return large.selectExpr(*texts)

    try:
        expected = rows(measured(large(chars(context.spark))))
        pipeline = rk.Pipeline("chars")
        pipeline.add_source(chars)
        pipeline.add_step(large, result="blocking")
        pipeline.add_sink(measured, rk.files(context.path("out")))
        context.run(pipeline)
        return same(expected, rows(context.published()))
    finally:
        context.spark.sql("drop table case_chars")


@case("81")
def batch_of_a_pandas_function(context: Context) -> Finding:
    """A step repartitions into one, and a pandas function of the next puts the size of its batch on each row."""

    def batch_size(values: pd.Series) -> pd.Series:
        return pd.Series([len(values)] * len(values))

    size = F.pandas_udf(batch_size, "long", F.PandasUDFType.SCALAR)

    def one(orders: DataFrame) -> DataFrame:
        return orders.repartition(1)

    def measured(one: DataFrame) -> DataFrame:
        return one.select("id", size("x").alias("n"))

    return context.compare(one, measured)


@case("82", is_quick=False)
def broadcast_hint_handed_on(context: Context) -> Finding:
    """A kept step hints that it is to be broadcast, and the next joins it."""

    def hinted(orders: DataFrame) -> DataFrame:
        return orders.groupBy("k").count().hint("broadcast")

    def joined(hinted: DataFrame, orders: DataFrame) -> DataFrame:
        return orders.join(hinted, "k")

    return context.compare(hinted, joined)
