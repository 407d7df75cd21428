"""Record the location of a failed run for this release: what every later release must be able to resume.

Once per release, after its version was set and before it is tagged. A recording that exists is never written over. The
run is a real one: `verification/recorded_project` by the `rekindle` command, one partition of which fails.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

import rekindle as rk
from rekindle.cli.boundary import ExitCode
from support.recorded_location import ARCHIVE, HERE, LOCATION, MISSING, SCRATCH, give_rate, pack, rekindle

PROJECT = Path(__file__).parent / "recorded_project"
COUNTRIES, CUSTOMERS, ORDERS, FILES = 8, 11, 240, 3
WRITTEN_AT = 1767225600  # The first of January 2026: no recording tells when its source was made.


def make_project(folder: Path) -> None:
    """The pipeline, its source of a few files, and all rates but one."""
    shutil.copytree(PROJECT, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "orders").mkdir()
    (folder / "rates").mkdir()
    for number in range(FILES):
        file = folder / "orders" / f"orders-{number}.csv"
        ids = range(number, ORDERS, FILES)
        file.write_text("".join(f"{id},customer-{id % CUSTOMERS},{id % COUNTRIES},{id * 37 % 1000}\n" for id in ids))
        os.utime(file, (WRITTEN_AT, WRITTEN_AT))
    for country in set(range(COUNTRIES)) - {MISSING}:
        give_rate(folder, country)


def main() -> int:
    archive = HERE / rk.__version__ / ARCHIVE
    if archive.exists():
        print(f"{archive.relative_to(HERE.parent.parent)} is recorded, and is not written over", file=sys.stderr)
        return 1
    folder = Path(tempfile.gettempdir()) / "rekindle-recording"  # Its name is in the recorded texts: no machine's own.
    folder.mkdir()
    try:
        make_project(folder)
        ended = rekindle(folder, "run", "shop.py")
        print(ended.text)
        if ended.code != ExitCode.RESUMABLE:
            print(f"the run ended with {ended.code}, and not as one that failed and can be resumed", file=sys.stderr)
            return 1
        shutil.rmtree(folder / SCRATCH)
        for snapshot in (folder / LOCATION).glob("*/*/snapshot/*"):
            snapshot.unlink()  # A cache, by the code of this release: the next one folds the records.
        archive.parent.mkdir(exist_ok=True)
        pack(folder, archive)
    finally:
        shutil.rmtree(folder)
    print(f"RESULT record_location={rk.__version__} bytes={archive.stat().st_size}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
