"""On Spark: the plan that is made before a resume is what then runs, vertex by vertex."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import rekindle as rk
from rekindle.master.facts.config import BackoffSpec, MasterConfig
from rekindle.master.facts.events import AttemptOpened, Event, PartitionsCommitted
from rekindle.master.state.run_state import RunState
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.observe.plan import Action, Plan

ONCE = MasterConfig(backoff=BackoffSpec("none"))


class Ran:
    """What a run opened attempts for; it may be killed after so many commits, or when a step is started."""

    def __init__(self, dies_after: int = 10**9, dies_at: str = "") -> None:
        self.opened: dict[str, Partitions] = {}
        self.commits = 0
        self._dies_after = dies_after
        self._dies_at = dies_at

    def __call__(self, events: tuple[Event, ...], state: RunState) -> None:
        for event in events:
            if isinstance(event, AttemptOpened):
                step = event.attempt.step
                self.opened[step] = self.opened.get(step, EMPTY) | event.partitions
            self.commits += isinstance(event, PartitionsCommitted)
        if self.commits >= self._dies_after or self._dies_at in self.opened:
            raise KeyboardInterrupt


def shop(folder: Path, *, poison: int | None = None, factor: int = 2) -> rk.Pipeline:
    """Orders, priced in Python, summed by customer; the row `poison` cannot be priced."""
    pipeline = rk.Pipeline("shop")

    @pipeline.source
    def orders(spark: SparkSession) -> DataFrame:
        return spark.read.parquet(str(folder / "orders"))

    def price(batches: Any) -> Any:
        for batch in batches:
            if poison is not None and poison in batch["id"].tolist():
                raise ValueError("cannot be priced")
            batch["price"] = batch["id"] * factor
            yield batch

    @pipeline.step(partition_by="customer", partitions=4, deterministic=True)
    def priced(orders: DataFrame) -> DataFrame:
        return orders.repartition(4, "customer").mapInPandas(price, "id long, customer long, price long")

    @pipeline.step(partition_by="customer", partitions=4)
    def totals(priced: DataFrame) -> DataFrame:
        return priced.groupBy("customer").agg(f.sum("price").alias("total"))

    @pipeline.sink(rk.files(str(folder / "out")))
    def daily(totals: DataFrame) -> None: ...

    return pipeline


@pytest.fixture
def folder(spark: SparkSession, tmp_path: Path) -> Path:
    rows = spark.range(200).select("id", (f.col("id") % 16).alias("customer"))
    rows.coalesce(1).write.parquet(str(tmp_path / "orders"))
    return tmp_path


def planned_and_ran(spark: SparkSession, pipeline: rk.Pipeline, folder: Path) -> tuple[Plan, Ran, rk.RunSummary]:
    plan = pipeline.plan(spark, str(folder / "store"))
    ran = Ran()
    summary = pipeline.run(spark, str(folder / "store"), options=rk.RunOptions(watcher=ran))
    return plan, ran, summary


def test_a_first_run(spark: SparkSession, folder: Path) -> None:
    plan, ran, summary = planned_and_ran(spark, shop(folder), folder)
    assert plan.computed() == ran.opened
    assert plan.has_work and plan.publishes == ("totals",)
    actions = {stage.step: stage.action for stage in plan.stages}
    assert actions == {
        "orders": Action.FUSED,
        "priced": Action.COMPUTE,
        "totals": Action.COMPUTE,
        "daily": Action.PUBLISH,
    }
    (priced,) = [stage for stage in plan.stages if stage.step == "priced"]
    assert priced.trust.startswith("declared")
    assert summary.bytes and "daily is in" in str(summary)
    again = shop(folder).plan(spark, str(folder / "store"))
    assert not again.has_work


def test_after_a_failure(spark: SparkSession, folder: Path) -> None:
    with pytest.raises(rk.RunFailed, match="cannot be priced"):
        shop(folder, poison=7).run(spark, str(folder / "store"), options=rk.RunOptions(config=ONCE))
    plan, ran, summary = planned_and_ran(spark, shop(folder), folder)
    assert plan.computed() == ran.opened
    (priced,) = [stage for stage in plan.stages if stage.step == "priced"]
    assert any("priced" in change for change in priced.changes), "the plan names what changed in the code"
    assert summary.was_resumed


def test_after_the_driver_died(spark: SparkSession, folder: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        shop(folder).run(spark, str(folder / "store"), options=rk.RunOptions(watcher=Ran(dies_after=1)))
    plan, ran, _ = planned_and_ran(spark, shop(folder), folder)
    assert plan.start.value == "resume"
    assert plan.computed() == ran.opened
    assert "totals" in plan.computed()


def test_after_a_change_of_code(spark: SparkSession, folder: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        shop(folder).run(spark, str(folder / "store"), options=rk.RunOptions(watcher=Ran(dies_after=2)))
    plan, ran, _ = planned_and_ran(spark, shop(folder, factor=3), folder)
    assert plan.computed() == ran.opened
    assert str(plan.computed()["priced"]) == "0-3"
    assert "factor" in str(plan)


def test_after_files_were_lost(spark: SparkSession, folder: Path) -> None:
    """The driver dies when `priced` is complete; then two of its files are removed and one is cut."""
    with pytest.raises(KeyboardInterrupt):
        shop(folder).run(spark, str(folder / "store"), options=rk.RunOptions(watcher=Ran(dies_at="totals")))
    files = sorted((folder / "store").glob("shop/*/results/priced/*/*/part-*_0000[012].*"))
    assert len(files) == 3
    files[0].unlink()
    files[1].unlink()
    files[2].write_bytes(files[2].read_bytes()[:-10])
    plan, ran, summary = planned_and_ran(spark, shop(folder), folder)
    assert plan.computed() == ran.opened
    assert str(plan.computed()["priced"]) == "0-2"
    assert "0-2: result lost" in str(plan) or "0-2: needed by totals" in str(plan)
    assert summary.steps["priced"].reused == 1
