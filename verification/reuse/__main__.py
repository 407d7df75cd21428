"""`make reuse`: does a new driver reuse the same number of partitions of the same failed run on every supported Spark?

- Each pipeline of `pipelines.py` fails on one key, and is resumed in a new driver, on each release of PySpark
  in an environment of its own (`spark_environments.py`).
- Pipelines without opaque Python below an exchange must reuse the same number everywhere: all that was kept.
- The others are shown beside it: there Spark 4.1 and newer reuse by checksums what older ones compute again.
- Every resumed run must publish the rows that plain arithmetic says.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec

from rekindle.engine.spark_lines import RELEASES, line_of
from reuse.driver import Told
from reuse.pipelines import BELOW_EXCHANGE, BELOW_NOTHING, PARTITIONS
from spark_environments import newest, pyspark_of

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
MUST_KEEP = PARTITIONS - 1


def drive(python: Path, folder: Path, names: list[str]) -> dict[str, Told]:
    """One driver over all pipelines."""
    known = {name: value for name, value in os.environ.items() if name not in {"SPARK_HOME", "PYSPARK_PYTHON"}}
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT / "verification")])
    command = [str(python), str(HERE / "driver.py"), *names, str(folder)]
    ended = subprocess.run(command, env=known | {"PYTHONPATH": paths}, stdout=subprocess.PIPE, text=True, check=True)
    told = [msgspec.json.decode(line, type=Told) for line in ended.stdout.splitlines() if line.startswith("{")]
    return {one.name: one for one in told}


def tried(python: Path, names: list[str]) -> tuple[dict[str, Told], dict[str, Told]]:
    """What the driver that failed said, and the one that resumed."""
    subprocess.run([str(python), "-m", "verification", "build_jar"], cwd=ROOT, check=True)
    with tempfile.TemporaryDirectory(prefix="reuse-") as folder:
        return drive(python, Path(folder), names), drive(python, Path(folder), names)


def table(names: list[str], found: dict[str, tuple[dict[str, Told], dict[str, Told]]]) -> None:
    print(f"{'partitions reused of the step that failed':44}", *(f"{version:>8}" for version in found))
    for name in names:
        row = [str(resumed[name].steps["last"][1]) for _, resumed in found.values()]
        print(f"{name:44}", *(f"{one:>8}" for one in row))


def main() -> int:
    parser = argparse.ArgumentParser(description="Reuse by a new driver, on every supported Spark.")
    parser.add_argument("--only", nargs="+", default=list(RELEASES), help="releases, such as 3.5")
    parser.add_argument("--installed", action="store_true", help="with the PySpark of development alone")
    options = parser.parse_args()
    names = [*BELOW_NOTHING, *BELOW_EXCHANGE]
    pythons = [Path(sys.executable)] if options.installed else [newest(release) for release in options.only]
    found = {pyspark_of(python)[0]: tried(python, names) for python in pythons}
    table(list(BELOW_NOTHING), found)
    table(list(BELOW_EXCHANGE), found)
    reused = {resumed[name].steps["last"][1] for _, resumed in found.values() for name in BELOW_NOTHING}
    sums = {name: {(one[name].rows, one[name].sum) for _, one in found.values()} for name in names}
    is_equal = all(len(one) == 1 for one in sums.values())
    failed = sum(not first[name].failed for first, _ in found.values() for name in names)
    lines = ",".join(sorted({line_of(version).name for version in found}))
    print(
        f"RESULT pyspark={','.join(found)} lines={lines} pipelines={len(names)} not_failed={failed} "
        f"reused={','.join(map(str, sorted(reused)))} must_reuse={MUST_KEEP} rows_equal={is_equal}"
    )
    return 0 if reused == {MUST_KEEP} and is_equal and not failed else 1


if __name__ == "__main__":
    raise SystemExit(main())
