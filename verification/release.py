"""`make release`: wheel and sdist of this tree, checked and used as a user would. What holds goes into `dist/`.

- The wheel is built twice, from the tree and from the sdist: both must hold the same files, byte for byte.
- The wheel holds the package with its jar and nothing else: no test, no campaign, no path of this machine.
- `twine check --strict` reads both as a package index would.
- The wheel is installed into an empty virtual environment, and the README's first five minutes are typed there: a run
  that fails and its resume, on real Spark. The demo on a cluster is left to `make first-five-minutes`.
- The version is that of `rekindle.__version__`; the changelog has a section for it, and `tests/replay` a recording.
"""

from __future__ import annotations

import argparse
import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import rekindle as rk
from build_lake_jar import DELTA_JAR, ICEBERG_JAR
from first_five_minutes import walk
from rekindle.engine.spark_lines import LINES
from support.recorded_location import ARCHIVE, HERE

ROOT = Path(__file__).parent.parent
LAKE_JARS = (DELTA_JAR.name, ICEBERG_JAR.name)
JARS = tuple(f"rekindle/engine/spark/jars/{one}" for one in (*(line.jar for line in LINES), *LAKE_JARS))
DEMO = "rekindle demo"
REQUIRED = (*JARS, "rekindle/py.typed", "rekindle/cli/main.py")


def build(source: Path, into: Path, kind: str) -> Path:
    """One artifact of a source tree; `kind` is wheel or sdist. What builds it is in this environment."""
    command = [sys.executable, "-m", "build", f"--{kind}", "--no-isolation", "--outdir", str(into), str(source)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    [made] = into.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return made


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as packed:
        return {name: packed.read(name) for name in packed.namelist()}


def unpacked(sdist: Path, into: Path) -> Path:
    """The folder of an sdist's tree."""
    with tarfile.open(sdist) as packed:
        packed.extractall(into, filter="data")
    [tree] = into.iterdir()
    return tree


def faults_of_wheel(files: dict[str, bytes], version: str, machine: tuple[str, ...]) -> Iterator[str]:
    """What must not be in the wheel, and what is not."""
    roots = ("rekindle/", f"rekindle-{version}.dist-info/")
    yield from (f"the wheel holds {name}" for name in files if not name.startswith(roots))
    yield from (f"the wheel has no {name}" for name in REQUIRED if name not in files)
    for name, body in files.items():
        texts = contents_of_jar(body) if name.endswith(".jar") else [body]
        yield from (f"{name} holds {path}" for path in machine if any(path.encode() in text for text in texts))


def contents_of_jar(body: bytes) -> list[bytes]:
    with zipfile.ZipFile(io.BytesIO(body)) as packed:
        return [packed.read(name) for name in packed.namelist()]


def faults_of_version(version: str) -> Iterator[str]:
    if f"\n## {version}" not in (ROOT / "CHANGELOG.md").read_text():
        yield f"CHANGELOG.md has no section {version}"
    if not (HERE / version / ARCHIVE).exists():
        yield f"no location is recorded for {version}: python -m verification record_location"
    if not list((HERE / version).glob("*.journal")):
        yield f"no journals are recorded for {version}: python tests/replay/record.py"


def faults_of_tree() -> Iterator[str]:
    told = subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    yield from (f"not committed: {line}" for line in told.splitlines())


def difference(one: dict[str, bytes], other: dict[str, bytes]) -> Iterator[str]:
    for name in sorted(one.keys() | other.keys()):
        if one.get(name) != other.get(name):
            yield f"the wheel from the tree and the one from the sdist differ in {name}"


def faults_of_use(wheel: Path, folder: Path) -> Iterator[str]:
    """Install it into an empty environment and follow the README; then ask for its version."""
    (folder / "dist").mkdir(parents=True)
    shutil.copy(wheel, folder / "dist")
    page, spent, _ = walk(folder, leaving_out=DEMO)
    if len(spent) < len(page.steps):
        yield f"README: {page.steps[len(spent)].command} did not do what the page says"
        return
    command = [str(folder / "trial" / "bin" / "rekindle"), "--version"]
    told = subprocess.run(command, capture_output=True, text=True, cwd=folder).stdout.strip()
    if told != f"rekindle, version {rk.__version__}":
        yield f"rekindle --version says {told!r}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Build, check and use wheel and sdist.")
    parser.add_argument("--allow-dirty", action="store_true", help="for a try: what is not committed is no fault")
    options = parser.parse_args()
    started, version = time.monotonic(), rk.__version__
    folder = Path(tempfile.mkdtemp(prefix="release-"))
    try:
        sdist = build(ROOT, folder / "sdist", "sdist")
        wheel = build(ROOT, folder / "wheel", "wheel")
        again = build(unpacked(sdist, folder / "tree"), folder / "again", "wheel")
        files = contents(wheel)
        faults = [
            *([] if options.allow_dirty else faults_of_tree()),
            *faults_of_version(version),
            *faults_of_wheel(files, version, (str(ROOT), str(folder), sys.prefix)),
            *difference(files, contents(again)),
        ]
        checked = subprocess.run([sys.executable, "-m", "twine", "check", "--strict", str(sdist), str(wheel)])
        if checked.returncode:
            faults.append("twine check found something")
        if not faults:
            faults = list(faults_of_use(wheel, folder / "user"))
        if not faults:
            (ROOT / "dist").mkdir(exist_ok=True)
            for made in (sdist, wheel):
                shutil.copy(made, ROOT / "dist")
        sizes = f"wheel_bytes={wheel.stat().st_size} sdist_bytes={sdist.stat().st_size}"
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(*(f"FAULT {fault}" for fault in faults), sep="\n")
    seconds = time.monotonic() - started
    print(f"RESULT release={version} faults={len(faults)} files={len(files)} {sizes} seconds={seconds:.0f}")
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
