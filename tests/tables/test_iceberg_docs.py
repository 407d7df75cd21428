"""docs/how-to/iceberg.md does what it says."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cli.pages import run_python


@pytest.fixture
def shop(tables: SparkSession) -> Iterator[SparkSession]:
    yield tables
    for table in ("orders", "gold", "customers"):
        tables.sql(f"DROP TABLE IF EXISTS lake.shop.{table} PURGE")


def test_the_page_about_iceberg_works_as_written(
    shop: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    names = run_python("how-to/iceberg.md", spark=shop)
    assert sorted(row["customer"] for row in names["published"].collect()) == list(range(7))
    plan = " ".join(capsys.readouterr().out.split())
    assert "of Iceberg table lake.shop.orders" in plan and "no row is written again" in plan
    snapshots = shop.sql("SELECT summary FROM lake.shop.gold.snapshots").collect()
    assert [row["summary"]["rekindle.pipeline"] for row in snapshots] == ["daily", "daily"]
    assert all(row["summary"]["rekindle.publication"] for row in snapshots)
    properties = {row["key"] for row in shop.sql("SHOW TBLPROPERTIES lake.shop.gold").collect()}
    assert "schema.name-mapping.default" in properties and "rekindle.fences.door" in properties
    assert sorted(row["customer"] for row in names["arrived"].collect()) == list(range(9))
