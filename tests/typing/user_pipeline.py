"""What a user writes must type-check under mypy strict, and what is wrong must not: an unneeded ignore is an error."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from typing import assert_type

from pyspark.sql import DataFrame, SparkSession

import rekindle as rk

pipeline = rk.Pipeline("daily_orders")


@pipeline.source
def orders(spark: SparkSession, day: date) -> DataFrame:
    return spark.read.parquet(f"s3a://lake/orders/day={day}")


@pipeline.source(deterministic=True)
def customers(spark: SparkSession) -> DataFrame:
    return spark.table("customers")


@pipeline.step
def clean(orders: DataFrame, limit: int = 3) -> DataFrame:
    return orders.where("amount > 0").limit(limit)


@pipeline.step(result="blocking", partition_by="customer_id", partitions=256, keep_until="forever")
def enriched(clean: DataFrame, customers: DataFrame) -> DataFrame:
    return clean.join(customers, "customer_id")


@pipeline.sink(rk.table("gold.daily", mode="overwrite"))
def daily(enriched: DataFrame) -> None: ...


def many(regions: list[str]) -> None:
    for region in regions:
        pipeline.add_step(clean, inputs={"orders": f"orders_{region}"}, name=f"clean_{region}")
    pipeline.add_sink(lambda clean_eu: clean_eu, rk.files("/lake/clean"), inputs=["clean_eu"], name="published")


def run(spark: SparkSession) -> None:
    options = rk.RunOptions(new=True, accept_change=["enriched"], storage={"region": "eu-central-1"})
    summary = pipeline.run(spark, "s3a://lake/runs", day=date(2026, 7, 30), options=options)
    assert_type(summary, rk.RunSummary)
    assert_type(summary.steps["enriched"].computed, int)
    assert_type(rk.run_time(), datetime)
    assert_type(rk.seed(), int)


def script(spark: SparkSession, frame: DataFrame) -> None:
    with rk.run("daily", spark, "s3a://lake/runs", day=date(2026, 7, 30), options=rk.RunOptions(new=True)) as run:
        kept: DataFrame = run.keep(frame, "enriched", partition_by=["customer_id"], partitions=256, deterministic=True)
        run.publish(kept, rk.files("/lake/gold"), name="gold")
        assert_type(str(run.plan()), str)
        assert_type(run.summary.computed, int)


plain: Callable[[DataFrame, int], DataFrame] = clean
assert_type(pipeline.check(day="2026-07-30"), tuple[str, ...])


def refused(spark: SparkSession) -> None:
    pipeline.step(partition="id")  # type: ignore[call-overload]
    pipeline.step(result="bloking")  # type: ignore[call-overload]
    pipeline.sink("gold")  # type: ignore[arg-type]
    pipeline.run(spark, "/lake", day=[1])  # type: ignore[arg-type]
    rk.run("daily", spark, day=[1])  # type: ignore[arg-type]
    rk.run("daily", spark).publish(clean, "gold", name="gold")  # type: ignore[arg-type]
