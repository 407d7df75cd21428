"""`make kinds`: overhead and recovery of the four kinds of result, in one table. Exit 0 only if every run was right.

For each kind one driver makes a run without a fault, one that loses an executor, and one in which it dies itself; one
driver then resumes what the dead ones left. "More" is the time from the fault to the end, less the time of the same
stretch without a fault. Times are of this machine; what is made again is exact.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from build_jar import TEST_JAR
from kinds.driver import LAST, STRUCK, Answer, Order, Orders
from kinds.shop import CUSTOMERS, PARTITIONS
from rekindle.local_cluster.cluster import LocalCluster, Size
from support.drivers import start_driver

KINDS = ("pipelined", "memory", "caching", "blocking")
IN_BLOCKS = ("memory", "caching")
SIZE = Size(worker_cores=1, executor_cores=1, executor_memory_mb=768, application_cores=2)
FILES = 4
# A task goes to the first free core, so that both executors have some of each result.
EVERYWHERE = {"spark.locality.wait": "0s", "spark.shuffle.reduceLocality.enabled": "false"}
MINUTES_MAX = 6.0
DRIVER_S_MAX = 1_500.0
KILLED = -9


def make_input(folder: Path, rows: int) -> Path:
    folder.mkdir()
    for number in range(FILES):
        ids = range(number * rows // FILES, (number + 1) * rows // FILES)
        columns = {"id": pa.array(ids, pa.int64()), "customer": pa.array([i % CUSTOMERS for i in ids], pa.int64())}
        pq.write_table(pa.table(columns), folder / f"part-{number}.parquet")
    return folder


def drive(cluster: LocalCluster, folder: Path, orders: Orders, ends_with: int = 0) -> list[Answer]:
    """Give these orders to one driver, and read its answers."""
    folder.mkdir(parents=True, exist_ok=True)
    asked, answers = folder / "orders.json", folder / "answers.json"
    asked.write_bytes(msgspec.json.encode(orders))
    script = Path(__file__).parent / "driver.py"
    settings = cluster.app_settings() | EVERYWHERE
    driver = start_driver(script, str(asked), str(answers), folder=folder, settings=settings, env=cluster.app_env)
    try:
        code = driver.wait(DRIVER_S_MAX)
    finally:
        driver.end()
    assert code == ends_with, f"exit code {code}:\n{driver.text()[-3000:]}"
    return [msgspec.json.decode(line, type=Answer) for line in answers.read_bytes().splitlines()]


def again(answer: Answer, step: str) -> list[int]:
    """The partitions that were committed more than once."""
    return [number for number, count in answer.made.get(step, {}).items() if count > 1]


def faults_of(answers: Sequence[Answer]) -> list[str]:
    """What was not as it must be."""
    found = []
    for one in answers:
        order = one.order
        name = f"{order.kind} with {order.fault or 'no fault'}"
        if not one.is_one_version:
            found.append(f"{name}: the report is wrong")
        if order.is_resumed:
            made = {step: sorted(counts) for step, counts in one.made.items()}
            if made != {step: sorted(numbers) for step, numbers in one.planned.items()}:
                found.append(f"{name}: planned {one.planned}, made {made}")
            continue
        if sorted(again(one, STRUCK)) != one.on_executor or one.lost.get(STRUCK, []) != one.on_executor:
            found.append(f"{name}: on the executor {one.on_executor}, lost {one.lost}, again {again(one, STRUCK)}")
        if order.fault == "executor" and order.kind in IN_BLOCKS and not one.on_executor:
            found.append(f"{name}: no block lay on the executor that was killed")
    return found


def row(kind: str, answers: Sequence[Answer], bare: float) -> str:
    found = {(one.order.fault, one.order.is_resumed): one for one in answers if one.order.kind == kind}
    calm, struck, resumed = found["", False], found["executor", False], found["driver", True]
    more = struck.seconds_after - calm.seconds_after
    made = len(resumed.made.get(STRUCK, {}))
    kept = "not kept" if kind == "pipelined" else f"{len(struck.on_executor)} of {PARTITIONS}"
    died = "not kept" if kind == "pipelined" else f"{made} of {PARTITIONS}"
    return (
        f"| {kind} | {calm.seconds:.1f} s | {calm.seconds / bare:.2f} | {kept} | {more:+.1f} s "
        f"| {died} | {resumed.seconds:.1f} s |"
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="kinds")
    parser.add_argument("--rows", type=int, default=240_000)
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="kinds-"))
    began = time.monotonic()
    answers: list[Answer] = []
    try:
        source = make_input(folder / "input", asked.rows)
        with LocalCluster(size=SIZE) as cluster:
            worker = cluster.worker(0)
            at = worker.process.pid, worker.host

            def orders(runs: list[Order], warm_up: str = "") -> Orders:
                return Orders(str(source), asked.rows, str(TEST_JAR), at, warm_up, runs)

            for kind in KINDS:
                runs = [Order(kind, fault, str(folder / f"{kind}-{fault}")) for fault in ("", "executor", "driver")]
                answers += drive(cluster, folder / kind, orders(runs, str(folder / f"{kind}-warm")), ends_with=KILLED)
            left = [Order(kind, "driver", str(folder / f"{kind}-driver"), is_resumed=True) for kind in KINDS]
            answers += drive(cluster, folder / "resuming", orders(left))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    bare = next(one.seconds for one in answers if one.order.kind == "pipelined" and not one.order.fault)
    print(f"{asked.rows:,} rows priced in Python, {PARTITIONS} partitions, two readers; a fault strikes before {LAST}")
    print(
        "| kind | no fault | to pipelined | executor lost: made again | more | driver lost: made again | new driver |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for kind in KINDS:
        print(row(kind, answers, bare))
    wrong = faults_of(answers)
    for line in wrong:
        print(f"WRONG {line}")
    minutes = (time.monotonic() - began) / 60
    print(f"RESULT runs={len(answers)} wrong={len(wrong)} minutes={minutes:.1f} minutes_max={MINUTES_MAX}")
    return 0 if not wrong and len(answers) == 3 * len(KINDS) and minutes <= MINUTES_MAX else 1


if __name__ == "__main__":
    sys.exit(main())
