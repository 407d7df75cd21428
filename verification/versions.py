"""`make versions`: the engine's tests on the newest patch release of every PySpark that is supported.

- Each has an environment of its own in the cache, made by venv and pip from whatever registry this machine is set up
  for; the newest patch release is asked for each time.
- What is tested is what ships: one jar, built against the PySpark of development. The sources are also compiled against
  the jars of each version; if that gives the same classes, whatever the jar links to is there with the same signature.
- A version passes if no test failed and none was skipped.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import build_jar
from parts import cache

ROOT = Path(__file__).parent.parent
MINORS = ("4.1", "4.2", "4.3")
TESTING = frozenset("obstore pandas pyarrow pytest pytest-timeout hypothesis psutil".split())
MINUTES_MAX = 40.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the tests came to on one version. `classes` is a digest of what javac makes there, empty if it fails."""

    version: str
    tests: int
    failed: tuple[str, ...]
    skipped: int
    classes: str
    seconds: float


def environment(minor: str) -> Path:
    """The Python of an environment with the newest PySpark of a minor version, and what the tests need."""
    folder = cache() / "venvs" / minor
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    install = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", "--upgrade"]
    subprocess.run([*install, f"pyspark=={minor}.*", *_needed()], check=True)
    return python


def _needed() -> list[str]:
    """What the package itself needs, and of the packages for development those for tests."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    dev = [one for one in project["dependency-groups"]["dev"] if re.split(r"[<>=!~\[ ]", one)[0] in TESTING]
    return [*project["project"]["dependencies"], *dev]


def pyspark_of(python: Path) -> tuple[str, Path]:
    """The version of PySpark in an environment, and the folder of its jars."""
    code = "import pyspark; print(pyspark.__version__); print(pyspark.__path__[0])"
    told = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True, cwd=cache()).stdout
    version, folder = told.splitlines()
    return version, Path(folder) / "jars"


def classes(jars: Path) -> str:
    """A digest of the classes that our Java sources compile to with these jars."""
    digest = hashlib.sha256()
    with tempfile.TemporaryDirectory() as folder:
        try:
            build_jar.compile_to(Path(folder), build_jar.java_sources(), [], jars)
        except subprocess.CalledProcessError:
            return ""
        for file in sorted(Path(folder).rglob("*.class")):
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]


def test(python: Path, tests: list[str]) -> tuple[int, tuple[str, ...], int]:
    """How many tests there are, which of them failed, how many were skipped."""
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "tests.xml"
        command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={found}", *tests]
        known = {name: value for name, value in os.environ.items() if name not in {"SPARK_HOME", "PYTHONPATH"}}
        ended = subprocess.run(command, cwd=ROOT, env=known | {"PYSPARK_PYTHON": str(python)})
        if not found.exists():
            return 0, (f"pytest ended with {ended.returncode}",), 0
        cases = list(ElementTree.parse(found).iter("testcase"))
    failed = [_name(case) for case in cases if case.find("failure") is not None or case.find("error") is not None]
    if ended.returncode and not failed:
        failed = [f"pytest ended with {ended.returncode}"]
    return len(cases), tuple(failed), sum(case.find("skipped") is not None for case in cases)


def _name(case: ElementTree.Element) -> str:
    return f"{case.get('classname', '').rsplit('.', 1)[-1]}::{case.get('name')}"


def try_version(minor: str, tests: list[str]) -> Outcome:
    started = time.monotonic()
    python = environment(minor)
    version, jars = pyspark_of(python)
    print(f"== PySpark {version}", flush=True)
    made = classes(jars)
    count, failed, skipped = test(python, tests)
    return Outcome(version, count, failed, skipped, made, time.monotonic() - started)


def report(outcomes: list[Outcome], minutes: float) -> bool:
    for one in outcomes:
        print(f"PySpark {one.version}: {one.tests} tests, {len(one.failed)} failed, {one.skipped} skipped, classes")
        print(f"  {one.classes or 'do not compile'}, {one.seconds:.0f} s", *one.failed, sep="\n  ")
    are_equal = len({one.classes for one in outcomes}) == 1 and all(one.classes for one in outcomes)
    failed = sum(len(one.failed) for one in outcomes)
    skipped = sum(one.skipped for one in outcomes)
    names = ",".join(one.version for one in outcomes)
    print(
        f"RESULT versions={len(outcomes)} failed={failed} tests={sum(one.tests for one in outcomes)} skipped={skipped} "
        f"pyspark={names} classes_equal={are_equal} minutes={minutes:.1f} minutes_max={MINUTES_MAX:.0f}"
    )
    return are_equal and not failed and not skipped and minutes <= MINUTES_MAX


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", nargs="+", default=list(MINORS), help="minor versions, such as 4.1")
    parser.add_argument("--tests", nargs="+", default=["tests/engine"], help="what pytest is to run")
    options = parser.parse_args()
    started = time.monotonic()
    build_jar.main()
    outcomes = [try_version(minor, options.tests) for minor in options.only]
    return 0 if report(outcomes, (time.monotonic() - started) / 60) else 1


if __name__ == "__main__":
    raise SystemExit(main())
