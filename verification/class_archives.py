"""`make classes`: archives of Spark's classes, so that the many JVMs of tests and campaigns start in half the CPU."""

from __future__ import annotations

import sys

from stage import SHORT_LIVED
from support import class_archive


def main() -> int:
    made = class_archive.make_all(SHORT_LIVED)
    print(f"RESULT classes archives={len(made)} mb={sum(one.stat().st_size for one in made) // 2**20}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
