"""Half of the quick cases of `make cases` on one warm session, drawn anew for each run of the tests: each ends as one
of its declared outcomes. `make cases` runs all of them."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cases.all_cases import CASES
from cases.judge import play
from cases.session import start_session
from cases.tables import Tables

QUICK = [number for number, case in CASES.items() if case.is_quick]
# All workers of pytest must draw the same.
DRAWN = random.Random(os.environ.get("PYTEST_XDIST_TESTRUNUID", "alone")).sample(QUICK, len(QUICK) // 2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cases")


@pytest.fixture(scope="module")
def warm(folder: Path, no_spark: None) -> Iterator[tuple[SparkSession, Tables]]:
    spark = start_session(folder)
    yield spark, Tables(spark, folder / "tables")
    spark.stop()


@pytest.mark.parametrize("number", DRAWN)
def test_a_case_ends_as_declared(number: str, warm: tuple[SparkSession, Tables], folder: Path) -> None:
    spark, tables = warm
    judged = play(CASES[number], spark, folder, tables)
    said = f"{judged.case.sentence} {judged.finding.outcome.value}: {judged.finding.detail}"
    assert judged.is_allowed, said
