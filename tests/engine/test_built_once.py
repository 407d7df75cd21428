"""A step's function is called once per start: what it built over stand-ins is run with files in their place. Where that
would not be what it builds over the files, it is called again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.engine.spark.jvm.access import ours
from rekindle.engine.spark.plan import analyse, kept_frames
from rekindle.engine.spark.plan.determinism import DeterminismVerdict, judge
from rekindle.engine.spark.plan.layout import Layout, hold
from rekindle.engine.spark.run import engine
from rekindle.engine.spark.session import clone, group_session
from rekindle.failover.backoff import NoRestart
from rekindle.master.facts.config import BackoffSpec, MasterConfig

ONE_TRY = rk.RunOptions(config=MasterConfig(backoff=BackoffSpec.of(NoRestart())), sweep=None)
QUIET = rk.RunOptions(sweep=None)
ORDERS = [(n, n % 7, n % 11) for n in range(300)]


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> str:
    folder = str(tmp_path / "orders")
    spark.range(300).selectExpr("id", "id % 7 as k", "id % 11 as p").repartition(3).write.parquet(folder)
    return folder


@pytest.fixture
def calls() -> Counter[str]:
    return Counter()


def rows(spark: SparkSession, tmp_path: Path) -> list[Any]:
    return sorted(tuple(row) for row in rk.read_newest(spark, str(tmp_path / "out")).collect())


def counting(calls: Counter[str], function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, counted."""

    def called(*given: Any) -> Any:
        calls[function.__name__] += 1
        return function(*given)

    return called


def pipeline_of(
    lake: str, tmp_path: Path, calls: Counter[str], *steps: Callable[..., Any], **options: Any
) -> rk.Pipeline:
    """`counted` is kept; the steps read it, each the one before; `options` are those of the first of them."""
    pipeline = rk.Pipeline("once")

    @pipeline.source
    def orders(spark: SparkSession) -> DataFrame:
        calls["orders"] += 1
        return spark.read.parquet(lake)

    @pipeline.step
    def counted(orders: DataFrame) -> DataFrame:
        calls["counted"] += 1
        return orders.groupBy("k").agg(F.count("*").alias("n"))

    before = "counted"
    for number, function in enumerate(steps):
        more = options if number == 0 else {}
        pipeline.add_step(counting(calls, function), inputs=[before], name=function.__name__, **more)
        before = function.__name__
    pipeline.add_sink(lambda found: found, rk.files(str(tmp_path / "out")), inputs=[before], name="final")
    return pipeline


@pytest.fixture
def four(lake: str, tmp_path: Path, calls: Counter[str]) -> rk.Pipeline:
    """Four kept steps over one source, of which two read kept steps, and a pipelined step that two of them compute."""
    pipeline = rk.Pipeline("four")

    @pipeline.source
    def orders(spark: SparkSession) -> DataFrame:
        calls["orders"] += 1
        return spark.read.parquet(lake)

    @pipeline.step
    def clean(orders: DataFrame) -> DataFrame:
        calls["clean"] += 1
        return orders.where("id >= 10")

    @pipeline.step
    def counted(clean: DataFrame) -> DataFrame:
        calls["counted"] += 1
        return clean.groupBy("k").agg(F.count("*").alias("n"))

    @pipeline.step(partition_by="k", partitions=3)
    def scored(clean: DataFrame) -> DataFrame:
        calls["scored"] += 1
        poison = str(tmp_path / "poison")

        def score(k: int) -> int:
            if k == 3 and Path(poison).exists():
                raise ValueError(f"cannot score {k}")
            return k * 2

        return clean.withColumn("score", F.udf(score, "long")("k"))

    @pipeline.step
    def joined(scored: DataFrame, counted: DataFrame) -> DataFrame:
        calls["joined"] += 1
        return scored.join(counted, "k").groupBy("p").agg(F.sum("score").alias("s"), F.sum("n").alias("n"))

    @pipeline.sink(rk.files(str(tmp_path / "out")))
    def final(joined: DataFrame, scored: DataFrame) -> DataFrame:
        calls["final"] += 1
        return scored.groupBy("p").agg(F.max("id").alias("last")).join(joined, "p")

    return pipeline


ONCE = {"orders": 1, "clean": 1, "counted": 1, "scored": 1, "joined": 1, "final": 1}


