"""The cases in bare Spark, with its protections off: rows before each exchange come in another order each time.

Each writes what it makes, is struck on the way (an executor dies), and says what is wrong with the outcome.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from corruption_cases.rows import MAPS, REDUCES, ROWS, Strike, slowly, unordered

# What Spark has against it: a sort before rows are dealt out, and a comparison of map outputs that came back.
UNPROTECTED = {
    "spark.sql.execution.sortBeforeRepartition": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "false",
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    "spark.sql.shuffle.partitions": str(REDUCES),
}


def wrong(found: Iterable[int]) -> str:
    """What is wrong with ids of which each must be there once."""
    counts = Counter(found)
    lost = ROWS - len(counts)
    doubled = sum(1 for count in counts.values() if count > 1)
    return f"{lost} rows lost, {doubled} doubled" if lost or doubled else ""


def ids(frame: DataFrame) -> list[int]:
    return [row.id for row in frame.select("id").collect()]


def _numbers(spark: SparkSession) -> DataFrame:
    return spark.range(0, ROWS, 1, MAPS).mapInPandas(unordered, "id long")


def round_robin(spark: SparkSession, folder: str, strike: Strike) -> str:
    """SPARK-23207: rows dealt out in turn."""
    with strike:
        _numbers(spark).repartition(REDUCES).mapInPandas(slowly, "id long").write.parquet(folder)
    return wrong(ids(spark.read.parquet(folder)))


def salted(spark: SparkSession, folder: str, strike: Strike) -> str:
    """A random salt as the key of an exchange."""
    salt = (F.rand() * REDUCES).cast("int")
    dealt = _numbers(spark).withColumn("salt", salt).repartition(REDUCES, "salt").drop("salt")
    with strike:
        dealt.mapInPandas(slowly, "id long").write.parquet(folder)
    return wrong(ids(spark.read.parquet(folder)))


def deduplicated(spark: SparkSession, folder: str, strike: Strike) -> str:
    """One row per key, whichever comes first, read by two after a part of it was lost."""
    kept = _numbers(spark).withColumn("k", F.col("id") % 50).dropDuplicates(["k"]).persist()
    kept.write.parquet(f"{folder}/left")
    strike.now()
    kept.mapInPandas(slowly, "id long").write.parquet(f"{folder}/right")
    kept.unpersist()
    return differ(ids(spark.read.parquet(f"{folder}/left")), ids(spark.read.parquet(f"{folder}/right")))


def differ(left: list[int], right: list[int]) -> str:
    """What is wrong with two readers of one result."""
    seen = len(set(left) ^ set(right)) // 2
    return f"the two readers saw {seen} different rows" if seen or len(left) != len(right) else ""


def split(spark: SparkSession, folder: str, strike: Strike) -> str:
    """`randomSplit` of rows that it cannot sort: Spark caches them, and makes what is lost again in another order."""
    made = _numbers(spark).selectExpr("map('id', id) m")
    train, test = (part.selectExpr("m['id'] id") for part in made.randomSplit([0.5, 0.5], seed=7))
    train.write.parquet(f"{folder}/train")
    strike.now()
    test.mapInPandas(slowly, "id long").write.parquet(f"{folder}/test")
    made.unpersist()
    return wrong(ids(spark.read.parquet(f"{folder}/train")) + ids(spark.read.parquet(f"{folder}/test")))


BARE: dict[str, Callable[[SparkSession, str, Strike], str]] = {
    "round-robin": round_robin,
    "rand-salt": salted,
    "drop-duplicates": deduplicated,
    "random-split": split,
}
