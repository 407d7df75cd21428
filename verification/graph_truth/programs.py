"""What people write over kept results, one small pipeline each.

Three kept results come first. Each of their partitions has a number of rows that is a power of four of its own, so that
the records that a Spark task read tell which partitions it read, and how often. Each row says where it comes from
(`origin`) and which steps it went through (`path`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

import rekindle as rk

BASES = {"a": 3, "b": 3, "c": 2}
ROW = "k long, v long, origin array<string>, path array<string>"

Build = Callable[..., DataFrame]


@dataclass(frozen=True)
class Told:
    """One step: its name, what it reads, what it does, whether it is pipelined, and its options."""

    name: str
    build: Build
    is_fused: bool = False
    partition_by: str = ""
    partitions: int = 0


Program = tuple[Told, ...]


def digit(base: str, partition: int) -> int:
    """Which power of four the rows of a partition are."""
    names = list(BASES)
    return sum(BASES[name] for name in names[: names.index(base)]) + partition


def make_sources(spark: SparkSession, folder: Path) -> None:
    """One folder for each base, with the rows that Spark's hash puts into each of its partitions."""
    for base, count in BASES.items():
        places = {row.p: row.id for row in spark.range(60).selectExpr("id", f"pmod(hash(id), {count}) p").collect()}
        rows = [
            (places[p], number, [f"{base}{p}"], [base]) for p in range(count) for number in range(4 ** digit(base, p))
        ]
        spark.createDataFrame(rows, ROW).coalesce(2).write.parquet(f"{folder}/{base}")


def made(name: str, program: Program, folder: Path) -> rk.Pipeline:
    """The bases, the steps of the program, and a sink for each kept step that nobody reads."""
    pipeline = rk.Pipeline(name)
    read = {one for told in program for one in inputs(told.build)}
    for base, count in BASES.items():
        if base in read:
            _add_base(pipeline, base, count, folder)
    for told in program:
        build = _named(told.build, told.name)
        if told.is_fused:
            pipeline.step(result="pipelined")(build)
        elif told.partition_by:
            pipeline.step(
                result="blocking", keep_until="forever", partition_by=told.partition_by, partitions=told.partitions
            )(build)
        else:
            pipeline.step(result="blocking", keep_until="forever")(build)
    for told in program:
        if told.name not in read:
            _add_sink(pipeline, told.name, folder / name)
    return pipeline


def inputs(build: Build) -> tuple[str, ...]:
    return build.__code__.co_varnames[: build.__code__.co_argcount]


def _named(build: Build, name: str) -> Build:
    build.__name__ = build.__qualname__ = name
    return build


def _add_base(pipeline: rk.Pipeline, base: str, count: int, folder: Path) -> None:
    def read(spark: SparkSession) -> DataFrame:
        return spark.read.schema(ROW).parquet(f"{folder}/{base}")

    def keep(rows: DataFrame) -> DataFrame:
        return rows

    source = f"source_{base}"
    pipeline.source(_named(read, source))
    scope: dict[str, Build] = {"keep": keep}
    exec(f"def {base}({source}):\n    return keep({source})", scope)
    pipeline.step(result="blocking", keep_until="forever", partition_by="k", partitions=count)(scope[base])


def _add_sink(pipeline: rk.Pipeline, step: str, folder: Path) -> None:
    scope: dict[str, Build] = {}
    exec(f"def sink_{step}({step}):\n    return {step}", scope)
    pipeline.sink(rk.files(f"{folder}/{step}"))(scope[f"sink_{step}"])


def through(rows: DataFrame, step: str) -> DataFrame:
    return rows.withColumn("path", F.array_union("path", F.array(F.lit(step))))


def together(name: str) -> Column:
    return F.array_distinct(F.flatten(F.collect_set(name))).alias(name)


def grouped(rows: DataFrame, *keys: str) -> DataFrame:
    return rows.groupBy(*keys).agg(F.count("*").alias("n"), together("origin"), together("path"))


