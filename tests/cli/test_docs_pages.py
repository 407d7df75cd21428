"""The longer pages of the documentation do what they say, on Spark; what they name as proof exists."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import rekindle as rk
from cli.pages import DOCS, ROOT, Walk, blocks, run_python
from rekindle.local_cluster.cluster import spark_home

TESTS = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
TARGETS = re.compile(r"`make ([a-z-]+)")
CONTRACT = "".join((DOCS / page).read_text() for page in ("correctness.md", "upgrading.md"))
MAKE = "".join(file.read_text() for file in (ROOT / "Makefile", *(ROOT / "make").glob("*.mk")))


def test_the_quickstart_heals_as_it_says(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    walk = Walk(tmp_path, capsys, monkeypatch)
    walk.follow("quickstart.md")
    assert walk.codes == [2, 4, 0, 1, 2, 0, 0]
    totals = {row.customer: row[1] for row in rk.read_newest(spark, str(tmp_path / "gold")).collect()}
    assert len(totals) == 50
    assert totals["customer-27"] == sum(1250 if id == 777 else id % 90 * 100 + 99 for id in range(27, 1000, 50))


@pytest.mark.timeout(1800)
def test_the_page_about_streams_heals_as_it_says(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    walk = Walk(tmp_path, capsys, monkeypatch)
    walk.follow("how-to/streams.md")
    assert walk.codes == [4, 0, 0, 1, 2, 0]
    priced = rk.read_newest(spark, str(tmp_path / "priced"))
    assert sorted(row.id for row in priced.collect()) == list(range(400))
    assert priced.where("id = 250").first().cents == 1250
    assert spark.read.parquet(str(tmp_path / "customers" / "current")).count() == 50


def test_the_page_about_notebooks_works_as_written(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    names = run_python("how-to/notebooks.md", spark=spark)
    assert "<td>totals</td>" in names["plan"]._repr_html_()
    assert "computed 4 partitions" in names["summary"]._repr_html_()
    assert "run 1 of shop: succeeded" in names["view"]._repr_html_()
    assert names["view"].graph._repr_html_().count("<svg") == 1 and "totals [####" in str(names["view"].graph)
    assert rk.read_newest(spark, f"{names['lake']}/gold").where("count = 400").count() == 5


def test_the_page_about_nights_works_as_written(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    names = run_python("how-to/every-night.md", spark=spark)
    assert "reused from run" in str(names["plan"])
    assert names["before"].where("day = '2026-11-02'").selectExpr("sum(total)").first()[0] == sum(range(100))


SUBMITTED = """
import rekindle as rk

pipeline = rk.Pipeline("daily")


@pipeline.source
def days(spark, day):
    return spark.range(6).selectExpr("id", f"'{{day}}' AS day")


@pipeline.sink(rk.files("{folder}/gold"), partition_by="id", partitions=2)
def gold(days): ...
"""


def test_the_page_on_strategies_does_what_it_says(spark: SparkSession) -> None:
    names = run_python("how-to/choose-a-strategy.md", spark=spark)
    assert names["summary"].failures == 0
    assert [str(step.partitions) for step in names["graph"].restarts.steps.values()] == ["2"]


def test_the_page_about_spark_submit_works_as_written(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The program of the page in this process; `submit.py` of it by a real spark-submit."""
    for block in blocks("how-to/spark-submit.md", "python"):
        (tmp_path / block.text.split()[1]).write_text(block.text)
    (tmp_path / "daily.py").write_text(SUBMITTED.format(folder=tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["daily_job.py", str(tmp_path / "state"), "2026-11-13"])
    runpy.run_path("daily_job.py", run_name="__main__")
    del sys.modules["daily"]
    assert "computed 2 partitions" in capsys.readouterr().out
    assert rk.read_newest(spark, f"{tmp_path}/gold").where("day = '2026-11-13'").count() == 6

    submit = [str(spark_home() / "bin" / "spark-submit"), "--master", "local[2]", "--conf", "spark.ui.enabled=false"]
    words = ["submit.py", "run", "daily.py", "--location", str(tmp_path / "state"), "--param", "day=2026-11-14"]
    environ = {"PYTHONPATH": str(ROOT / "src"), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run([*submit, *words], env={**os.environ, **environ}, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    assert "computed 2 partitions" in done.stdout
    assert rk.read_newest(spark, f"{tmp_path}/gold").where("day = '2026-11-14'").count() == 6


def test_the_page_about_poison_finds_the_row_and_leaves_it_out(spark: SparkSession, tmp_path: Path) -> None:
    names = run_python("how-to/fix-a-poison-partition.md")
    (tmp_path / "orders.csv").write_text('id,customer,amount\n1,ada,3.5\n2,bob,"12,50"\n')
    found = names["rows_that_cannot_be_priced"](spark, str(tmp_path))
    assert [row.id for row in found] == [2]
    orders = spark.createDataFrame([(1, "3.5"), (2, "12,50")], "id int, amount string")
    assert [row.price for row in names["priced"](orders).collect()] == [3.5]


@pytest.mark.parametrize(("file", "name"), sorted(set(TESTS.findall(CONTRACT))))
def test_what_the_contract_names_as_proof_is_a_test(file: str, name: str) -> None:
    assert f"def {name}" in (ROOT / file).read_text()


@pytest.mark.parametrize(
    "page", ["correctness.md", "failure-model.md", "how-to/spark-submit.md", "upgrading.md", "releasing.md"]
)
def test_what_a_page_names_as_a_command_is_a_target(page: str) -> None:
    for target in TARGETS.findall((DOCS / page).read_text()):
        assert re.search(rf"^{target}:.*##", MAKE, re.MULTILINE), f"there is no make {target}"


def test_every_page_is_in_the_navigation() -> None:
    listed = (ROOT / "mkdocs.yml").read_text()
    for page in DOCS.rglob("*.md"):
        assert f": {page.relative_to(DOCS)}\n" in listed
