"""A run that is done and asked for again after its code, its input or its target changed (case 21)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.errors import Refused


def priced(folder: Path, rate: int, out: str = "out") -> rk.Pipeline:
    made = rk.Pipeline("daily")

    def orders(spark: SparkSession) -> DataFrame:
        return spark.read.schema("id long").parquet(str(folder / "orders"))

    def totals(orders: DataFrame) -> DataFrame:
        return orders.select("id", (F.col("id") * rate).alias("price"))

    made.add_source(orders)
    made.add_sink(totals, rk.files(str(folder / out)), partition_by="id", partitions=2)
    return made


def no_session() -> Any:
    pytest.fail("no session is made for a run that is done")


def test_what_changed_since_is_said_and_a_new_run_publishes_it(spark: SparkSession, tmp_path: Path) -> None:
    orders, location = str(tmp_path / "orders"), str(tmp_path / "kept")
    spark.range(200).coalesce(1).write.parquet(orders)
    priced(tmp_path, 1).run(spark, location)
    again = priced(tmp_path, 1).run(spark, location)
    assert again.was_done and not again.differs and "--new" not in str(again)
    spark.range(200, 400).coalesce(1).write.mode("append").parquet(orders)
    grown = priced(tmp_path, 1).run(spark, location)
    assert grown.was_done and len(grown.differs) == 1 and "totals: the input changed: 1 files" in grown.differs[0]
    changed = priced(tmp_path, 5).run(spark, location)
    assert "totals: the closed-over rate of totals changed: 1 -> 5" in changed.differs
    assert any("the input changed" in one for one in changed.differs)
    assert "publish it: rk.RunOptions(new=True)" in str(changed) and "the input changed" in str(
        priced(tmp_path, 1).plan(spark, location)
    )
    assert rk.read_newest(spark, str(tmp_path / "out")).count() == 200, "it is said, nothing is done"
    with pytest.raises(Refused, match="is done with other sinks"):
        priced(tmp_path, 1, "elsewhere").run(spark, location)
    without = priced(tmp_path, 5).run(no_session, location)
    assert without.differs == ("totals: the closed-over rate of totals changed: 1 -> 5",), "code needs no session"
    priced(tmp_path, 5).run(spark, location, options=rk.RunOptions(new=True))
    assert rk.read_newest(spark, str(tmp_path / "out")).count() == 400
    assert not priced(tmp_path, 5).run(spark, location).differs


def test_a_source_that_is_gone_does_not_undo_what_is_done(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(20).coalesce(1).write.parquet(str(tmp_path / "orders"))
    priced(tmp_path, 1).run(spark, str(tmp_path / "kept"))
    shutil.rmtree(tmp_path / "orders")
    again = priced(tmp_path, 1).run(spark, str(tmp_path / "kept"))
    assert again.was_done and len(again.differs) == 1
    assert "whether its inputs changed is not known" in again.differs[0]