def four_rows() -> list[tuple[int, int, int, int]]:
    found = [(n, k, p) for n, k, p in ORDERS if n >= 10]
    per_k = Counter(k for _, k, _ in found)
    return sorted(
        (
            part,
            max(n for n, _, p in found if p == part),
            sum(k * 2 for _, k, p in found if p == part),
            sum(per_k[k] for _, k, p in found if p == part),
        )
        for part in {p for _, _, p in found}
    )


def test_each_function_is_called_once_per_start(
    spark: SparkSession, four: rk.Pipeline, tmp_path: Path, calls: Counter[str]
) -> None:
    """Before, a step that reads kept ones was called three times per start, a pipelined one in each group again."""
    (tmp_path / "poison").touch()
    with pytest.raises(rk.RunFailed):
        four.run(spark, str(tmp_path / "runs"), options=ONE_TRY)
    assert calls == ONCE
    (tmp_path / "poison").unlink()
    calls.clear()
    resumed = four.run(spark, str(tmp_path / "runs"), options=ONE_TRY)
    assert resumed.was_resumed and calls == ONCE
    assert rows(spark, tmp_path) == four_rows()


def test_a_retry_in_one_start_calls_nothing_again(
    spark: SparkSession, four: rk.Pipeline, tmp_path: Path, calls: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan of every first attempt is thrown away, so that each step is planned a second time over its files."""
    usual, planned = engine.SparkEngine._generation, Counter[str]()

    def twice(self: Any, command: Any) -> Any:
        if not planned[command.attempt.step]:
            planned[command.attempt.step] += 1
            self._planned.pop(command.attempt.step, None)
            self._plan(command)
        return usual(self, command)

    monkeypatch.setattr(engine.SparkEngine, "_generation", twice)
    four.run(spark, str(tmp_path / "runs"), options=QUIET)
    assert calls == ONCE and set(planned) == {"counted", "scored", "joined", "final"}
    assert rows(spark, tmp_path) == four_rows()


def test_a_step_is_judged_once(
    spark: SparkSession, four: rk.Pipeline, tmp_path: Path, calls: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[str] = []

    def counted(plan: str, *given: Any, **named: Any) -> DeterminismVerdict:
        judged.append(plan)
        return judge(plan, *given, **named)

    monkeypatch.setattr("rekindle.engine.spark.plan.layout.judge", counted)
    four.plan(spark, str(tmp_path / "runs"))
    assert calls == ONCE and len(judged) == len(ONCE) + 1, "of one it is asked once more what is below its exchange"


def test_an_eager_step_is_built_over_the_real_rows_once_more(
    spark: SparkSession, lake: str, tmp_path: Path, calls: Counter[str]
) -> None:
    seen: list[int] = []

    def topped(counted: DataFrame) -> DataFrame:
        seen.append(counted.count())
        return counted.withColumn("groups", F.lit(seen[-1]))

    pipeline_of(lake, tmp_path, calls, topped, eager=True).run(spark, str(tmp_path / "runs"), options=QUIET)
    assert seen == [0, 7] and calls == {"orders": 1, "counted": 1, "topped": 2}
    assert {row[2] for row in rows(spark, tmp_path)} == {7}


def test_a_step_that_asks_for_files_or_sizes_is_built_over_the_real_ones(
    spark: SparkSession, lake: str, tmp_path: Path, calls: Counter[str]
) -> None:
    seen: list[Any] = []

    def asks(counted: DataFrame) -> DataFrame:
        size = int(str(counted._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))
        seen.append((len(counted.inputFiles()) > 0, size > 1))
        return counted.withColumn("is_small", F.lit(size > 1)).groupBy("k", "is_small").agg(F.sum("n").alias("n"))

    pipeline_of(lake, tmp_path, calls, asks).run(spark, str(tmp_path / "runs"), options=QUIET)
    assert seen == [(False, False), (True, True)]
    assert calls["asks"] == 2 and calls["counted"] == 1
    assert {row[1] for row in rows(spark, tmp_path)} == {True}


def test_each_reader_that_asks_is_noticed(spark: SparkSession, lake: str, tmp_path: Path, calls: Counter[str]) -> None:
    """Spark remembers the size of a node: the second reader would be told without a question to the stand-in."""

    def asks(counted: DataFrame) -> DataFrame:
        size = int(str(counted._jdf.queryExecution().analyzed().stats().sizeInBytes()))
        return counted.withColumn("is_small", F.lit(size > 1)).groupBy("k", "is_small").agg(F.sum("n").alias("n"))

    pipeline = pipeline_of(lake, tmp_path, calls, asks)
    pipeline.add_step(counting(calls, asks), name="also", inputs=["counted"])
    pipeline.run(spark, str(tmp_path / "runs"), options=QUIET)
    assert calls == {"orders": 1, "counted": 1, "asks": 4}
    assert {row[1] for row in rows(spark, tmp_path)} == {True}


def test_a_step_that_goes_through_an_rdd_gets_the_real_rows(
    spark: SparkSession, lake: str, tmp_path: Path, calls: Counter[str]
) -> None:
    """An RDD of a stand-in has no rows, and stays that way."""

    def through(counted: DataFrame) -> DataFrame:
        session = counted.sparkSession
        return session.createDataFrame(counted.rdd.map(lambda row: (row.k, row.n)), "k long, n long")

    pipeline = pipeline_of(lake, tmp_path, calls, through, result="blocking", deterministic=True)
    pipeline.run(spark, str(tmp_path / "runs"), options=QUIET)
    assert calls["through"] == 2
    assert rows(spark, tmp_path) == sorted(Counter(k for _, k, _ in ORDERS).items())


def test_readers_of_a_step_that_turned_out_to_be_kept_are_built_again(
    spark: SparkSession, lake: str, tmp_path: Path, calls: Counter[str]
) -> None:
    """Two readers of a step that is not determinate must see one version: it is promoted when they are known."""
    pipeline = rk.Pipeline("promoted")

    @pipeline.source
    def orders(spark: SparkSession) -> DataFrame:
        return spark.read.parquet(lake)

    @pipeline.step
    def drawn(orders: DataFrame) -> DataFrame:
        calls["drawn"] += 1
        return orders.withColumn("x", F.rand())

    @pipeline.step
    def first(drawn: DataFrame) -> DataFrame:
        calls["first"] += 1
        return drawn.groupBy("k").agg(F.max("x").alias("x"))

    @pipeline.step
    def second(drawn: DataFrame) -> DataFrame:
        calls["second"] += 1
        return drawn.groupBy("k").agg(F.max("x").alias("y"))

    @pipeline.sink(rk.files(str(tmp_path / "out")))
    def final(first: DataFrame, second: DataFrame) -> DataFrame:
        calls["final"] += 1
        return first.join(second, "k")

    pipeline.run(spark, str(tmp_path / "runs"), options=QUIET)
    assert calls == {"drawn": 1, "first": 2, "second": 2, "final": 2}
    assert all(x == y for _, x, y in rows(spark, tmp_path)) and len(rows(spark, tmp_path)) == 7


def test_a_reader_of_what_is_published_in_place_is_built_once(
    spark: SparkSession, lake: str, tmp_path: Path, calls: Counter[str]
) -> None:
    pipeline = pipeline_of(lake, tmp_path, calls)
    pipeline.add_step(counting(calls, lambda counted: counted.where("n > 42")), name="many", inputs=["counted"])
    pipeline.add_sink(lambda many: many, rk.files(str(tmp_path / "many")), name="published", inputs=["many"])
    pipeline.run(spark, str(tmp_path / "runs"), options=QUIET)
    assert calls == {"orders": 1, "counted": 1, "<lambda>": 1}
    assert rk.read_newest(spark, str(tmp_path / "many")).count() == 6


def test_a_function_that_a_pipelined_step_registers_is_known_to_its_reader(
    spark: SparkSession, lake: str, tmp_path: Path, calls: Counter[str]
) -> None:
    def registers(counted: DataFrame) -> DataFrame:
        counted.sparkSession.sql("create temporary function once_twice(x bigint) returns bigint return x * 2")
        return counted.where("k > 2")

    def uses(registers: DataFrame) -> DataFrame:
        return registers.selectExpr("k", "once_twice(n) as n")

    pipeline_of(lake, tmp_path, calls, registers, uses).run(spark, str(tmp_path / "runs"), options=QUIET)
    per_k = Counter(k for _, k, _ in ORDERS)
    assert rows(spark, tmp_path) == [(k, per_k[k] * 2) for k in range(3, 7)]
    assert calls == {"orders": 1, "counted": 1, "registers": 1, "uses": 1}


# A function is called with the settings that the step runs with.


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The analysed plans of what attempts execute, over their files."""
    found: list[str] = []

    def planned(frame: DataFrame, *given: Any, **named: Any) -> Any:
        found.append(frame._jdf.queryExecution().analyzed().toString())
        return hold(frame, *given, **named)

    monkeypatch.setattr(engine, "hold", planned)
    return found


def hinted(counted: DataFrame) -> DataFrame:
    return counted.hint("rebalance", "n")


def asked(counted: DataFrame) -> DataFrame:
    return counted.sparkSession.sql("select /*+ REBALANCE(n) */ * from {counted}", counted=counted)


@pytest.mark.parametrize("function", [hinted, asked])
def test_a_hint_that_only_adaptive_execution_follows_is_executed(
    spark: SparkSession,
    lake: str,
    tmp_path: Path,
    calls: Counter[str],
    executed: list[str],
    function: Callable[..., Any],
) -> None:
    """Spark drops it from a frame that is made where adaptive execution is off."""
    pipeline = pipeline_of(lake, tmp_path, calls, function)
    pipeline.run(clone(spark, {"spark.sql.adaptive.enabled": "true"}), str(tmp_path / "runs"), options=QUIET)
    assert calls[function.__name__] == 1
    assert any("RebalancePartitions" in plan for plan in executed)
    assert rows(spark, tmp_path) == sorted(Counter(k for _, k, _ in ORDERS).items())


def test_such_a_hint_of_a_source_is_followed_too(
    spark: SparkSession, lake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step over sources runs the plan that it was analysed with."""
    planned: list[str] = []

    def held(frame: DataFrame, *given: Any, **named: Any) -> Any:
        planned.append(frame._jdf.queryExecution().analyzed().toString())
        return hold(frame, *given, **named)

    monkeypatch.setattr(analyse, "hold", held)
    pipeline = rk.Pipeline("once")
    pipeline.add_source(lambda spark: spark.read.parquet(lake).hint("rebalance", "k"), name="orders")
    pipeline.add_sink(lambda orders: orders.where("id > 3"), rk.files(str(tmp_path / "out")), name="final")
    pipeline.run(clone(spark, {"spark.sql.adaptive.enabled": "true"}), str(tmp_path / "runs"), options=QUIET)
    assert any("RebalancePartitions" in plan for plan in planned)
    assert len(rows(spark, tmp_path)) == 296


@pytest.mark.parametrize("is_adaptive", ["true", "false"])
def test_a_function_sees_the_settings_of_the_user(
    spark: SparkSession, lake: str, tmp_path: Path, calls: Counter[str], is_adaptive: str
) -> None:
    names = (
        "spark.sql.adaptive.enabled",
        "spark.sql.autoBroadcastJoinThreshold",
        "spark.sql.adaptive.skewJoin.enabled",
    )
    mine = clone(spark, {names[0]: is_adaptive, names[1]: "4321"})
    seen: list[list[str | None]] = []

    def looks(counted: DataFrame) -> DataFrame:
        seen.append([counted.sparkSession.conf.get(name) for name in names])
        return counted.where("n > 0")

    pipeline_of(lake, tmp_path, calls, looks).run(mine, str(tmp_path / "runs"), options=QUIET)
    assert seen == [[mine.conf.get(name) for name in names]]


# Files in place of stand-ins, one plan at a time.

NUMBERED = Layout((), 2)


class Stored:
    """Rows in files, as a kept step would have them, and the stand-in of that step."""

    def __init__(self, spark: SparkSession, folder: Path, step: str, lies: Layout = NUMBERED) -> None:
        self.session, self.folder, self.step, self.lies = group_session(spark, {}), folder, step, lies
        self.frame = spark.range(10).selectExpr("id", "id % 3 as k")
        self.frame.coalesce(1).write.parquet(str(folder))

    def stand_in(self) -> DataFrame:
        return kept_frames.stand_in(self.session, self.step, self.frame._jdf.schema(), self.lies)

    def files(self, schema: Any = None, lies: Layout | None = None) -> dict[str, DataFrame]:
        found = [(path.name, path.stat().st_size) for path in self.folder.glob("*.parquet")]
        schema = schema if schema is not None else self.frame._jdf.schema()
        return {self.step: kept_frames.scan(self.session, str(self.folder), found, schema, lies or self.lies)}


@pytest.fixture
def stored(spark: SparkSession, tmp_path: Path) -> Stored:
    return Stored(spark, tmp_path / "kept", "kept")


def test_control_files_in_place_of_a_stand_in_are_read(stored: Stored) -> None:
    found = kept_frames.over_files(stored.stand_in().where("id > 4"), stored.session, stored.files())
    assert found is not None and sorted(row.id for row in found.collect()) == [5, 6, 7, 8, 9]


@pytest.mark.parametrize(
    "made",
    [
        lambda kept: kept.join(kept.groupBy("k").count(), "k").join(
            kept.selectExpr("id as i"), F.col("i") == F.col("id")
        ),
        lambda kept: kept.alias("a").join(kept.alias("b"), F.col("a.id") == F.col("b.id")).select("a.id", "b.k"),
        lambda kept: kept.sparkSession.sql("select * from {kept} where id > (select avg(id) from {kept})", kept=kept),
        lambda kept: kept.sparkSession.sql(
            "with c as (select k, count(*) as n from {kept} group by k) select * from c x join c y on x.k = y.n - 1",
            kept=kept,
        ),
        lambda kept: kept.where(kept.id.isin([1, 2])).unionByName(kept.where("k = 0")).sort("id"),
        lambda kept: kept.withColumn("s", F.udf(lambda x: x + 1, "long")("id")).groupBy("s").count(),
    ],
)
def test_a_plan_over_files_gives_what_building_it_again_gives(stored: Stored, made: Callable[..., DataFrame]) -> None:
    found = kept_frames.over_files(made(stored.stand_in()), stored.session, stored.files())
    assert found is not None
    again = made(stored.session.read.parquet(str(stored.folder)))
    assert found.columns == again.columns
    assert sorted(map(tuple, found.collect())) == sorted(map(tuple, again.collect())) and found.count() > 0


def test_another_schema_or_other_buckets_are_not_put_in_place(spark: SparkSession, stored: Stored) -> None:
    frame = stored.stand_in()
    other = spark.range(1).selectExpr("id", "cast(id as int) as k")._jdf.schema()
    assert kept_frames.over_files(frame, stored.session, stored.files(schema=other)) is None
    assert kept_frames.over_files(frame, stored.session, stored.files(lies=Layout(("k",), 2))) is None


def test_what_is_read_must_be_what_is_given(spark: SparkSession, stored: Stored, tmp_path: Path) -> None:
    """A result that the plan does not read as a leaf may have gone into it another way."""
    other = Stored(spark, tmp_path / "other", "other")
    both = {**stored.files(), **other.files()}
    frame = stored.stand_in()
    assert kept_frames.over_files(frame, stored.session, both) is None
    assert kept_frames.over_files(frame, stored.session, {}) is None
    joined = frame.join(other.stand_in(), "id")
    assert kept_frames.over_files(joined, stored.session, stored.files()) is None
    found = kept_frames.over_files(joined, stored.session, both)
    assert found is not None and found.count() == 10


def test_a_leaf_that_is_not_known_is_not_kept_in_place(stored: Stored) -> None:
    """It may be an RDD that was made from the stand-in, beside the stand-in itself."""
    kept = stored.stand_in()
    rest = stored.session.createDataFrame(kept.rdd.map(tuple), "i long, j long")
    assert kept_frames.over_files(kept.join(rest, kept.id == rest.i), stored.session, stored.files()) is None


@pytest.fixture
def cached(stored: Stored) -> Iterator[DataFrame]:
    frame = stored.stand_in().withColumn("x", F.rand()).cache()
    yield frame
    frame.unpersist()


def test_what_a_step_caches_is_cached_over_the_files(stored: Stored, cached: DataFrame) -> None:
    """Two reads of a cached draw are one draw; without the cache they would be two."""
    twice = cached.join(cached.selectExpr("id as i", "x as y"), F.col("id") == F.col("i"))
    assert kept_frames.over_files(twice, stored.session, stored.files()) is None


def test_a_stand_in_counts_what_it_is_asked(stored: Stored) -> None:
    questions = ours(stored.session).StandIn.questions
    frame = stored.stand_in()
    before = questions()
    _ = frame.schema, frame.columns, frame.where("id > 1").groupBy("k").count().dtypes
    assert questions() == before
    asks: list[Callable[[DataFrame], object]] = [
        lambda one: one.inputFiles(),
        lambda one: one.rdd.getNumPartitions(),
        lambda one: one.where("id > 1")._jdf.queryExecution().optimizedPlan().stats(),
    ]
    for ask in asks:
        before = questions()
        ask(stored.stand_in())
        assert questions() > before


def test_a_plan_over_files_has_the_settings_of_its_session(spark: SparkSession, stored: Stored) -> None:
    one = clone(stored.session, {"spark.sql.shuffle.partitions": "3", "spark.sql.adaptive.enabled": "false"})
    found = kept_frames.over_files(stored.stand_in().groupBy("k").count(), one, stored.files())
    assert found is not None and found.rdd.getNumPartitions() == 3
