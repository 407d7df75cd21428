"""`pipeline.reproduce` on Spark: one partition of a failed run again, from its own files, and nothing written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.failover.backoff import NoRestart
from rekindle.master.facts.config import BackoffSpec, MasterConfig

PARTS = 4
ONE_TRY = rk.RunOptions(config=MasterConfig(backoff=BackoffSpec.of(NoRestart())))


class Scored:
    """Kept orders by customer, and a score of each that fails for customer 3 while a file says so."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.location = str(folder / "runs")
        self.poison = poison = folder / "poison"
        spark.range(40).selectExpr("id", "id % 7 as k").write.parquet(str(folder / "orders"))
        self.pipeline = pipeline = rk.Pipeline("scores")

        @pipeline.source
        def orders(spark: SparkSession) -> DataFrame:
            return spark.read.schema("id long, k long").parquet(str(folder / "orders"))

        @pipeline.step(partition_by="k", partitions=PARTS)
        def keyed(orders: DataFrame) -> DataFrame:
            return orders.where("id >= 0")

        @pipeline.step(partition_by="k", partitions=PARTS)
        def scored(keyed: DataFrame) -> DataFrame:
            def score(k: int) -> int:
                if k == 3 and poison.exists():
                    raise ValueError(f"cannot score {k}")
                return k * 2

            return keyed.withColumn("score", F.udf(score, "long")("k"))

        @pipeline.sink(rk.files(str(folder / "out")))
        def daily(scored: DataFrame) -> None: ...

    def fail(self) -> int:
        """Run until it fails; the partition that did."""
        self.poison.touch()
        with pytest.raises(rk.RunFailed) as caught:
            self.pipeline.run(self.spark, self.location, options=ONE_TRY)
        found = re.search(r"scored\[(\d+)\] ValueError: cannot score 3", str(caught.value))
        assert found is not None, str(caught.value)
        return int(found[1])

    def rows_of(self, partition: int, *more: str) -> list[Any]:
        frame = self.spark.range(40).selectExpr("id", "id % 7 as k").selectExpr("*", *more)
        return sorted(map(tuple, frame.where(f"pmod(hash(k), {PARTS}) = {partition}").collect()))


@pytest.fixture
def made(spark: SparkSession, tmp_path: Path) -> Scored:
    return Scored(spark, tmp_path)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def rows(frame: Any) -> list[Any]:
    return sorted(map(tuple, frame.collect()))


def test_a_poison_partition_fails_here_with_the_users_own_frame(made: Scored, tmp_path: Path) -> None:
    partition = made.fail()
    before = files(tmp_path / "runs")
    opened = made.pipeline.reproduce(made.spark, made.location, f"scored[{partition}]")
    assert opened.said[0].startswith("failed in the run: ValueError: cannot score 3, at test_reproduce.py:")
    assert opened.said[1].startswith(f"reads keyed[{partition}]: 1 file, ")
    assert rows(opened.inputs["keyed"]) == made.rows_of(partition)
    tried = opened.attempt(20)
    assert re.fullmatch(r"ValueError: cannot score 3, at test_reproduce.py:\d+ in score", tried.failure)
    assert any("in score" in line for line in tried.frames)
    assert not any("pyspark" in line for line in tried.frames)
    assert "ValueError" in tried.trace and tried.count == 0
    assert files(tmp_path / "runs") == before, "nothing of the run was touched"


def test_when_the_cause_is_gone_it_gives_the_rows_of_that_partition(made: Scored) -> None:
    partition = made.fail()
    made.poison.unlink()
    for number in (partition, (partition + 1) % PARTS):
        opened = made.pipeline.reproduce(made.spark, made.location, f"scored[{number}]")
        expected = made.rows_of(number, "k * 2 as score")
        assert rows(opened.rows) == expected
        tried = opened.attempt(2)
        assert (tried.failure, tried.count) == ("", len(expected))
        assert tried.table.startswith("+---") and "only showing top 2 rows" in tried.table


def test_only_the_files_of_the_partition_are_read(made: Scored, tmp_path: Path) -> None:
    """Every other file of the kept input is gone: what is opened needs none of them."""
    partition = made.fail()
    made.poison.unlink()
    kept = set((tmp_path / "runs").rglob("results/keyed/**/part-*.parquet"))
    mine = {path for path in kept if f"_{partition:05d}." in path.name}
    assert len(mine) == 1 and kept - mine
    for path in kept - mine:
        path.unlink()
    opened = made.pipeline.reproduce(made.spark, made.location, f"scored[{partition}]")
    assert rows(opened.rows) == made.rows_of(partition, "k * 2 as score")


