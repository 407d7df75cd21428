"""Sources: what is pinned, what changes a pin, and what cannot be pinned."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from rekindle.engine.spark.plan.group import GroupSpec
from rekindle.engine.spark.plan.sources import pin
from rekindle.engine.spark.run.engine import refuse_change
from rekindle.errors import InputChanged
from rekindle.remedies import StartRemedy
from support.spark_line import needs


@pytest.fixture
def folder(spark: SparkSession, tmp_path: Path) -> Path:
    spark.range(40).selectExpr("id", "id % 2 day").repartition(2).write.partitionBy("day").parquet(f"{tmp_path}/in")
    return tmp_path / "in"


def read(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.read.parquet(str(folder))


def test_files_are_pinned_by_path_size_and_time(spark: SparkSession, folder: Path) -> None:
    found = pin(read(spark, folder))
    files = sorted(folder.rglob("*.parquet"))
    assert found.is_pinned and found.files == len(files) == 4
    assert found.bytes == sum(file.stat().st_size for file in files)
    assert pin(read(spark, folder).where("id > 3").groupBy("id").count()) == found
    spark.range(1).selectExpr("id", "9 day").write.mode("append").partitionBy("day").parquet(str(folder))
    assert pin(read(spark, folder)).files == 5
    os.utime(files[0], (1, 1))
    touched = pin(read(spark, folder).where("day < 9"))
    assert (touched.files, touched.bytes) == (4, found.bytes) and touched.digest != found.digest


def test_the_listing_of_a_source_stays_when_a_group_that_reads_it_is_planned(spark: SparkSession, folder: Path) -> None:
    """Another group reads by the same listing, and lists nothing before its tasks begin."""
    frame = read(spark, folder)
    part = frame.where("day = 1")
    before = pin(frame)
    (folder / "day=0" / "more.parquet").write_bytes(next(folder.rglob("*.parquet")).read_bytes())
    refuse_change(
        GroupSpec(
            step="some",
            build=lambda session, inputs: part,
            inputs=(),
            keys=("id",),
            partitions=2,
            source=str(pin(part)),
        ),
        part,
    )
    refuse_change(
        GroupSpec(
            step="all", build=lambda session, inputs: frame, inputs=(), keys=("id",), partitions=2, source=str(before)
        ),
        frame,
    )
    assert pin(frame) == before and frame.count() == 40, "what was added after the pin is not read"
    later = read(spark, folder)
    with pytest.raises(InputChanged, match=f"{before}, now .* 5 files"):
        refuse_change(
            GroupSpec(
                step="all",
                build=lambda session, inputs: later,
                inputs=(),
                keys=("id",),
                partitions=2,
                source=str(before),
            ),
            later,
        )


def test_an_input_that_changed_while_the_run_is_on_is_refused(spark: SparkSession, folder: Path) -> None:
    frame = read(spark, folder)
    group = GroupSpec(
        step="orders",
        build=lambda session, inputs: frame,
        inputs=(),
        keys=("id",),
        partitions=2,
        source=str(pin(frame)),
    )
    refuse_change(group, frame)
    next(folder.rglob("*.parquet")).unlink()
    with pytest.raises(InputChanged, match="the input of orders changed while the run was on") as refused:
        refuse_change(group, frame)
    assert refused.value.remedies == (StartRemedy(to="read it again", replace=("orders",)),)


def test_only_the_partitions_that_are_asked_for_count(spark: SparkSession, folder: Path) -> None:
    def asked() -> DataFrame:
        return read(spark, folder).where("day = 1 and id > 3").select("id")

    before = pin(asked())
    assert before.files == 2
    spark.range(1).selectExpr("id", "0 day").write.mode("append").partitionBy("day").parquet(str(folder))
    assert pin(asked()) == before


def test_all_places_that_are_read_count(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    spark.range(5).write.parquet(f"{tmp_path}/other")
    other = spark.read.parquet(f"{tmp_path}/other")
    other.createOrReplaceTempView("other")
    one = pin(read(spark, folder)).files
    assert pin(read(spark, folder).join(other, "id")).files == one + pin(other).files
    read(spark, folder).createOrReplaceTempView("main")
    assert pin(spark.sql("select * from main where id > (select max(id) from other)")).files == one + pin(other).files
    spark.catalog.dropTempView("main")
    spark.catalog.dropTempView("other")


def test_a_table_of_the_catalog_is_pinned_by_its_files(spark: SparkSession) -> None:
    spark.range(5).write.mode("overwrite").saveAsTable("pinned_table")
    before = pin(spark.table("pinned_table"))
    assert before.is_pinned and before.files > 0
    spark.range(5).write.mode("overwrite").saveAsTable("pinned_table")
    assert pin(spark.table("pinned_table")).digest != before.digest
    spark.sql("drop table pinned_table")


def test_rows_in_the_plan_are_no_source(spark: SparkSession) -> None:
    found = pin(spark.range(5).join(spark.sql("values (1), (2) as t(id)"), "id"))
    assert found.is_pinned and not found.digest and str(found) == ""


def test_what_cannot_be_pinned_is_named(spark: SparkSession, folder: Path) -> None:
    rows = spark.createDataFrame([(1,)], "id long")
    found = pin(read(spark, folder).join(rows, "id"))
    assert not found.is_pinned and found.because == ("an RDD or rows given by the driver",)
    assert found.files == 4


@needs("data sources in Python")
def test_a_source_in_python_cannot_be_pinned(spark: SparkSession) -> None:
    from pyspark.sql.datasource import DataSource

    class Clock(DataSource):  # type: ignore[misc]
        @classmethod
        def name(cls) -> str:
            return "clock"

        def schema(self) -> str:
            return "now long"

    spark.dataSource.register(Clock)
    assert pin(spark.read.format("clock").load()).because == ("a Python data source",)


def test_a_cached_frame_cannot_be_pinned(spark: SparkSession, folder: Path) -> None:
    """What is cached stays as it was read, and is read again as it is now when it is lost."""
    frame = read(spark, folder)
    assert pin(frame.groupBy("id").count()).is_pinned
    frame.cache()
    try:
        found = pin(read(spark, folder).groupBy("id").count())
    finally:
        frame.unpersist()
    assert not found.is_pinned and found.because == ("a cached frame",)


@pytest.mark.parametrize("name", ["ignoreCorruptFiles", "ignoreMissingFiles"])
def test_files_that_may_be_skipped_are_not_pinned(spark: SparkSession, folder: Path, name: str) -> None:
    said = (f"files that may be skipped ({name})",)
    assert pin(spark.read.option(name.lower(), True).parquet(str(folder))).because == said
    session = spark.newSession()
    session.conf.set(f"spark.sql.files.{name}", "true")
    assert pin(read(session, folder)).because == said
    assert pin(session.read.option(name, False).parquet(str(folder))).is_pinned
