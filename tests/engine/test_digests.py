"""What a digest tells apart and what it does not, by the code that makes it, on real Spark rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from rekindle.engine.spark.jvm import result_calls
from rekindle.engine.spark.jvm.access import Package, ours
from rekindle.engine.spark.session import clone

ROWS = "explode(sequence(1, 40)) i"


def digest(frame: DataFrame) -> str:
    """Of all rows, whatever partitions they lie in."""
    rdd = frame.coalesce(1)._jdf.queryExecution().toRdd()
    (found,) = str(ours(frame.sparkSession).RowDigest.ofPartitions(rdd, frame._jdf.schema())).splitlines()
    return found


def of(spark: SparkSession, value: str) -> str:
    return digest(spark.sql(f"select {value} as v"))


SAME = [
    ("a zero without a sign", "cast('0.0' as double)", "cast('-0.0' as double)"),
    ("a small zero without a sign", "cast('0.0' as float)", "cast('-0.0' as float)"),
    ("zeros deep inside", "array(named_struct('x', 0.0D))", "array(named_struct('x', cast('-0.0' as double)))"),
    ("the entries of a map in another order", "map('a', 1, 'b', 2)", "map('b', 2, 'a', 1)"),
    ("a map in a map", "map(1, map('a', 1, 'b', 2), 2, map())", "map(2, map(), 1, map('b', 2, 'a', 1))"),
    ("a map in an array", "array(map('a', 1, 'b', 2))", "array(map('b', 2, 'a', 1))"),
    ("a small decimal", "cast('1.10' as decimal(10, 2))", "cast(cast('1.1' as decimal(3, 1)) as decimal(10, 2))"),
    ("a large decimal", "cast('-1.10' as decimal(38, 2))", "cast(cast('-1.1' as decimal(3, 1)) as decimal(38, 2))"),
    ("one moment in two time zones", "timestamp'2020-01-01 00:00:00 UTC'", "timestamp'2020-01-01 02:00:00 +02:00'"),
    ("a negative number", "-1", "cast(-1L as int)"),
    ("binary made in two ways", "X'00FF'", "unhex('00ff')"),
    ("a variant", "parse_json('[1, {\"a\": 2}]')", "parse_json(' [1,{\"a\":2}] ')"),
    ("null of any width", "cast(null as double)", "nullif(1.0D, 1.0D)"),
]
OTHER = [
    ("null and zero", "nullif(0, 0)", "0"),
    ("null and an empty string", "nullif('', '')", "''"),
    ("a string and a longer one of zeros", "'a'", "concat('a', chr(0))"),
    ("strings of seven and eight", "'aaaaaaa'", "'aaaaaaaa'"),
    ("the last of nine bytes", "'aaaaaaaab'", "'aaaaaaaac'"),
    ("a map with its values exchanged", "map('a', 1, 'b', 2)", "map('a', 2, 'b', 1)"),
    ("an empty map and null", "map('a', 1)", "cast(null as map<string, int>)"),
    ("the order of an array", "array(1, 2)", "array(2, 1)"),
    ("where the null of an array is", "array(1, null)", "array(null, 1)"),
    ("how arrays are cut", "array(array(1), array(2, 3))", "array(array(1, 2), array(3))"),
    ("how fields are cut", "named_struct('x', 'ab', 'y', 'c')", "named_struct('x', 'a', 'y', 'bc')"),
    ("no struct and one of nulls", "if(rand() < 2, null, named_struct('x', 1))", "named_struct('x', nullif(1, 1))"),
    ("a decimal of another scale", "cast(1 as decimal(10, 1))", "cast(1 as decimal(10, 2))"),
    ("decimals of 38 digits", "cast('1e30' as decimal(38, 2))", "cast('1.0e30' as decimal(38, 2)) + 0.01BD"),
    ("an int and a long", "1", "1L"),
    ("the smallest step of a double", "0.1D + 0.2D", "0.3D"),
    ("two spellings that a collation calls equal", "'A' collate UTF8_LCASE", "'a' collate UTF8_LCASE"),
    ("a string with and without a collation", "'a'", "'a' collate UTF8_LCASE"),
    ("a moment and the wall clock", "timestamp_ntz'2020-01-01 00:00:00'", "timestamp'2020-01-01 00:00:00 UTC'"),
    ("intervals", "make_interval(0, 1, 0, 0)", "make_interval(0, 0, 0, 30)"),
]


@pytest.mark.parametrize(("one", "other"), [row[1:] for row in SAME], ids=[row[0] for row in SAME])
def test_the_same_value_has_the_same_digest(spark: SparkSession, one: str, other: str) -> None:
    assert of(spark, one) == of(spark, other)


@pytest.mark.parametrize(("one", "other"), [row[1:] for row in OTHER], ids=[row[0] for row in OTHER])
def test_another_value_has_another_digest(spark: SparkSession, one: str, other: str) -> None:
    assert of(spark, one) != of(spark, other)


@pytest.mark.parametrize(("one", "other"), [row[1:] for row in SAME[:6]], ids=[row[0] for row in SAME[:6]])
def test_the_control_these_values_are_held_differently(spark: SparkSession, one: str, other: str) -> None:
    shown = spark.sql(f"select to_json(struct({one} as v)) one, to_json(struct({other} as v)) other").head()
    assert shown is not None and shown.one != shown.other


def test_the_control_spark_s_own_hash_has_none_for_a_map(spark: SparkSession) -> None:
    with pytest.raises(AnalysisException, match="HASH_MAP_TYPE"):
        spark.sql("select xxhash64(map('a', 1)) as v")


def test_all_nan_are_one(spark: SparkSession, tmp_path: Path) -> None:
    bits = {"one": 0x7FF8000000000000, "other": 0xFFF8000000000001}
    for name, pattern in bits.items():
        values = np.array([pattern], dtype=np.uint64).view(np.float64)
        small = np.array([0x7FC00000 + len(name)], dtype=np.uint32).view(np.float32)
        pq.write_table(pa.table({"v": pa.array(values), "w": pa.array(small)}), tmp_path / f"{name}.parquet")
    one, other = (digest(spark.read.parquet(str(tmp_path / f"{name}.parquet"))) for name in bits)
    assert one == other


def test_a_session_s_time_zone_is_no_part_of_it(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("select timestamp'2020-06-01 12:00:00 UTC' at, date'2020-06-01' day").write.parquet(str(tmp_path / "t"))
    found = set()
    for zone in ("UTC", "Asia/Tokyo", "America/New_York"):
        found.add(digest(clone(spark, {"spark.sql.session.timeZone": zone}).read.parquet(str(tmp_path / "t"))))
    assert len(found) == 1


def wide(spark: SparkSession) -> DataFrame:
    """One column of each kind, with nulls."""
    values = """
        i % 2 = 0 as flag, cast(i as byte) as tiny, cast(-i as short) as small, -i as n, i * 10000000000 as big,
        cast(i / 3 as float) as ratio, i / 7.0D as price, cast(i as decimal(9, 2)) as amount,
        cast(-i as decimal(38, 4)) as total, repeat('x', i) as name, cast(repeat('é', i) as binary) as raw,
        date_add(date'2020-01-01', i) as day, timestamp_micros(i * 1000001) as at,
        timestamp_ntz'2020-01-01 00:00:00' as clock, make_dt_interval(i) as span, make_ym_interval(i) as months,
        array(i, null, -i) as tags, map('a', i, concat('b', i), null) as attrs,
        named_struct('x', i, 'y', array(named_struct('z', map(i, 'm')))) as point, i collate UTF8_LCASE as word"""
    named = ", ".join(
        f"if(i % 5 = {at % 5}, null, {part.rsplit(' as ', 1)[0]}) as {part.rsplit(' as ', 1)[1]}"
        for at, part in enumerate(_parts(values))
    )
    return spark.sql(f"select {named.replace('i collate', 'cast(i as string) collate')} from (select {ROWS})")


def _parts(text: str) -> list[str]:
    """The columns of a list: commas within brackets do not cut it."""
    found, depth = [""], 0
    for letter in text:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and not depth:
            found.append("")
        else:
            found[-1] += letter
    return [one.strip() for one in found]


def test_rows_of_another_class_have_the_same_digest(spark: SparkSession) -> None:
    """Spark hands on rows as bytes or as objects; the way a row lies in memory is no part of it."""
    frame, catalyst = wide(spark).coalesce(1), Package(spark, "org.apache.spark.sql.catalyst")
    schema = frame._jdf.schema()
    one, other = ours(spark).RowDigest(schema), ours(spark).RowDigest(schema)
    for row in frame._jdf.queryExecution().executedPlan().executeCollect():
        one.add(row)
        other.add(catalyst.InternalRow.fromSeq(row.toSeq(schema)))
    assert one.packed() == other.packed() == digest(frame)


def test_order_does_not_count_and_everything_else_does(spark: SparkSession) -> None:
    rows = wide(spark)
    kept = digest(rows)
    assert digest(rows.orderBy("big")) == digest(rows.repartition(7)) == kept
    assert digest(rows.where("big is null or big != 30000000000")) != kept
    assert digest(rows.union(rows.limit(1))) != kept
    assert digest(rows.union(rows).union(rows)) != kept, "an xor of hashes would not see this"
    assert digest(rows.withColumnRenamed("n", "m")) != kept


def test_sums_add_up(spark: SparkSession) -> None:
    """The digest of a whole is the sum of its parts': sub-digests can be combined."""
    rows = wide(spark)
    nothing = result_calls.digest_of_nothing(spark, rows._jdf.schema())
    parts = [digest(rows.where(f"coalesce(n, 0) % 3 = {-left}")) for left in range(3)]

    def numbers(text: str) -> list[int]:
        return [int(text[at : at + 16], 16) for at in range(0, 48, 16)]

    summed = [sum(column) - 2 * empty for *column, empty in zip(*map(numbers, parts), numbers(nothing), strict=True)]
    assert [one % 2**64 for one in summed] == numbers(digest(rows))
    assert numbers(digest(rows))[0] == rows.count() == 40


def test_no_rows_have_the_digest_of_their_schema(spark: SparkSession) -> None:
    one, other = spark.sql("select 1 as a"), spark.sql("select 1 as b")
    empty: list[Any] = [result_calls.digest_of_nothing(spark, frame._jdf.schema()) for frame in (one, other)]
    assert empty[0] == digest(one.where("a > 1")) != empty[1]


def test_whether_a_column_may_be_null_is_no_part_of_it(spark: SparkSession) -> None:
    sure, unsure = spark.sql("select 1 as a"), spark.sql("select if(rand() < 2, 1, null) as a")
    assert sure._jdf.schema().json() != unsure._jdf.schema().json()
    assert digest(sure) == digest(unsure)
