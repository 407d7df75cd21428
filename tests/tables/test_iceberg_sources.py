"""Iceberg tables as sources on real Spark: every driver of a run reads the snapshot that the first one read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import rekindle as rk
from rekindle.engine.spark.plan import versions_read
from rekindle.errors import InputChanged, Refused, RunFailed
from tables.priced import OLD, ROWS, calls, priced_pipeline, run_again

ORDERS, GOLD = "lake.db.orders", "lake.db.priced"


def pipeline(folder: Path) -> rk.Pipeline:
    return priced_pipeline(folder, lambda spark: spark.table(ORDERS), rk.iceberg(GOLD))


def run(spark: SparkSession, folder: Path, **options: Any) -> Any:
    return run_again(pipeline(folder), spark, folder, **options)


def gold(spark: SparkSession) -> set[tuple[int, str]]:
    return {(row["id"], row["name"]) for row in spark.table(GOLD).collect()}


@pytest.fixture
def failed(tables: SparkSession, tmp_path: Path) -> Iterator[Path]:
    """A run failed with one partition; then the table got commits."""
    tables.sql("CREATE DATABASE IF NOT EXISTS lake.db")
    tables.sql(f"CREATE TABLE {ORDERS} (id BIGINT, name STRING) USING iceberg")
    for half in (0, 1):
        tables.sql(f"INSERT INTO {ORDERS} SELECT id, 'old' FROM range({ROWS}) WHERE id % 2 = {half}")
    (tmp_path / "poison").touch()
    with pytest.raises(RunFailed):
        run(tables, tmp_path)
    (tmp_path / "poison").unlink()
    tables.sql(f"UPDATE {ORDERS} SET name = 'new' WHERE id % 2 = 1")
    tables.sql(f"INSERT INTO {ORDERS} VALUES (100, 'new')")
    yield tmp_path
    for table in (ORDERS, GOLD):
        tables.sql(f"DROP TABLE IF EXISTS {table} PURGE")


def test_a_resume_reads_the_snapshot_that_the_run_began_with(tables: SparkSession, failed: Path) -> None:
    plan = " ".join(str(pipeline(failed).plan(tables, str(failed / "runs"))).split())
    assert f"of Iceberg table {ORDERS}" in plan and "which is not the newest" in plan
    run(tables, failed)
    assert 0 < calls(failed) < ROWS, "what was kept is used"
    assert gold(tables) == OLD
    run(tables, failed, new=True)
    assert len(gold(tables)) == ROWS + 1, "a new run reads the newest"


def test_a_source_that_names_the_format_is_read_at_one_snapshot(tables: SparkSession, failed: Path) -> None:
    """Iceberg's source sets catalogs of its own in a session that first names it, which is no change by the step."""
    named = priced_pipeline(failed, lambda spark: spark.read.format("iceberg").load(ORDERS), rk.iceberg(GOLD))
    run_again(named, tables, failed, new=True)
    assert len(gold(tables)) == ROWS + 1
    plan = " ".join(str(named.plan(tables, str(failed / "runs"), options=rk.RunOptions(new=True))).split())
    assert f"of Iceberg table {ORDERS}" in plan


def test_control_without_the_snapshot_nothing_that_was_kept_can_be_used(
    tables: SparkSession, failed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions_read.VersionsRead, "pinned", lambda self, source, frame: frame)
    with pytest.raises(Refused):
        run(tables, failed)
    run(tables, failed, accept_change=("priced",))
    assert calls(failed) > ROWS and gold(tables) != OLD, "another input: all of it is computed again"


def test_a_snapshot_that_was_expired_is_refused_with_its_number(tables: SparkSession, failed: Path) -> None:
    of = "table => 'db.orders', older_than => TIMESTAMP '2999-01-01', retain_last => 1"
    tables.sql(f"CALL lake.system.expire_snapshots({of})").collect()
    with pytest.raises(
        InputChanged, match=rf"snapshot \d+ of {ORDERS}, which this run reads, is gone: .*expired"
    ) as one:
        run(tables, failed)
    assert "replace" in one.value.hint
    run(tables, failed, replace=("priced",))
    assert len(gold(tables)) == ROWS + 1, "it was computed from the newest snapshot"


def test_a_table_that_was_made_again_is_refused(tables: SparkSession, failed: Path) -> None:
    tables.sql(f"DROP TABLE {ORDERS} PURGE")
    tables.sql(f"CREATE TABLE {ORDERS} USING iceberg AS SELECT id, 'old' name FROM range({ROWS})")
    with pytest.raises(InputChanged, match="is gone: another table is in its place"):
        run(tables, failed)


def test_a_table_with_new_columns_is_refused(tables: SparkSession, failed: Path) -> None:
    tables.sql(f"ALTER TABLE {ORDERS} ADD COLUMN more INT")
    with pytest.raises(InputChanged, match="has other columns by now than snapshot"):
        run(tables, failed)


def test_a_version_of_the_users_stays_theirs(tables: SparkSession, failed: Path) -> None:
    first = tables.sql(f"SELECT snapshot_id FROM {ORDERS}.snapshots ORDER BY committed_at").first()
    assert first is not None
    read = versions_read.VersionsRead({})
    frame = read.pinned("orders", tables.sql(f"SELECT * FROM {ORDERS} VERSION AS OF {first['snapshot_id']}"))
    assert frame.count() == ROWS // 2 and read.told() == ()


def test_a_pinned_frame_does_not_see_what_comes_later(tables: SparkSession, failed: Path) -> None:
    bare, pinned = tables.table(ORDERS), versions_read.VersionsRead({}).pinned("orders", tables.table(ORDERS))
    tables.sql(f"INSERT INTO {ORDERS} VALUES (200, 'later')")
    assert (bare.count(), pinned.count()) == (ROWS + 2, ROWS + 1), "the control: a frame alone sees it"
