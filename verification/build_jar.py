"""Build the jar that ships inside the wheel, and the one for tests: javac against the jars of the installed PySpark.

The jar is reproducible (sorted entries, fixed times), and built only when the sources changed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
JAR = ROOT / "src" / "rekindle" / "engine" / "spark" / "jars" / "rekindle-spark.jar"
TEST_JAR = ROOT / "tests" / "java" / "rekindle-test.jar"
STAMP = "META-INF/rekindle-sources"


def fingerprint(sources: list[Path]) -> str:
    digest = hashlib.sha256()
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()


def is_current(target: Path, sources: list[Path]) -> bool:
    if not target.exists():
        return False
    with zipfile.ZipFile(target) as jar:
        return STAMP in jar.namelist() and jar.read(STAMP).decode() == fingerprint(sources)


def java_sources() -> list[Path]:
    """Of the jar that ships."""
    return sorted((ROOT / "java").rglob("*.java"))


def installed_jars() -> Path:
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None and spec.origin is not None, "PySpark is not installed: make install"
    return Path(spec.origin).parent / "jars"


def compile_to(folder: Path, sources: list[Path], path: list[Path], jars: Path) -> None:
    command = ["javac", "--release", "17", "-Xlint:all,-classfile,-processing,-path", "-Werror", "-proc:none"]
    class_path = ":".join([f"{jars}/*", *map(str, path)])
    command += ["-cp", class_path, "-d", str(folder), *map(str, sources)]
    subprocess.run(command, check=True)


def build(target: Path, sources: list[Path], path: list[Path]) -> None:
    if is_current(target, sources):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        compile_to(Path(folder), sources, path, installed_jars())
        made = target.with_suffix(".new")
        with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as jar:
            for file in sorted(Path(folder).rglob("*.class")):
                jar.writestr(zipfile.ZipInfo(file.relative_to(folder).as_posix()), file.read_bytes())
            jar.writestr(zipfile.ZipInfo(STAMP), fingerprint(sources))
        made.replace(target)  # A session that has the old one open goes on with it.
    print(f"built {target.relative_to(ROOT)}", file=sys.stderr)


def main() -> None:
    build(JAR, java_sources(), [])
    build(TEST_JAR, sorted((ROOT / "tests" / "java").rglob("*.java")), [JAR])


if __name__ == "__main__":
    main()
