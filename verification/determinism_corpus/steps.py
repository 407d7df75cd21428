"""The steps: one per way in which PySpark makes rows, each over the tables `t` (many rows) and `u` (one per key).

`t`: id (unique), k (9 keys), s, c (s in mixed case), d and f (doubles and floats of very different size), m and wide
(decimals), n (with nulls), day, ts, a (array), p (map), st (struct), b (binary). `u`: k, label, factor.
A step is a query, or a function of the session for what SQL cannot say.
"""

from __future__ import annotations

import os
import random
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

Made = Callable[[SparkSession], DataFrame]


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the corpus."""

    family: str
    name: str
    query: str = ""
    make: Made | None = None

    def frame(self, spark: SparkSession) -> DataFrame:
        return self.make(spark) if self.make else spark.sql(self.query)


def _queries(family: str, *rows: tuple[str, str]) -> list[Step]:
    return [Step(family, name, query) for name, query in rows]


ROW_WISE = _queries(
    "row by row",
    ("numbers", "select id, k * 3 + 1 x, id % 5 r, round(d, 2) e, shiftleft(k, 2) h, m * 2 mm from t"),
    ("strings", "select id, upper(s), concat_ws('-', s, k), substr(s, 2, 3), regexp_replace(s, 'a', 'b') from t"),
    ("times", "select id, date_add(day, 3), date_trunc('hour', ts), year(day), datediff(day, date'2020-01-01') from t"),
    ("text to timestamps", "select id, cast(concat('2020-01-0', 1 + k % 9, ' 10:00:00') as timestamp) x from t"),
    ("conditions", "select id, case when k > 3 then 'a' else s end c2, coalesce(n, 0), nullif(k, 2) from t"),
    ("filter", "select * from t where k in (1, 2, 3) and n is not null"),
    ("hashes", "select id, md5(s), sha2(s, 256), hash(id, s), xxhash64(k, s), crc32(b) from t"),
    ("json", "select id, to_json(st) j, get_json_object(to_json(st), '$.x') x from t"),
    ("arrays", "select id, transform(a, x -> x + 1) a1, filter(a, x -> x > 2) a2, array_distinct(a), size(a) from t"),
    ("maps", "select id, map_keys(p) mk, map_filter(p, (x, y) -> y > 1) mf, element_at(p, 'one') one from t"),
    ("structs", "select id, st.x, named_struct('k', k, 's', s) made from t"),
    ("explode", "select id, e, pos from t lateral view posexplode(a) as pos, e"),
    ("a sine", "select id, sin(d) x, exp(k) y, pow(k, 0.5) z from t"),
    ("decimals", "select id, cast(m * 1.1 as decimal(14, 4)) x, m / 3 y, wide - m z from t"),
)
GROUPED = _queries(
    "aggregates",
    ("count", "select k, count(*) n, count(n) nn, count(distinct s) ds from t group by k"),
    ("sum of whole numbers", "select k, sum(id) x, sum(k) y from t group by k"),
    ("sum of decimals", "select k, sum(m) x, avg(m) y from t group by k"),
    (
        "average of narrow decimals",
        "select k, avg(cast(999999999 - t.id * 7.31 as decimal(11, 2))) x from t cross join range(3000) group by k",
    ),
    ("sum of wide decimals", "select k, sum(wide) x from t group by k"),
    ("sum of doubles", "select k, sum(d) x from t group by k"),
    ("average of doubles", "select k, avg(d) x from t group by k"),
    ("variance", "select k, stddev(d) x, corr(d, id) y from t group by k"),
    ("min and max", "select k, min(id) a, max(s) b, min(day) c, max(m) e from t group by k"),
    ("max of doubles with two zeros", "select max(case when id % 2 = 0 then 0.0D else -0.0D end) z from t"),
    ("bits", "select k, bit_and(id), bit_or(id), bit_xor(id), bool_and(n > 1), every(id > 0) from t group by k"),
    ("first", "select k, first(id) x from t group by k"),
    ("last", "select k, last(s) x from t group by k"),
    ("any_value", "select k, any_value(id) x from t group by k"),
    ("collect_list", "select k, collect_list(id) x from t group by k"),
    ("collect_set", "select k, collect_set(n) x from t group by k"),
    ("collect_list, sorted", "select k, sort_array(collect_list(id)) x from t group by k"),
    ("collect_set, sorted", "select k, array_sort(collect_set(s)) x from t group by k"),
    ("max_by with ties", "select k, max_by(id, day) x from t group by k"),
    ("mode with ties", "select k, mode(day) x from t group by k"),
    ("approximate count", "select k, approx_count_distinct(s) x from t group by k"),
    ("approximate percentile", "select percentile_approx(d, 0.37, 5) x from t"),
    ("exact percentile of whole numbers", "select k, percentile(id, 0.5) x, median(n) y from t group by k"),
    ("rollup", "select k, day, sum(id) x from t group by rollup(k, day)"),
    ("grouping sets", "select k, s, count(*) x from t group by grouping sets ((k), (s), ())"),
    ("having", "select k, count(*) x from t group by k having count(*) > 3"),
    ("pivot", "select * from (select k, id % 3 r, id from t) pivot (sum(id) for r in (0, 1, 2))"),
    ("listagg", "select k, listagg(s, ',') x from t group by k"),
    ("histogram", "select histogram_numeric(d, 5) x from t"),
    ("distinct", "select distinct k, s, day from t"),
    ("group by a double", "select d, count(*) x from t group by d"),
    ("grouped by collated strings", "select c collate UTF8_LCASE x, count(*) y from t group by 1"),
)
JOINS = _queries(
    "joins and sets",
    ("inner", "select t.id, u.label from t join u using (k)"),
    ("left, with nulls", "select t.id, u.label from t left join u on t.n = u.k"),
    ("full", "select t.id, u.label from t full join u on t.n = u.k + 3"),
    ("semi", "select * from t left semi join u on t.k = u.k and u.factor > 2"),
    ("anti", "select * from t left anti join u on t.k = u.k and u.factor > 2"),
    ("by a range", "select t.id, u.label from t join u on t.k between u.k - 1 and u.k + 1"),
    ("broadcast", "select /*+ broadcast(u) */ t.id, u.label from t join u using (k)"),
    ("sort merge", "select /*+ merge(u) */ t.id, u.label from t join u using (k)"),
    ("cross", "select t.id, u.label from t cross join u where t.id < 20"),
    ("with itself", "select a.id, count(*) x from t a join t b on a.k = b.k and a.id < b.id group by a.id"),
    ("union", "select id, s from t union all select k, label from u"),
    ("intersect", "select k from t intersect select k from u where factor > 2"),
    ("except", "select k, s from t except select k, label from u"),
    ("scalar subquery", "select id, (select max(factor) from u) x from t"),
    ("scalar subquery over a first", "select id, (select first(id) from t) x from t"),
    ("correlated subquery", "select id from t where exists (select 1 from u where u.k = t.k and u.factor > t.n)"),
    (
        "common table expression",
        "with x as (select k, sum(id) y from t group by k) select t.id, y from t join x using (k)",
    ),
)
WINDOWS = _queries(
    "windows, order and limits",
    ("rank", "select id, rank() over (partition by k order by day) x, dense_rank() over (order by k) y from t"),
    ("row_number, unique order", "select id, row_number() over (partition by k order by id) x from t"),
    ("row_number with ties", "select id, row_number() over (partition by k order by day) x from t"),
    (
        "row_number over all columns, with duplicates",
        "select k, day, row_number() over (partition by k order by day) x from (select k, day from t)",
    ),
    (
        "row_number over the key of groups",
        "select *, row_number() over (order by x desc, k, day) y "
        "from (select k, day, max(id) x from t group by k, day)",
    ),
    (
        "places in a total order",
        "select *, lag(x) over w l, ntile(4) over w q, sum(x) over (order by k, day rows 2 preceding) s, "
        "nth_value(x, 2) over w v from (select k, day, max(id) x from t group by k, day) window w as (order by k, day)",
    ),
    (
        "the newest of each key, in a total order",
        "select * from (select *, row_number() over (partition by k order by day desc, s) x "
        "from (select distinct k, day, s from t)) where x = 1",
    ),
    ("lag with ties", "select id, lag(id) over (partition by k order by day) x from t"),
    ("sum over peers", "select id, sum(n) over (partition by k order by day) x from t"),
    ("sum by rows, with ties", "select id, sum(id) over (partition by k order by day rows 2 preceding) x from t"),
    ("sum over all", "select id, sum(id) over (partition by k) x from t"),
    ("sum of doubles over all", "select id, sum(d) over (partition by k) x from t"),
    ("ntile with ties", "select id, ntile(4) over (partition by k order by day) x from t"),
    ("first value with ties", "select id, first_value(id) over (partition by k order by day) x from t"),
    ("sort", "select * from t order by day"),
    ("limit", "select id, s from t limit 10"),
    ("limit with ties", "select id from t order by day limit 10"),
    ("limit in total order", "select id, s from t order by id limit 10"),
    ("offset", "select id from t order by id limit 10 offset 5"),
)
CHANCE = _queries(
    "chance, time and place",
    ("rand", "select id, rand() x from t"),
    ("rand with a seed", "select id, rand(5) x from t"),
    ("uuid", "select id, uuid() x from t"),
    ("shuffle", "select id, shuffle(sequence(1, 20)) x from t"),
    ("sample", "select * from t tablesample (30 percent)"),
    ("sample with a seed", "select * from t tablesample (30 percent) repeatable (4)"),
    ("current time", "select id, current_timestamp() x from t"),
    ("a filter by the current time", "select id from t where unix_micros(current_timestamp()) % 2 = 0"),
    ("ids by partition", "select id, monotonically_increasing_id() x from t"),
    ("number of the partition", "select id, spark_partition_id() x from t"),
    ("name of the file", "select id, input_file_name() x from t"),
    ("a salt", "select k, salt, count(*) x from (select k, floor(rand() * 4) salt from t) group by k, salt"),
)


def _t(spark: SparkSession) -> DataFrame:
    return spark.table("t")


def _counting() -> Callable[[int], int]:
    seen = [0]

    def count(_: int) -> int:
        seen[0] += 1
        return seen[0]

    return count


def _batches(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    for frame in frames:
        yield pd.DataFrame({"rows": [len(frame)], "total": [int(frame["id"].sum())]})


def _mapped(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    for frame in frames:
        yield frame[["id"]].assign(x=frame["id"] * 2)


def _top(frame: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame({"k": [int(frame["k"].iloc[0])], "first": [int(frame["id"].iloc[0])]})


def _sums(frame: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame({"k": [int(frame["k"].iloc[0])], "total": [int(frame["id"].sum())]})


def _shifted(value: pd.Series) -> pd.Series:
    return value + 1


def _twice(value: int) -> int:
    return value * 2


def _shouted(value: str) -> str:
    return value.upper() + "!"


def _backwards(row: Any) -> tuple[int, str]:
    return row.id, row.s[::-1]


def _udf(function: Callable[..., Any], kind: str = "long", column: str = "id") -> Made:
    return lambda spark: _t(spark).select("id", F.udf(function, kind)(column).alias("x"))


def _made(family: str, **rows: Made) -> list[Step]:
    return [Step(family, name.replace("_", " "), make=make) for name, make in rows.items()]


PYTHON = _made(
    "Python",
    a_pure_function=_udf(_twice),
    a_pure_function_of_strings=_udf(_shouted, "string", "s"),
    a_function_with_chance=_udf(lambda value: value + random.randrange(1000)),
    a_function_with_the_time=_udf(lambda value: time.time_ns()),
    a_function_with_uuids=_udf(lambda value: str(uuid.uuid4()), "string"),
    a_function_with_memory=_udf(_counting()),
    a_function_with_the_process=_udf(lambda value: os.getpid()),
    a_pandas_function=lambda spark: _t(spark).select("id", F.pandas_udf(_shifted, "long")("id").alias("x")),
    batches_mapped_row_by_row=lambda spark: _t(spark).select("id").mapInPandas(_mapped, "id long, x long"),
    batches_counted=lambda spark: _t(spark).select("id").mapInPandas(_batches, "rows long, total long"),
    groups_in_pandas_in_order=lambda spark: _t(spark).groupBy("k").applyInPandas(_top, "k long, first long"),
    groups_in_pandas_summed=lambda spark: _t(spark).groupBy("k").applyInPandas(_sums, "k long, total long"),
    rows_of_an_rdd=lambda spark: _t(spark).rdd.map(_backwards).toDF("id long, x string"),
)
FRAMES = _made(
    "frames",
    drop_duplicates_of_whole_rows=lambda spark: _t(spark).select("k", "day").dropDuplicates(),
    drop_duplicates_by_a_column=lambda spark: _t(spark).dropDuplicates(["k"]),
    repartition_by_a_key=lambda spark: _t(spark).repartition(5, "k"),
    repartition_round_robin=lambda spark: _t(spark).repartition(5),
    repartition_round_robin_and_ids=lambda spark: (
        _t(spark).repartition(5).withColumn("x", F.monotonically_increasing_id())
    ),
    coalesce=lambda spark: _t(spark).coalesce(1),
    fill_nulls=lambda spark: _t(spark).na.fill({"n": 0}),
    random_split=lambda spark: _t(spark).randomSplit([0.5, 0.5], seed=3)[0],
    sample_by=lambda spark: _t(spark).sampleBy("k", {1: 0.5, 2: 0.5}, seed=3),
    cube=lambda spark: _t(spark).cube("k", "day").count(),
    unpivot=lambda spark: _t(spark).select("id", "k", "n").unpivot("id", ["k", "n"], "what", "value"),
    unpivot_of_chance=lambda spark: _t(spark).unpivot(
        "id", [F.rand().alias("a"), F.rand().alias("b")], "what", "value"
    ),
    window_in_total_order=lambda spark: _t(spark).withColumn(
        "x", F.sum("id").over(Window.partitionBy("k").orderBy("id").rangeBetween(-5, 0))
    ),
    group_and_join_back=lambda spark: _t(spark).join(_t(spark).groupBy("k").agg(F.max("id").alias("top")), "k"),
    column_renamed_and_dropped=lambda spark: _t(spark).withColumnRenamed("s", "word").drop("d"),
)
STEPS: dict[str, Step] = {
    f"{step.family}: {step.name}": step for step in ROW_WISE + GROUPED + JOINS + WINDOWS + CHANCE + PYTHON + FRAMES
}
