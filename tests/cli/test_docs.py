"""What the documentation tells users to type exists: every command line in it is parsed, every step of it called."""

from __future__ import annotations

import importlib
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from engine.conftest import spark as spark  # The session of the engine's tests.
from rekindle.cli.main import group
from rekindle.cli.registry import COMMANDS

ROOT = Path(__file__).parent.parent.parent
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]
CONSOLE = re.compile(r"^\$ rekindle (.*)$", re.MULTILINE)
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINES = [(page, line) for page in PAGES for line in CONSOLE.findall(page.read_text())]


@pytest.mark.parametrize(("page", "line"), LINES, ids=[f"{page.stem}: {line}" for page, line in LINES])
def test_a_command_line_of_the_documentation_exists(page: Path, line: str) -> None:
    name, *arguments = shlex.split(line)
    command = importlib.import_module(COMMANDS[name].module).command
    with group.make_context("rekindle", [], resilient_parsing=True) as above:
        command.make_context(name, arguments, parent=above)


def test_the_pipeline_of_the_page_about_results_fits_together() -> None:
    names = _run_blocks("choose-what-is-kept.md")
    assert names["pipeline"].check(day="2026-11-13") == ("orders", "clean", "enriched", "daily")


def _run_blocks(page: str) -> dict[str, Any]:
    """What the Python blocks of a page define, one after the other."""
    names: dict[str, Any] = {"__name__": "page"}
    for block in PYTHON.findall((ROOT / "docs" / "how-to" / page).read_text()):
        exec(compile(block, page, "exec"), names)
    return names


def test_the_page_about_testing_a_step_works_as_written(spark: SparkSession) -> None:
    names = _run_blocks("test-a-step.md")
    names["test_the_pipeline_fits_together"]()
    names["test_orders_without_an_amount_are_left_out"](spark)
