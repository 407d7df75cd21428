"""Columns that change between two starts of a run are named; rows are never read under the names of other columns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk

NOW = rk.RunOptions()


def pipeline_of(folder: Path, columns: list[str], *, fails: bool) -> rk.Pipeline:
    made = rk.Pipeline("shop")

    @made.source
    def events(spark: SparkSession) -> DataFrame:
        return spark.read.parquet(f"file:{folder}/events")

    @made.step(result="blocking", partition_by="customer", partitions=2)
    def kept(events: DataFrame) -> DataFrame:
        return events.selectExpr(*columns)

    @made.sink(rk.files(f"{folder}/gold"), partitions=2, partition_by="customer")
    def gold(kept: DataFrame) -> DataFrame:
        @F.udf("long")  # type: ignore[untyped-decorator]
        def checked(amount: int) -> int:
            if fails:
                raise ValueError("not today")
            return amount

        return kept.withColumn("amount", checked("amount"))

    return made


@pytest.fixture
def failed(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    """A run whose `kept` is committed, and whose sink failed."""
    spark.range(50).selectExpr("id % 5 customer", "id amount", "id * 2 price").write.parquet(f"file:{tmp_path}/events")
    with pytest.raises(rk.RunFailed, match="not today"):
        pipeline_of(tmp_path, ["customer", "amount", "price"], fails=True).run(spark, f"{tmp_path}/runs")
    yield tmp_path


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        (["customer", "price", "amount"], "the columns of kept are in another order"),
        (["customer", "amount", "price", "1 one"], "kept.one: int is new"),
    ],
)
def test_rows_of_other_columns_are_not_kept_on_the_users_word(
    spark: SparkSession, failed: Path, columns: list[str], told: str
) -> None:
    """The control: two columns of one type in another order would be read under each other's names."""
    changed = pipeline_of(failed, columns, fails=False)
    with pytest.raises(rk.Refused) as caught:
        changed.run(spark, f"{failed}/runs", options=rk.RunOptions(accept_change=["kept"]))
    assert told in str(caught.value) and "without kept in rk.RunOptions" in str(caught.value)
    changed.run(spark, f"{failed}/runs")
    bare = spark.read.parquet(f"file:{failed}/events").selectExpr(*columns)
    names = bare.columns
    assert sorted(rk.read_newest(spark, f"{failed}/gold").select(*names).collect()) == sorted(bare.collect())


def test_a_change_that_leaves_the_columns_is_kept(spark: SparkSession, failed: Path) -> None:
    same: Any = ["customer", "amount + 0 amount", "price"]
    summary = pipeline_of(failed, same, fails=False).run(
        spark, f"{failed}/runs", options=rk.RunOptions(accept_change=["kept"])
    )
    assert (summary.steps["kept"].computed, summary.steps["kept"].reused) == (0, 2)


def test_a_column_of_a_source_that_has_another_type_is_named(spark: SparkSession, failed: Path) -> None:
    changed = spark.range(50).selectExpr("cast(id % 5 as string) customer", "id amount", "id * 2 price")
    changed.write.mode("overwrite").parquet(f"file:{failed}/events")
    with pytest.raises(rk.Refused, match=r"events\.customer: string, was bigint"):
        pipeline_of(failed, ["customer", "amount", "price"], fails=False).run(spark, f"{failed}/runs")
