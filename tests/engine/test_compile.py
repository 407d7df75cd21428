"""Groups from Spark's own plans: what is fused, kept, promoted, and refused with its line."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.engine.spark import prepare
from rekindle.engine.spark.plan import describe, kept_frames
from rekindle.engine.spark.plan.building import StepBuilder
from rekindle.engine.spark.plan.compile import Compiled, compile_pipeline, partitions_for
from rekindle.engine.spark.plan.layout import Layout, hold
from rekindle.engine.spark.plan.sources import SourcePin
from rekindle.engine.spark.session import clone, group_session
from rekindle.errors import StepStartsJob
from rekindle.model.kinds import Determinism, KeepUntil
from rekindle.pipeline.check import check
from rekindle.pipeline.constants import TimeAndSeed

KNOWN = TimeAndSeed(1_785_400_000_000, 7)


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("lake")
    spark.range(100).selectExpr("id", "id % 7 as k").write.parquet(f"{folder}/orders")
    return str(folder)


@pytest.fixture
def pipeline(lake: str) -> rk.Pipeline:
    made = rk.Pipeline("daily")

    @made.source
    def orders(spark: SparkSession, part: str = "orders") -> DataFrame:
        return spark.read.parquet(f"{lake}/{part}")

    return made


def compiled(spark: SparkSession, pipeline: rk.Pipeline, **parameters: Any) -> Compiled:
    return compile_pipeline(spark, check(pipeline._declared, parameters), StepBuilder(parameters, KNOWN))


def line_of(function: Callable[..., Any], text: str) -> str:
    lines, first = inspect.getsourcelines(function)
    return f"test_compile.py:{first + next(n for n, line in enumerate(lines) if text in line)}"


def jobs(spark: SparkSession) -> int:
    return int(spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())


def test_a_source_is_read_once_for_all_groups(spark: SparkSession, pipeline: rk.Pipeline, lake: str) -> None:
    read = []

    @pipeline.source
    def more(spark: SparkSession) -> DataFrame:
        read.append(spark)
        return spark.read.parquet(f"{lake}/orders")

    @pipeline.step(partition_by="k")
    def first(more: DataFrame) -> DataFrame:
        return more.where("id > 3")

    @pipeline.step(partition_by="k")
    def second(more: DataFrame, first: DataFrame) -> DataFrame:
        return more.join(first, "k")

    found = compiled(spark, pipeline)
    session = group_session(spark, {})
    frame = found.groups["first"].build(session, {})
    assert frame.sparkSession is session
    assert found.groups["second"].build(session, {"first": frame}).count() > 0
    assert len(read) == 1


def test_narrow_steps_are_fused_and_an_aggregation_is_kept(spark: SparkSession, pipeline: rk.Pipeline) -> None:
    @pipeline.step
    def clean(orders: DataFrame) -> DataFrame:
        return orders.where("id > 3")

    @pipeline.step(keep_until="forever")
    def totals(clean: DataFrame) -> DataFrame:
        return clean.groupBy("k").agg(F.count("*").alias("n"))

    @pipeline.sink(rk.files("/out/totals"))
    def published(totals: DataFrame) -> None: ...

    found = compiled(spark, pipeline)
    assert found.members == {"totals": ("orders", "clean", "totals")}
    assert found.groups["totals"].inputs == ()
    assert found.groups["totals"].partitions == 3
    assert found.groups["totals"].keep is KeepUntil.FOREVER
    assert found.groups["totals"].functions[1:] == (clean, totals)
    assert found.sinks == {"totals": rk.files("/out/totals")}
    assert found.why == {
        "orders": "pipelined into totals",
        "clean": "pipelined into totals",
        "totals": "kept: it contains an exchange",
        "published": "publishes totals to files /out/totals",
    }
    rows = found.groups["totals"].build(group_session(spark, {}), {}).collect()
    assert sum(row.n for row in rows) == 96


def test_a_join_counts_as_one_that_moves_rows_whatever_the_sizes(spark: SparkSession, pipeline: rk.Pipeline) -> None:
    """Stand-ins are empty: Spark would broadcast each of them."""

    @pipeline.step
    def paired(orders: DataFrame) -> DataFrame:
        return orders.join(orders.select("k", F.col("id").alias("other")), "k")

    @pipeline.step
    def hinted(orders: DataFrame, spark: SparkSession) -> DataFrame:
        return orders.join(F.broadcast(spark.range(7).toDF("k")), "k")

    @pipeline.step
    def end(paired: DataFrame, hinted: DataFrame) -> DataFrame:
        return paired.select("k").union(hinted.select("k"))

    found = compiled(spark, pipeline)
    assert found.why["paired"] == "kept: it contains an exchange"
    assert found.members["end"] == ("orders", "hinted", "end")
    assert found.groups["end"].inputs == ("paired",)


def test_results_that_lie_together_are_joined_without_being_kept_again(
    spark: SparkSession, pipeline: rk.Pipeline
) -> None:
    for name in ("left", "right"):
        pipeline.add_step(lambda orders: orders.groupBy("k").count(), name=name)

    @pipeline.step
    def joined(left: DataFrame, right: DataFrame) -> DataFrame:
        return left.join(right.withColumnRenamed("count", "other"), "k")

    @pipeline.step(result="blocking")
    def end(joined: DataFrame) -> DataFrame:
        return joined.where("other > 1")

    found = compiled(spark, pipeline)
    assert found.members["end"] == ("joined", "end")
    assert found.groups["end"].inputs == ("left", "right")


def test_a_python_step_is_kept(spark: SparkSession, pipeline: rk.Pipeline) -> None:
    def same(batches: Iterator[Any]) -> Iterator[Any]:
        yield from batches

    pipeline.add_step(lambda orders: orders.withColumn("x", F.udf(str)("id")), name="scored")
    pipeline.add_step(lambda scored: scored.mapInArrow(same, scored.schema), name="mapped")
    pipeline.add_step(lambda mapped: mapped.where("id > 1"), name="end")
    why = compiled(spark, pipeline).why
    assert why["scored"] == why["mapped"] == "kept: it runs Python functions"


def test_a_step_read_twice_is_computed_twice_only_if_that_cannot_be_seen(
    spark: SparkSession, pipeline: rk.Pipeline
) -> None:
    pipeline.add_step(lambda orders: orders.where("id > 3"), name="plain")
    pipeline.add_step(lambda orders: orders.withColumn("r", F.rand()), name="diced")
    for name in ("left", "right"):
        pipeline.add_step(lambda plain, diced: plain.union(diced.select("id", "k")), name=name)
    found = compiled(spark, pipeline)
    assert found.why["plain"] == "pipelined into left and right, computed in each of them: it is determinate and narrow"
    assert found.why["diced"] == (
        "kept: left and right read it and must see one version, and it is not determinate: Rand"
    )
    assert found.members["right"] == ("orders", "plain", "right")
    assert list(found.groups) == ["diced", "left", "right"]


def test_a_source_that_cannot_be_pinned_is_kept_on_first_read(spark: SparkSession) -> None:
    pipeline = rk.Pipeline("daily")
    pipeline.add_source(lambda spark: spark.createDataFrame([(1,), (2,)], "id long"), name="found")
    pipeline.add_source(lambda spark: spark.range(3), name="counted")
    pipeline.add_step(lambda found, counted: found.union(counted), name="end")
    found = compiled(spark, pipeline)
    assert found.why["found"] == "kept: its input cannot be pinned to one version"
    assert found.members == {"found": ("found",), "end": ("counted", "end")}


def counts(orders: DataFrame) -> DataFrame:
    number = orders.count()
    return orders.limit(number)


def pivots(orders: DataFrame) -> DataFrame:
    return orders.groupBy("id").pivot("k").count()


def helped(orders: DataFrame) -> DataFrame:
    return counts(orders)


def swallows(orders: DataFrame) -> DataFrame:
    try:
        number = orders.count()
    except Exception:
        number = 0
    return orders.limit(number)


@pytest.mark.parametrize(
    ("function", "where", "text"),
    [
        (counts, counts, "orders.count()"),
        (pivots, pivots, ".pivot("),
        (helped, counts, "orders.count()"),
        (swallows, swallows, "def swallows"),
    ],
)
def test_a_step_that_starts_a_spark_job_is_refused_with_its_line(
    spark: SparkSession,
    pipeline: rk.Pipeline,
    function: Callable[..., Any],
    where: Callable[..., Any],
    text: str,
) -> None:
    pipeline.add_step(function)
    spark.sparkContext.setLocalProperty("spark.jobGroup.id", "mine")
    with pytest.raises(StepStartsJob) as caught:
        compiled(spark, pipeline)
    assert str(caught.value).startswith(f"{line_of(where, text)}: {function.__name__} starts a Spark job")
    assert "eager=True" in caught.value.hint
    assert spark.sparkContext.getLocalProperty("spark.jobGroup.id") == "mine"
    spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
    assert spark.range(4).count() == 4


def joins(orders: DataFrame) -> DataFrame:
    return orders.limit(len(orders.join(F.broadcast(orders.selectExpr("id as i")), F.col("i") == F.col("id")).take(1)))


def compares(orders: DataFrame) -> DataFrame:
    above = orders.sparkSession.sql("select * from {orders} where id > (select avg(id) from {orders})", orders=orders)
    return orders.limit(len(above.take(1)))


@pytest.mark.parametrize("function", [counts, swallows, joins, compares])
@pytest.mark.parametrize("is_adaptive", ["true", "false"])
def test_the_job_of_a_refused_step_reads_nothing(
    spark: SparkSession, pipeline: rk.Pipeline, function: Callable[..., Any], is_adaptive: str
) -> None:
    """The stand-ins of compiling have no files, but the plan of a fused source is real. Adaptive execution has stages
    before there is a job."""
    tracker: Any = spark.sparkContext._jsc.sc().statusTracker()
    pipeline.add_step(function)
    before = jobs(spark)
    with pytest.raises(StepStartsJob):
        compiled(clone(spark, {"spark.sql.adaptive.enabled": is_adaptive}), pipeline)
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    ran = [job for job in range(before, jobs(spark)) if tracker.getJobInfo(job).isDefined()]
    assert len(ran) <= 1, "only the source may have looked at its schema"


def test_an_eager_step_may_start_jobs_and_is_kept(spark: SparkSession, pipeline: rk.Pipeline) -> None:
    pipeline.add_step(counts, eager=True)
    pipeline.add_step(lambda counts: counts.where("id > 1"), name="end")
    found = compiled(spark, pipeline)
    assert found.why["counts"] == "kept: it starts Spark jobs while it is built"
    assert found.groups["counts"].is_eager
    assert not found.groups["end"].is_eager


def test_an_error_in_a_step_has_its_line_and_nothing_was_started(spark: SparkSession, pipeline: rk.Pipeline) -> None:
    def typo(orders: DataFrame) -> DataFrame:
        return orders.select("idd")

    pipeline.add_step(typo)
    with pytest.raises(rk.GraphRefused) as caught:
        compiled(spark, pipeline)
    assert str(caught.value).startswith(f"{line_of(typo, 'idd')}: typo could not be built: AnalysisException")


@pytest.mark.parametrize(
    ("function", "options", "text"),
    [
        (lambda orders: None, {}, "returned nothing, not a DataFrame"),
        (lambda orders: 3, {}, "returned a int, not a DataFrame"),
        (lambda orders: orders, {"partition_by": "kk"}, "partitioned by kk, but has no such column"),
    ],
)
def test_what_is_not_a_result_is_refused(
    spark: SparkSession, pipeline: rk.Pipeline, function: Callable[..., Any], options: Any, text: str
) -> None:
    pipeline.add_step(function, name="wrong", **options)
    with pytest.raises(rk.GraphRefused, match=text):
        compiled(spark, pipeline)


def test_the_users_word_reaches_the_group(spark: SparkSession, pipeline: rk.Pipeline) -> None:
    pipeline.add_step(lambda orders: orders.withColumn("x", F.udf(str)("id")), name="sworn", deterministic=True)
    pipeline.add_step(lambda orders: orders.where("id > 1"), name="doubted", deterministic=False)
    pipeline.add_step(lambda doubted: doubted.groupBy("k").count(), name="end")
    groups = compiled(spark, pipeline).groups
    assert groups["sworn"].declared is Determinism.DECLARED
    assert groups["end"].declared is Determinism.INDETERMINATE


def test_constants_and_parameters_reach_every_build(spark: SparkSession, pipeline: rk.Pipeline) -> None:
    @pipeline.step(result="blocking")
    def stamped(orders: DataFrame, day: str) -> DataFrame:
        return orders.select(F.lit(day).alias("day"), F.lit(rk.seed()).alias("seed"), F.lit(rk.run_time()).alias("at"))

    group = compiled(spark, pipeline, day="2026-07-30").groups["stamped"]
    row = group.build(group_session(spark, {}), {}).first()
    assert row is not None and (row.day, row.seed) == ("2026-07-30", 7)


def test_a_frame_of_another_session_is_planned_in_the_groups_own(spark: SparkSession) -> None:
    pipeline = rk.Pipeline("daily")
    pipeline.add_source(lambda: spark.range(10).toDF("id"), name="numbers")
    pipeline.add_step(lambda numbers: numbers.where("id > 1"), name="end")
    group = compiled(spark, pipeline).groups["end"]
    session = group_session(spark, {})
    made = group.build(session, {})
    assert made.sparkSession is session
    held = hold(made, session, Layout(("id",), 2))
    assert kept_frames.stand_in(session, "end", held.schema, held.layout).columns == ["id"]


def test_the_active_session_is_the_users_after_a_step_made_frames(spark: SparkSession) -> None:
    spark.createDataFrame([(1,)], "id int")
    pipeline = rk.Pipeline("daily")
    pipeline.add_source(lambda spark: spark.createDataFrame([(1,)], "id int"), name="numbers")
    pipeline.add_step(lambda numbers: numbers.groupBy("id").count(), name="end")
    compiled(spark, pipeline)
    active = SparkSession.getActiveSession()
    assert active is not None
    assert active.conf.get("spark.sql.sources.commitProtocolClass") == spark.conf.get(
        "spark.sql.sources.commitProtocolClass"
    )


def test_a_range_is_cut_as_when_the_run_started_whatever_the_cores_are(spark: SparkSession) -> None:
    session = group_session(spark, {"spark.sql.leafNodeDefaultParallelism": "5"})
    assert session.range(100).rdd.getNumPartitions() == 5
    assert session.range(0, 100, 1, 3).rdd.getNumPartitions() == 3
    assert spark.range(100).rdd.getNumPartitions() == spark.sparkContext.defaultParallelism


def test_how_adaptive_execution_divides_rows_is_pinned_with_the_run(spark: SparkSession) -> None:
    """Another driver compares an exchange task by task: it must have the same tasks."""
    switched_off = clone(spark, {"spark.sql.adaptive.enabled": "false"})
    pinned = prepare.pinned_settings(switched_off)
    assert pinned["spark.sql.adaptive.enabled"] == "false"
    assert group_session(spark, pinned).conf.get("spark.sql.adaptive.enabled") == "false"


GIGABYTE = 1 << 30


@pytest.mark.parametrize(
    ("pins", "partitions"),
    [
        ([SourcePin(True, "a", 1, 100)], 8),
        ([SourcePin(True, "a", 1, GIGABYTE)], 32),
        ([SourcePin(True, "a", 1, GIGABYTE), SourcePin(True, "b", 1, 1)], 33),
        ([SourcePin(True, "a", 9, 100 * GIGABYTE)], 200),
        ([SourcePin(True, "a", 1, 100), SourcePin(False, "", because=("a database",))], 200),
        ([SourcePin(True, "a", 1, 100), SourcePin(True)], 200),
        ([], 200),
    ],
)
def test_where_nobody_asked_the_number_of_partitions_follows_the_bytes(pins: list[SourcePin], partitions: int) -> None:
    assert partitions_for(pins, 200) == partitions


@pytest.mark.parametrize(("asked", "partitions"), [("200", 8), ("5", 5)])
def test_the_number_of_partitions_is_pinned_with_the_run(
    spark: SparkSession, pipeline: rk.Pipeline, asked: str, partitions: int
) -> None:
    @pipeline.step
    def counted(orders: DataFrame) -> DataFrame:
        return orders.groupBy("k").count()

    session = clone(spark, {"spark.sql.shuffle.partitions": asked})
    steps = check(pipeline._declared, {})
    first = compile_pipeline(session, steps, StepBuilder({}, KNOWN), prepare.pinned_settings(session))
    assert first.groups["counted"].partitions == partitions
    assert first.settings["spark.sql.shuffle.partitions"] == str(partitions)
    again = compile_pipeline(
        clone(spark, {"spark.sql.shuffle.partitions": "7"}), steps, StepBuilder({}, KNOWN), first.settings
    )
    assert again.groups["counted"].partitions == partitions


def test_jobs_of_other_threads_are_no_jobs_of_a_step(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job has its number before Spark tells of it: other queries of a stream run while one is built."""
    is_over = threading.Event()

    def busy() -> None:
        while not is_over.is_set():
            spark.range(1).count()

    threads = [threading.Thread(target=busy, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()

    def built(times: int) -> None:
        for _ in range(times):
            pipeline = rk.Pipeline("beside")
            pipeline.add_source(lambda spark: spark.range(4), name="orders")
            pipeline.add_step(lambda orders: orders.where("id > 1"), name="kept", result="blocking")
            pipeline.add_sink(lambda kept: kept, rk.files("/nowhere/at/all"), name="sink")
            compiled(spark, pipeline)

    try:
        built(30)
        monkeypatch.setattr(describe, "UNKNOWN_SECONDS_MAX", -1.0)
        with pytest.raises(StepStartsJob):
            built(400)
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
