"""docs/how-to/migrate.md: each script is run as it was and as it is after the diff, and both give the same."""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import rekindle as rk
from cli.pages import FILE, blocks
from cli.pages import _steady as steady

PAGE = "how-to/migrate.md"
DAY = "2026-11-13"
DIFF = re.compile(r"--- (\S+)\n")


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Path:
    """Small tables with the columns that the scripts read."""
    orders = "id, id % 40 as customer_id, (id * 37) % 10000 as cents, date'2026-11-10' + cast(id % 5 as int) as day"
    spark.range(500).selectExpr(*orders.split(", ")).write.partitionBy("day").parquet(str(tmp_path / "orders"))
    countries = "id as customer_id, element_at(array('at','de','fr'), cast(id % 3 + 1 as int)) as country"
    spark.range(40).selectExpr("id as customer_id", countries.partition(", ")[2]).write.parquet(
        str(tmp_path / "customers")
    )
    visits = "id % 40 as customer_id; concat('p', id % 13) as page; date'2026-11-10' + cast(id % 7 as int) as day"
    spark.range(300).selectExpr(*visits.split("; ")).write.parquet(str(tmp_path / "visits"))
    events = "id % 9 as user_id; id * 400 + (id % 4) * 900 as at; concat('p', id % 5) as page"
    spark.range(200).selectExpr(*events.split("; ")).write.json(str(tmp_path / "events"))
    return tmp_path


def diffs(script: str) -> Iterator[str]:
    return (one.text for one in blocks(PAGE, "diff") if (named := DIFF.match(one.text)) and named[1] == script)


def applied(text: str, diff: str) -> str:
    """Each hunk's old lines stand exactly once in the script, and become its new ones."""
    for hunk in diff.split("@@\n")[1:]:
        lines = hunk.splitlines()
        old = "\n".join(line[1:] for line in lines if line[:1] in " -")
        new = "\n".join(line[1:] for line in lines if line[:1] in " +")
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


class Scripts:
    """The scripts of the page in a folder: as they were, and after their diffs."""

    def __init__(self, folder: Path, lake: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
        self._folder, self._lake = folder, lake
        self._monkeypatch, self._capsys = monkeypatch, capsys
        self.texts = {named[1]: one.text for one in blocks(PAGE, "python") if (named := FILE.match(one.text))}

    def run(self, name: str, *arguments: str) -> list[str]:
        """What it prints."""
        path = self._folder / name
        path.write_text(self.texts[name])
        self._monkeypatch.setattr("sys.argv", [name, str(self._lake), *arguments])
        self._capsys.readouterr()
        runpy.run_path(str(path), run_name="__main__")
        return self._capsys.readouterr().out.splitlines()


@pytest.fixture
def scripts(
    tmp_path_factory: pytest.TempPathFactory,
    lake: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Scripts:
    return Scripts(tmp_path_factory.mktemp("scripts"), lake, monkeypatch, capsys)


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=str)


def printed() -> list[list[str]]:
    """What the page shows of each start of a script, one after the other."""
    shown = [one.text for one in blocks(PAGE, "console") if one.text.startswith("$ python ")]
    return [text.splitlines()[1:] for text in shown]


def test_daily_orders(spark: SparkSession, scripts: Scripts, lake: Path) -> None:
    def results() -> list[object]:
        places = [lake / "enriched" / f"day={DAY}", lake / "totals" / f"day={DAY}"]
        return [rows(spark.read.parquet(str(place)).select("country", "size", "cents")) for place in places]

    name, (keeps, larger), (again, changed) = "daily_orders.py", diffs("daily_orders.py"), printed()
    scripts.run(name, DAY)
    before = results()
    scripts.texts[name] = applied(scripts.texts[name], keeps)
    first = scripts.run(name, DAY)
    assert "  computed 8 partitions, reused 0" in first and results() == before
    found = scripts.run(name, DAY)
    assert [steady(line) for line in found][: len(again)] == [steady(line) for line in again]
    assert results() == before
    scripts.texts[name] = applied(scripts.texts[name], larger)
    found = scripts.run(name, DAY)
    assert [line for line in found if line in changed] == changed
    assert results() != before


def test_sessions(spark: SparkSession, scripts: Scripts, lake: Path) -> None:
    name, [keeps] = "sessions.py", diffs("sessions.py")
    scripts.run(name)
    before = rows(spark.read.parquet(str(lake / "users")))
    (lake / "users").rename(lake / "users_before")
    scripts.texts[name] = applied(scripts.texts[name], keeps)
    assert "  computed 12 partitions, reused 0" in scripts.run(name)
    assert rows(rk.read_newest(spark, str(lake / "users"))) == before
    assert "  computed 0 partitions, reused 12" in scripts.run(name)


def test_features(spark: SparkSession, scripts: Scripts, lake: Path) -> None:
    def exported() -> list[tuple[object, ...]]:
        return rows(spark.read.option("header", True).csv(str(lake / "export" / DAY)))

    name, [keeps] = "features.py", diffs("features.py")
    scripts.run(name, DAY)
    before = exported()
    assert len(before) == 40
    scripts.texts[name] = applied(scripts.texts[name], keeps)
    assert "  computed 12 partitions, reused 0" in scripts.run(name, DAY)
    assert exported() == before
    assert "  computed 0 partitions, reused 12" in scripts.run(name, DAY)
