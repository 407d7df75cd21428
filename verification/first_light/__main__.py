"""`make first-light`: every case on local disk and on S3, on one real cluster. Exit 0 only if all of it held."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from campaign import perform
from first_light.cases import CASES
from first_light.play import LIGHT

MINUTES_MAX = 30
ROWS_PER_FILE = 2_500


def make_input(folder: Path) -> Path:
    """Eight files; 300 keys, so that many of 200 partitions are empty."""
    folder.mkdir()
    for number in range(8):
        ids = range(number * ROWS_PER_FILE, (number + 1) * ROWS_PER_FILE)
        columns = {"id": pa.array(ids, pa.int64()), "k": pa.array([i % 300 for i in ids], pa.int64())}
        pq.write_table(pa.table(columns), folder / f"part-{number}.parquet")
    return folder


if __name__ == "__main__":
    sys.exit(perform("first-light", LIGHT, CASES, make_input, MINUTES_MAX))
