"""A page of the documentation as what it tells a reader to do: files to write, commands to type, what they print.

- `$ …` in a console block is typed into one shell, in order; a line that ends with a backslash goes on in the next one.
- Lines under it are what it must print, `…` standing for anything; where the first of them begins with `error`, the
  command must end with 4 (failed, resumable), else with 0.
- A Python block is saved under the file name that was last named before it.
- Typing stops at the first command that does not do what the page says.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rekindle.cli.boundary import ExitCode
from rekindle.local_cluster.processes import Process, end

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
    """What it asks for."""

    steps: list[Step]
    files: dict[str, str]


def page_of(text: str) -> Page:
    steps: list[Step] = []
    files: dict[str, str] = {}
    for block in BLOCK.finditer(text):
        kind, body = block.groups()
        if kind == "python":
            name = FILE_NAME.findall(text[: block.start()])[-1]
            files[name] = body
            continue
        for line in re.sub(r"\\\n\s*", "", body).splitlines():
            if line.startswith(PROMPT):
                steps.append(Step(line.removeprefix(PROMPT)))
            else:
                steps[-1].shown.append(line)
    return Page(steps, files)


class Shell:
    """One bash in which commands follow each other, as in a terminal window that knows no environment of ours.
    `first` are folders whose programs are found before others, `variables` what a login there would set."""

    def __init__(self, folder: Path, first: tuple[Path, ...] = (), variables: Mapping[str, str] | None = None) -> None:
        self._folder = folder
        mine = str(Path(sys.executable).parent)
        path = [*map(str, first), *(one for one in os.environ["PATH"].split(os.pathsep) if one != mine)]
        known = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        known |= {"PATH": os.pathsep.join(path), "TMPDIR": str(folder / "tmp"), **(variables or {})}
        self._bash = subprocess.Popen(
            ["bash", "--noprofile", "--norc"], cwd=folder, env=known, stdin=subprocess.PIPE, text=True
        )
        (folder / "tmp").mkdir()

    def types(self, command: str, seconds_max: float = SECONDS_MAX) -> tuple[int, str]:
        """Its exit code and what it printed."""
        output, code = self._folder / "tmp" / "output", self._folder / "tmp" / "code"
        code.unlink(missing_ok=True)
        assert self._bash.stdin is not None
        self._bash.stdin.write(f"{{ {command}\n}} > {output} 2>&1 < /dev/null; echo $? > {code}.part; ")
        self._bash.stdin.write(f"mv {code}.part {code}\n")
        self._bash.stdin.flush()
        deadline = time.monotonic() + seconds_max
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


def type_all(steps: list[Step], shell: Shell, seconds_max: float = SECONDS_MAX) -> dict[str, float]:
    """Seconds of each command that did what the page says, until one does not. The shell is closed."""
    spent: dict[str, float] = {}
    try:
        for step in steps:
            started = time.monotonic()
            code, output = shell.types(step.command, seconds_max)
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
