"""`make drills`: failures that `rekindle graph --if … --execute` causes, as a user types it.

One pipeline with a blocking, a caching and a published result. A vertex, an executor and a driver fail, under each
strategy; the command itself compares what ran again with its plan, and the rows with those of plain Spark. A control
gives other rows each time it is computed, so that the drill must say so. Exit 0 only if all of it is as it must be.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rekindle.failover.restart import Strategy

FAILURES = ("enriched[3]", "totals[1]", "executor", "driver")
CONTROL = "unequal"
ROWS = 20_000
MAIN = "from rekindle.cli.main import main; main()"
PIPELINE = """
import rekindle as rk
from pyspark.sql import functions as F

HERE = __file__.rsplit("/", 1)[0]
pipeline = rk.Pipeline("shop")

@pipeline.source
def orders(spark):
    return spark.read.parquet(f"{HERE}/orders")

@pipeline.step
def valid(orders):
    return orders.where("amount > 10")

@pipeline.step(partition_by="customer", partitions=6)
def enriched(valid):
    return valid.withColumn("big", F.col("amount") > 50)SOMETIMES

@pipeline.step(partition_by="shop", partitions=4, result="caching")
def totals(enriched):
    return enriched.groupBy("shop").agg(F.sum("amount").alias("s"), F.max("big").alias("big"), F.count("*").alias("n"))

@pipeline.sink(rk.files(HERE + "/gold/day={day}"))
def daily(totals):
    return totals.where("n > 0")
"""


def make(folder: Path) -> None:
    (folder / "orders").mkdir()
    for number in range(4):
        ids = range(number, ROWS, 4)
        found = {"customer": [one % 500 for one in ids], "shop": [one % 37 for one in ids]}
        columns = {**found, "amount": [one % 97 for one in ids]}
        pq.write_table(pa.table(columns), folder / "orders" / f"part-{number}.parquet")
    (folder / "shop.py").write_text(PIPELINE.replace("SOMETIMES", ""))
    (folder / f"{CONTROL}.py").write_text(PIPELINE.replace("SOMETIMES", '.where(F.expr("rand() < 0.9"))'))


def drill(folder: Path, failure: str, strategy: Strategy, name: str = "shop") -> subprocess.CompletedProcess[str]:
    words = ["graph", f"{name}.py", "--if", failure, "--execute", "--strategy", strategy.value, "--param", "day=1"]
    command = [sys.executable, "-c", MAIN, *words, "--location", str(folder / "state")]
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    environment = {**os.environ, "TMPDIR": str(temporary)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def main() -> int:
    parser = argparse.ArgumentParser(prog="drills")
    parser.add_argument("--only", action="append", choices=FAILURES)
    parser.add_argument("--strategy", action="append", choices=[one.value for one in Strategy])
    asked = parser.parse_args()
    failures = asked.only or FAILURES
    strategies = [one for one in Strategy if not asked.strategy or one.value in asked.strategy]
    began, failed = time.monotonic(), 0
    with tempfile.TemporaryDirectory(prefix="rekindle-drills-") as place:
        folder = Path(place)
        make(folder)
        for failure in failures:
            for strategy in strategies:
                done = drill(folder, failure, strategy)
                told = [line for line in done.stdout.splitlines() if "ran again:" in line or "plain Spark" in line]
                print(f"{failure} {strategy.value}: exit {done.returncode}, {'; '.join(told)}", flush=True)
                if done.returncode:
                    failed += 1
                    print(done.stdout[-2000:], done.stderr[-2000:])
        control = drill(folder, FAILURES[0], Strategy.REGION, CONTROL)
        is_seen = control.returncode == 1 and "differ from plain Spark" in control.stdout
        left = [one.name for one in folder.iterdir() if one.name in ("gold", "state")]
    minutes = (time.monotonic() - began) / 60
    cases = len(failures) * len(strategies)
    print(f"RESULT drills cases={cases} failed={failed} control_seen={is_seen} left={left} minutes={minutes:.1f}")
    return 0 if not failed and is_seen and not left else 1


if __name__ == "__main__":
    sys.exit(main())
