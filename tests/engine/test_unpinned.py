"""The level of a group that reads from a place that cannot be pinned."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rekindle.engine.spark.plan.analyse import analyse
from rekindle.engine.spark.plan.group import GroupSpec
from rekindle.model.graph import Step
from rekindle.model.kinds import Determinism


def steps(spark: SparkSession, *groups: GroupSpec) -> dict[str, Step]:
    return dict(analyse(spark, {group.step: group for group in groups}).drawn.graph().steps)


@pytest.mark.parametrize(
    ("declared", "level"),
    [
        pytest.param(None, Determinism.INDETERMINATE, id="what cannot be read again is indeterminate"),
        pytest.param(Determinism.DECLARED, Determinism.DECLARED, id="unless the user gave his word"),
    ],
)
def test_rows_of_an_rdd(spark: SparkSession, declared: Determinism | None, level: Determinism) -> None:
    found = GroupSpec(
        step="found",
        build=lambda session, _: session.createDataFrame([(1,), (2,)], "id long"),
        inputs=(),
        keys=("id",),
        partitions=2,
        declared=declared,
    )
    next_one = GroupSpec(
        step="next",
        build=lambda _, frames: frames["found"].where("id > 1"),
        inputs=("found",),
        keys=("id",),
        partitions=2,
    )
    made = steps(spark, found, next_one)
    assert made["found"].determinism is level
    assert made["next"].determinism is Determinism.DETERMINATE, "a kept result of ours is committed, so it is pinned"


def test_a_narrow_read_without_a_pin_is_one_part(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(4).write.parquet(f"{tmp_path}/in")

    def spec(name: str, path: str) -> GroupSpec:
        return GroupSpec(
            step=name, build=lambda session, _: session.read.parquet(path), inputs=(), keys=(), partitions=2
        )

    rows = GroupSpec(
        step="rows",
        build=lambda session, _: session.createDataFrame([(1,)], "id long"),
        inputs=(),
        keys=(),
        partitions=2,
    )
    made = steps(spark, spec("files", f"{tmp_path}/in"), rows)
    assert made["files"].determinism is Determinism.DETERMINATE and not made["files"].has_query_constants
    assert made["rows"].determinism is Determinism.INDETERMINATE and made["rows"].has_query_constants