def test_a_partition_behind_an_exchange_has_what_the_exchange_brings(made: Scored) -> None:
    made.fail()
    opened = made.pipeline.reproduce(made.spark, made.location, "keyed[1]")
    assert "an exchange feeds it, so all map tasks of the exchange run first" in opened.said
    assert rows(opened.rows) == rows(opened.inputs["exchange"]) == made.rows_of(1)


def test_a_split_of_a_source_is_its_own_input(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(30).repartition(3).write.csv(str(tmp_path / "in"))
    pipeline = rk.Pipeline("narrow")

    @pipeline.source
    def numbers(spark: SparkSession) -> DataFrame:
        return spark.read.schema("n int").csv(str(tmp_path / "in"))

    @pipeline.step
    def doubled(numbers: DataFrame) -> DataFrame:
        return numbers.withColumn("twice", F.udf(lambda n: 2 * n, "long")("n"))

    @pipeline.sink(rk.files(str(tmp_path / "out")))
    def daily(doubled: DataFrame) -> None: ...

    pipeline.run(spark, str(tmp_path / "runs"))
    count = rk.read_newest(spark, str(tmp_path / "out")).rdd.getNumPartitions()
    seen = []
    for number in range(count):
        opened = pipeline.reproduce(spark, str(tmp_path / "runs"), f"doubled[{number}]")
        assert [2 * n for (n,) in rows(opened.inputs["numbers"])] == [twice for _, twice in rows(opened.rows)]
        assert any(line.startswith("reads file:") and ".csv" in line for line in opened.said)
        seen += rows(opened.rows)
    assert sorted(seen) == [(n, 2 * n) for n in range(30)]


def test_a_failure_below_the_partitions_is_tried_on_the_files_it_names(spark: SparkSession, tmp_path: Path) -> None:
    """The exception is in a map task: no partition is to blame, and one of three files is; Spark reads the largest
    file first, and two of them in one task."""
    (tmp_path / "in").mkdir()
    for name, amount in (("a", "1"), ("b", "2,5"), ("c", "3")):
        (tmp_path / "in" / f"{name}.csv").write_text(f"{amount}\n" * 2_000)
    pipeline = rk.Pipeline("wide")

    @pipeline.source
    def orders(spark: SparkSession) -> DataFrame:
        return spark.read.schema("amount string").csv(str(tmp_path / "in"), sep=";")

    @pipeline.step
    def counted(orders: DataFrame) -> DataFrame:
        price = F.udf(lambda amount: float(amount), "double")
        return orders.groupBy(price("amount").alias("price")).count()

    @pipeline.sink(rk.files(str(tmp_path / "out")))
    def daily(counted: DataFrame) -> None: ...

    with pytest.raises(rk.RunFailed, match=r"reading /\S+/in/b\.csv"):
        pipeline.run(spark, str(tmp_path / "runs"), options=ONE_TRY)
    opened = pipeline.reproduce(spark, str(tmp_path / "runs"), "counted")
    where = opened.said[-1]
    assert re.fullmatch(r"runs the Spark tasks that read b\.csv(, [ac]\.csv)?: 1 of [23]", where), where
    assert opened.rows.rdd.getNumPartitions() == 1
    assert "could not convert string to float: '2,5'" in opened.attempt(5).failure


def test_what_cannot_be_opened_is_refused_with_the_next_command(made: Scored, tmp_path: Path) -> None:
    made.fail()

    def refused(vertex: str) -> str:
        with pytest.raises(rk.Refused) as caught:
            made.pipeline.reproduce(made.spark, made.location, vertex)
        return str(caught.value)

    assert "scored has partitions 0 to 3\n  next: pipeline.reproduce(…, 'scored[3]')" in refused("scored[4]")
    assert "has no kept step score\n  next: did you mean scored" in refused("score[1]")
    assert "orders has no result partitions" in refused("orders[1]")
    made.poison.unlink()
    made.pipeline.run(made.spark, made.location, options=ONE_TRY)
    assert (
        "scored reads keyed[1], which is released\n  next: a new run computes it again: rk.RunOptions(new=True)"
        in refused("scored[1]")
    )


def test_a_pipeline_that_is_cut_differently_is_refused(made: Scored, spark: SparkSession, tmp_path: Path) -> None:
    made.fail()
    other = rk.Pipeline("scores")
    for one in made.pipeline._declared:
        options: dict[str, Any] = {"partition_by": list(one.keys), "partitions": 5} if one.keys else {}
        match one.role.value:
            case "source":
                other.add_source(one.function)
            case "sink":
                assert one.target is not None
                other.add_sink(one.function, one.target)
            case _:
                other.add_step(one.function, **options)
    with pytest.raises(rk.Refused, match="was started with another graph"):
        other.reproduce(spark, made.location, "scored[1]")
