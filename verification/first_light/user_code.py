"""What a user would write. The harness copies this file, edits the copy, and runs drivers on it."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Mapping
from pathlib import Path

from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rekindle.engine.spark.plan.group import GroupSpec

INPUT = os.environ["STAGE_INPUT"]
CURE = os.environ.get("STAGE_CURE", "")
BURN = int(os.environ.get("FIRST_LIGHT_BURN", "1000"))
SMALL, WIDE = 8, int(os.environ.get("FIRST_LIGHT_WIDE", "16"))
POISON = 13

Inputs = Mapping[str, DataFrame]


@F.udf("long")  # type: ignore[untyped-decorator]
def score(k: int) -> int:
    if k == POISON and not Path(CURE).exists():
        raise ValueError(f"cannot score {k}")
    return k * 2


@F.udf("long")  # type: ignore[untyped-decorator]
def rate(k: int) -> int:
    if k == POISON and not Path(CURE).exists():
        raise ValueError(f"cannot rate {k}")
    return k * 3


@F.udf("long")  # type: ignore[untyped-decorator]
def dice(value: int) -> int:
    return random.randrange(1 << 40)


@F.udf("long")  # type: ignore[untyped-decorator]
def place(value: int) -> int:
    context = TaskContext.get()
    assert context is not None
    return int(context.partitionId()) + (0 if value != POISON or Path(CURE).exists() else 1 // 0)


def events(spark: SparkSession) -> DataFrame:
    return spark.read.schema("id long, k long").parquet(INPUT)


def clean(spark: SparkSession, inputs: Inputs) -> DataFrame:
    return events(spark).where("id % 10 != 0")


def totals(spark: SparkSession, inputs: Inputs) -> DataFrame:
    grouped = inputs["clean"].groupBy("k").agg(F.count("*").alias("n"), F.sum("id").alias("s"))
    return grouped.withColumn("score", score("k"))


def slow_totals(spark: SparkSession, inputs: Inputs) -> DataFrame:
    """Determinate by the table, and slow enough to be killed in the middle."""
    grouped = inputs["clean"].groupBy("k").agg(F.count("*").alias("n"), F.sum("id").alias("s"))
    work = f"aggregate(sequence(0L, {BURN}L), s, (a, x) -> (a * 31 + x) % 1000003)"
    return grouped.withColumn("work", F.expr(work))


def keyed(spark: SparkSession, inputs: Inputs) -> DataFrame:
    """Another key each time the map side runs: nobody may mix two runs of it."""
    return events(spark).withColumn("key", dice("id")).repartition(WIDE, "key").withColumn("rate", rate("id"))


def counted(inputs: Inputs) -> DataFrame:
    return inputs["clean"].groupBy("k").agg(F.count("*").alias("n"))


def with_broadcast(spark: SparkSession, inputs: Inputs) -> DataFrame:
    side = spark.range(1).withColumn("version", dice("id")).drop("id")
    return inputs["clean"].crossJoin(F.broadcast(side)).repartition(WIDE, "k").withColumn("rate", rate("k"))


def with_subquery(spark: SparkSession, inputs: Inputs) -> DataFrame:
    version = spark.range(1).select(dice("id").alias("v")).agg(F.max("v")).scalar()
    return counted(inputs).withColumn("version", version).withColumn("rate", rate("k"))


def with_timestamp(spark: SparkSession, inputs: Inputs) -> DataFrame:
    return counted(inputs).withColumn("version", F.unix_micros(F.current_timestamp())).withColumn("rate", rate("k"))


def with_task_context(spark: SparkSession, inputs: Inputs) -> DataFrame:
    return counted(inputs).withColumn("version", place("k"))


def with_barrier(spark: SparkSession, inputs: Inputs) -> DataFrame:
    def together(batches: Iterator[object]) -> Iterator[object]:
        if not Path(CURE).exists():
            raise ValueError("cannot meet")
        yield from batches

    return inputs["clean"].repartition(2, "k").mapInPandas(together, "id long, k long", barrier=True)


def left(spark: SparkSession, inputs: Inputs) -> DataFrame:
    return events(spark).groupBy("k").agg(F.count("*").alias("n"))


def right(spark: SparkSession, inputs: Inputs) -> DataFrame:
    return events(spark).groupBy("k").agg(F.max("id").alias("top"))


def joined(spark: SparkSession, inputs: Inputs) -> DataFrame:
    return inputs["left"].join(inputs["right"], "k").withColumn("rate", rate("k"))


CLEAN = GroupSpec(step="clean", build=clean, inputs=(), keys=("id",), partitions=SMALL)


def _after_clean(name: str, build: object) -> list[GroupSpec]:
    return [CLEAN, GroupSpec(step=name, build=build, inputs=("clean",), keys=("k",), partitions=WIDE)]  # type: ignore[arg-type]


PIPELINES: dict[str, list[GroupSpec]] = {
    "totals": _after_clean("totals", totals),
    "slow": _after_clean("slow_totals", slow_totals),
    "keyed": [GroupSpec(step="keyed", build=keyed, inputs=(), keys=("key",), partitions=WIDE)],
    "broadcast": _after_clean("with_broadcast", with_broadcast),
    "subquery": _after_clean("with_subquery", with_subquery),
    "timestamp": _after_clean("with_timestamp", with_timestamp),
    "task_context": _after_clean("with_task_context", with_task_context),
    "barrier": _after_clean("with_barrier", with_barrier),
    "joined": [
        GroupSpec(step="left", build=left, inputs=(), keys=("k",), partitions=WIDE),
        GroupSpec(step="right", build=right, inputs=(), keys=("k",), partitions=WIDE),
        GroupSpec(step="joined", build=joined, inputs=("left", "right"), keys=("k",), partitions=WIDE),
    ],
}


def bare(spark: SparkSession, pipeline: str) -> DataFrame:
    """The same pipeline without Rekindle: the functions called one after the other."""
    made: dict[str, DataFrame] = {}
    for group in PIPELINES[pipeline]:
        made[group.step] = group.build(spark, made)
    return made[PIPELINES[pipeline][-1].step]
