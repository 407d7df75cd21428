"""What a public project needs says the same everywhere: one version, a CI file of targets that exist, reports that name
their commit."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import rekindle as rk
from cli.calling import call
from cli.pages import DOCS, ROOT
from rekindle.engine.spark_lines import RELEASES

MAKE = "".join(file.read_text() for file in (ROOT / "Makefile", *(ROOT / "make").glob("*.mk")))
TARGETS = frozenset(re.findall(r"^([a-z0-9-]+):.*##", MAKE, re.MULTILINE))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
REPORTS = sorted((DOCS / "reports").glob("*.md"))
COMMIT = re.compile(r"\b(?=\w*\d)[0-9a-f]{7}\b")


def workflow() -> dict[str, Any]:
    found = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    assert isinstance(found, dict)
    return found


def commands() -> list[str]:
    return [step["run"] for job in workflow()["jobs"].values() for step in job["steps"] if "run" in step]


def test_the_version_stands_in_one_place() -> None:
    assert "version" in PROJECT["project"]["dynamic"] and "version" not in PROJECT["project"]
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "src/rekindle/__init__.py"
    spelled = [path for path in (ROOT / "src").rglob("*.py") if f'"{rk.__version__}"' in path.read_text()]
    assert spelled == [ROOT / "src" / "rekindle" / "__init__.py"]
    command = [sys.executable, "-m", "hatchling", "metadata", "version"]
    assert subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.strip() == rk.__version__


def test_what_names_the_release_follows(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "--version").out == f"rekindle, version {rk.__version__}\n"
    readme = (ROOT / "README.md").read_text()
    assert re.findall(r"dist/rekindle-(\S+)-py3-none-any\.whl", readme) == [rk.__version__]
    assert (DOCS / "index.md").read_text().count(f"Version {rk.__version__}") == 1
    sections = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert sections[0] == rk.__version__
    assert (ROOT / "tests" / "replay" / rk.__version__).is_dir()


def test_the_ci_file_uses_targets_that_exist() -> None:
    used = {name for command in commands() for name in re.findall(r"\bmake ([a-z-]+)", command)}
    assert {"install", "check", "test-fast", "release"} <= used <= TARGETS
    assert ".ci/run" in commands() and (ROOT / ".ci" / "run").exists()


def test_the_ci_file_covers_what_is_supported() -> None:
    matrix = workflow()["jobs"]["fast"]["strategy"]["matrix"]
    assert matrix["pyspark"] == list(RELEASES)
    assert matrix["python"] == ["3.11", "3.12", "3.13", "3.14"]
    assert PROJECT["project"]["requires-python"] == f">={matrix['python'][0]}"


def test_pre_commit_checks_what_make_check_does() -> None:
    found = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    hooks = [hook for repo in found["repos"] for hook in repo["hooks"]]
    assert [repo["repo"] for repo in found["repos"]] == ["local"], "the versions of this repository, and no others"
    assert [hook["entry"].split()[0] for hook in hooks] == [".venv/bin/ruff", ".venv/bin/ruff", ".venv/bin/mypy"]


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: str(report.stem))
def test_a_report_says_at_which_commit_it_was_made(report: Path) -> None:
    assert COMMIT.search(report.read_text())
