"""`make versions`: the engine's tests on the newest patch release of every PySpark that is supported.

- Each has an environment of its own in the cache, made by venv and pip from whatever registry this machine is set up
  for; the newest patch release is asked for each time.
- What is tested is what ships: the jar of the version's Spark line. The sources are also compiled against the jars of
  each version of a line; if that gives the same classes, whatever the jar links to is there with the same signature.
- A version passes if no test failed, and none was skipped but for what its Spark line lacks.
- A campaign may take several sittings (`--minutes`): what a file of tests came to on a version is kept for the sources
  that were tested, and the sum counts files that were not run yet as left. With other sources it begins anew.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import msgspec

import build_jar
from rekindle.engine.spark_lines import RELEASES, SparkLine, line_of
from spark_environments import newest, pyspark_of
from support.spark_line import LACKING

ROOT = Path(__file__).parent.parent
FOLDER = Path(".cluster/versions")
TESTS = "tests/engine"
TESTED = ("src", "java", "tests", "verification/support")
MINUTES_MAX = 70.0
# Files that one process of pytest runs: one Spark application serves them all.
FILES_AT_ONCE = 8


class Outcome(msgspec.Struct, frozen=True):
    """What one file of tests came to on one version. `lacking` were skipped for what the Spark line lacks, `skipped`
    for anything else."""

    version: str
    file: str
    tests: int
    failed: tuple[str, ...]
    skipped: int
    lacking: int
    seconds: float


class Sittings:
    """A file with a line for each outcome, for the sources as they are."""

    def __init__(self, folder: Path = FOLDER) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / f"{sources()}.jsonl"
        lines = self._path.read_bytes().splitlines() if self._path.exists() else []
        found = (msgspec.json.decode(line, type=Outcome) for line in lines if line.endswith(b"}"))
        self.outcomes = {(one.version, one.file): one for one in found}

    def forget(self) -> None:
        self._path.unlink(missing_ok=True)
        self.outcomes = {}

    def add(self, outcome: Outcome) -> None:
        self.outcomes[outcome.version, outcome.file] = outcome
        with self._path.open("ab") as file:
            file.write(msgspec.json.encode(outcome) + b"\n")


def sources() -> str:
    """A digest of what is tested."""
    files = [one for name in TESTED for one in (ROOT / name).rglob("*") if one.suffix in (".py", ".java", ".txt")]
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(file.relative_to(ROOT).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:12]


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


def run_tests(python: Path, version: str, files: Sequence[str]) -> list[Outcome]:
    """One process of pytest over some files. A file of which it tells nothing has failed."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "tests.xml"
        options = ["-q", "-p", "no:cacheprovider", "-p", "no:randomly", f"--junitxml={found}"]
        known = {name: value for name, value in os.environ.items() if name not in {"SPARK_HOME", "PYTHONPATH"}}
        command = [str(python), "-m", "pytest", *options, *files]
        ended = subprocess.run(command, cwd=ROOT, env=known | {"PYSPARK_PYTHON": str(python)})
        cases = list(ElementTree.parse(found).iter("testcase")) if found.exists() else []
    seconds = (time.monotonic() - started) / len(files)
    by_file = {name: [one for one in cases if _module(one) == Path(name).stem] for name in files}
    strange = ended.returncode and not any(_has_failed(one) for one in cases)
    return [
        _outcome(version, name, by_file[name], seconds, f"pytest ended with {ended.returncode}" if strange else "")
        for name in files
    ]


def _outcome(version: str, file: str, cases: list[ElementTree.Element], seconds: float, strange: str) -> Outcome:
    why = [one.get("message", "") for case in cases for one in case.findall("skipped")]
    lacking = sum(one.startswith(LACKING) for one in why)
    failed = [f"{Path(file).stem}::{case.get('name')}" for case in cases if _has_failed(case)]
    told = [f"{file}: {strange}"] if strange else [] if cases else [f"{file}: nothing of it was run"]
    return Outcome(version, file, len(cases), (*failed, *told), len(why) - lacking, lacking, seconds)


