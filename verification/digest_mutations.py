"""`make digest-mutations`: is every change of a result partition seen by its digest, and nothing else?

A Parquet file holds many small partitions of 100 rows each, in columns of all kinds. Spark reads it again and again; on
the way one row of every partition is dropped, doubled, changed, exchanged with one of another partition, put in twice
more, or has one bit flipped; or all rows come in another order, and the entries of maps too. The digests are made by
the product's own code (`rekindle.spark.RowDigest`), row by row, in those Spark jobs.

Exit 0 only if every changed partition has another digest, and every permuted one the same. The control is the number
of rows alone: it misses what changes rows and not their number.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from build_jar import TEST_JAR
from local_spark import local_spark
from rekindle.engine.spark.jvm.access import Package
from rekindle.engine.spark.session import attach, clone

ROWS, FILES = 100, 8
ONE_FILE_EACH = {"spark.sql.files.maxPartitionBytes": str(2**40), "spark.sql.files.openCostInBytes": str(2**40)}
KINDS = ("dropped", "doubled", "changed", "exchanged", "twice more", "one bit")

# Every column with how it is made, how it is changed, and how one bit of it is flipped.
COLUMNS: dict[str, tuple[str, str, str]] = {
    "id": ("xxhash64(g, i)", "id + 1", "id ^ shiftleft(1L, b)"),
    "n": ("hash(g, i)", "n % 1000000 + 1000001", "n ^ shiftleft(1, b % 32)"),
    "price": ("abs(hash(i, g)) / 7.0D + 1", "price * 1.5D", "-price"),
    "name": (
        "if(id % 11 = 0, null, concat('name ', abs(id)))",
        "concat(coalesce(name, ''), 'x')",
        "if(name is null, 'q', concat(chr(ascii(name) ^ shiftleft(1, b % 4)), substring(name, 2)))",
    ),
    "amount": ("cast(n / 100 as decimal(12, 2))", "cast(amount + 0.01BD as decimal(12, 2))", ""),
    "total": ("cast(id as decimal(30, 4))", "cast(total + 0.0001BD as decimal(30, 4))", ""),
    "at": (
        "timestamp_micros(abs(id) % 2000000000000000)",
        "at + interval 1 second",
        "timestamp_micros(unix_micros(at) ^ shiftleft(1L, b % 50))",
    ),
    "raw": ("cast(hex(id) as binary)", "concat(raw, X'00')", ""),
    "tags": (
        "array(n, i, null)",
        "array_append(tags, 0)",
        "transform(tags, (one, at) -> if(at = 1, one ^ shiftleft(1, b % 32), one))",
    ),
    "attrs": ("map('a', n, concat('b', i), i, 'c', null)", "transform_values(attrs, (k, v) -> coalesce(v, 0) + 1)", ""),
    "point": ("named_struct('x', price, 'y', name)", "named_struct('x', point.x + 1, 'y', point.y)", ""),
}
FLIPPED = [name for name, (_, _, bit) in COLUMNS.items() if bit]


def session(folder: str) -> SparkSession:
    spark = local_spark({"spark.driver.memory": "2g", "spark.local.dir": folder})
    attach(spark)
    spark.sql(f"ADD JAR '{TEST_JAR}'")
    return clone(spark, ONE_FILE_EACH)


def write_base(spark: SparkSession, path: str, groups: int) -> None:
    """Partition g has rows 0 to 99; partitions 2k and 2k + 1 lie in the same file."""
    frame = spark.range(0, groups * ROWS, 1, FILES).selectExpr(f"id div {ROWS} g", f"cast(id % {ROWS} as int) i")
    for name, (made, _, _) in COLUMNS.items():
        frame = frame.withColumn(name, F.expr(made))
    frame.write.parquet(path)


def as_written(base: DataFrame) -> DataFrame:
    return base.select(*COLUMNS, "g", F.lit(1).alias("copies"))


def mutated(base: DataFrame, variant: int) -> DataFrame:
    """One row of each partition is another, or elsewhere, or not there once."""
    dice = base.withColumn("kind", F.expr(f"pmod(xxhash64(g div 2, {variant}), {len(KINDS)})"))
    dice = dice.withColumn("hit", F.expr(f"i = pmod(xxhash64(g, {variant}), {ROWS})"))
    dice = dice.withColumn("b", F.expr(f"cast(pmod(xxhash64({variant}, g), 64) as int)"))
    columns = [_mutated(name, variant).alias(name) for name in COLUMNS]
    is_exchanged = F.expr(f"hit and kind = {KINDS.index('exchanged')}")
    copies = F.expr(
        f"case when not hit then 1 when kind = {KINDS.index('dropped')} then 0 when kind = {KINDS.index('doubled')}"
        f" then 2 when kind = {KINDS.index('twice more')} then 3 else 1 end"
    )
    group = F.when(is_exchanged, F.expr("g ^ 1")).otherwise(F.col("g"))
    return dice.select(*columns, group.alias("g"), copies.alias("copies"))


def _mutated(name: str, variant: int) -> Column:
    _, changed, bit = COLUMNS[name]
    chosen = f"pmod(xxhash64(g, 1, {variant}), {len(COLUMNS)}) = {list(COLUMNS).index(name)}"
    value = F.when(F.expr(f"hit and kind = {KINDS.index('changed')} and {chosen}"), F.expr(changed))
    if bit:
        chosen = f"pmod(xxhash64(g, 2, {variant}), {len(FLIPPED)}) = {FLIPPED.index(name)}"
        value = value.when(F.expr(f"hit and kind = {KINDS.index('one bit')} and {chosen}"), F.expr(bit))
    return value.otherwise(F.col(name))


def permuted(base: DataFrame, variant: int) -> DataFrame:
    """The same rows in another order, and the entries of each map in another one."""
    backwards = "map_from_arrays(reverse(map_keys(attrs)), reverse(map_values(attrs)))"
    frame = base.withColumn("attrs", F.expr(backwards)) if variant % 2 else base
    return as_written(frame.sortWithinPartitions(F.expr(f"xxhash64(id, {variant})")))


def digests(spark: SparkSession, frame: DataFrame) -> dict[int, str]:
    schema = frame.select(*COLUMNS)._jdf.schema()
    lines = str(
        Package(spark, "rekindle.test").GroupDigests.of(frame._jdf.queryExecution().toRdd(), schema)
    ).splitlines()
    found = dict(line.split("\t") for line in lines)
    assert len(found) == len(lines), "the rows of a partition were read by two Spark tasks"
    return {int(number): digest for number, digest in found.items()}


def kinds_of(base: DataFrame, variant: int) -> dict[int, str]:
    rows = base.select("g").distinct().selectExpr("g", f"pmod(xxhash64(g div 2, {variant}), {len(KINDS)}) kind")
    return {row.g: KINDS[row.kind] for row in rows.collect()}


def main() -> int:
    parser = argparse.ArgumentParser(prog="digest-mutations")
    parser.add_argument("--groups", type=int, default=20_000, help="partitions in the file, a multiple of 16")
    parser.add_argument("--variants", type=int, default=50, help="how often each is mutated, and permuted")
    asked = parser.parse_args()
    started = time.monotonic()
    folder = tempfile.mkdtemp(prefix="digest-mutations-")
    caught, by_count, missed, alarms = 0, 0, Counter[str](), 0
    try:
        spark = session(folder)
        write_base(spark, f"file:{folder}/base", asked.groups)
        base = spark.read.parquet(f"file:{folder}/base")
        known = digests(spark, as_written(base))
        assert len(known) == asked.groups and len(set(known.values())) == asked.groups
        for variant in range(asked.variants):
            found = digests(spark, mutated(base, variant))
            lost = [number for number, digest in known.items() if found[number] == digest]
            caught += len(known) - len(lost)
            by_count += sum(found[number][:16] != digest[:16] for number, digest in known.items())
            if lost:
                kinds = kinds_of(base, variant)
                missed.update(kinds[number] for number in lost)
            again = digests(spark, permuted(base, variant))
            alarms += sum(again[number] != digest for number, digest in known.items())
            told = f"{(variant + 1) * asked.groups:,} mutated, {sum(missed.values())} missed {dict(missed) or ''}"
            print(f"{told}; as many permuted, {alarms} false alarms", flush=True)
        spark.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    total = asked.groups * asked.variants
    print(
        f"RESULT digest-mutations mutated={total} caught={caught} permuted={total} false_alarms={alarms} "
        f"rows_each={ROWS} columns={len(COLUMNS)} caught_by_count_alone={by_count} "
        f"minutes={(time.monotonic() - started) / 60:.1f}"
    )
    return 0 if caught == total and alarms == 0 and by_count < total else 1


if __name__ == "__main__":
    sys.exit(main())
