"""`make bench-batch`: P1, P3, P4 and P5 against bare Spark. Exit 0 only if every target that was measured holds."""

from __future__ import annotations

import statistics
import sys
import time

from bench_batch import data
from bench_batch.cases import CASES, Verdict
from bench_batch.machine import arguments, machine

ROUNDS = {"p1": 3, "p3": 1, "p4": 5, "p5": 5, "p5_join": 2}


def main() -> int:
    parser = arguments("bench-batch", 0)
    parser.add_argument("--only", action="append", choices=list(CASES))
    asked = parser.parse_args()
    started = time.monotonic()
    whole = Verdict()
    with machine(asked) as stage:
        for name in asked.only or CASES:
            verdict = CASES[name](stage, asked.rounds or ROUNDS[name])
            whole.figures |= verdict.figures
            whole.missed += verdict.missed
        size, start_s = data.size(stage.data), statistics.median(stage.start_s)
    figures = " ".join(f"{name}={value}" for name, value in whole.figures.items())
    minutes = (time.monotonic() - started) / 60
    print(
        f"RESULT bench-batch gb={size / 1e9:.2f} {figures} driver_start_s={start_s:.1f} minutes={minutes:.1f} "
        f"missed={','.join(whole.missed) or 'none'}"
    )
    return 1 if whole.missed else 0


if __name__ == "__main__":
    sys.exit(main())
