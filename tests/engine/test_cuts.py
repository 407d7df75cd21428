"""A cut changes nothing: each program gives the rows of bare Spark, in its order where Spark promises one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.engine.spark.jvm import result_calls
from rekindle.engine.spark.plan import cuts
from rekindle.errors import GraphRefused

ROWS = 20_000
Function = Callable[..., Any]


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = str(tmp_path_factory.mktemp("lake") / "orders")
    columns = "id", "(id * 7919) % 20011 as amount", "id % 50 as k"
    spark.range(ROWS).selectExpr(*columns).repartition(6).write.parquet(folder)
    return folder


def pipeline_of(lake: str, out: Path, steps: list[Function], **options: Any) -> rk.Pipeline:
    """The steps in a row over the source; `options` are those of the first one."""
    pipeline = rk.Pipeline("cut")

    @pipeline.source
    def orders(spark: SparkSession) -> DataFrame:
        return spark.read.parquet(lake)

    before = "orders"
    for number, function in enumerate(steps):
        name = f"step{number}"
        pipeline.add_step(function, inputs=[before], name=name, **(options if number == 0 else {}))
        before = name

    def final(rows: DataFrame) -> DataFrame:
        return rows

    pipeline.add_sink(final, rk.files(str(out)), inputs=[before])
    return pipeline


def bare(spark: SparkSession, lake: str, steps: list[Function]) -> list[tuple[Any, ...]]:
    frame = spark.read.parquet(lake)
    for function in steps:
        frame = function(frame)
    return [tuple(row) for row in frame.collect()]


def ours(spark: SparkSession, lake: str, tmp_path: Path, steps: list[Function], **options: Any) -> list[Any]:
    pipeline = pipeline_of(lake, tmp_path / "out", steps, **options)
    pipeline.run(spark, str(tmp_path / "runs"), options=rk.RunOptions(sweep=None))
    return [tuple(row) for row in rk.read_newest(spark, str(tmp_path / "out")).collect()]


def why(spark: SparkSession, lake: str, tmp_path: Path, steps: list[Function], **options: Any) -> dict[str, str]:
    plan = pipeline_of(lake, tmp_path / "out", steps, **options).plan(spark, str(tmp_path / "runs"))
    return {stage.step: stage.note for stage in plan.stages}


def ranked(orders: DataFrame) -> DataFrame:
    return orders.orderBy(F.desc("amount"), "id")


def ranked_by_hidden(orders: DataFrame) -> DataFrame:
    return orders.orderBy(F.desc("amount"), "id").select("id", "k")


def top(rows: DataFrame) -> DataFrame:
    return rows.limit(10)


def small(rows: DataFrame) -> DataFrame:
    return rows.where("k < 25")


def skipped(rows: DataFrame) -> DataFrame:
    return rows.offset(ROWS - 5)


def numbered(rows: DataFrame) -> DataFrame:
    """Ids follow the order; which numbers they are follows the partitions, so only their rank is looked at."""
    ids = rows.withColumn("n", F.monotonically_increasing_id())
    return ids.select("id", F.expr("rank() over (order by n)").alias("n"))


def first_of_each(rows: DataFrame) -> DataFrame:
    """What one partition begins with, and how many there are."""

    def first(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        seen = [batch for batch in batches if len(batch)]
        if seen:
            yield pd.DataFrame({"id": [seen[0]["id"].iloc[0]], "n": [sum(map(len, seen))]})

    return rows.mapInPandas(first, "id long, n long")


def in_one(orders: DataFrame) -> DataFrame:
    return orders.repartition(1)


def by_key(orders: DataFrame) -> DataFrame:
    return orders.repartition(5, "k")


def sorted_within(orders: DataFrame) -> DataFrame:
    return orders.repartition(5, "k").sortWithinPartitions(F.desc("id"))


def gathered(orders: DataFrame) -> DataFrame:
    return called_python(orders).coalesce(2)


def partitions_seen(rows: DataFrame) -> DataFrame:
    """In how many partitions rows come, for rows that are in all of them."""
    return rows.select(F.spark_partition_id().alias("p")).distinct().agg(F.count("p").alias("n"))


def aliased(orders: DataFrame) -> DataFrame:
    return orders.groupBy("k").count().alias("o")


def uses_alias(rows: DataFrame) -> DataFrame:
    return rows.where(F.col("o.k") > 3).select("o.k", F.col("o.count").alias("n"))


def joined(orders: DataFrame) -> DataFrame:
    one, other = orders.groupBy("k").count().alias("x"), orders.groupBy("k").agg(F.max("id").alias("id")).alias("y")
    return one.join(other, F.col("x.k") == F.col("y.k"))


def uses_qualifiers(rows: DataFrame) -> DataFrame:
    return rows.select(F.col("x.k").alias("a"), F.col("y.k").alias("b"), "count", "id").where("a = b")


def leaves_doubled_out(rows: DataFrame) -> DataFrame:
    return rows.select("count", "id")


def with_metadata(orders: DataFrame) -> DataFrame:
    return orders.groupBy("k").count().withMetadata("k", {"unit": "piece"})


def uses_metadata(rows: DataFrame) -> DataFrame:
    return rows.withColumn("unit", F.lit(rows.schema["k"].metadata.get("unit", "none")))


def with_interval(orders: DataFrame) -> DataFrame:
    return orders.groupBy("k").count().withColumn("i", F.make_interval(days=F.col("k").cast("int")))


def uses_interval(rows: DataFrame) -> DataFrame:
    return rows.select("k", (F.lit("2020-01-01").cast("timestamp_ntz") + F.col("i")).cast("string").alias("t"))


def called_python(orders: DataFrame) -> DataFrame:
    return orders.withColumn("x", F.udf(lambda k: k + 1, "long")("k"))


def named_files(rows: DataFrame) -> DataFrame:
    return rows.select("id", F.element_at(F.split(F.input_file_name(), "/"), -2).alias("folder"))


def metadata_of_files(rows: DataFrame) -> DataFrame:
    return rows.select("id", F.col("_metadata.file_size").alias("n"))


def sorted_in_a_cte(orders: DataFrame) -> DataFrame:
    text = "with r as (select * from {orders} order by amount desc, id) select * from r"
    return orders.sparkSession.sql(text, orders=orders)


def under_a_header(orders: DataFrame) -> DataFrame:
    header = orders.where("id = 77").withColumn("amount", F.lit(-1).cast("long"))
    return header.select(orders.columns).union(ranked(orders))


def first_ten(orders: DataFrame) -> DataFrame:
    return ranked(orders).limit(10)


def two_of_four(orders: DataFrame) -> DataFrame:
    return orders.repartition(4, "k").coalesce(2)


def counts_in_partitions(rows: DataFrame) -> DataFrame:
    """How many rows of each key are in one partition: a key that is in two of them has two lines."""

    def counted(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        seen = pd.concat([batch[["k"]] for batch in batches] or [pd.DataFrame({"k": []})])
        yield seen.groupby("k").size().reset_index(name="n")

    return rows.mapInPandas(counted, "k long, n long")


def numbered_as_they_come(rows: DataFrame) -> DataFrame:
    return rows.select("id", F.expr("row_number() over (order by 1)").alias("n")).where("n <= 100")


def ranges(rows: DataFrame) -> DataFrame:
    """Whether the amounts of one partition overlap with those of another one."""

    def ends(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        seen = [batch["amount"] for batch in batches if len(batch)]
        if seen:
            yield pd.DataFrame({"low": [min(map(min, seen))], "high": [max(map(max, seen))]})

    found = rows.sortWithinPartitions("id").mapInPandas(ends, "low long, high long")
    before = "max(high) over (order by low rows between unbounded preceding and 1 preceding)"
    return found.selectExpr(f"low < {before} as o").groupBy().agg(F.count_if("o").alias("overlaps"))


IN_ORDER = [
    pytest.param([lambda orders: ranked(orders).coalesce(2), top], id="a sort and a coalesce, then a limit"),
    pytest.param(
        [ranked, lambda rows: called_python(rows).coalesce(2), top], id="a sort, then a coalesce, then a limit"
    ),
    pytest.param([sorted_in_a_cte, top], id="a sort inside a CTE, then a limit"),
    pytest.param([under_a_header, top], id="a union over a sort, then a limit"),
    pytest.param([first_ten, lambda rows: rows.limit(3)], id="a sort and a limit, then another limit"),
    pytest.param([ranked, top], id="a sort, then a limit"),
    pytest.param([ranked, small, top], id="a sort, then a filter, then a limit"),
    pytest.param([ranked, skipped], id="a sort, then an offset"),
    pytest.param([ranked, numbered, lambda rows: rows.orderBy("n").limit(50)], id="a sort, then ids in its order"),
    pytest.param([ranked_by_hidden, top], id="a sort by a column that is not returned, then a limit"),
    pytest.param([ranked, lambda rows: rows.select("id"), top], id="a sort, its column dropped by the next, a limit"),
]
ALIKE = [
    pytest.param([first_ten, first_of_each], id="a limit is one partition"),
    pytest.param(
        [first_ten, lambda rows: rows.withColumn("n", F.monotonically_increasing_id())], id="ids after a limit"
    ),
    pytest.param([two_of_four, counts_in_partitions], id="a repartition below a coalesce"),
    pytest.param([ranked, numbered_as_they_come], id="numbers over a window without an order"),
    pytest.param([ranked, ranges], id="ranges of a sort, sorted within"),
    pytest.param([in_one, first_of_each], id="one partition, then code that sees partitions"),
    pytest.param([by_key, lambda rows: first_of_each(rows).select("n")], id="five partitions by a key"),
    pytest.param([sorted_within, first_of_each], id="rows sorted within partitions"),
    pytest.param([gathered, partitions_seen], id="partitions put together by coalesce"),
    pytest.param([aliased, uses_alias], id="an alias of the step before"),
    pytest.param([joined, uses_qualifiers], id="two columns of one name, told apart by their aliases"),
    pytest.param([joined, leaves_doubled_out], id="two columns of one name, and neither is used"),
    pytest.param([with_metadata, uses_metadata], id="metadata of a column"),
    pytest.param([with_interval, uses_interval], id="a column that no file can hold"),
    pytest.param([called_python, named_files], id="names of the files of the source"),
    pytest.param([called_python, metadata_of_files], id="metadata of the files of the source"),
]


@pytest.mark.parametrize("steps", IN_ORDER)
def test_the_same_rows_in_the_same_order(spark: SparkSession, lake: str, tmp_path: Path, steps: list[Function]) -> None:
    assert ours(spark, lake, tmp_path, steps) == bare(spark, lake, steps)


@pytest.mark.parametrize("steps", ALIKE)
def test_the_same_rows(spark: SparkSession, lake: str, tmp_path: Path, steps: list[Function]) -> None:
    assert sorted(ours(spark, lake, tmp_path, steps)) == sorted(bare(spark, lake, steps))


def test_the_control_without_what_is_restored_other_rows_come(
    spark: SparkSession, lake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def heavy_last(orders: DataFrame) -> DataFrame:
        """Spark reads larger files first, so that the file of the first rows is read last."""
        return ranked(orders.withColumn("more", F.expr("if(amount < 15000, repeat(md5(string(id)), 3), '')")))

    steps = [heavy_last, top]
    assert sorted(ours(spark, lake, tmp_path, steps)) == sorted(bare(spark, lake, steps))
    monkeypatch.setattr(result_calls, "restored", lambda frame, outline: frame)
    assert sorted(ours(spark, lake, tmp_path / "without", steps)) != sorted(bare(spark, lake, steps))


@pytest.mark.parametrize("kind", ["blocking", "caching", "memory"])
def test_every_kind_of_result_keeps_order_and_names(spark: SparkSession, lake: str, tmp_path: Path, kind: Any) -> None:
    steps = [lambda orders: joined(orders).orderBy(F.desc("id")), lambda rows: uses_qualifiers(rows.limit(7))]
    assert sorted(ours(spark, lake, tmp_path, steps, result=kind)) == sorted(bare(spark, lake, steps))


def test_a_sorted_step_is_kept_and_only_a_reader_that_observes_it_sorts_again(
    spark: SparkSession, lake: str, tmp_path: Path
) -> None:
    counted = why(spark, lake, tmp_path, [ranked, lambda rows: rows.groupBy("k").count()])
    assert "it contains an exchange" in counted["step0"]
    given_up = why(spark, lake, tmp_path, [ranked_by_hidden, top])
    assert "not kept: step1 depends on the order of its input rows" in given_up["step0"]
    assert "amount, a column that it does not return" in given_up["step0"]
    spared = why(spark, lake, tmp_path, [ranked_by_hidden, lambda rows: rows.groupBy("k").count()])
    assert "it contains an exchange" in spared["step0"]


@pytest.mark.parametrize(
    ("steps", "options", "said"),
    [
        ([called_python, named_files], {"keep_until": "forever"}, "reads the file names"),
        (
            [lambda orders: called_python(ranked_by_hidden(orders)), top],
            {"keep_until": "forever"},
            "depends on the order of",
        ),
        ([with_interval, uses_interval], {"keep_until": "forever"}, "no file can hold a calendar interval: column i"),
        ([joined], {}, "duplicate column names (k, k)"),
    ],
    ids=["names of files", "hidden order", "interval", "doubled names in a sink"],
)
def test_what_was_asked_to_be_kept_and_cannot_is_refused_with_its_line(
    spark: SparkSession, lake: str, tmp_path: Path, steps: list[Function], options: dict[str, Any], said: str
) -> None:
    with pytest.raises(GraphRefused, match=r"test_cuts\.py:\d+") as caught:
        ours(spark, lake, tmp_path, steps, **options)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ([lambda orders: orders.where("k < 25"), named_files], "step1 reads the file names"),
        ([ranked_by_hidden, top], "step1 depends on the order of its input rows"),
        (
            [lambda orders: orders.where("k < 25"), lambda rows: rows.select("*"), named_files],
            "step2 reads the file names",
        ),
    ],
    ids=["names of files", "hidden order", "through a pipelined step"],
)
def test_what_was_asked_to_be_kept_is_kept_and_computed_once_more_in_a_reader_that_could_tell(
    spark: SparkSession, lake: str, tmp_path: Path, steps: list[Function], said: str
) -> None:
    told = why(spark, lake, tmp_path, steps, result="blocking")
    assert told["step0"].startswith("kept: result='blocking'; step1 recomputes it: ")
    assert said in told["step0"]
    for _ in range(2):
        assert sorted(ours(spark, lake, tmp_path, steps, result="blocking")) == sorted(bare(spark, lake, steps))


@pytest.mark.parametrize(
    ("steps", "options"),
    [
        ([called_python, named_files], {"result": "blocking"}),
        ([lambda rows: called_python(ranked_by_hidden(rows)), top], {"partition_by": "k"}),
        ([with_interval, uses_interval], {"partition_by": "k"}),
    ],
    ids=["names of files", "hidden order", "interval"],
)
def test_what_may_give_other_rows_is_pipelined_into_its_only_reader_and_the_plan_says_so(
    spark: SparkSession, lake: str, tmp_path: Path, steps: list[Function], options: dict[str, Any]
) -> None:
    told = why(spark, lake, tmp_path, steps, **options)
    assert told["step0"].startswith("pipelined into step1, not kept: ")
    assert told["step0"].endswith(", although you asked to keep it")
    assert sorted(ours(spark, lake, tmp_path, steps, **options)) == sorted(bare(spark, lake, steps))


def test_what_may_give_other_rows_and_has_two_readers_is_refused(
    spark: SparkSession, lake: str, tmp_path: Path
) -> None:
    pipeline = pipeline_of(lake, tmp_path / "out", [called_python, named_files], result="blocking")
    pipeline.add_step(lambda rows: rows.groupBy("k").count(), inputs=["step0"], name="counted")
    with pytest.raises(GraphRefused, match="it could give other rows"):
        pipeline.plan(spark, str(tmp_path / "runs"))


def test_a_reader_that_cannot_tell_reads_what_was_kept(spark: SparkSession, lake: str, tmp_path: Path) -> None:
    pipeline = pipeline_of(lake, tmp_path / "out", [ranked_by_hidden, top], result="blocking")
    pipeline.add_step(lambda rows: rows.groupBy("k").count(), inputs=["step0"], name="counted")
    plan = pipeline.plan(spark, str(tmp_path / "runs"))
    assert {stage.step: stage.into for stage in plan.stages if stage.into} == {
        "orders": ("step0", "step1"),
        "final": ("step1",),
    }
    found = pipeline.run(spark, str(tmp_path / "runs"), options=rk.RunOptions(sweep=None))
    assert {name: bool(step.computed) for name, step in found.steps.items()} == {
        "step0": True, "step1": True, "counted": True,
    }  # fmt: skip
    assert rk.read_newest(spark, str(tmp_path / "out")).count() == 10


@pytest.mark.parametrize(
    ("column", "what"),
    [
        ("array(make_interval(1))", "a calendar interval"),
        ("named_struct('a', map('k', make_interval(1)))", "a calendar interval"),
        ("struct()", "a struct without fields"),
        ("map('a' collate utf8_lcase, 1)", "a map whose keys have a collation"),
        ("map('a', named_struct('b', 1))", ""),
        ("named_struct('a', 'b' collate utf8_lcase)", ""),
    ],
)
def test_what_no_file_can_hold(spark: SparkSession, column: str, what: str) -> None:
    told = cuts.unstorable(spark.range(1).selectExpr("id", f"{column} as c").schema)
    assert told == (f"no file can hold {what}: column c" if what else "")


@pytest.mark.parametrize("keys", [{"partition_by": "k"}, {"partition_by": "k", "result": "memory"}])
def test_a_sort_that_is_stored_by_other_keys_is_a_sort_again(
    spark: SparkSession, lake: str, tmp_path: Path, keys: dict[str, Any]
) -> None:
    for number, first in enumerate((ranked, first_ten, lambda orders: ranked(orders).coalesce(1))):
        steps = [first, lambda rows: rows.limit(7)]
        assert ours(spark, lake, tmp_path / str(number), steps, **keys) == bare(spark, lake, steps)


def test_one_sorted_file_of_a_limit_by_a_hidden_order_is_read_in_its_order(
    spark: SparkSession, lake: str, tmp_path: Path
) -> None:
    steps = [lambda orders: ranked(orders).limit(50).select("id", "k"), lambda rows: called_python(rows).limit(5)]
    assert ours(spark, lake, tmp_path, steps, result="blocking") == bare(spark, lake, steps)
    told = why(spark, lake, tmp_path / "keyed", steps, partition_by="k")["step0"]
    assert "in a way that its columns do not tell, although you asked to keep it" in told
    assert ours(spark, lake, tmp_path / "keyed", steps, partition_by="k") == bare(spark, lake, steps)


def test_a_source_whose_partitions_are_pruned_by_a_broadcast(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(400).selectExpr("id", "id % 4 as d").write.partitionBy("d").parquet(str(tmp_path / "fact"))
    spark.range(4).selectExpr("id as d", "concat('n', id) as name").write.parquet(str(tmp_path / "dim"))
    steps = [
        lambda fact: fact.join(
            F.broadcast(fact.sparkSession.read.parquet(str(tmp_path / "dim")).where("name = 'n3'")), "d"
        )
    ]
    found = ours(spark, str(tmp_path / "fact"), tmp_path, steps)
    assert sorted(found) == sorted(bare(spark, str(tmp_path / "fact"), steps)) and len(found) == 100


def test_settings_that_a_step_changes_are_refused(spark: SparkSession, lake: str, tmp_path: Path) -> None:
    def sets(orders: DataFrame) -> DataFrame:
        orders.sparkSession.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        return orders

    with pytest.raises(GraphRefused, match=r"changes the Spark setting spark\.sql\.session\.timeZone"):
        ours(spark, lake, tmp_path, [sets])


def test_a_view_of_another_step_is_refused(spark: SparkSession, lake: str, tmp_path: Path) -> None:
    def makes(orders: DataFrame) -> DataFrame:
        orders.groupBy("k").count().createOrReplaceTempView("counted_orders")
        return orders

    def reads(rows: DataFrame) -> DataFrame:
        return rows.sparkSession.table("counted_orders")

    with pytest.raises(GraphRefused, match="reads the view counted_orders of step step0"):
        ours(spark, lake, tmp_path, [makes, reads])


def test_rows_of_a_step_that_come_through_a_variable_are_refused(
    spark: SparkSession, lake: str, tmp_path: Path
) -> None:
    """After a resume they would be those of a stand-in: none."""
    seen: list[DataFrame] = []

    def counted(orders: DataFrame) -> DataFrame:
        return orders.groupBy("k").count()

    def remembers(rows: DataFrame) -> DataFrame:
        seen.append(rows)
        return rows.groupBy().count()

    def uses(rows: DataFrame) -> DataFrame:
        return seen[-1].crossJoin(rows.withColumnRenamed("count", "n"))

    with pytest.raises(GraphRefused, match="reads step0 through a view or a variable"):
        ours(spark, lake, tmp_path, [counted, remembers, uses])


def test_a_column_of_an_earlier_frame_is_the_same_column(spark: SparkSession, lake: str, tmp_path: Path) -> None:
    """As in bare Spark: `drop` of a column that is not there is no error, so that another one would stay unseen."""
    pipeline = rk.Pipeline("cut")

    @pipeline.source
    def orders(spark: SparkSession) -> DataFrame:
        return spark.read.parquet(lake)

    @pipeline.step
    def called(orders: DataFrame) -> DataFrame:
        return called_python(orders)

    @pipeline.step
    def counted(orders: DataFrame) -> DataFrame:
        return orders.groupBy("k").count()

    @pipeline.step
    def both(called: DataFrame, counted: DataFrame) -> DataFrame:
        return called.join(counted, called.k == counted.k)

    @pipeline.sink(rk.files(str(tmp_path / "out")))
    def final(orders: DataFrame, both: DataFrame) -> DataFrame:
        return both.where(orders.amount > 100).drop(orders.amount).drop(orders.k)

    source = spark.read.parquet(lake)
    first, second = called(source), counted(source)
    expected = final(source, both(first, second))
    pipeline.run(spark, str(tmp_path / "runs"), options=rk.RunOptions(sweep=None))
    found = rk.read_newest(spark, str(tmp_path / "out"))
    assert found.columns == expected.columns == ["id", "x", "k", "count"]
    assert sorted(found.collect()) == sorted(expected.collect())


def test_a_function_of_another_step_is_refused(spark: SparkSession, lake: str, tmp_path: Path) -> None:
    def makes(orders: DataFrame) -> DataFrame:
        orders.sparkSession.sql("create or replace temporary function twice_as(x bigint) returns bigint return x * 2")
        return called_python(orders)

    def uses(rows: DataFrame) -> DataFrame:
        return rows.selectExpr("id", "twice_as(k) as k").groupBy("k").count()

    with pytest.raises(GraphRefused, match="a step sees no views, functions or settings that another step made"):
        ours(spark, lake, tmp_path, [makes, uses])


def test_a_step_may_read_files_whose_schema_spark_must_learn(spark: SparkSession, lake: str, tmp_path: Path) -> None:
    def reads(orders: DataFrame) -> DataFrame:
        session = orders.sparkSession
        lookup = session.read.parquet(lake).select("id", F.col("k").alias("k2"))
        more = session.sql(f"select id as id3, amount as a3 from parquet.`{lake}` where id < 100")
        return orders.join(lookup, "id").join(more, F.col("id") == F.col("id3")).groupBy("k", "k2").count()

    assert sorted(ours(spark, lake, tmp_path, [reads])) == sorted(bare(spark, lake, [reads]))


def test_an_action_beside_a_read_is_refused_before_it_does_anything(
    spark: SparkSession, lake: str, tmp_path: Path
) -> None:
    out = tmp_path / "side_effect"

    def acts(orders: DataFrame) -> DataFrame:
        lookup = orders.sparkSession.read.parquet(lake)
        lookup.write.parquet(str(out))
        return lookup

    with pytest.raises(GraphRefused, match="starts a Spark job while it is built"):
        ours(spark, lake, tmp_path, [acts])
    assert not list(out.rglob("*.parquet"))


def test_a_script_gets_back_the_frame_that_it_gave(spark: SparkSession, lake: str, tmp_path: Path) -> None:
    frame = joined(spark.read.parquet(lake)).orderBy(F.desc("id"))
    with rk.run("cut", spark, str(tmp_path), tell=lambda line: None) as run:
        kept = run.keep(frame, "ranked")
        assert kept.collect() == frame.collect()
        assert kept.columns == frame.columns == ["k", "count", "k", "id"]
        assert kept.first() == frame.first()
        assert kept.tail(3) == frame.tail(3)
        assert kept.select("x.k", "y.id").limit(4).collect() == frame.select("x.k", "y.id").limit(4).collect()
        with pytest.raises(GraphRefused, match="which gives Rekindle's own files"):
            run.keep(kept.select(F.input_file_name()), "named")


@pytest.mark.parametrize(
    "hidden",
    [
        ranked_by_hidden,
        lambda orders: ranked(orders).mapInPandas(lambda batches: batches, "id long, amount long, k long"),
    ],
    ids=["a column that is not returned", "below mapInPandas"],
)
def test_a_script_whose_order_cannot_be_kept_is_refused(
    spark: SparkSession, lake: str, tmp_path: Path, hidden: Function
) -> None:
    frame = hidden(spark.read.parquet(lake))
    with rk.run("cut", spark, str(tmp_path / "runs"), tell=lambda line: None) as run:
        with pytest.raises(GraphRefused, match="the order of ranked cannot be kept: it is sorted"):
            run.keep(frame, "ranked")
        assert run.keep(frame.groupBy("id").count(), "counted").count() == ROWS
        run.publish(frame, rk.files(str(tmp_path / "out")), name="written")
    assert rk.read_newest(spark, str(tmp_path / "out")).count() == ROWS


def test_the_order_of_one_partition_is_kept_in_one_file_and_not_by_keys(
    spark: SparkSession, lake: str, tmp_path: Path
) -> None:
    frame = ranked(spark.read.parquet(lake)).limit(50).select("id", "k")
    with rk.run("cut", spark, str(tmp_path / "runs"), tell=lambda line: None) as run:
        assert run.keep(frame, "first").collect() == frame.collect()
        with pytest.raises(GraphRefused, match="the order of by_key cannot be kept: it is sorted, in a way that"):
            run.keep(frame, "by_key", partition_by="k")