def _has_failed(case: ElementTree.Element) -> bool:
    return case.find("failure") is not None or case.find("error") is not None


def _module(case: ElementTree.Element) -> str:
    """A file that could not be imported has its name in the name of the case."""
    told = case.get("classname", "") or case.get("name", "")
    return next((part for part in told.split(".") if part.startswith("test_")), "")


def try_version(release: str, files: Sequence[str], sittings: Sittings, until: float) -> tuple[str, str]:
    """The version, and a digest of the classes that the sources compile to there. Stops when the sitting is over."""
    python = newest(release)
    version, jars = pyspark_of(python)
    line = line_of(version)
    left = [one for one in files if (version, one) not in sittings.outcomes]
    print(f"== PySpark {version}, Spark line {line.name}: {len(left)} of {len(files)} files left", flush=True)
    if left:
        subprocess.run([str(python), "-m", "verification", "build_jar"], cwd=ROOT, check=True)
    made = classes(line, jars)
    for at in range(0, len(left), FILES_AT_ONCE):
        if time.monotonic() > until:
            break
        for outcome in run_tests(python, version, left[at : at + FILES_AT_ONCE]):
            sittings.add(outcome)
    return version, made


def report(made: dict[str, str], files: Sequence[str], outcomes: Sequence[Outcome]) -> bool:
    """`made` is the digest of classes of each version."""
    found = {version: [one for one in outcomes if one.version == version and one.file in files] for version in made}
    for version, some in found.items():
        failed = [name for one in some for name in one.failed]
        left_out = f"{sum(one.lacking for one in some)} skipped for what this Spark lacks"
        other = f"{sum(one.skipped for one in some)} for other reasons"
        print(f"PySpark {version}: {sum(one.tests for one in some)} tests, {len(failed)} failed, {left_out}, {other}")
        print(
            f"  classes {made[version] or 'do not compile'}, {sum(one.seconds for one in some):.0f} s",
            *failed,
            sep="\n  ",
        )
    by_line = {
        line_of(version).name: {made[one] for one in made if line_of(one) is line_of(version)} for version in made
    }
    are_equal = all(len(some) == 1 for some in by_line.values()) and all(made.values())
    every = [one for some in found.values() for one in some]
    left = len(files) * len(made) - len(every)
    wrong, skipped = sum(len(one.failed) for one in every), sum(one.skipped for one in every)
    minutes = sum(one.seconds for one in every) / 60
    print(
        f"RESULT versions={len(made)} failed={wrong} tests={sum(one.tests for one in every)} skipped={skipped} "
        f"lacking={sum(one.lacking for one in every)} files_left={left} pyspark={','.join(made)} "
        f"classes_equal={are_equal} minutes={minutes:.1f} minutes_max={MINUTES_MAX:.0f}"
    )
    return are_equal and not (wrong or skipped or left) and minutes <= MINUTES_MAX


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", nargs="+", default=list(RELEASES), help="releases, such as 3.5")
    parser.add_argument("--tests", nargs="+", help="files of tests, if not all of the engine")
    parser.add_argument("--minutes", type=float, default=1e6, help="of this sitting; the next one goes on")
    parser.add_argument("--again", action="store_true", help="forget what earlier sittings found")
    options = parser.parse_args()
    files = options.tests or sorted(one.relative_to(ROOT).as_posix() for one in (ROOT / TESTS).glob("test_*.py"))
    sittings = Sittings()
    if options.again:
        sittings.forget()
    until = time.monotonic() + 60 * options.minutes
    made = dict(try_version(release, files, sittings, until) for release in options.only)
    return 0 if report(made, files, list(sittings.outcomes.values())) else 1


if __name__ == "__main__":
    raise SystemExit(main())
