"""docs/how-to/delta.md does what it says."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cli.pages import run_python


def test_the_page_about_delta_works_as_written(
    tables: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    names = run_python("how-to/delta.md", spark=tables)
    assert sorted(row["customer"] for row in names["published"].collect()) == list(range(7))
    assert sorted(row["customer"] for row in names["arrived"].collect()) == list(range(9))
    assert sorted(row["customer"] for row in names["merged"].collect()) == list(range(7))
    plan = " ".join(capsys.readouterr().out.split())
    assert "reads version 0 of Delta table" in plan and "no row is written again" in plan
    assert (
        "its rows are written again by Spark, because its column customer is NOT NULL; in files that have a key" in plan
    )
    history = tables.sql(f"DESCRIBE HISTORY delta.`{names['lake']}/gold`").collect()
    assert [row["operation"] for row in history] == ["WRITE", "WRITE", "CREATE TABLE"]
    assert '"publication":' in history[0]["userMetadata"].replace(" ", "").replace('\\"', '"')
