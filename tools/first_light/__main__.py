"""`make first-light`: every case on local disk and on S3, on one real cluster. Exit 0 only if all of it held."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from first_light.cases import CASES
from first_light.harness import Place, Stage, cloud, disk
from rekindle.testing.cluster import LocalCluster
from support.s3 import S3Server

MINUTES_MAX = 30
ROWS_PER_FILE = 2_500
TEST_JAR = Path(__file__).parent.parent.parent / "tests" / "java" / "rekindle-test.jar"


def make_input(folder: Path) -> Path:
    """Eight files; 300 keys, so that many of 200 partitions are empty."""
    folder.mkdir()
    for number in range(8):
        ids = range(number * ROWS_PER_FILE, (number + 1) * ROWS_PER_FILE)
        columns = {"id": pa.array(ids, pa.int64()), "k": pa.array([i % 300 for i in ids], pa.int64())}
        pq.write_table(pa.table(columns), folder / f"part-{number}.parquet")
    return folder


def play(cluster: LocalCluster, place: Place, folder: Path, source: Path, names: list[str]) -> int:
    """The cases on one place; how many failed."""
    failed = 0
    for name in names:
        stage = Stage(cluster, place, folder / f"{place.name}-{name}", source, str(TEST_JAR))
        stage.folder.mkdir()
        started = time.monotonic()
        try:
            figures = CASES[name](stage)
            line = " ".join(f"{key}={value}" for key, value in figures.items())
        except Exception:
            failed += 1
            line = "FAILED\n" + traceback.format_exc()
        finally:
            stage.end()
        print(f"{place.name:5} {name:20} {time.monotonic() - started:6.1f} s  {line}", flush=True)
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", choices=list(CASES))
    parser.add_argument("--place", action="append", choices=["disk", "s3"])
    parser.add_argument("--keep", action="store_true", help="leave the folder for a look")
    arguments = parser.parse_args()
    names = arguments.only or list(CASES)
    places = arguments.place or ["disk", "s3"]
    folder = Path(tempfile.mkdtemp(prefix="first-light-"))
    started = time.monotonic()
    failed = 0
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))  # What was started is ended here, too.
    try:
        source = make_input(folder / "input")
        with S3Server() as s3, LocalCluster() as cluster:
            known = {"disk": disk(folder), "s3": cloud(s3)}
            for name in places:
                failed += play(cluster, known[name], folder, source, names)
    finally:
        if arguments.keep:
            print(f"left in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    minutes = (time.monotonic() - started) / 60
    print(f"RESULT cases={len(names) * len(places)} failed={failed} minutes={minutes:.1f} minutes_max={MINUTES_MAX}")
    return 0 if failed == 0 and minutes <= MINUTES_MAX else 1


if __name__ == "__main__":
    sys.exit(main())