def joined(left: DataFrame, right: DataFrame, how: str = "inner", key: str = "k") -> DataFrame:
    other = right.select(F.col(key).alias("other"), F.col("origin").alias("o2"), F.col("path").alias("p2"))
    both = left.join(other, left[key] == F.col("other"), how)
    return both.select(
        "k",
        "v",
        F.array_union("origin", F.coalesce("o2", F.array().cast("array<string>"))).alias("origin"),
        F.array_union("path", F.coalesce("p2", F.array().cast("array<string>"))).alias("path"),
    )


def copied(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    yield from batches


def group_copied(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.head(3)


@F.udf(LongType())  # type: ignore[untyped-decorator]
def doubled(v: int) -> int:
    return v * 2


def x(build: Build, partition_by: str = "", partitions: int = 0) -> Program:
    return (Told("x", build, partition_by=partition_by, partitions=partitions),)


def fused(name: str, build: Build) -> Told:
    return Told(name, build, is_fused=True)


PROGRAMS: dict[str, Program] = {
    "filter": x(lambda a: through(a.where("v >= 0"), "x")),
    "project": x(lambda a: through(a.selectExpr("k", "v + 1 v", "origin", "path"), "x")),
    "fused_chain": (fused("f", lambda a: through(a.where("v >= 0"), "f")), Told("x", lambda f: through(f, "x"))),
    "fused_twice": (
        fused("f", lambda a: through(a, "f")),
        fused("g", lambda f: through(f.where("v >= 0"), "g")),
        Told("x", lambda g: through(g, "x")),
    ),
    "fused_into_two": (
        fused("f", lambda a: through(a, "f")),
        Told("x", lambda f: through(f, "x")),
        Told("y", lambda f: through(f.where("v >= 0"), "y")),
    ),
    "fused_from_two": (
        fused("f", lambda a: through(a, "f")),
        fused("g", lambda b: through(b, "g")),
        Told("x", lambda f, g: through(f.unionByName(g), "x")),
    ),
    "union": x(lambda a, b: through(a.union(b), "x")),
    "union_of_three": x(lambda a, b, c: through(c.unionByName(a).unionByName(b), "x")),
    "union_filtered": x(lambda a, b: through(a.where("v >= 0").union(b.where("v >= 1")), "x")),
    "union_with_itself": x(lambda a, b: through(a.union(b).union(a), "x")),
    "union_then_group": x(lambda a, b: grouped(through(a.union(b), "x"), "k")),
    "coalesce": x(lambda a: through(a, "x").coalesce(2)),
    "coalesce_to_one": x(lambda a: through(a, "x").coalesce(1)),
    "coalesce_to_more": x(lambda a: through(a, "x").coalesce(9)),
    "coalesce_of_union": x(lambda a, b: through(a.union(b), "x").coalesce(4)),
    "coalesce_below_python": x(lambda b: through(b.coalesce(2), "x").mapInPandas(copied, ROW)),
    "coalesce_above_python": x(lambda b: through(b, "x").mapInPandas(copied, ROW).coalesce(2)),
    "coalesce_fused": (
        fused("f", lambda b: through(b, "f").coalesce(2)),
        Told("x", lambda f: through(f, "x")),
    ),
    "coalesce_twice": x(lambda b, c: through(b.union(c).coalesce(4), "x").where("v >= 0").coalesce(2)),
    "coalesce_kept_twice": (
        Told("x", lambda b: through(b, "x").coalesce(2)),
        Told("y", lambda x: through(x, "y").coalesce(2)),
    ),
    "repartition": x(lambda a: through(a, "x").repartition(4)),
    "repartition_by_key": x(lambda a: through(a, "x").repartition(3, "k")),
    "repartition_by_range": x(lambda b: through(b, "x").repartitionByRange(3, "v")),
    "repartition_to_one": x(lambda a: through(a, "x").repartition(1)),
    "rebalance": x(lambda b: through(b, "x").hint("rebalance")),
    "other_layout": x(lambda a: through(a, "x"), "v", 4),
    "same_layout": x(lambda a: through(a, "x"), "k", 3),
    "group_by_key": x(lambda a: grouped(through(a, "x"), "k")),
    "group_by_other": x(lambda b: grouped(through(b.withColumn("k", F.expr("v % 5")), "x"), "k")),
    "group_all": x(lambda b: grouped(through(b, "x"))),
    "distinct": x(lambda b: through(b.distinct(), "x")),
    "window_by_key": x(
        lambda b: through(b, "x").withColumn("v", F.sum("v").over(Window.partitionBy("k"))),
    ),
    "window_by_other": x(lambda b: through(b, "x").withColumn("v", F.count("*").over(Window.partitionBy("v")))),
    "join_by_key": x(lambda a, b: joined(through(a, "x"), b)),
    "join_by_other": x(lambda a, b: joined(through(a, "x"), b, key="v")),
    "join_other_layout": x(lambda a, c: joined(through(a, "x"), c, "left")),
    "join_semi": x(lambda a, b: through(b, "x").join(a, "k", "left_semi")),
    "join_anti": x(lambda b, c: through(b, "x").join(c.where("v > 9999999"), "v", "left_anti")),
    "join_full": x(lambda a, b: joined(through(a, "x"), b, "full")),
    "self_join": x(lambda a: joined(through(a, "x"), a.withColumnRenamed("k", "kk").withColumn("k", F.col("kk")))),
    "cross_join": x(lambda a, c: joined(through(a, "x").withColumn("k", F.lit(1)), c.withColumn("k", F.lit(1)))),
    "broadcast_join": x(lambda a, b: joined(through(b, "x"), F.broadcast(a))),
    "broadcast_of_group": x(lambda a, b: joined(through(b, "x"), F.broadcast(grouped(a, "k")))),
    "broadcast_fused": (
        fused("f", lambda a: through(a.where("v >= 0"), "f")),
        Told("x", lambda f, b: joined(through(b, "x"), F.broadcast(f))),
    ),
    "broadcast_of_union": x(lambda a, b, c: joined(through(b.union(c), "x"), F.broadcast(a), "left")),
    "broadcast_of_itself": x(lambda a: joined(through(a, "x"), F.broadcast(a.where("v >= 0")))),
    "broadcast_then_group": x(lambda a, b: grouped(joined(through(b, "x"), F.broadcast(a)), "v")),
    "broadcast_of_nothing": x(
        lambda a, b: joined(through(b, "x"), F.broadcast(a.where("v > 9999999"))).selectExpr(
            "v + 1 v", "origin", "path"
        )
    ),
    "broadcast_to_no_key": x(
        lambda a, b: joined(through(b, "x"), F.broadcast(a)).selectExpr("v + 1 v", "origin", "path")
    ),
    "subquery": x(lambda a, b: through(b, "x").where(F.col("v") >= a.select(F.min("v")).scalar())),
    "subquery_of_itself": x(lambda b: through(b, "x").where(F.col("v") <= b.select(F.max("v")).scalar())),
    "diamond": (
        Told("f", lambda a: through(a.where("v >= 0"), "f"), partition_by="k", partitions=3),
        Told("g", lambda a: grouped(through(a, "g"), "k"), partition_by="k", partitions=3),
        Told("x", lambda f, g: joined(through(f, "x"), g)),
    ),
    "diamond_of_unions": (
        Told("f", lambda a: through(a.where("v >= 0"), "f")),
        Told("g", lambda a: through(a, "g").coalesce(2)),
        Told("x", lambda f, g: through(f.union(g), "x")),
    ),
    "sort": (Told("x", lambda b: through(b, "x").orderBy("v")), Told("y", lambda x: through(x, "y").limit(5))),
    "sort_then_filter": x(lambda b: through(b, "x").orderBy("v").where("v >= 0")),
    "python_function": x(lambda a: through(a.withColumn("v", doubled("v")), "x")),
    "map_in_pandas": x(lambda b: through(b, "x").mapInPandas(copied, ROW)),
    "apply_in_pandas": x(lambda b: through(b, "x").groupBy("k").applyInPandas(group_copied, ROW)),
    "explode": x(lambda a: through(a.withColumn("v", F.explode(F.expr("array(v, v + 1)"))), "x")),
    "except": x(lambda a, b: through(b, "x").exceptAll(through(a, "x"))),
    "sample": x(lambda b: through(b.sample(0.9, seed=3), "x")),
}
