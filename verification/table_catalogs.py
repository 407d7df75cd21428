"""`make tables-catalogs`: the tests of Iceberg tables with each kind of catalog that people have, by its real server.

A catalog decides what one commit is: a folder renames a file, a database updates a row, a REST server compares what the
client says that it has seen, a Hive metastore locks. So all of publication, sources and streams is run in each.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from xml.etree import ElementTree

from support.lake_catalogs import KINDS

TESTS = "tests/tables"


def tested(kind: str, wanted: str) -> tuple[int, int, int]:
    """How many tests ran with a kind of catalog, how many of them failed, and how many were skipped."""
    with tempfile.TemporaryDirectory(prefix="tables-catalogs-") as folder:
        told = Path(folder) / "told.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-k", wanted, f"--junitxml={told}", TESTS]
        subprocess.run(command, env=os.environ | {"TABLES_CATALOG": kind, "PYTEST_DEBUG_TEMPROOT": folder}, check=False)
        [suite] = ElementTree.parse(told).getroot().iter("testsuite")
    count, skipped = int(suite.attrib["tests"]), int(suite.attrib["skipped"])
    return count - skipped, int(suite.attrib["failures"]) + int(suite.attrib["errors"]), skipped


def main() -> int:
    parser = argparse.ArgumentParser(prog="tables-catalogs")
    parser.add_argument("--only", choices=KINDS, nargs="+", default=KINDS)
    parser.add_argument("--tests", default="iceberg", help="as pytest's -k has it")
    asked = parser.parse_args()
    began, failed, least = time.monotonic(), 0, None
    for kind in asked.only:
        ran, wrong, skipped = tested(kind, asked.tests)
        print(f"{kind}: {ran} tests, {wrong} failed, {skipped} skipped", flush=True)
        failed, least = failed + wrong, ran if least is None else min(least, ran)
    minutes = (time.monotonic() - began) / 60
    print(f"RESULT tables-catalogs catalogs={','.join(asked.only)} tests={least} failed={failed} minutes={minutes:.1f}")
    return 0 if least and not failed else 1


if __name__ == "__main__":
    raise SystemExit(main())
