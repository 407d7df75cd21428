"""`without` on Spark: a run is published with a hole, its readers are computed over it, and its target says so."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.master.facts.config import BackoffSpec, MasterConfig
from rekindle.publish.targets import Target

PARTS = 4
# One failure is poison: whatever does not need the partition is finished before the run is given up.
CONFIG = MasterConfig(backoff=BackoffSpec("fixed", {"attempts_max": 10, "delay_ms": 0}), poison_tries_max=1)


class Shop:
    """Orders by customer, a price that fails for customer 3, a pointwise step over it, and totals that read all."""

    def __init__(self, spark: SparkSession, folder: Path, target: Target, *, is_broken: bool = True) -> None:
        self.spark = spark
        self.location = str(folder / "runs")
        if not (folder / "orders").exists():
            spark.range(70).selectExpr("id", "id % 7 as k").write.parquet(str(folder / "orders"))
        self.pipeline = pipeline = rk.Pipeline("shop")

        @pipeline.source
        def orders(spark: SparkSession) -> DataFrame:
            return spark.read.schema("id long, k long").parquet(str(folder / "orders"))

        @pipeline.step(partition_by="k", partitions=PARTS)
        def priced(orders: DataFrame) -> DataFrame:
            def price(k: int) -> int:
                if k == 3 and is_broken:
                    raise ValueError(f"no price for {k}")
                return k * 2

            return orders.withColumn("price", F.udf(price, "long")("k"))

        @pipeline.step(partition_by="k", partitions=PARTS)
        def taxed(priced: DataFrame) -> DataFrame:
            return priced.withColumn("tax", F.udf(lambda price: price + 1, "long")("price"))

        @pipeline.step
        def totals(taxed: DataFrame) -> DataFrame:
            return taxed.groupBy("price").agg(F.count("*").alias("orders"), F.sum("tax").alias("tax"))

        @pipeline.sink(target)
        def daily(totals: DataFrame) -> None: ...

    def run(self, *without: str, new: bool = False) -> rk.RunSummary:
        options = rk.RunOptions(config=CONFIG, without=without, new=new)
        return self.pipeline.run(self.spark, self.location, options=options)

    def fail(self) -> int:
        with pytest.raises(rk.RunFailed) as caught:
            self.run()
        found = re.search(r"priced\[(\d+)\] ValueError: no price for 3", str(caught.value))
        assert found is not None, str(caught.value)
        return int(found[1])

    def expected(self, hole: int | None) -> list[Any]:
        there = f"pmod(hash(k), {PARTS}) <> {hole}" if hole is not None else "true"
        frame = self.spark.range(70).selectExpr("id % 7 as k").where(there)
        rows = frame.selectExpr("k * 2 as price").groupBy("price").agg(F.count("*"), F.sum(F.expr("price + 1")))
        return sorted(map(tuple, rows.collect()))


def rows(frame: DataFrame) -> list[Any]:
    return sorted(map(tuple, frame.collect()))


def newest(folder: Path) -> Any:
    return json.loads(sorted((folder / "pointers").iterdir())[-1].read_bytes())


def test_a_hole_is_published_told_and_filled_by_a_new_run(spark: SparkSession, tmp_path: Path) -> None:
    target = rk.files(str(tmp_path / "out"))
    shop = Shop(spark, tmp_path, target)
    hole = shop.fail()
    done = shop.run(f"priced[{hole}]")
    assert {name: step.computed for name, step in done.steps.items() if name != "totals"} == {"priced": 0, "taxed": 1}
    assert done.steps["priced"].reused == PARTS - 1
    said = f"  published without priced[{hole}], which the user left out; the target names it"
    assert said in done.lines()
    assert rows(rk.read_newest(spark, str(tmp_path / "out"))) == shop.expected(hole) != shop.expected(None)
    assert [part["holes"] for part in newest(tmp_path / "out")["parts"]] == [f"priced[{hole}]"]
    again = shop.run()
    assert again.was_done and said in again.lines()
    with pytest.raises(rk.Refused, match="has published it"):
        shop.run(f"priced[{(hole + 1) % PARTS}]")
    filled = Shop(spark, tmp_path, target, is_broken=False).run(new=True)
    assert not filled.holes
    assert rows(rk.read_newest(spark, str(tmp_path / "out"))) == shop.expected(None)
    assert [part["holes"] for part in newest(tmp_path / "out")["parts"]] == [""]


def test_corrected_code_fills_the_hole_of_a_run_that_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    """The run stops a second time, over the hole; then the step is corrected."""
    target = rk.files(str(tmp_path / "out"))
    shop = Shop(spark, tmp_path, target)
    hole = shop.fail()
    stopped: list[Any] = []

    def stop_at_totals(events: Any, state: Any) -> None:
        if state.is_complete("taxed") and not stopped:
            stopped.append(state)
            raise KeyboardInterrupt

    options = rk.RunOptions(config=CONFIG, without=[f"priced[{hole}]"], watcher=stop_at_totals)
    with pytest.raises(KeyboardInterrupt):
        shop.pipeline.run(spark, shop.location, options=options)
    assert stopped[0].holes().keys() == {"priced"}
    corrected = Shop(spark, tmp_path, target, is_broken=False)
    plan = corrected.pipeline.plan(spark, shop.location, options=rk.RunOptions(config=CONFIG, force=True))
    assert plan.without == "" and len(plan.computed()["priced"]) == PARTS
    done = corrected.pipeline.run(spark, shop.location, options=rk.RunOptions(config=CONFIG, force=True))
    assert done.was_resumed and not done.holes
    computed = {name: done.steps[name].computed for name in ("priced", "taxed")}
    assert computed == {"priced": PARTS, "taxed": 1}, "the others of priced came back equal, by their digests"
    assert rows(rk.read_newest(spark, str(tmp_path / "out"))) == shop.expected(None)
    assert [part["holes"] for part in newest(tmp_path / "out")["parts"]] == [""]


def test_the_plan_is_what_runs(spark: SparkSession, tmp_path: Path) -> None:
    shop = Shop(spark, tmp_path, rk.files(str(tmp_path / "out")))
    hole = shop.fail()
    options = rk.RunOptions(config=CONFIG, without=[f"priced[{hole}]"])
    plan = shop.pipeline.plan(spark, shop.location, options=options)
    assert f"Published without priced[{hole}], which the user left out." in str(plan)
    done = shop.run(f"priced[{hole}]")
    computed = {name: len(partitions) for name, partitions in plan.computed().items()}
    assert computed == {name: step.computed for name, step in done.steps.items() if step.computed}
    assert f"is done, published without priced[{hole}]: nothing to do" in str(shop.pipeline.plan(spark, shop.location))


def test_a_table_and_a_directory_say_what_is_missing(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("DROP TABLE IF EXISTS with_hole")
    shop = Shop(spark, tmp_path, rk.table("with_hole", location=str(tmp_path / "table")))
    hole = shop.fail()
    shop.run(f"priced[{hole}]")
    told = "SHOW TBLPROPERTIES with_hole ('rekindle.holes')"
    assert spark.sql(told).first()["value"] == f"run 1 without priced[{hole}]"
    Shop(spark, tmp_path, rk.table("with_hole"), is_broken=False).run(new=True)
    assert spark.sql(told).first()["value"] == "none"
    spark.sql("DROP TABLE with_hole")
    other = Shop(spark, tmp_path, rk.directory(str(tmp_path / "once")))
    other.location = str(tmp_path / "others")
    assert other.fail() == hole
    other.run(f"priced[{hole}]")
    label = json.loads((tmp_path / "once" / "_rekindle").read_bytes())
    assert [part["holes"] for part in label["parts"]] == [f"priced[{hole}]"]


@pytest.mark.parametrize(
    ("without", "said"),
    [
        ("priced", "priced cannot be left out: it has no partition number"),
        ("priced[9]", "priced has partitions 0 to 3"),
        ("price[1]", "has no kept step price\n  next: did you mean priced"),
        ("totals[0]", r"totals\[0\] cannot be left out: it has not failed"),
    ],
)
def test_what_cannot_be_left_out_is_refused(spark: SparkSession, tmp_path: Path, without: str, said: str) -> None:
    shop = Shop(spark, tmp_path, rk.files(str(tmp_path / "out")))
    shop.fail()
    with pytest.raises(rk.Refused, match=said):
        shop.run(without)


def test_a_run_that_never_began_has_nothing_to_leave_out(spark: SparkSession, tmp_path: Path) -> None:
    shop = Shop(spark, tmp_path, rk.files(str(tmp_path / "out")))
    with pytest.raises(rk.Refused, match=r"priced\[1\] cannot be left out: the run has not started"):
        shop.run("priced[1]")
