"""A slice of `make killed-publications`, and its control: with a protection off, it finds what that protects from."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import local_spark

pytestmark = pytest.mark.spark
ROOT = Path(local_spark.__file__).parent.parent


def campaign(*arguments: str) -> tuple[int, list[str]]:
    """Exit code and RESULT lines. A process of its own: its publishers share its JVM, which no test does."""
    command = [sys.executable, "-m", "verification", "killed_publications", "--on", "disk", "--with-jvm", "0"]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, cwd=ROOT, env=os.environ | {"CI": ""})
    assert "RESULT" in done.stdout, done.stdout[-2000:] + done.stderr[-2000:]
    return done.returncode, [line for line in done.stdout.splitlines() if line.startswith("RESULT")]


def count(line: str, name: str) -> int:
    found = re.search(rf" {name}=(\d+)", line)
    assert found is not None, line
    return int(found.group(1))


def test_a_publication_that_is_killed_is_old_or_new() -> None:
    code, (line, _) = campaign("--only", "files_append", "--deaths", "10")
    assert code == 0, line
    assert count(line, "wrong") == 0 and count(line, "deaths") >= 10 and count(line, "zombies") > 0


def test_control_a_pointer_before_its_files_is_found() -> None:
    code, (line, _) = campaign("--only", "files_overwrite", "--deaths", "14", "--planted", "pointer-first")
    assert code == 1 and count(line, "wrong") > 0, line
