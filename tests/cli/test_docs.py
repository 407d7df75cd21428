"""What the documentation tells users to type exists: every command line in it is parsed, every step of it called."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cli.pages import command_lines, parse_command, run_python

LINES = command_lines()


@pytest.mark.parametrize(("page", "line"), LINES, ids=[f"{page.stem}: {line}" for page, line in LINES])
def test_a_command_line_of_the_documentation_exists(page: Path, line: str) -> None:
    parse_command(line)


def test_the_pipeline_of_the_page_about_results_fits_together() -> None:
    names = run_python("how-to/choose-what-is-kept.md")
    assert names["pipeline"].check(day="2026-11-13") == ("orders", "clean", "enriched", "daily")


def test_the_page_about_testing_a_step_works_as_written(spark: SparkSession) -> None:
    names = run_python("how-to/test-a-step.md")
    names["test_the_pipeline_fits_together"]()
    names["test_orders_without_an_amount_are_left_out"](spark)
