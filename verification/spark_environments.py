"""Environments with another PySpark than the one of development, in the cache outside the repository.

Each is made by venv and pip from whatever registry this machine is set up for. Kept apart from what runs in them:
the build of a release needs their jars, `make versions` needs what tests need, too.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from parts import cache

ROOT = Path(__file__).parent.parent
TESTING = frozenset("obstore pandas pyarrow pytest pytest-timeout pytest-xdist hypothesis psutil duckdb".split())


def python_of(release: str) -> Path:
    """The Python of the environment for a release such as 3.5, made if it is absent. Nothing is installed in it."""
    folder = cache() / "venvs" / release
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    return python


def newest(release: str) -> Path:
    """The Python of an environment with the newest PySpark of a release, and what the tests need."""
    python = python_of(release)
    _install(python, "--upgrade", f"pyspark=={release}.*", *_needed())
    return python


def with_wheel(release: str) -> Path:
    """The Python of an environment with the newest PySpark of a release and the wheel of this tree, as a user has it:
    nothing of the tree can be reached from there. The jar is that of the release."""
    subprocess.run([str(newest(release)), "-m", "verification", "build_jar"], cwd=ROOT, check=True)
    python = python_of(f"{release}-wheel")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], cwd=ROOT, check=True)
        [wheel] = Path(folder).glob("*.whl")
        subprocess.run([str(python), "-m", "pip", "uninstall", "-q", "-y", "rekindle"], check=True)
        _install(python, str(wheel), f"pyspark=={release}.*")
    return python


def jars(release: str) -> Path:
    """The folder of jars of a PySpark of this release: one that is there, or the newest."""
    python = python_of(release)
    found = list(python.parent.parent.glob("lib/*/site-packages/pyspark/jars"))
    if not found:
        _install(python, f"pyspark=={release}.*")
        found = list(python.parent.parent.glob("lib/*/site-packages/pyspark/jars"))
    return found[0]


def pyspark_of(python: Path) -> tuple[str, Path]:
    """The version of PySpark in an environment, and the folder of its jars."""
    code = "import pyspark; print(pyspark.__version__); print(pyspark.__path__[0])"
    told = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True, cwd=cache()).stdout
    version, folder = told.splitlines()
    return version, Path(folder) / "jars"


def _install(python: Path, *what: str) -> None:
    subprocess.run([str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *what], check=True)


def _needed() -> list[str]:
    """What the package itself needs, and of the packages for development those for tests."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    dev = [one for one in project["dependency-groups"]["dev"] if re.split(r"[<>=!~\[ ]", one)[0] in TESTING]
    return [*project["project"]["dependencies"], *dev]
