"""`make first-five-minutes`: what the README's section of that name says, done as written, in an empty folder.

- The folder holds nothing but `dist/` with a wheel of this tree; the shell knows no virtual environment of ours.
- `$ …` in a console block is typed into one shell, in order. Lines under it are what it must print, `…` standing for
  anything; where the first of them begins with `error`, the command must end with 4 (failed, resumable), else with 0.
- A Python block is saved under the file name that was last named before it.
- It stops at the first command that does not do what the page says.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from rekindle.cli.boundary import ExitCode
from rekindle.local_cluster.processes import Process, end

ROOT = Path(__file__).parent.parent
SECTION = re.compile(r"^## First five minutes\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)
FILE_NAME = re.compile(r"`([\w-]+\.py)`")
PROMPT = "$ "
ANYTHING = "…"
FOREIGN = ("VIRTUAL_ENV", "PYTHON", "REKINDLE_", "SPARK_", "PYSPARK_")
SECONDS_MAX = 540.0


@dataclass(frozen=True, slots=True)
class Step:
    """A command, and what the page shows of its output."""

    command: str
    shown: list[str] = field(default_factory=list)

    @property
    def code(self) -> int:
        is_failure = bool(self.shown) and self.shown[0].startswith("error")
        return int(ExitCode.RESUMABLE if is_failure else ExitCode.DONE)

    def is_shown_in(self, output: str) -> bool:
        """Whether all that is shown was printed, in this order; spaces and line ends are as the terminal made them."""
        words = [re.escape(word) for line in self.shown for word in line.split()]
        pattern = r"\s+".join(words).replace(re.escape(ANYTHING), ".*?")
        return re.search(pattern, output, re.DOTALL) is not None


@dataclass(frozen=True, slots=True)
class Page:
    """What the section asks for."""

    steps: list[Step]
    files: dict[str, str]


def read_page(text: str) -> Page:
    section = SECTION.search(text)
    assert section is not None, "the README has the section"
    steps: list[Step] = []
    files: dict[str, str] = {}
    for block in BLOCK.finditer(section.group(1)):
        kind, body = block.groups()
        if kind == "python":
            name = FILE_NAME.findall(section.group(1)[: block.start()])[-1]
            files[name] = body
            continue
        for line in body.splitlines():
            if line.startswith(PROMPT):
                steps.append(Step(line.removeprefix(PROMPT)))
            else:
                steps[-1].shown.append(line)
    return Page(steps, files)


class Shell:
    """One bash in which commands follow each other, as in a terminal window."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        mine = str(Path(sys.executable).parent)
        path = os.pathsep.join(one for one in os.environ["PATH"].split(os.pathsep) if one != mine)
        variables = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        self._bash = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=folder,
            env={**variables, "PATH": path, "TMPDIR": str(folder / "tmp")},
            stdin=subprocess.PIPE,
            text=True,
        )
        (folder / "tmp").mkdir()

    def types(self, command: str) -> tuple[int, str]:
        """Its exit code and what it printed."""
        output, code = self._folder / "tmp" / "output", self._folder / "tmp" / "code"
        code.unlink(missing_ok=True)
        assert self._bash.stdin is not None
        self._bash.stdin.write(f"{{ {command}\n}} > {output} 2>&1 < /dev/null; echo $? > {code}.part; ")
        self._bash.stdin.write(f"mv {code}.part {code}\n")
        self._bash.stdin.flush()
        deadline = time.monotonic() + SECONDS_MAX
        while not code.exists() and self._bash.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        text = output.read_text(errors="replace") if output.exists() else ""
        return (int(code.read_text()) if code.exists() else -1), text

    def close(self) -> None:
        """A command that still runs is ended too."""
        bash = Process.of(self._bash.pid)
        if bash is not None and self._bash.poll() is None:
            end([*bash.descendants(), bash])
        self._bash.wait()


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
    spent = _type_all(page.steps, folder)
    return page, spent, time.monotonic() - started


def _build(into: Path) -> None:
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(into)], cwd=ROOT, check=True)


def _type_all(steps: list[Step], folder: Path) -> dict[str, float]:
    """Seconds of each command that did what the page says, until one does not."""
    spent: dict[str, float] = {}
    shell = Shell(folder)
    try:
        for step in steps:
            started = time.monotonic()
            code, output = shell.types(step.command)
            took = time.monotonic() - started
            is_so = code == step.code and step.is_shown_in(output)
            print(f"{'ok  ' if is_so else 'FAIL'} {took:6.1f} s  exit {code}  $ {step.command}", flush=True)
            if not is_so:
                print(f"the page says exit {step.code} and:\n{chr(10).join(step.shown)}\nit printed:\n{output[-4000:]}")
                break
            spent[step.command] = took
    finally:
        shell.close()
    return spent


if __name__ == "__main__":
    sys.exit(main())
