"""The page for EMR: what `make emr-like` types is what it says, and what it names exists."""

from __future__ import annotations

import re

from cli.pages import DOCS
from rekindle.config import SPARK_PREFIX
from support.typed_page import page_of
from yarn.page import KNOWN

TEXT = (DOCS / "how-to" / "emr.md").read_text()
REFERENCE = (DOCS / "reference" / "configuration.md").read_text()


def test_its_files_are_python_and_are_submitted() -> None:
    page = page_of(TEXT)
    for name, text in page.files.items():
        compile(text, name, "exec")
    typed = " ".join(step.command for step in page.steps)
    assert all(re.search(rf"\b{name}\b", typed) for name in page.files)
    assert {step.code for step in page.steps} == {0}


def test_a_command_of_several_lines_is_typed_as_one() -> None:
    page = page_of("```console\n$ submit \\\n    --conf a=1 \\\n    job.py\nsubmitted\n$ wait $!\n```\n")
    assert [(step.command, step.shown) for step in page.steps] == [
        ("submit --conf a=1 job.py", ["submitted"]),
        ("wait $!", []),
    ]


def test_each_setting_of_ours_exists() -> None:
    found = re.findall(rf"{re.escape(SPARK_PREFIX)}([\w.]+)=", TEXT)
    assert "location" in found
    assert all(f"`{one}`" in REFERENCE or one.startswith("storage.") for one in found)


def test_what_is_replaced_by_a_real_cluster_stands_there() -> None:
    assert all(name in TEXT for name in KNOWN)
