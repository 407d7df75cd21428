"""Failover strategies on Spark: what restarts after a failure, after the loss of a file, and when a run is resumed."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.failover.backoff import Backoff, FixedDelay, NoRestart
from rekindle.master.facts.config import BackoffSpec, MasterConfig
from rekindle.runtime.opening import peek
from rekindle.storage.stores import open_store

AT_ONCE = FixedDelay(5, 0)


class Shop:
    """orders -> cleaned -> totals, and rates beside them. While the file `failing` is there, a partition of totals
    fails; if it heals, only once."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder, self.failing = spark, folder, folder / "failing"

    def run(self, backoff: Backoff, *, heals: bool = False, **options: str) -> dict[str, int]:
        """How many partitions of each step were computed."""
        pipeline, failing, gone = rk.Pipeline("shop"), str(self.failing), str(self.folder / "gone")

        @F.udf("long")  # type: ignore[untyped-decorator]
        def checked(value: int) -> int:
            if value == 3 and Path(failing).exists():
                if heals:
                    Path(failing).rename(gone)
                raise ValueError("not yet")
            return value

        @pipeline.source
        def orders(spark: SparkSession) -> DataFrame:
            return spark.range(8)

        @pipeline.step(partition_by="id", partitions=2)
        def cleaned(orders: DataFrame) -> DataFrame:
            return orders.where("id < 100")

        @pipeline.step(partition_by="id", partitions=2)
        def rates(orders: DataFrame) -> DataFrame:
            return orders.withColumn("rate", F.col("id") * 2)

        @pipeline.sink(rk.files(f"{self.folder}/out"), partition_by="id", partitions=4, deterministic=True)
        def totals(cleaned: DataFrame, rates: DataFrame) -> DataFrame:
            return cleaned.join(rates, "id").withColumn("checked", checked("id"))

        config = MasterConfig(backoff=BackoffSpec.of(backoff))
        told = rk.RunOptions(config=config, quiet=True, **options)  # type: ignore[arg-type]
        summary = pipeline.run(self.spark, f"{self.folder}/runs", options=told)
        return {name: step.computed + step.repeated for name, step in summary.steps.items()}

    def results(self, step: str) -> list[Path]:
        return sorted((self.folder / "runs/shop").glob(f"*/results/{step}/*/*/part-*"))

    def published(self) -> list[tuple[int, ...]]:
        rows = rk.read_newest(self.spark, f"{self.folder}/out").select("id", "rate", "checked").collect()
        return sorted(tuple(row) for row in rows)


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path) -> Shop:
    return Shop(spark, tmp_path)


EXPECTED = [(number, number * 2, number) for number in range(8)]


@pytest.mark.parametrize(("strategy", "again"), [("region", (0, 0, 4)), ("individual", (0, 0, 4)), ("full", (2, 2, 4))])
def test_a_run_is_resumed(shop: Shop, strategy: str, again: tuple[int, int, int]) -> None:
    """It failed with the usual strategy; the one that is given on resume decides what starts over."""
    shop.failing.touch()
    with pytest.raises(rk.RunFailed, match="not yet"):
        shop.run(NoRestart())
    shop.failing.unlink()
    computed = shop.run(NoRestart(), strategy=strategy)
    cleaned, rates, totals = again
    assert (computed["cleaned"], computed["rates"]) == (cleaned, rates)
    assert 0 < computed["totals"] <= totals and (strategy != "full" or computed["totals"] == totals)
    assert shop.published() == EXPECTED


@pytest.mark.parametrize(("strategy", "made"), [("region", (2, 2)), ("individual", (2, 2)), ("full", (4, 4))])
def test_a_partition_fails_once(shop: Shop, strategy: str, made: tuple[int, int]) -> None:
    shop.failing.touch()
    computed = shop.run(AT_ONCE, heals=True, strategy=strategy)
    assert (computed["cleaned"], computed["rates"]) == made, "first tries and repeats"
    assert shop.published() == EXPECTED


@pytest.mark.parametrize(("strategy", "made"), [("region", (1, 0)), ("individual", (1, 0)), ("full", (2, 2))])
def test_a_result_is_lost_between_two_drivers(shop: Shop, strategy: str, made: tuple[int, int]) -> None:
    shop.failing.touch()
    with pytest.raises(rk.RunFailed, match="not yet"):
        shop.run(AT_ONCE, strategy=strategy)
    shop.failing.unlink()
    shop.results("cleaned")[1].unlink(missing_ok=True)  # With `full` it may be one of those that are being deleted.
    computed = shop.run(AT_ONCE)
    assert (computed["cleaned"], computed["rates"]) == made, "the strategy of the run is in its journal"
    assert shop.published() == EXPECTED


def test_an_unknown_strategy_is_refused(shop: Shop) -> None:
    with pytest.raises(rk.Refused, match=r"no failover strategy 'all'[\s\S]*region, individual, full"):
        shop.run(NoRestart(), strategy="all")


def test_a_step_has_a_strategy_of_its_own(shop: Shop, spark: SparkSession, tmp_path: Path) -> None:
    """It is in the graph that is journaled; an unknown one is refused at its line."""
    pipeline = rk.Pipeline("own")

    @pipeline.source
    def numbers(spark: SparkSession) -> DataFrame:
        return spark.range(8)

    @pipeline.sink(rk.files(f"{tmp_path}/own"), partition_by="id", partitions=2, failover="individual")
    def kept(numbers: DataFrame) -> DataFrame:
        return numbers

    summary = pipeline.run(spark, f"{tmp_path}/runs", options=rk.RunOptions(quiet=True))
    state = peek(open_store(f"{tmp_path}/runs"), "own", summary.run)
    assert state is not None and state.spec.graph.step("kept").is_pessimistic is False
    with pytest.raises(rk.GraphRefused, match=r"failover='all' is not known[\s\S]*'region', 'individual'"):
        pipeline.step(failover="all")(lambda kept: kept)  # type: ignore[call-overload]
