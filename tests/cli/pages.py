"""The pages of the documentation as programs: what they tell users to type, and what their blocks say.

A block whose first line is a comment with a file's name is that file. In a console block a line that begins with `$ `
is typed, the lines below it are what is printed: a line `…` stands for any number of others.
"""

from __future__ import annotations

import importlib
import re
import runpy
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from cli.calling import Said, call
from rekindle.cli.main import group
from rekindle.cli.registry import COMMANDS

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
PAGES = [*sorted(DOCS.rglob("*.md")), ROOT / "README.md"]
CONSOLE = re.compile(r"^\$ rekindle (.*)$", re.MULTILINE)
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# (\S+\.\w+)\n")
ELIDED = "…"
# It starts a driver as a process of its own: not walked.
SUPERVISED = "--supervise"
# What is different each time: names of runs, processes, folders, times of day, spans and sizes.
VOLATILE = (
    (re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{8}"), "NAME"),
    (re.compile(r"\b\d\d:\d\d:\d\d\b"), "TIME"),
    (re.compile(r"\b\d[\d,.]*( to \d[\d,.]*)? (ms|s|min|h|B|kB|MB)\b"), "SOME"),
    (re.compile(r"(/[\w.-]+)+/(?=gold|state|priced|customers)"), "FOLDER/"),
    (re.compile(r"\s+"), " "),
)


class Block(NamedTuple):
    """A fenced block of a page: its language and its text."""

    language: str
    text: str


def command_lines() -> list[tuple[Path, str]]:
    """Every `rekindle` command line of the documentation, without that word."""
    return [(page, line) for page in PAGES for line in CONSOLE.findall(page.read_text())]


def parse_command(line: str) -> None:
    """Raises what click does, if the command, an option or an argument does not exist."""
    name, *arguments = shlex.split(line)
    command = importlib.import_module(COMMANDS[name].module).command
    with group.make_context("rekindle", [], resilient_parsing=True) as above:
        command.make_context(name, arguments, parent=above)


def blocks(page: str, *languages: str) -> list[Block]:
    """The blocks of `docs/<page>`, in order; of some languages only, if any are named."""
    found = [Block(*one) for one in BLOCK.findall((DOCS / page).read_text())]
    return [one for one in found if not languages or one.language in languages]


def run_python(page: str, **names: Any) -> dict[str, Any]:
    """What the Python blocks of a page define, one after the other."""
    names |= {"__name__": "page"}
    for block in blocks(page, "python"):
        exec(compile(block.text, page, "exec"), names)
    return names


class Walk:
    """Does what a page says, from its top to its end, in a folder. `codes` are the exit codes of its commands."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.codes: list[int] = []
        self._capsys = capsys
        self._monkeypatch = monkeypatch
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "path", list(sys.path))
        monkeypatch.setenv("COLUMNS", "140")
        monkeypatch.setenv("REKINDLE_BACKOFF_INITIAL_MS", "10")

    def follow(self, page: str) -> None:
        for block in blocks(page):
            named = FILE.match(block.text)
            if named:
                (self.folder / named[1]).write_text(block.text)
            elif block.language == "diff":
                self._edit(block.text)
            elif block.language == "python":
                exec(compile(block.text, page, "exec"), {"__name__": "page"})
            elif block.language == "console":
                for typed, shown in _typed(block.text):
                    self._type(typed, shown)

    def _edit(self, diff: str) -> None:
        """Lines with - become lines with +, in the one file that has them."""
        old = "\n".join(line[1:] for line in diff.splitlines() if line.startswith("-"))
        new = "\n".join(line[1:] for line in diff.splitlines() if line.startswith("+"))
        [file] = [one for one in self.folder.glob("*.py") if old in one.read_text()]
        file.write_text(file.read_text().replace(old, new))

    def _type(self, typed: str, shown: list[str]) -> None:
        program, *words = shlex.split(typed)
        if program == "python":
            runpy.run_path(str(self.folder / words[0]), run_name="__main__")
        elif program == "rekindle" and SUPERVISED not in words:
            said = self._call(words)
            self.codes.append(said.code)
            printed = [_steady(line) for line in (said.out + said.err).splitlines()]
            for line in shown:
                assert _steady(line) in printed, f"{typed} does not print {line!r}, but:\n{said.out}{said.err}"

    def _call(self, words: list[str]) -> Said:
        """As from a new process: no module of the user's is loaded yet."""
        for file in self.folder.glob("*.py"):
            self._monkeypatch.delitem(sys.modules, file.stem, raising=False)
        return call(self._capsys, *words)


def _typed(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each command of a console block, with the lines that it prints as the page shows them."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        typed, *shown = part.splitlines()
        yield typed, [line for line in shown if line.strip() and line != ELIDED]


def _steady(line: str) -> str:
    for pattern, word in VOLATILE:
        line = pattern.sub(word, line)
    return line.strip()
