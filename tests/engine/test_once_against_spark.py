"""A step's function is called once per start, whatever else it does than describe: the rows are those of bare Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame, Observation, SparkSession, Window
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.engine.spark.session import clone
from rekindle.failover.backoff import NoRestart
from rekindle.master.facts.config import BackoffSpec, MasterConfig

QUIET = rk.RunOptions(sweep=None)
ONE_TRY = rk.RunOptions(config=MasterConfig(backoff=BackoffSpec.of(NoRestart())), sweep=None)
Step = Callable[[DataFrame], DataFrame]


def named_observe(kept: DataFrame) -> DataFrame:
    return kept.observe("seen", F.count("*").alias("rows"), F.max("n").alias("most")).where("k > 1")


def observation(kept: DataFrame) -> DataFrame:
    return kept.observe(Observation("seen"), F.count("*").alias("rows")).where("k > 1")


def broadcast_self(kept: DataFrame) -> DataFrame:
    return kept.join(F.broadcast(kept.selectExpr("k as j", "n as m")), F.col("j") == F.col("k"))


def merge_hint(kept: DataFrame) -> DataFrame:
    return kept.hint("merge").join(kept.selectExpr("k as j"), F.col("j") == F.col("k"))


def coalesce_hint(kept: DataFrame) -> DataFrame:
    return kept.hint("coalesce", 1)


def rebalance_hint(kept: DataFrame) -> DataFrame:
    return kept.hint("rebalance", "k").withColumn("m", F.col("n") + 1)


def own_view(kept: DataFrame) -> DataFrame:
    kept.where("k > 2").createOrReplaceTempView("mine")
    return kept.sparkSession.sql("select m.k, m.n, (select max(n) from mine) as most from mine m")


def own_function(kept: DataFrame) -> DataFrame:
    kept.sparkSession.udf.register("plus_one", lambda x: x + 1, "long")
    return kept.selectExpr("k", "plus_one(n) as n")


def own_setting(kept: DataFrame) -> DataFrame:
    """Set and put back: what is described meanwhile was described with it."""
    session = kept.sparkSession
    session.conf.set("spark.sql.ansi.enabled", "false")
    made = kept.selectExpr("k", "cast('no number' as int) as none", "cast(n * 1000000000 as int) as wrapped")
    session.conf.unset("spark.sql.ansi.enabled")
    return made


def correlated(kept: DataFrame) -> DataFrame:
    text = """select a.k, a.n from {kept} a where exists (select 1 from {kept} b where b.n = a.n and b.k <> a.k)
              and a.k in (select k from {kept} where n > 1)"""
    return kept.sparkSession.sql(text, kept=kept)


def lateral(kept: DataFrame) -> DataFrame:
    text = "select a.k, c.m from {kept} a, lateral (select max(b.n) as m from {kept} b where b.k < a.k) c"
    return kept.sparkSession.sql(text, kept=kept)


def recursive(kept: DataFrame) -> DataFrame:
    text = """with recursive r(k, depth) as
              (select k, 0 from {kept} union all select k, depth + 1 from r where depth < 2) select * from r"""
    return kept.sparkSession.sql(text, kept=kept)


def table_argument(kept: DataFrame) -> DataFrame:
    class Doubled:
        def eval(self, row: Any) -> Iterator[tuple[int, int]]:
            yield row["k"], row["n"] * 2

    kept.sparkSession.udtf.register("doubled_rows", F.udtf(Doubled, returnType="k: long, n: long"))
    kept.createOrReplaceTempView("given")
    return kept.sparkSession.sql("select * from doubled_rows(table(select k, n from given))")


def arranged(kept: DataFrame) -> DataFrame:
    ranked = F.row_number().over(Window.partitionBy().orderBy("n", "k"))
    return kept.withColumn("rank", ranked).dropDuplicates(["k"]).orderBy("rank").limit(5)


def in_pandas(kept: DataFrame) -> DataFrame:
    def doubled(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            yield frame.assign(n=frame.n * 2)

    return kept.mapInPandas(doubled, kept.schema)


def grouped_in_pandas(kept: DataFrame) -> DataFrame:
    return kept.groupBy("k").applyInPandas(lambda frame: frame.assign(n=frame.n + 1), kept.schema)


def by_its_schema(kept: DataFrame) -> DataFrame:
    longs = [name for name, kind in kept.dtypes if kind == "bigint"]
    made = kept.select(*[F.col(name).cast("string") for name in longs], F.lit(kept.isLocal()).alias("local"))
    return made.unpivot("local", longs, "name", "value").exceptAll(made.unpivot("local", ["k"], "name", "value"))


def pivoted(kept: DataFrame) -> DataFrame:
    return kept.groupBy("n").pivot("k", [1, 2, 3]).count().fillna(0)


def executed_at_once(kept: DataFrame) -> DataFrame:
    kept.createOrReplaceTempView("given")
    return kept.sparkSession.sql("execute immediate 'select k, n from given where k > ?' using 2")


# What is described, and no more: called once.
DESCRIBED: list[Step] = [
    named_observe,
    observation,
    broadcast_self,
    merge_hint,
    coalesce_hint,
    rebalance_hint,
    own_view,
    own_function,
    own_setting,
    correlated,
    lateral,
    table_argument,
    arranged,
    in_pandas,
    grouped_in_pandas,
    by_its_schema,
    pivoted,
    executed_at_once,
]


def cached(kept: DataFrame) -> DataFrame:
    twice = kept.withColumn("x", F.col("n") * 2).cache()
    return twice.join(twice.selectExpr("k as j", "x as y"), F.col("j") == F.col("k"))


def persisted_and_let_go(kept: DataFrame) -> DataFrame:
    made = kept.withColumn("x", F.col("n") * 3).persist()
    made.unpersist()
    return made.where("k > 1")


def checkpointed(kept: DataFrame) -> DataFrame:
    return kept.localCheckpoint(eager=False).where("k > 1")


def through_rdd(kept: DataFrame) -> DataFrame:
    return kept.sparkSession.createDataFrame(kept.rdd.map(lambda row: (row.k, row.n + 1)), "k long, n long")


def beside_rdd(kept: DataFrame) -> DataFrame:
    other = kept.sparkSession.createDataFrame(kept.rdd.map(lambda row: (row.k, row.n + 1)), "j long, m long")
    return kept.join(other, F.col("j") == F.col("k"))


def lookup(kept: DataFrame) -> DataFrame:
    names = kept.sparkSession.createDataFrame([(1, "one"), (2, "two")], "k long, name string")
    return kept.join(names, "k")


def explained(kept: DataFrame) -> DataFrame:
    kept.join(kept.selectExpr("k as j"), F.col("j") == F.col("k")).explain()
    return kept.where("k > 1")


def global_view(kept: DataFrame) -> DataFrame:
    kept.where("k > 2").createOrReplaceGlobalTempView("for_all")
    return kept.sparkSession.table("global_temp.for_all")


# What must be made of the real rows: called again over them.
BUILT_AGAIN: list[Step] = [
    cached,
    persisted_and_let_go,
    checkpointed,
    through_rdd,
    beside_rdd,
    lookup,
    explained,
    recursive,
    global_view,
]


def bare(spark: SparkSession, lake: str, step: Step) -> list[Any]:
    """The same program without Rekindle."""
    session = clone(spark, {})
    return rows_of(step(session.read.parquet(lake).groupBy("k").agg(F.count("*").alias("n"))))


def rows_of(frame: DataFrame) -> list[Any]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> str:
    folder = str(tmp_path / "orders")
    spark.range(40).selectExpr("id % 7 as k").repartition(2).write.parquet(folder)
    return folder


def called(spark: SparkSession, lake: str, tmp_path: Path, step: Step) -> int:
    """Run it; the answer is how often the function was called. The rows are those of bare Spark."""
    calls: list[DataFrame] = []
    pipeline = rk.Pipeline("once")
    pipeline.add_source(lambda spark: spark.read.parquet(lake), name="orders")
    pipeline.add_step(lambda orders: orders.groupBy("k").agg(F.count("*").alias("n")), name="kept", result="blocking")

    def counted(kept: DataFrame) -> DataFrame:
        calls.append(kept)
        return step(kept)

    pipeline.add_step(counted, name="found", inputs=["kept"], result="blocking")
    pipeline.add_sink(lambda found: found, rk.files(str(tmp_path / "out")), name="final")
    pipeline.run(spark, str(tmp_path / "runs"), options=QUIET)
    expected = bare(spark, lake, step)
    assert rows_of(rk.read_newest(spark, str(tmp_path / "out"))) == expected and expected
    return len(calls)


@pytest.mark.parametrize("step", DESCRIBED)
def test_what_is_described_is_called_once(spark: SparkSession, lake: str, tmp_path: Path, step: Step) -> None:
    assert called(spark, lake, tmp_path, step) == 1


@pytest.mark.parametrize("step", BUILT_AGAIN)
def test_what_is_made_of_rows_is_called_over_them(spark: SparkSession, lake: str, tmp_path: Path, step: Step) -> None:
    assert called(spark, lake, tmp_path, step) == 2


def test_a_global_view_of_a_step_has_the_rows_of_the_run(spark: SparkSession, lake: str, tmp_path: Path) -> None:
    """After the run, and the second run in one application: its view is there before."""
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
        assert called(spark, lake, tmp_path / folder, global_view) == 2
        assert rows_of(spark.table("global_temp.for_all")) == bare(spark, lake, global_view)


def looks_at_a_row(kept: DataFrame) -> DataFrame:
    return kept.where(F.col("k") >= (kept.first() or [0])[0])


def looks_whether_there_are_rows(kept: DataFrame) -> DataFrame:
    return kept.limit(1) if kept.isEmpty() else kept


def swallows_a_look(kept: DataFrame) -> DataFrame:
    try:
        return kept.limit(len(kept.take(3)))
    except Exception:
        return kept


@pytest.mark.parametrize("step", [looks_at_a_row, looks_whether_there_are_rows, swallows_a_look])
def test_a_step_that_acts_on_rows_never_goes_on_without_them(
    spark: SparkSession, lake: str, tmp_path: Path, step: Step
) -> None:
    """Over a stand-in Spark answers such a question without a job."""
    with pytest.raises(rk.RekindleError, match="starts a Spark job while it is built"):
        called(spark, lake, tmp_path, step)
    assert not (tmp_path / "out").exists()


def stashes(kept: DataFrame) -> DataFrame:
    """Hands on the frame that it was called with first."""
    STASH.append(kept)
    kept.inputFiles()
    return STASH[0].where("k > 1")


STASH: list[DataFrame] = []


def test_a_stand_in_that_a_function_remembers_is_not_executed(spark: SparkSession, lake: str, tmp_path: Path) -> None:
    STASH.clear()
    with pytest.raises(rk.RekindleError, match="the plan of found reads the stand-in of a kept step"):
        called(spark, lake, tmp_path, stashes)
    assert len(STASH) > 1 and not (tmp_path / "out").exists()


# The second start.


def changing(lake: str, tmp_path: Path, calls: list[str], change: Step) -> rk.Pipeline:
    """`kept` ends in the change; `found` fails while there is poison."""
    poison = str(tmp_path / "poison")
    pipeline = rk.Pipeline("changing")
    pipeline.add_source(lambda spark: spark.read.parquet(lake), name="orders")
    pipeline.add_step(lambda orders: orders.selectExpr("k", "k * 2 as j").distinct(), name="other", result="blocking")

    def kept(orders: DataFrame) -> DataFrame:
        return change(orders.groupBy("k").agg(F.count("*").alias("n")))

    def found(kept: DataFrame, other: DataFrame) -> DataFrame:
        calls.append("found")

        def checked(k: int) -> int:
            if Path(poison).exists():
                raise ValueError("poison")
            return k

        return kept.join(other, "k").withColumn("checked", F.udf(checked, "long")("k"))

    pipeline.add_step(kept, partition_by="k", result="blocking")
    pipeline.add_step(found, result="blocking")
    pipeline.add_sink(lambda found: found, rk.files(str(tmp_path / "out")), name="final")
    return pipeline


def as_it_was(counted: DataFrame) -> DataFrame:
    return counted


def another_column(counted: DataFrame) -> DataFrame:
    return counted.withColumn("m", F.col("n") * 10)


def other_rows(counted: DataFrame) -> DataFrame:
    return counted.withColumn("n", F.col("n") + 100)


@pytest.mark.parametrize(("change", "is_accepted"), [(another_column, False), (other_rows, False), (other_rows, True)])
def test_a_resume_after_a_change_above_reads_what_counts(
    spark: SparkSession, lake: str, tmp_path: Path, change: Step, is_accepted: bool
) -> None:
    (tmp_path / "poison").touch()
    calls: list[str] = []
    with pytest.raises(rk.RunFailed):
        changing(lake, tmp_path, calls, as_it_was).run(spark, str(tmp_path / "runs"), options=ONE_TRY)
    assert calls == ["found"]
    (tmp_path / "poison").unlink()
    options = rk.RunOptions(sweep=None, accept_change=["kept"] if is_accepted else [])
    resumed = changing(lake, tmp_path, calls, change).run(spark, str(tmp_path / "runs"), options=options)
    assert resumed.was_resumed and calls == ["found"] * 2
    orders = spark.read.parquet(lake)
    counts = (as_it_was if is_accepted else change)(orders.groupBy("k").agg(F.count("*").alias("n")))
    expected = counts.join(orders.selectExpr("k", "k * 2 as j").distinct(), "k").withColumn("checked", F.col("k"))
    newest = rk.read_newest(spark, str(tmp_path / "out"))
    assert newest.columns == expected.columns and rows_of(newest) == rows_of(expected)
