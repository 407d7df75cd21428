"""The same cases as Rekindle pipelines, at its defaults. Each round is a run of its own."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from corruption_cases.bare import differ, ids, wrong
from corruption_cases.rows import MAPS, REDUCES, ROWS, Strike, slowly, unordered


def _pipeline(name: str) -> rk.Pipeline:
    made = rk.Pipeline(name)

    @made.source
    def numbers(spark: SparkSession) -> DataFrame:
        return spark.range(0, ROWS, 1, MAPS)

    return made


def _run(pipeline: rk.Pipeline, spark: SparkSession, folder: str, strike: Strike) -> None:
    with strike:
        pipeline.run(spark, f"{folder}/state")


def _read(spark: SparkSession, folder: str, name: str) -> list[int]:
    return ids(rk.read_newest(spark, f"{folder}/{name}"))


def _dealt(name: str, deal: Callable[[DataFrame], DataFrame]) -> Callable[[SparkSession, str, Strike], str]:
    """A case: rows that come in any order are dealt out, and each must arrive once."""

    def play(spark: SparkSession, folder: str, strike: Strike) -> str:
        made = _pipeline(name)

        @made.step
        def dealt(numbers: DataFrame) -> DataFrame:
            return deal(numbers.mapInPandas(unordered, "id long")).mapInPandas(slowly, "id long")

        @made.sink(rk.files(f"{folder}/out"))
        def out(dealt: DataFrame) -> None: ...

        _run(made, spark, folder, strike)
        return wrong(_read(spark, folder, "out"))

    return play


def in_turn(rows: DataFrame) -> DataFrame:
    return rows.repartition(REDUCES)


def salted(rows: DataFrame) -> DataFrame:
    return rows.withColumn("salt", (F.rand() * REDUCES).cast("int")).repartition(REDUCES, "salt").drop("salt")


def deduplicated(spark: SparkSession, folder: str, strike: Strike) -> str:
    made = _pipeline("deduplicated")

    @made.step
    def kept(numbers: DataFrame) -> DataFrame:
        return numbers.mapInPandas(unordered, "id long").withColumn("k", F.col("id") % 50).dropDuplicates(["k"])

    @made.sink(rk.files(f"{folder}/left"))
    def left(kept: DataFrame) -> DataFrame:
        return kept.select("id").mapInPandas(slowly, "id long")

    @made.sink(rk.files(f"{folder}/right"))
    def right(kept: DataFrame) -> DataFrame:
        return kept.select("id").mapInPandas(slowly, "id long")

    _run(made, spark, folder, strike)
    return differ(_read(spark, folder, "left"), _read(spark, folder, "right"))


def split(spark: SparkSession, folder: str, strike: Strike) -> str:
    made = _pipeline("split")

    @made.step(result="blocking")
    def rows(numbers: DataFrame) -> DataFrame:
        return numbers.mapInPandas(unordered, "id long").selectExpr("map('id', id) m")

    @made.sink(rk.files(f"{folder}/train"))
    def train(rows: DataFrame) -> DataFrame:
        return rows.randomSplit([0.5, 0.5], seed=7)[0].selectExpr("m['id'] id").mapInPandas(slowly, "id long")

    @made.sink(rk.files(f"{folder}/test"))
    def test(rows: DataFrame) -> DataFrame:
        return rows.randomSplit([0.5, 0.5], seed=7)[1].selectExpr("m['id'] id").mapInPandas(slowly, "id long")

    strike.tasks = MAPS  # There is no exchange.
    _run(made, spark, folder, strike)
    return wrong(_read(spark, folder, "train") + _read(spark, folder, "test"))


KEPT: dict[str, Callable[[SparkSession, str, Strike], str]] = {
    "round-robin": _dealt("round_robin", in_turn),
    "rand-salt": _dealt("salted", salted),
    "drop-duplicates": deduplicated,
    "random-split": split,
}
