"""`make versions`: the engine's tests on the newest patch release of every PySpark that is supported.

- Each has an environment of its own in the cache, made by venv and pip from whatever registry this machine is set up
  for; the newest patch release is asked for each time.
- What is tested is what ships: the jar of the version's Spark line. The sources are also compiled against the jars of
  each version of a line; if that gives the same classes, whatever the jar links to is there with the same signature.
- A version passes if no test failed, and none was skipped but for what its Spark line lacks.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import build_jar
from rekindle.engine.spark_lines import RELEASES, SparkLine, line_of
from spark_environments import newest, pyspark_of
from support.spark_line import LACKING

ROOT = Path(__file__).parent.parent
MINUTES_MAX = 70.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the tests came to on one version. `classes` is a digest of what javac makes there, empty if it fails.
    `lacking` were skipped for what the Spark line lacks, `skipped` for anything else."""

    version: str
    line: SparkLine
    tests: int
    failed: tuple[str, ...]
    skipped: int
    lacking: int
    classes: str
    seconds: float


def classes(line: SparkLine, jars: Path) -> str:
    """A digest of the classes that our Java sources of a Spark line compile to with these jars."""
    digest = hashlib.sha256()
    with tempfile.TemporaryDirectory() as folder:
        try:
            build_jar.compile_to(Path(folder), line, build_jar.java_sources(line), [], jars)
        except subprocess.CalledProcessError:
            return ""
        for file in sorted(Path(folder).rglob("*.class")):
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]


def test(python: Path, tests: list[str]) -> tuple[int, tuple[str, ...], list[str]]:
    """How many tests there are, which of them failed, why the others were skipped."""
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "tests.xml"
        command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={found}", *tests]
        known = {name: value for name, value in os.environ.items() if name not in {"SPARK_HOME", "PYTHONPATH"}}
        ended = subprocess.run(command, cwd=ROOT, env=known | {"PYSPARK_PYTHON": str(python)})
        if not found.exists():
            return 0, (f"pytest ended with {ended.returncode}",), []
        cases = list(ElementTree.parse(found).iter("testcase"))
    failed = [_name(case) for case in cases if case.find("failure") is not None or case.find("error") is not None]
    if ended.returncode and not failed:
        failed = [f"pytest ended with {ended.returncode}"]
    why = [one.get("message", "") for case in cases for one in case.findall("skipped")]
    return len(cases), tuple(failed), why


def _name(case: ElementTree.Element) -> str:
    return f"{case.get('classname', '').rsplit('.', 1)[-1]}::{case.get('name')}"


def try_version(release: str, tests: list[str]) -> Outcome:
    started = time.monotonic()
    python = newest(release)
    version, jars = pyspark_of(python)
    line = line_of(version)
    print(f"== PySpark {version}, Spark line {line.name}", flush=True)
    subprocess.run([str(python), "-m", "verification", "build_jar"], cwd=ROOT, check=True)
    made = classes(line, jars)
    count, failed, why = test(python, tests)
    lacking = sum(one.startswith(LACKING) for one in why)
    spent = time.monotonic() - started
    return Outcome(version, line, count, failed, len(why) - lacking, lacking, made, spent)


def report(outcomes: list[Outcome], minutes: float) -> bool:
    for one in outcomes:
        left_out = f"{one.lacking} skipped for what this Spark lacks, {one.skipped} for other reasons"
        print(f"PySpark {one.version}: {one.tests} tests, {len(one.failed)} failed, {left_out}")
        print(f"  classes {one.classes or 'do not compile'}, {one.seconds:.0f} s", *one.failed, sep="\n  ")
    by_line = {one.line.name: {other.classes for other in outcomes if other.line is one.line} for one in outcomes}
    are_equal = all(len(made) == 1 for made in by_line.values()) and all(one.classes for one in outcomes)
    failed = sum(len(one.failed) for one in outcomes)
    skipped = sum(one.skipped for one in outcomes)
    names = ",".join(one.version for one in outcomes)
    lacking = sum(one.lacking for one in outcomes)
    print(
        f"RESULT versions={len(outcomes)} failed={failed} tests={sum(one.tests for one in outcomes)} skipped={skipped} "
        f"lacking={lacking} pyspark={names} classes_equal={are_equal} "
        f"minutes={minutes:.1f} minutes_max={MINUTES_MAX:.0f}"
    )
    return are_equal and not failed and not skipped and minutes <= MINUTES_MAX


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", nargs="+", default=list(RELEASES), help="releases, such as 3.5")
    parser.add_argument("--tests", nargs="+", default=["tests/engine"], help="what pytest is to run")
    options = parser.parse_args()
    started = time.monotonic()
    outcomes = [try_version(release, options.tests) for release in options.only]
    return 0 if report(outcomes, (time.monotonic() - started) / 60) else 1


if __name__ == "__main__":
    raise SystemExit(main())
