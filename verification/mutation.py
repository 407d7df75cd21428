"""Mutation testing of one pure room: change the code a little, and see whether a test notices.

    python -m verification mutation failover --keep DIR

The room, what it imports and its tests are copied to a directory of their own, and mutmut runs there, without the
oracle's slice: rows and properties must see it. A mutant that no test notices survives. Survivors are listed in
docs/reports/mutation.md, each with its reason; the target is at most 5 % of all.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SURVIVORS_MAX = 0.05
NOTICED = {"killed", "timeout", "caught by type check"}
SETUP = """
[mutmut]
source_paths=src/
only_mutate=src/rekindle/{room}/*
mutate_only_covered_lines=true
also_copy=
    tests/
    verification/
    pytest.ini
pytest_add_cli_args_test_selection=
    tests/{room}
    --ignore=tests/failover/test_oracle.py
"""
PYTEST = """
[pytest]
pythonpath = src tests verification
timeout = 120
addopts = -p no:cacheprovider
markers =
    cluster: needs a real Spark cluster
    s3: needs a real S3-compatible server
"""
# Few examples per property: a mutant is tried against hundreds of tests, and rows do most of the work. mutmut 3.8 asks
# pytest's items for a private name that the pytest of today no longer has.
CONFTEST = """
import pytest
from hypothesis import settings
settings.register_profile("mutation", max_examples=40, deadline=None, derandomize=True)
settings.load_profile("mutation")
pytest.Item._nodeid = property(lambda item: item.nodeid)
"""


def copy(room: str, to: Path) -> None:
    for part in ("src/rekindle", "tests", "verification"):
        shutil.copytree(ROOT / part, to / part, ignore=shutil.ignore_patterns("__pycache__", "*.jar"))
    for other in (to / "tests").iterdir():
        if other.is_dir() and other.name not in (room, "doubles", "master"):
            shutil.rmtree(other)
    (to / "setup.cfg").write_text(SETUP.format(room=room))
    (to / "pytest.ini").write_text(PYTEST)
    (to / "tests" / "conftest.py").write_text(CONFTEST)


def count(where: Path) -> dict[str, list[str]]:
    """Verdict to mutants."""
    mutmut = str(Path(sys.executable).parent / "mutmut")
    listed = subprocess.run([mutmut, "results", "--all", "true"], cwd=where, capture_output=True, text=True, check=True)
    verdicts: dict[str, list[str]] = {}
    for name, verdict in re.findall(r"^\s*(\S+): (.+)$", listed.stdout, re.MULTILINE):
        verdicts.setdefault(verdict, []).append(name)
    return verdicts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("room", choices=["failover", "master"])
    parser.add_argument("--keep", type=Path, help="work in this directory and leave it")
    parser.add_argument("--processes", type=int, default=2)
    chosen = parser.parse_args()
    where = chosen.keep or Path(tempfile.mkdtemp(prefix="mutation-"))
    where.mkdir(parents=True, exist_ok=True)
    copy(chosen.room, where)
    mutmut = str(Path(sys.executable).parent / "mutmut")
    ran = subprocess.run(
        [mutmut, "run", "--max-children", str(chosen.processes)], cwd=where, capture_output=True, text=True
    )
    if ran.returncode:
        print(ran.stdout[-4000:], ran.stderr[-4000:])
        return ran.returncode
    verdicts = count(where)
    total = sum(map(len, verdicts.values()))
    survived = [name for verdict, names in verdicts.items() if verdict not in NOTICED for name in names]
    for name in survived:
        print(name)
    if chosen.keep is None:
        shutil.rmtree(where)
    share = len(survived) / total
    print("  ".join(f"{verdict} {len(names)}" for verdict, names in sorted(verdicts.items())))
    print(f"RESULT mutation room={chosen.room} mutants={total} survived={len(survived)} share={share:.4f}")
    return 0 if share <= SURVIVORS_MAX else 1


if __name__ == "__main__":
    sys.exit(main())
