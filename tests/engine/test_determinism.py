"""The determinism table: one row per fact, over plans that Spark analysed and did not run."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from rekindle.engine.spark.plan import kept_frames
from rekindle.engine.spark.plan.determinism import DeterminismVerdict, judge
from rekindle.engine.spark.plan.layout import Layout, verdict_of
from rekindle.model.kinds import Determinism
from support.spark_line import is_lacking, needs

DETERMINATE, UNKNOWN, INDETERMINATE = Determinism.DETERMINATE, Determinism.UNKNOWN, Determinism.INDETERMINATE
Frame = str | Callable[[SparkSession], DataFrame]
COLUMNS = """
    id, cast(id as int) i, cast(id as double) d, cast(id as decimal(10,2)) m, cast(id as decimal(38,2)) wide,
    cast(id as string) s, array(id) a, map(id, id) p, named_struct('x', id) st,
    date'2020-01-01' day, timestamp'2020-01-01 00:00:00' ts
"""


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> Iterator[SparkSession]:
    copy = spark.newSession()
    copy.sql(f"create temp view t as select {COLUMNS} from range(5)")
    if not is_lacking("collations"):
        copy.sql("create temp view collated as select *, s collate UTF8_LCASE c from t")
    yield copy


def verdict(session: SparkSession, what: Frame) -> DeterminismVerdict:
    frame = session.sql(what) if isinstance(what, str) else what(session)
    return judge(frame._jdf.queryExecution().analyzed().toJSON())


def plain(session: SparkSession, columns: str = "id, i, d, s") -> DataFrame:
    return (
        session.range(5).selectExpr("id", "int(id) i", "double(id) d", "string(id) s").selectExpr(*columns.split(","))
    )


def row(name: str, what: Frame, level: Determinism, *because: str) -> object:
    return pytest.param(what, level, because, id=name)


COLLATIONS = [
    row(
        "a collated string that is only carried along does no harm",
        "select upper(c), id from collated where c = 'x'",
        DETERMINATE,
    ),
    row("nor one that is not grouped by", "select s, max(id) from collated where c > 'x' group by s", DETERMINATE),
    row(
        "ranks over a collated string are of a window that may keep it",
        "select rank() over (partition by c order by id) from collated",
        UNKNOWN,
        "Window of collated strings",
    ),
    row(
        "grouping by a collated string keeps any one spelling",
        "select c, max(id) from collated group by c",
        UNKNOWN,
        "Aggregate of collated strings",
    ),
    row(
        "the greatest collated string may have any spelling",
        "select max(c) from collated",
        UNKNOWN,
        "Aggregate of collated strings",
        "Max of collated strings",
    ),
    row(
        "a collation given in the query itself counts",
        "select distinct collate(s, 'UTF8_LCASE') from t",
        UNKNOWN,
        "Distinct of collated strings",
    ),
    row(
        "trailing blanks that do not count are a collation too",
        "select distinct collate(s, 'UTF8_BINARY_RTRIM') from t",
        UNKNOWN,
        "Distinct of collated strings",
    ),
    row(
        "strings that are compared byte by byte are not collated",
        "select distinct collate(s, 'UTF8_BINARY') from t",
        DETERMINATE,
    ),
    row(
        "a collation inside an array counts",
        "select distinct array(c) from collated",
        UNKNOWN,
        "Distinct of collated strings",
    ),
]

SUMS = [
    row(
        "a double that is only carried along does not make a sum of whole numbers inexact",
        "select d, sum(id), sum(i), count(d) from t group by d",
        DETERMINATE,
    ),
    row(
        "a sum of decimals is exact, and an average where Spark adds decimals",
        "select s, sum(m), sum(m * i), avg(cast(m as decimal(12, 2))) from t group by s",
        DETERMINATE,
    ),
    row(
        "an average of few digits Spark adds up as doubles",
        "select avg(m) from t",
        UNKNOWN,
        "Average not of decimals of 12 to 28 digits",
    ),
    row(
        "how many digits an expression has is not told",
        "select avg(m + 1) from t",
        UNKNOWN,
        "Average not of decimals of 12 to 28 digits",
    ),
    row(
        "a quotient of decimals has as many digits as there are",
        "select sum(m / cast(3 as decimal(20, 2))) from t",
        UNKNOWN,
        "Sum of decimals of more than 28 digits",
    ),
    row(
        "two decimals with the point elsewhere have the digits of both",
        "select sum(cast(id as decimal(20, 0)) + cast(id as decimal(20, 18))) from t",
        UNKNOWN,
        "Sum of decimals of more than 28 digits",
    ),
    row(
        "digits that come out of text are not told",
        "select sum(to_number(s, '999999999999999999999999999999999999.99')) from t",
        UNKNOWN,
        "Sum of decimals of more than 28 digits",
    ),
    row("a sum of doubles is not", "select sum(d) from t", UNKNOWN, "Sum of floating point"),
    row("a quotient of whole numbers is a double", "select sum(id / 2) from t", UNKNOWN, "Sum of floating point"),
    row(
        "a quotient without its casts is taken for a double",
        "select sum(try_divide(id, 2)) from t",
        UNKNOWN,
        "Sum of floating point",
    ),
    row(
        "a function that makes doubles of times is seen",
        "select sum(months_between(ts, ts)) from t",
        UNKNOWN,
        "Sum of floating point",
    ),
    row(
        "a double inside parsed text is seen",
        "select sum(from_json(s, 'x double').x) from t",
        UNKNOWN,
        "Sum of floating point",
    ),
    row(
        "a double cast to a whole number is exact",
        "select sum(cast(d as bigint)), sum(m + cast(d as decimal(9, 2))) from t",
        DETERMINATE,
    ),
    row("a condition on doubles leaves a count exact", "select count(*) filter (where d > 1) from t", DETERMINATE),
    row(
        "a sum of the widest decimals may overflow on the way, in one order and not in another",
        "select sum(wide) from t",
        UNKNOWN,
        "Sum of decimals of more than 28 digits",
    ),
    row(
        "a product of decimals has the digits of both",
        "select sum(m * m * m) from t",
        UNKNOWN,
        "Sum of decimals of more than 28 digits",
    ),
    row(
        "an average of whole numbers is added up as doubles",
        "select avg(id) from t",
        UNKNOWN,
        "Average not of decimals of 12 to 28 digits",
    ),
    row(
        "an average of counts of decimals is one of whole numbers",
        "select avg(size(array(m))) from t",
        UNKNOWN,
        "Average not of decimals of 12 to 28 digits",
    ),
    row("the greater of two zeros is the first", "select max(d) from t", UNKNOWN, "Max of floating point"),
    row(
        "the least struct with a double in it too", "select min(struct(d, id)) from t", UNKNOWN, "Min of floating point"
    ),
    row("grouping makes zeros one", "select distinct d from t", DETERMINATE),
    row("the greatest whole number or string is one", "select max(id), min(s), max(struct(id, s)) from t", DETERMINATE),
    row(
        "folding an array goes in the array's order",
        "select aggregate(array(d), 0D, (x, y) -> x + y) from t",
        DETERMINATE,
    ),
    row(
        "aggregates that do not look at order",
        "select count_if(id > 1), regr_count(id, i), approx_count_distinct(d), median(id), percentile(id, 0.3) from t",
        DETERMINATE,
    ),
    row("a median of doubles", "select median(d) from t", UNKNOWN, "Median of floating point"),
    row("the first row", "select first(id) from t", UNKNOWN, "First"),
    row("a list of all rows", "select collect_list(id), collect_set(id) from t", UNKNOWN, "CollectList", "CollectSet"),
    row("a list that is sorted on the spot", "select sort_array(collect_list(id)), i from t group by i", DETERMINATE),
    row("a sorted set", "select sort_array(collect_set(named_struct('a', s, 'b', m)), false) from t", DETERMINATE),
    row("zeros stay unsorted", "select sort_array(collect_list(d)) from t", UNKNOWN, "CollectList"),
    row(
        "so do zeros in a struct",
        "select sort_array(collect_list(named_struct('d', d))) from t",
        UNKNOWN,
        "CollectList",
    ),
    row(
        "and spellings",
        "select sort_array(collect_list(c)) from collated",
        UNKNOWN,
        "Aggregate of collated strings",
        "CollectList",
    ),
    row("sorted and as it is", "select sort_array(collect_list(i)), collect_list(i) from t", UNKNOWN, "CollectList"),
    row("another order", "select array_sort(collect_list(id), (x, y) -> 0) from t", UNKNOWN, "CollectList"),
    row("sorted too late", "select sort_array(slice(collect_list(id), 1, 2)) from t", UNKNOWN, "CollectList"),
    row("a pivot", "select * from (select i, id, s from t) pivot (sum(id) for s in ('1', '2'))", DETERMINATE),
    row(
        "a pivot of what came first",
        "select * from (select i, id, s from t) pivot (first(id) for s in ('1', '2'))",
        UNKNOWN,
        "First",
    ),
    row("a tie of the greatest", "select max_by(s, id), mode(id) from t", UNKNOWN, "MaxBy", "Mode"),
]

OPERATORS = [
    row("whole rows that are duplicates are the same", lambda s: plain(s).where("id > 1").distinct(), DETERMINATE),
    row("so they are after a join", lambda s: plain(s).join(plain(s, "id"), "id").distinct(), DETERMINATE),
    row("and after a union", lambda s: plain(s, "id").union(plain(s, "id")).distinct(), DETERMINATE),
    row(
        "duplicates by some columns differ in the others",
        lambda s: plain(s).dropDuplicates(["i"]),
        UNKNOWN,
        "Deduplicate by some of the columns",
    ),
    row("set operations", "select id from t intersect select i from t except select 3", DETERMINATE),
    row("an order of rows is not kept in a result", lambda s: plain(s).sort("i").where("id > 1"), DETERMINATE),
    row("moving rows does not change them", lambda s: plain(s).repartition(3).coalesce(1), DETERMINATE),
    row("observing rows does not change them", lambda s: plain(s).observe("o", F.count("*")), DETERMINATE),
    row("a lateral join", "select * from t, lateral (select t.id + 1 as next)", DETERMINATE),
    row(
        "a limit takes what comes first",
        lambda s: plain(s).limit(2),
        UNKNOWN,
        *(f"{name} without a total order" for name in ("GlobalLimit", "LocalLimit")),
    ),
    row(
        "rows of equal sort keys come in any order",
        lambda s: plain(s).sort("i").limit(2),
        UNKNOWN,
        *(f"{name} without a total order" for name in ("GlobalLimit", "LocalLimit")),
    ),
    row(
        "a sort by part of the rows is no order of them all",
        lambda s: plain(s, "id").sortWithinPartitions("id").limit(2),
        UNKNOWN,
        *(f"{name} without a total order" for name in ("GlobalLimit", "LocalLimit")),
    ),
    row("rows of which all columns are sort keys", lambda s: plain(s, "id, s").sort("s", "id").limit(2), DETERMINATE),
    row(
        "zeros of either sign are a tie",
        lambda s: plain(s, "d").sort("d").limit(2),
        UNKNOWN,
        *(f"{name} without a total order" for name in ("GlobalLimit", "LocalLimit")),
    ),
    row(
        "a group's key is there once",
        lambda s: plain(s).groupBy("i").agg(F.count("*").alias("n")).sort(F.desc("n"), "i").limit(2),
        DETERMINATE,
    ),
    row(
        "the number of a group's rows is not its key",
        lambda s: plain(s).groupBy("i").agg(F.count("*").alias("n")).sort(F.desc("n")).limit(2),
        UNKNOWN,
        *(f"{name} without a total order" for name in ("GlobalLimit", "LocalLimit")),
    ),
    row(
        "rows that were skipped count like those that were taken",
        lambda s: plain(s).sort("i").offset(2),
        UNKNOWN,
        "Offset without a total order",
    ),
    row(
        "a limit inside a subquery is seen",
        "select * from t where id in (select id from t limit 2)",
        UNKNOWN,
        *(f"{name} without a total order" for name in ("GlobalLimit", "LocalLimit")),
    ),
]

WINDOWS = [
    row(
        "ranks count peers",
        "select rank() over w, dense_rank() over w, percent_rank() over w, cume_dist() over w from t "
        "window w as (partition by i order by s)",
        DETERMINATE,
    ),
    row(
        "all rows of a window, and all peers",
        "select sum(id) over (partition by i), max(s) over (order by id), "
        "count(*) over (order by id range 3 preceding) from t",
        DETERMINATE,
    ),
    row(
        "a frame by rows cuts through peers",
        "select sum(id) over (order by s rows 1 preceding) from t",
        UNKNOWN,
        "Sum over a window by rows",
    ),
    row("doubles", "select sum(d) over (partition by i) from t", UNKNOWN, "Sum of floating point"),
    row("peers have no number of their own", "select id, row_number() over (order by i) from t", UNKNOWN, "RowNumber"),
    row(
        "peers have no order",
        "select lag(id) over (order by i) from t",
        UNKNOWN,
        "Lag",
    ),
    row(
        "peers in all columns are the same rows",
        "select i, s, row_number() over (partition by i order by s desc) from (select i, s from t)",
        DETERMINATE,
    ),
    row(
        "a column that is not sorted by tells peers apart",
        "select i, id, row_number() over (partition by i order by s) from t",
        UNKNOWN,
        "RowNumber",
    ),
    row(
        "what nobody reads of them is no column",
        "select i, row_number() over (partition by i order by s) from t",
        DETERMINATE,
    ),
    row(
        "a key of groups tells rows apart, whatever else is sorted by",
        "select *, row_number() over (order by d desc, k) n, lag(d) over (order by k) b, ntile(3) over (order by k) c, "
        "nth_value(d, 2) over (order by k) e from (select s k, max(i) d, max(a) from t group by s)",
        DETERMINATE,
    ),
    row(
        "over a window that was there before, too",
        "select *, row_number() over (order by r, k) from "
        "(select *, rank() over (order by d) r from (select s k, max(i) d from t group by s))",
        DETERMINATE,
    ),
    row(
        "distinct rows are told apart by all columns",
        "select i, s, row_number() over (partition by i order by s) from (select distinct i, s from t)",
        DETERMINATE,
    ),
    row(
        "a part of the key does not tell rows apart",
        "select *, row_number() over (order by i) from (select i, s, max(id) from t group by i, s)",
        UNKNOWN,
        "RowNumber",
    ),
    row(
        "doubles that compare equal may have another sign",
        "select d, row_number() over (order by d) from (select d from t)",
        UNKNOWN,
        "RowNumber",
    ),
    row(
        "a key of doubles is no proof",
        "select *, row_number() over (order by d) from (select d, max(i) from t group by d)",
        UNKNOWN,
        "RowNumber",
    ),
    row(
        "nor one of collated strings",
        "select *, row_number() over (order by c) from (select c, max(i) from collated group by c)",
        UNKNOWN,
        "Aggregate of collated strings",
        "RowNumber",
        "Window of collated strings",
    ),
    row(
        "what is computed from a key is none",
        "select *, row_number() over (order by k % 2) from (select i k, max(id) from t group by i)",
        UNKNOWN,
        "RowNumber",
    ),
    row(
        "a key is none any more behind a join",
        "select *, row_number() over (order by k) from (select i k, max(id) m from t group by i) x join t on k = t.id",
        UNKNOWN,
        "RowNumber",
    ),
    row(
        "of two windows one may be in a total order",
        lambda s: plain(s, "id, i").select(
            "*",
            F.row_number().over(Window.orderBy("id", "i")).alias("sure"),
            F.lag("id").over(Window.orderBy("i")).alias("not"),
        ),
        UNKNOWN,
        "Lag",
    ),
    row(
        "in a total order a frame by rows has no peers to cut through",
        "select *, sum(k) over (order by k rows 1 preceding) from (select i k, max(id) from t group by i)",
        DETERMINATE,
    ),
    row(
        "and still no exact sum of doubles, and no first one",
        "select *, sum(d) over w, first(d) over w from (select i k, max(d) d from t group by i) "
        "window w as (order by k rows 1 preceding)",
        UNKNOWN,
        "First",
        "First over a window by rows",
        "Max of floating point",
        "Sum of floating point",
    ),
    row(
        "an aggregate that was not tried over windows",
        lambda s: plain(s).select(F.median("id").over(Window.partitionBy("i"))),
        UNKNOWN,
        "Median over a window by rows",
    ),
]

PLACES = [
    row("randomness", "select rand(), uuid(), uniform(1, 5) from t", INDETERMINATE, "Rand", "Uniform", "Uuid"),
    row(
        "where a row lies",
        "select spark_partition_id(), monotonically_increasing_id(), input_file_name() from t",
        INDETERMINATE,
        "InputFileName",
        "MonotonicallyIncreasingID",
        "SparkPartitionID",
    ),
    row(
        "who asks", "select current_user(), current_database() from t", INDETERMINATE, "CurrentDatabase", "CurrentUser"
    ),
    row("when", "select current_date() from t", INDETERMINATE, "CurrentDate"),
    row(
        "a time of day becomes one of today",
        "select cast(s as timestamp), cast('09:30:00' as timestamp) from t",
        UNKNOWN,
        "Cast of text to timestamps",
    ),
    row(
        "text with a date, numbers and dates do not",
        "select cast('2020-01-01 09:30:00' as timestamp), cast(id as timestamp), cast(day as timestamp) from t",
        DETERMINATE,
    ),
    row(
        "nor what is computed from numbers and dates",
        "select cast(id / 1000 as timestamp), cast(date_add(day, 1) as timestamp) from t where ts > date_add(day, 2)",
        DETERMINATE,
    ),
    row(
        "parsed without a format it may be a time of day",
        "select to_timestamp(s) from t",
        UNKNOWN,
        "ParseToTimestamp of text to timestamps",
    ),
    row("a format says what is there", "select to_timestamp(s, 'yyyy-MM-dd HH:mm') from t", DETERMINATE),
    row(
        "text inside text too",
        "select from_json(s, 'x timestamp') from t",
        UNKNOWN,
        "JsonToStructs of text to timestamps",
    ),
    row("of a cube it is known", "select s, i + 1, grouping_id(), sum(id) from t group by cube(s, i + 1)", DETERMINATE),
    row(
        "a list that is sorted as array_sort does it by itself",
        "select array_sort(collect_set(s)), array_sort(collect_list(i)) from t",
        DETERMINATE,
    ),
    row(
        "a function to sort by may leave some of the order",
        "select array_sort(collect_list(s), (x, y) -> length(x) - length(y)) from t",
        UNKNOWN,
        "CollectList",
    ),
    row(
        "Spark does not write down what it unpivots",
        lambda session: plain(session).unpivot("id", [F.rand().alias("a"), F.rand().alias("b")], "what", "value"),
        INDETERMINATE,
        "Expand of expressions that are not told",
    ),
    row(
        "a word for the current time",
        "select * from t where ts < cast('now' as timestamp)",
        INDETERMINATE,
        "a word for the current time",
    ),
    row("text that says now is not such a word", "select cast(concat(s, 'now') as date), 'now' from t", DETERMINATE),
    row(
        "a map is the same in any order, and what tells it is not",
        "select map_keys(p), to_json(struct(p)), cast(p as string) from t",
        UNKNOWN,
        "Cast in the order of a map",
        "MapKeys in the order of a map",
        "StructsToJson in the order of a map",
    ),
    row("so do its entries as rows", "select explode(p) from t", UNKNOWN, "Explode in the order of a map"),
    row("last bits that belong to the processor", "select exp(d), pow(d, 2) from t", UNKNOWN, "Exp", "Pow"),
]


@pytest.mark.parametrize(("what", "level", "because"), COLLATIONS + SUMS + OPERATORS + WINDOWS + PLACES)
def test_level(session: SparkSession, what: Frame, level: Determinism, because: tuple[str, ...]) -> None:
    found = verdict(session, what)
    assert (found.level, found.because) == (level, because)


EXACT = """
    between: id between 1 and 3 · in: id in (select i from t) · exists: exists (select 1 from t u where u.id = t.id)
    nulls: nvl(id, 1), nvl2(id, 1, 2), nullif(id, 3), equal_null(id, i), zeroifnull(i), nullifzero(i)
    text: s ilike 'a%', left(s, 1), right(s, 1), initcap(s), btrim(s), translate(s, 'a', 'b'), split_part(s, ',', 1)
    more text: substring_index(s, ',', 1), overlay(s placing 'x' from 1), ascii(s), chr(65), bin(id), conv(s, 10, 16)
    lengths: octet_length(s), bit_length(s), space(2), elt(1, s, 'x'), find_in_set(s, 'a,b'), levenshtein(s, 'x')
    formats: format_string('%s', s), encode(s, 'utf-8'), decode(cast(s as binary), 'utf-8'), soundex(s), luhn_check(s)
    masks: mask(s), to_char(m, '999.99'), to_number(s, '999'), try_to_number(s, '999'), sentences(s), quote(s)
    links: url_encode(s), url_decode(s), parse_url(s, 'HOST'), str_to_map(s), typeof(s)
    patterns: regexp_extract_all(s, 'a'), regexp_count(s, 'a'), regexp_substr(s, 'a'), regexp_instr(s, 'a')
    numbers: sign(d), factorial(3), rint(d), width_bucket(d, 0, 9, 3), +id, shiftrightunsigned(i, 1), bit_count(id)
    tries: try_add(id, 1), try_subtract(id, 1), try_multiply(id, 2), try_divide(id, 2), try_element_at(a, 1)
    days: day - interval 1 day, ts + interval 1 hour, ts + interval 1 month, day - day, ts - ts, next_day(day, 'MON')
    parts: extract(year from day), months_between(ts, ts), weekday(day), dayname(day), monthname(day)
    spans: timestampadd(HOUR, 1, ts), timestampdiff(HOUR, ts, ts), make_interval(1), make_dt_interval(1)
    made: make_ym_interval(1), make_timestamp(2020, 1, 1, 1, 1, 1), timestamp_micros(id), timestamp_millis(id)
    seconds: unix_seconds(ts), unix_millis(ts), unix_micros(ts), unix_date(day), date_from_unix_date(i)
    zones: from_utc_timestamp(ts, 'UTC'), to_utc_timestamp(ts, 'UTC'), convert_timezone('UTC', ts)
    arrays: get(a, 0), array_size(a), array_sort(a), array_union(a, a), array_intersect(a, a), array_except(a, a)
    arrays too: array_join(array(s), ','), array_position(a, 1), array_remove(a, 1), array_append(a, 1)
    all: forall(a, x -> x > 1), map(1, id)
    more arrays: array_prepend(a, 1), array_insert(a, 1, 2), array_compact(a), arrays_overlap(a, a), arrays_zip(a, a)
    maps: p[1], map_keys(map(1, id)), map_from_arrays(a, a), map_concat(p), map_contains_key(p, 1), cast(p[1] as string)
    maps too: map_filter(p, (k, v) -> k > 1), transform_keys(p, (k, v) -> k), transform_values(p, (k, v) -> v)
    maps last: map_zip_with(p, p, (k, v, w) -> k), map_from_entries(array(struct(id, i))), zip_with(a, a, (x, y) -> x)
    json: to_json(st), from_json(s, 'x int'), get_json_object(s, '$.a'), json_array_length(s), json_object_keys(s)
    csv: from_csv(s, 'x int'), to_csv(st), schema_of_json('{}'), parse_json(s), variant_get(parse_json(s), '$.a', 'int')
    refusals: assert_true(id > 1), xpath_string(s, 'a')
