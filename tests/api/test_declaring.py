"""Decorators return functions unchanged, and know what each parameter is given."""

from __future__ import annotations

from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import rekindle as rk
from rekindle.engine.location import spark_root
from rekindle.pipeline.check import check
from rekindle.pipeline.constants import TimeAndSeed, known
from rekindle.pipeline.declared import Declared
from rekindle.service.parameters import texts_of


def declared(pipeline: rk.Pipeline, *given: str) -> dict[str, Declared]:
    return {one.name: one for one in check(pipeline._declared, given)}


def test_a_decorator_returns_the_function_unchanged_with_or_without_parentheses() -> None:
    pipeline = rk.Pipeline("daily")

    def orders(spark: str) -> str:
        return f"orders of {spark}"

    def clean(orders: str) -> str:
        return orders.upper()

    def counted(clean: str) -> str:
        return clean

    def daily(counted: str) -> None: ...

    assert pipeline.source(orders) is orders
    assert pipeline.step(clean) is clean
    assert pipeline.step(partitions=8)(counted) is counted
    assert pipeline.sink(rk.files("/out/daily"))(daily) is daily
    assert clean("a small frame") == "A SMALL FRAME"
    assert pipeline.check() == ("orders", "clean", "counted", "daily")


def test_each_parameter_is_given_an_input_the_session_or_a_parameter_of_the_run() -> None:
    pipeline = rk.Pipeline("daily")

    @pipeline.source
    def orders(spark: str, day: str) -> tuple[str, str]:
        return spark, day

    @pipeline.step
    def joined(orders: str, spark: str, *, day: str, limit: int = 3) -> tuple[str, str, str, int]:
        return orders, spark, day, limit

    found = declared(pipeline, "day")
    assert found["orders"].parameters == ("day",)
    assert found["joined"].inputs == ("orders",)
    assert found["joined"].parameters == ("day", "limit")
    assert found["joined"].parameter_values({"day": "today"}) == {"day": "today", "limit": 3}
    assert found["joined"].call({"orders": "o"}, "session", {"day": "today"}) == ("o", "session", "today", 3)


def test_one_function_makes_many_steps() -> None:
    pipeline = rk.Pipeline("daily")

    def of_region(spark: str, region: str) -> str:
        return region

    def clean(frame: str, day: str = "today") -> str:
        return f"clean {frame}"

    def all_of(first: str, *others: str) -> str:
        return ", ".join([first, *others])

    for region in ("eu", "us", "asia"):
        pipeline.add_source(partial(of_region, region=region), name=f"orders_{region}")
        pipeline.add_step(clean, inputs=[f"orders_{region}"], name=f"clean_{region}")
    pipeline.add_step(all_of, inputs=["clean_eu", "clean_us", "clean_asia"])
    pipeline.add_step(lambda a, b: a + b, inputs={"b": "clean_eu", "a": "all_of"}, name="both")
    found = declared(pipeline)
    assert found["clean_us"].inputs == ("orders_us",)
    assert found["all_of"].inputs == ("clean_eu", "clean_us", "clean_asia")
    assert found["all_of"].call({"clean_eu": "e", "clean_us": "u", "clean_asia": "a"}, None, {}) == "e, u, a"
    assert found["both"].call({"all_of": "all", "clean_eu": "eu"}, None, {}) == "alleu"


def test_the_constants_of_a_run_are_known_while_a_step_is_built() -> None:
    with pytest.raises(rk.Refused, match="outside of a step"):
        rk.run_time()
    with known(TimeAndSeed(1_785_400_000_123, 7)):
        assert rk.run_time() == datetime(2026, 7, 30, 8, 26, 40, 123_000, tzinfo=UTC)
        assert rk.run_time().tzinfo is UTC
        assert rk.seed() == 7
    with pytest.raises(rk.Refused, match=r"rk\.seed\(\) was called outside of a step"):
        rk.seed()


def test_a_date_and_its_text_are_the_same_key() -> None:
    assert texts_of({"day": date(2026, 7, 30)}) == texts_of({"day": "2026-07-30"})


@pytest.mark.parametrize(
    ("location", "root"),
    [
        ("/lake/runs", "file:/lake/runs"),
        ("/lake/runs/", "file:/lake/runs"),
        ("lake", f"file:{Path.cwd()}/lake"),
        ("file:///lake/my%20runs", "file:/lake/my runs"),
        ("file:/lake", "file:/lake"),
        ("s3://bucket/runs/", "s3a://bucket/runs"),
        ("s3a://bucket/runs", "s3a://bucket/runs"),
        ("S3://bucket/runs", "s3a://bucket/runs"),
        ("gs://bucket/runs", "gs://bucket/runs"),
        ("abfss://box@account/runs", "abfss://box@account/runs"),
    ],
)
def test_spark_spells_a_location_its_own_way(location: str, root: str) -> None:
    assert spark_root(location) == root


@pytest.mark.parametrize("location", ["memory://x", "az://container/x", "ftp://host/x"])
def test_where_spark_cannot_write_no_run_is_started(location: str) -> None:
    with pytest.raises(rk.Refused, match="Spark cannot keep results"):
        spark_root(location)


def test_a_sink_is_declared_with_its_target() -> None:
    pipeline = rk.Pipeline("daily")
    pipeline.add_source(lambda spark: None, name="orders")

    @pipeline.sink(rk.table("gold.daily"), partitions=4)
    def daily(orders: Any) -> None: ...

    assert declared(pipeline)["daily"].target == rk.table("gold.daily")
    assert declared(pipeline)["daily"].partitions == 4
