"""`make first-five-minutes`: what the README's section of that name says, done as written, in an empty folder.

The folder holds nothing but `dist/` with a wheel of this tree; the shell knows no virtual environment of ours. How a
page is read and typed is in `support/typed_page.py`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from support.typed_page import Page, Shell, page_of, type_all

ROOT = Path(__file__).parent.parent
SECTION = re.compile(r"^## First five minutes\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def read_page(text: str) -> Page:
    section = SECTION.search(text)
    assert section is not None, "the README has the section"
    return page_of(section.group(1))


def main() -> int:
    folder = Path(tempfile.mkdtemp(prefix="first-five-minutes-"))
    try:
        _build(folder / "dist")
        page, spent, seconds = walk(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    done = len(spent)
    install = sum(took for command, took in spent.items() if command.startswith("pip "))
    print(f"RESULT seconds={seconds:.0f} install_seconds={install:.0f} steps={len(page.steps)} done={done}")
    return 0 if done == len(page.steps) else 1


def walk(folder: Path, leaving_out: str = "") -> tuple[Page, dict[str, float], float]:
    """Do what the page says in a folder that holds nothing but `dist/` with a wheel, without one command if it is
    named: the page, the seconds of each command that did what the page says, and of all."""
    page = read_page((ROOT / "README.md").read_text())
    page = Page([step for step in page.steps if step.command != leaving_out], page.files)
    for name, text in page.files.items():
        (folder / name).write_text(text)
    started = time.monotonic()
    spent = type_all(page.steps, Shell(folder))
    return page, spent, time.monotonic() - started


def _build(into: Path) -> None:
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(into)], cwd=ROOT, check=True)


if __name__ == "__main__":
    sys.exit(main())
