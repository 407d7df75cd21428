"""Build the jars that ship inside the wheel, one for each Spark line, and the one for tests.

- One tree of sources, `java/rekindle`, is compiled against the jars of a PySpark of the line, together with the sources
  in the line's own folder, `java/lines/NAME`. Where the line calls classes otherwise, its `names.txt` says so, and the
  sources are compiled with these names.
- `make jar` builds for the PySpark that is installed here, and is fast. `--all` builds every jar, each of the others
  against an environment of its own (`spark_environments.py`).
- A jar is reproducible (sorted entries, fixed times), and built only when its sources changed.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import importlib.util
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import spark_environments
from rekindle.engine.spark_lines import LINES, SparkLine, line_of

ROOT = Path(__file__).parent.parent
JAVA = ROOT / "java"
TEST_JAVA = ROOT / "tests" / "java"
JARS = ROOT / "src" / "rekindle" / "engine" / "spark" / "jars"
HERE = line_of(importlib.metadata.version("pyspark"))
JAR = JARS / HERE.jar
TEST_JAR = TEST_JAVA / f"rekindle-test-{HERE.name}.jar"
STAMP = "META-INF/rekindle-sources"
LINT = "-Xlint:all,-classfile,-processing,-path"
# A cast that one line needs is redundant in another, where two classes are one.
LINT_ELSEWHERE = f"{LINT},-cast"


def java_sources(line: SparkLine) -> list[Path]:
    """Of the jar that ships for a line."""
    return sorted((JAVA / "rekindle").rglob("*.java")) + sorted((JAVA / "lines" / line.name).rglob("*.java"))


def names_of(line: SparkLine) -> dict[str, str]:
    """What the line calls otherwise than the newest one."""
    file = JAVA / "lines" / line.name / "names.txt"
    lines = file.read_text().splitlines() if file.exists() else []
    pairs = (line.split() for line in lines if line and not line.startswith("#"))
    return dict(pairs)


def with_names(text: str, names: dict[str, str]) -> str:
    """A source with other names, whole names only."""
    if not names:
        return text
    known = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    return re.sub(rf"\b(?:{known})\b", lambda found: names[found[0]], text)


def fingerprint(sources: list[Path], names: dict[str, str]) -> str:
    digest = hashlib.sha256(repr(sorted(names.items())).encode())
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()


def is_current(target: Path, stamp: str) -> bool:
    if not target.exists():
        return False
    with zipfile.ZipFile(target) as jar:
        return STAMP in jar.namelist() and jar.read(STAMP).decode() == stamp


def jars_of(line: SparkLine) -> Path:
    """The jars of a PySpark of this line: of the installed one, or of an environment of its own."""
    if line is not HERE:
        return spark_environments.jars(line.releases[0])
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None and spec.origin is not None, "PySpark is not installed: make install"
    return Path(spec.origin).parent / "jars"


def compile_to(folder: Path, line: SparkLine, sources: list[Path], path: list[Path], jars: Path) -> None:
    lint, names = LINT if line is LINES[-1] else LINT_ELSEWHERE, names_of(line)
    with tempfile.TemporaryDirectory() as renamed:
        if names:  # Otherwise what javac says has the path of the source itself.
            sources = [_renamed(source, Path(renamed), names) for source in sources]
        command = ["javac", "--release", "17", lint, "-Werror", "-proc:none"]
        command += ["-cp", ":".join([f"{jars}/*", *map(str, path)]), "-d", str(folder), *map(str, sources)]
        subprocess.run(command, check=True)


def _renamed(source: Path, folder: Path, names: dict[str, str]) -> Path:
    to = folder / source.name
    assert not to.exists(), f"two sources are called {source.name}"
    to.write_text(with_names(source.read_text(), names))
    return to


def build(target: Path, line: SparkLine, sources: list[Path], path: list[Path], jars: Path | None = None) -> None:
    """`jars` are those of the PySpark that is built against, where the line has several."""
    stamp = fingerprint(sources, names_of(line))
    if is_current(target, stamp):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        compile_to(Path(folder), line, sources, path, jars or jars_of(line))
        made = target.with_suffix(".new")
        with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as jar:
            for file in sorted(Path(folder).rglob("*.class")):
                jar.writestr(
                    zipfile.ZipInfo(file.relative_to(folder).as_posix()), file.read_bytes(), zipfile.ZIP_DEFLATED
                )
            jar.writestr(zipfile.ZipInfo(STAMP), stamp)
        made.replace(target)  # A session that has the old one open goes on with it.
    print(f"built {target.relative_to(ROOT)}", file=sys.stderr)


def build_here() -> None:
    """The jar of the installed PySpark, and the one for tests."""
    build(JAR, HERE, java_sources(HERE), [])
    build(TEST_JAR, HERE, sorted(TEST_JAVA.rglob("*.java")), [JAR])


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the jars that ship inside the wheel, and the one for tests.")
    parser.add_argument("--all", action="store_true", help="for every Spark line, not for the installed PySpark alone")
    options = parser.parse_args()
    for line in LINES if options.all else ():
        build(JARS / line.jar, line, java_sources(line), [])
    build_here()


if __name__ == "__main__":
    main()
