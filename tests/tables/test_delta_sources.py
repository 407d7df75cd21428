"""Delta tables as sources on real Spark: every driver of a run reads the version that the first one read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import rekindle as rk
from rekindle.engine.spark.jvm import plan_calls
from rekindle.engine.spark.plan import versions_read
from rekindle.engine.spark.session import attach
from rekindle.errors import InputChanged, Refused, RunFailed
from tables.priced import OLD, ROWS, calls, priced_pipeline, run_again


def pipeline(folder: Path) -> rk.Pipeline:
    orders = str(folder / "orders")
    return priced_pipeline(
        folder, lambda spark: spark.read.format("delta").load(orders), rk.delta(str(folder / "gold"))
    )


def run(spark: SparkSession, folder: Path, **options: Any) -> Any:
    return run_again(pipeline(folder), spark, folder, **options)


def gold(spark: SparkSession, folder: Path) -> set[tuple[int, str]]:
    return {(row["id"], row["name"]) for row in spark.read.format("delta").load(str(folder / "gold")).collect()}


@pytest.fixture
def failed(tables: SparkSession, tmp_path: Path) -> Path:
    """A run failed with one partition; then the table got commits."""
    tables.sql(f"SELECT id, 'old' name FROM range({ROWS})").repartition(2).write.format("delta").save(
        str(tmp_path / "orders")
    )
    (tmp_path / "poison").touch()
    with pytest.raises(RunFailed):
        run(tables, tmp_path)
    (tmp_path / "poison").unlink()
    tables.sql(f"UPDATE delta.`{tmp_path / 'orders'}` SET name = 'new' WHERE id % 2 = 1")
    tables.sql(f"INSERT INTO delta.`{tmp_path / 'orders'}` VALUES (100, 'new')")
    return tmp_path


def test_a_resume_reads_the_version_that_the_run_began_with(tables: SparkSession, failed: Path) -> None:
    plan = " ".join(str(pipeline(failed).plan(tables, str(failed / "runs"))).split())
    assert "reads version 0 of Delta table" in plan and "2 commits before the newest" in plan
    run(tables, failed)
    assert 0 < calls(failed) < ROWS, "what was kept is used"
    assert gold(tables, failed) == OLD
    run(tables, failed, new=True)
    assert len(gold(tables, failed)) == ROWS + 1, "a new run reads the newest"


def test_control_without_the_version_nothing_that_was_kept_can_be_used(
    tables: SparkSession, failed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions_read.VersionsRead, "pinned", lambda self, source, frame: frame)
    with pytest.raises(Refused):
        run(tables, failed)
    run(tables, failed, accept_change=("priced",))
    assert calls(failed) > ROWS and gold(tables, failed) != OLD, "another input: all of it is computed again"


def test_a_version_that_vacuum_removed_is_refused_with_its_name(tables: SparkSession, failed: Path) -> None:
    tables.sql(f"VACUUM delta.`{failed / 'orders'}` RETAIN 0 HOURS")
    with pytest.raises(InputChanged, match=r"version 0 of .*orders, which this run reads, is gone: .*VACUUM") as caught:
        run(tables, failed)
    assert "replace" in caught.value.hint
    run(tables, failed, replace=("priced",))
    assert len(gold(tables, failed)) == ROWS + 1, "it was computed from the newest version"


def test_after_a_replace_the_next_driver_reads_what_the_replacing_one_read(tables: SparkSession, failed: Path) -> None:
    (failed / "poison").touch()
    with pytest.raises(RunFailed):
        run(tables, failed, replace=("priced",))
    (failed / "poison").unlink()
    tables.sql(f"INSERT INTO delta.`{failed / 'orders'}` VALUES (200, 'later')")
    run(tables, failed)
    found = {number for number, _ in gold(tables, failed)}
    assert 100 in found and 200 not in found and 0 < calls(failed) < ROWS


def test_a_table_with_new_columns_is_refused(tables: SparkSession, failed: Path) -> None:
    tables.sql(f"ALTER TABLE delta.`{failed / 'orders'}` ADD COLUMN more INT")
    with pytest.raises(InputChanged, match="has other columns by now than version 0 of"):
        run(tables, failed)


def test_what_an_extension_sets_is_set_before_the_first_step_is_built(tables: SparkSession) -> None:
    """Delta sets two with the first plan of a session. They would count as changed by the step that makes it."""
    bare, ours = tables.newSession(), tables.newSession()
    attach(ours)
    before = [plan_calls.all_settings(one) for one in (bare, ours)]
    for one in (bare, ours):
        one.range(1)
    after = [plan_calls.all_settings(one) for one in (bare, ours)]
    assert before[0] != after[0], "the control: what is refused"
    assert before[1] == after[1]
