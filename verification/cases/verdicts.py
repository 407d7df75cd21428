"""SQL texts whose rows depend on order, chance or time: none of them may be judged determinate.

The table `t` has id, x, k, dbl (double), s (text), m (map) and st (a struct of x and a double).
"""

from __future__ import annotations

from cases.case import Finding, Outcome, case
from cases.context import Context
from rekindle.engine.spark.plan.layout import verdict_of
from rekindle.engine.spark.session import attach
from rekindle.model.kinds import Determinism

NOT_DETERMINATE = """
select *, (select max(x) from (select x from t limit 5)) from t
select *, (select first(x) from t) from t
select * from t where x in (select x from t limit 3)
select * from t a where exists (select 1 from t b where a.x = b.x and rand() > 0.5)
with c as (select * from t limit 5) select * from c join t using (k)
select * from t a, lateral (select * from t b where a.k = b.k limit 1)
select *, case_random() from t
select *, case_first() from t
select k, listagg(s, ',') within group (order by x % 2) from t group by k
select k, mode(x) from t group by k
select k, any_value(x) from t group by k
select k, sum(x * 0.1D) from t group by k
select k, sum(x / 3) from t group by k
select k, sum(case when x > 1 then dbl else 0 end) from t group by k
select k, sum(element_at(array(dbl, 1D), 1)) from t group by k
select k, sum(from_json('{"a": 1.5}', 'a double').a) from t group by k
select k, sum(aggregate(array(dbl), 0D, (a, b) -> a + b)) from t group by k
select *, avg(dbl) over (partition by k order by x) from t
select *, row_number() over (partition by k order by x) from t
select *, max(x) over (partition by k order by x % 2 rows between 1 preceding and current row) from t
select id, x from t order by x % 7 limit 5
select x % 7 as a, id from t order by a limit 5
select k, count(*) c from t group by k order by c limit 3
select k, count(*) c from t group by k order by c offset 3
select * from t where date_add(current_date(), x) > '2020-01-01'
select * from (select k, x % 3 b, x from t) pivot (first(x) for b in (0, 1, 2))
select * from t tablesample (5 rows)
select * from t tablesample (50 percent) repeatable (3)
select transform(array(1, 2), z -> z + rand()) from t
select stddev(x) from t
select corr(x, id) from t
select histogram_numeric(x, 3) from t
select approx_percentile(x, 0.5) from t
select max(s collate utf8_lcase) from t
select s collate utf8_lcase c, count(*) from t group by 1
select distinct struct(s collate utf8_lcase) from t
select s collate utf8_lcase from t union select s collate utf8_lcase from t
select min_by(x, k) from t
select session_user() from t
select * from t where id in (select monotonically_increasing_id() from t)
select * from (select id, x, k, rand() r from t) unpivot (v for n in (x, k))
select k from t group by k having max_by(x, id % 3) > 3
select * from t distribute by rand()
select sum(distinct dbl) from t
select k, array_agg(x) from t group by k
select uniform(1, 10) from t
select kurtosis(x) from t
select regr_slope(x, id) from t
""".strip().splitlines()

# These may be proved, and need not be.
DETERMINATE = """
select k, max(st) from t group by k
select k, sort_array(collect_list(st)) from t group by k
select k, listagg(s, ',') within group (order by s) from t group by k
select k, percentile_cont(0.5) within group (order by x) from t group by k
select bitmap_construct_agg(bitmap_bit_position(x)) from t
select k, try_sum(x) from t group by k
select k, sum(make_dt_interval(0, 0, 0, x)) from t group by k
select k, avg(x) from t group by k
select k, try_avg(x) from t group by k
select *, sum(x) over (partition by k order by id rows between unbounded preceding and current row) from t
select *, sum(x) over (partition by k order by x) from t
select id, x from t order by id, x limit 5
select k, count(*) c from t group by k order by k limit 3
select map_keys(m) from t
select hash(map_entries(m)) from t
select format_string('%s', st) from t
select window(timestamp_seconds(id), '10 seconds') w, count(*) from t group by 1
select session_window(timestamp_seconds(id), '10 seconds') w, count(*) from t group by 1
select * from (select k, x % 3 b, x from t) pivot (sum(x) for b in (0, 1, 2))
select a.s from t a join t b on a.s collate utf8_lcase = b.s collate utf8_lcase
select array_distinct(array(s collate utf8_lcase, upper(s) collate utf8_lcase)) from t
select k, x, count(*) from t group by grouping sets ((k), (x))
select cast(dbl as string) from t
select * from t order by rand()
select count(distinct dbl) from t
select approx_count_distinct(x) from t
select json_tuple('{"a":1}', 'a') from t
select inline(array(st)) from t
select max(cast(x as decimal(30,2))) from t
select sum(cast(x as decimal(30,2))) from t
select sum(cast(x as decimal(20,2)) * cast(x as decimal(10,2))) from t
select version() from t
""".strip().splitlines()

TABLE = """
select id, cast(x as int) x, k, cast(x as double) dbl, cast(id as string) s, map('a', x) m,
struct(x, cast(x as double) y) st from parquet.`{path}`
"""


@case("30", is_quick=False)
def verdicts_of_sql_texts(context: Context) -> Finding:
    """Of 80 SQL texts, none whose rows depend on order, chance or time is judged determinate."""
    spark = context.spark
    attach(spark)
    spark.sql(TABLE.format(path=context.tables.small)).createOrReplaceTempView("t")
    spark.sql("create or replace temporary function case_random() returns double return rand()")
    spark.sql("create or replace temporary function case_first() returns bigint return (select first(id) from t)")
    try:
        wrong = [text for text in NOT_DETERMINATE if _is_determinate(context, text)]
        proved = sum(_is_determinate(context, text) for text in DETERMINATE)
    finally:
        spark.sql("drop temporary function case_first")
        spark.sql("drop temporary function case_random")
        spark.catalog.dropTempView("t")
    if wrong:
        return Finding(Outcome.DIFFERENT, f"{len(wrong)} are judged determinate: {'; '.join(wrong)}")
    return Finding(Outcome.EQUAL, f"{proved} of the {len(DETERMINATE)} others are proved")


def _is_determinate(context: Context, text: str) -> bool:
    verdict = verdict_of(context.spark.sql(text))
    return verdict.level is Determinism.DETERMINATE and not verdict.has_query_constants