"""


@pytest.mark.parametrize("line", [one.strip() for one in EXACT.replace(" · ", "\n").strip().splitlines()])
def test_a_function_of_one_row_is_exact(session: SparkSession, line: str) -> None:
    assert verdict(session, f"select {line.split(': ', 1)[1]} from t") == DeterminismVerdict(DETERMINATE)


GENERATORS = ["stack(2, id, id)", "inline(array(st))", "json_tuple(s, 'x')", "posexplode(a)", "explode(map(1, id))"]


@pytest.mark.parametrize("made", GENERATORS)
def test_rows_made_of_one_row_are_exact(session: SparkSession, made: str) -> None:
    assert verdict(session, f"select {made} from t") == DeterminismVerdict(DETERMINATE)


def test_windows_of_time_are_columns(session: SparkSession) -> None:
    grouped = session.table("t").groupBy(F.window("ts", "1 hour"), "s").agg(F.sum("id"))
    assert judge(grouped._jdf.queryExecution().analyzed().toJSON()) == DeterminismVerdict(DETERMINATE)


def test_what_works_row_by_row_does_not_look_at_order(session: SparkSession) -> None:
    assert not verdict(session, "select exp(d) from t").is_order_sensitive
    assert not verdict(session, lambda s: plain(s).select(F.udf(str)("id"))).is_order_sensitive
    assert verdict(session, "select sum(d) from t").is_order_sensitive
    assert verdict(session, "select current_date() from t").has_query_constants


@needs("collations")
def test_one_spelling_of_many_follows_the_order(session: SparkSession) -> None:
    assert verdict(session, "select c, count(*) from collated group by c").is_order_sensitive


@pytest.mark.parametrize(
    ("values", "query"),
    [
        (("'a'", "'A'"), "select max(x collate UTF8_LCASE) from {}"),
        (("'a'", "'A'"), "select x collate UTF8_LCASE y from {} group by y"),
        (("'a'", "'A'"), "select distinct x collate UTF8_LCASE from {}"),
        (("0.0D", "-0.0D"), "select string(max(x)) from {}"),
        (("0.0D", "-0.0D"), "select string(min(x)) from {}"),
    ],
)
def test_spark_answers_by_the_order_of_rows_where_the_table_doubts(
    session: SparkSession, values: tuple[str, str], query: str
) -> None:
    asked = [query.format(f"values ({one}), ({two}) as v(x)") for one, two in itertools.permutations(values)]
    assert len({session.sql(one).first() for one in asked}) == 2
    assert verdict(session, asked[0]).level is UNKNOWN


def test_spark_makes_zeros_one_where_the_table_does_not_doubt(session: SparkSession) -> None:
    for query in ("select distinct x", "select x, count(*)", "select x from v intersect select x"):
        for one, two in itertools.permutations(("0.0D", "-0.0D")):
            session.sql(f"create or replace temp view v as values ({one}), ({two}) as v(x)")
            asked = f"{query} from v" + (" group by x" if "count" in query else "")
            assert [str(row.x) for row in session.sql(asked).collect()] == ["0.0"]
            assert verdict(session, asked).level is DETERMINATE


def test_a_plan_may_be_deep() -> None:
    text = ", ".join('{"class": "a.b.Filter", "num-children": 1}' for _ in range(5000))
    assert judge(f'[{text}, {{"class": "Range", "num-children": 0}}]') == DeterminismVerdict(DETERMINATE)


def test_a_sum_that_gives_up_on_overflow_depends_on_the_order_of_rows(spark: SparkSession) -> None:
    frame = spark.range(5).selectExpr("id % 2 k", "id").groupBy("k").agg(F.try_sum("id"))
    plan = frame._jdf.queryExecution().analyzed()
    assert judge(plan.toJSON(), plan.toString()).level is Determinism.UNKNOWN
    assert judge(plan.toJSON()).level is Determinism.DETERMINATE, "the control: the JSON alone cannot tell"


def test_what_spark_does_not_write_down_is_asked_for(session: SparkSession) -> None:
    found = verdict_of(plain(session).unpivot("id", ["i", "d"], "what", "value"))
    assert found == DeterminismVerdict(DETERMINATE)
    drawn = verdict_of(plain(session).unpivot("id", [F.rand().alias("a"), F.rand().alias("b")], "what", "value"))
    assert (drawn.level, drawn.because) == (INDETERMINATE, ("Rand",))


def test_the_order_of_a_map_counts_only_where_a_digest_says_that_it_is_the_same(session: SparkSession) -> None:
    frame = session.sql("select map_keys(p) from t")
    assert verdict_of(frame).level is DETERMINATE
    schema = session.table("t")._jdf.schema()
    kept = kept_frames.stand_in(session, "kept", schema, Layout((), 1))
    assert verdict_of(kept.selectExpr("map_keys(p)")).because == ("MapKeys in the order of a map",)
