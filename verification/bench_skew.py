"""`make bench-skew`: a join with one key that has 30 % of the rows, as a kept step, against bare Spark's adaptive
execution, which splits such a key. Twice: kept by a key that is not skewed, and kept as Rekindle chooses where the user
names no key. Exit 0 only if the wall ratio is at most 1.1 in both.
"""

from __future__ import annotations

import statistics
import sys
import time

from bench_batch.cases import partitions_of, tell
from bench_batch.figures import estimate, pairs
from bench_batch.machine import Machine, arguments, machine
from bench_batch.sampling import shown

RATIO_MAX = 1.1
SKEW_BYTES, BROADCAST_BYTES = 256 << 20, 10 << 20


def scaled(gigabytes: float) -> dict[str, str]:
    """Spark's defaults at a gigabyte and more. Below, what counts as large shrinks with the data."""
    if gigabytes >= 1:
        return {}
    return {
        "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": str(round(SKEW_BYTES * gigabytes)),
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": str(round((64 << 20) * gigabytes)),
        "spark.sql.autoBroadcastJoinThreshold": str(round(BROADCAST_BYTES * gigabytes)),
    }


def measure(stage: Machine, name: str, keys: str, rounds: int) -> dict[str, float]:
    answer, log = stage.drive("skew", partitions=partitions_of(stage), rounds=rounds, keys=keys)
    assert answer is not None
    found = pairs(answer.sides, log)
    for pair in found:
        assert pair.bare.outputs["joined"].rows == pair.ours.outputs["joined"].rows, pair
        tell(name, pair)
    wall = estimate([pair.ours.wall_s / pair.bare.wall_s for pair in found])
    cpu = estimate([pair.ours.cpu_s / pair.bare.cpu_s for pair in found])
    seconds = statistics.median(pair.ours.wall_s for pair in found)
    last = found[-1]
    tasks = f"{last.ours_window.write_tasks}/{last.bare_window.write_tasks}"
    print(f"{name}: wall {wall}, CPU {cpu}, {seconds:.2f} s; writing tasks {tasks}", flush=True)
    if answer.profile is not None:
        print(shown(answer.profile, len(found)))
    return {f"{name}_wall": wall.median, f"{name}_wall_high": wall.high, f"{name}_cpu": cpu.median}


def main() -> int:
    parser = arguments("bench-skew", 4)
    parser.add_argument("--only", choices=["keyed", "auto"])
    asked = parser.parse_args()
    started = time.monotonic()
    figures: dict[str, float] = {}
    with machine(asked, scaled(asked.gb)) as stage:
        for name, keys in (("keyed", "id"), ("auto", "")):
            if asked.only in (None, name):
                figures |= measure(stage, name, keys, asked.rounds)
    minutes = (time.monotonic() - started) / 60
    told = " ".join(f"{name}={value:.3f}" for name, value in figures.items())
    print(f"RESULT bench-skew gb={asked.gb:g} {told} ratio_max={RATIO_MAX} minutes={minutes:.1f}")
    walls = [value for name, value in figures.items() if name.endswith("_wall")]
    return 0 if max(walls) <= RATIO_MAX else 1


if __name__ == "__main__":
    sys.exit(main())
