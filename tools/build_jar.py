"""Build the jar that ships inside the wheel: javac against the jars of the installed PySpark.

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
SOURCES = sorted((ROOT / "java").rglob("*.java"))
JAR = ROOT / "src" / "rekindle" / "engine" / "spark" / "jars" / "rekindle-spark.jar"
STAMP = "META-INF/rekindle-sources"


def fingerprint() -> str:
    digest = hashlib.sha256()
    for source in SOURCES:
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()


def is_current() -> bool:
    if not JAR.exists():
        return False
    with zipfile.ZipFile(JAR) as jar:
        return STAMP in jar.namelist() and jar.read(STAMP).decode() == fingerprint()


def compile_to(folder: Path) -> None:
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None and spec.origin is not None, "PySpark is not installed: make install"
    jars = Path(spec.origin).parent / "jars"
    command = ["javac", "--release", "17", "-Xlint:all,-classfile,-processing,-path", "-Werror", "-proc:none"]
    command += ["-cp", f"{jars}/*", "-d", str(folder), *map(str, SOURCES)]
    subprocess.run(command, check=True)


def main() -> None:
    if is_current():
        return
    JAR.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        compile_to(Path(folder))
        with zipfile.ZipFile(JAR, "w", zipfile.ZIP_DEFLATED) as jar:
            for path in sorted(Path(folder).rglob("*.class")):
                jar.writestr(zipfile.ZipInfo(path.relative_to(folder).as_posix()), path.read_bytes())
            jar.writestr(zipfile.ZipInfo(STAMP), fingerprint())
    print(f"built {JAR.relative_to(ROOT)}", file=sys.stderr)


if __name__ == "__main__":
    main()
