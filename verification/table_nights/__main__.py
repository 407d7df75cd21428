"""`make tables-nights`: 500 nights over tables of Delta and Iceberg, with what people do to tables in between.

Each night the orders get a commit, and a pipeline publishes what the newest orders are of that day. In between, by
turns: rows are deleted, updated and merged, small files are compacted, old versions are removed (VACUUM,
expire_snapshots), and `gc` runs. Every few nights a run fails, the tables go through maintenance, and the run is
resumed: it publishes what the version that it began with has, or it is refused with the name of the version that is
gone, and `replace` computes it from the newest. What the gold must hold is kept in a dictionary, by what bare Spark
finds in the orders at that version, and is compared with what a reader finds that is not Spark.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from local_spark import local_spark
from rekindle.engine.spark.session import attach
from rekindle.errors import InputChanged
from rekindle.failover.backoff import FixedDelay
from rekindle.master.facts.config import BackoffSpec, MasterConfig
from support.delta import delta_settings
from support.iceberg import iceberg_jars_here, iceberg_settings
from table_nights.tables import TABLES, NightTables

AT_ONCE = MasterConfig(backoff=BackoffSpec.of(FixedDelay(1, 0)))
COMMAND = Path(sys.executable).with_name("rekindle")
ROWS, PARTITIONS, DAYS_CHANGED = 12, 2, 20
FAILS_EVERY, CORRECTS_EVERY, LOOKS_EVERY, GC_EVERY = 10, 7, 25, 20
Row = tuple[int, int]


def night_pipeline(tables: NightTables, notes: Path) -> rk.Pipeline:
    """One partition of the priced orders fails while `poison` is there."""
    made, poison, read = rk.Pipeline("nightly"), str(notes / "poison"), tables.read

    @made.source
    def orders(spark: SparkSession, day: str) -> DataFrame:
        return read(spark, "orders").where(f"day = {day}")

    @made.step(partition_by="id", partitions=PARTITIONS)
    def priced(orders: DataFrame) -> DataFrame:
        def price(number: int, amount: int) -> int:
            from pathlib import Path

            if number % 2 and Path(poison).exists():
                raise ValueError("a bad row")
            return amount * 2

        return orders.withColumn("price", F.udf(price, "long")("id", "amount")).select("id", "price", "day")

    @made.sink(tables.target("gold", partition={"day": "{day}"}))
    def gold(priced: DataFrame) -> DataFrame:
        return priced

    return made


@dataclass(slots=True)
class Nights:
    """The nights of one format so far. `held` is what the gold must hold, by day."""

    spark: SparkSession
    tables: NightTables
    folder: Path
    chance: random.Random
    held: dict[int, list[Row]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)

    @property
    def location(self) -> str:
        return f"{self.folder}/runs"

    def run(self, day: int, **options: Any) -> None:
        made = night_pipeline(self.tables, self.folder)
        made.run(self.spark, self.location, day=str(day), options=rk.RunOptions(config=AT_ONCE, quiet=True, **options))

    def newest(self, day: int) -> list[Row]:
        """What bare Spark finds in the orders."""
        rows = self.tables.read(self.spark, "orders").where(f"day = {day}").collect()
        return sorted((row["id"], row["amount"] * 2) for row in rows)

    def night(self, day: int) -> None:
        self.tables.insert(self.spark, day, ROWS)
        if day % FAILS_EVERY == 0:
            self._failing(day)
        else:
            self.run(day)
            self.held[day] = self.newest(day)
        if day % CORRECTS_EVERY == 0:
            self._corrected(self.chance.randrange(max(1, day - DAYS_CHANGED), day + 1))
        what = self.tables.maintain(self.spark, day, self.chance)
        self.done[what] += 1
        if day % GC_EVERY == 0:
            self._collect()
        if day % LOOKS_EVERY == 0:
            self.look(day)

    def _corrected(self, day: int) -> None:
        """Orders of an earlier day are changed, and the day is run anew."""
        self.tables.correct(self.spark, day)
        self.run(day, new=True)
        self.held[day] = self.newest(day)
        self.done["corrected"] += 1

    def _failing(self, day: int) -> None:
        """A run fails, the tables go through several rounds of maintenance, and the run goes on."""
        (self.folder / "poison").touch()
        try:
            self.run(day)
        except rk.RunFailed:
            self.done["failed"] += 1
        else:
            self.wrong.append(f"day {day}: the run did not fail")
        (self.folder / "poison").unlink()
        began_with = self.newest(day)
        self.tables.correct(self.spark, day)
        for _ in range(self.chance.randrange(4)):
            self.tables.maintain(self.spark, day, self.chance)
        try:
            self.run(day)
        except InputChanged as gone:
            self.done["gone"] += 1
            if "which this run reads, is gone" not in str(gone):
                self.wrong.append(f"day {day}: {gone}")
            self.run(day, replace=("priced",))
            self.held[day] = self.newest(day)
        else:
            self.done["resumed"] += 1
            self.held[day] = began_with

    def _collect(self) -> None:
        """`rekindle gc` touches nothing of the tables."""
        before = self.tables.files()
        command = [str(COMMAND), "gc", "--location", self.location, "--set", "gc.grace_hours=0"]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        if answer.returncode:
            self.wrong.append(f"gc ended with {answer.returncode}: {answer.stderr[-500:]}")
        if before - self.tables.files():
            self.wrong.append(f"gc removed {len(before - self.tables.files())} files of tables")
        self.done["gc"] += 1

    def look(self, day: int) -> None:
        """What a reader finds that is not Spark."""
        found: dict[int, list[Row]] = {}
        for row in self.tables.rows("gold"):
            found.setdefault(row["day"], []).append((row["id"], row["price"]))
        wrong = [one for one in {*found, *self.held} if sorted(found.get(one, [])) != self.held.get(one)]
        if wrong:
            self.wrong.append(f"after night {day} the gold of the days {sorted(wrong)[:5]} is wrong")
        print(f"night {day}: {dict(self.done)} wrong={len(self.wrong)}", flush=True)


def played(spark: SparkSession, form: str, folder: Path, nights: int, seed: int) -> Nights:
    tables = TABLES[form](folder)
    tables.begin(spark)
    found = Nights(spark, tables, folder, random.Random(seed))
    for day in range(1, nights + 1):
        found.night(day)
    found.look(nights)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="table-nights")
    parser.add_argument("--nights", type=int, default=500)
    parser.add_argument("--seed", type=int, default=24)
    parser.add_argument("--only", choices=sorted(TABLES), action="append")
    asked = parser.parse_args()
    began, results = time.monotonic(), []
    root = Path(tempfile.mkdtemp(prefix="table-nights-"))
    settings = delta_settings(*iceberg_jars_here()) | iceberg_settings(root / "lake")
    spark = local_spark({**settings, "spark.sql.warehouse.dir": f"{root}/warehouse"}, "OFF")
    attach(spark)
    try:
        for form in asked.only or sorted(TABLES):
            folder = root / form
            folder.mkdir()
            results.append((form, played(spark, form, folder, asked.nights, asked.seed)))
    finally:
        spark.stop()
        shutil.rmtree(root, ignore_errors=True)
    for form, found in results:
        for line in found.wrong:
            print(f"WRONG {form}: {line}")
    told = " ".join(
        f"{form}_{name}={found.done[name]}"
        for form, found in results
        for name in ("failed", "resumed", "gone", "corrected", "gc")
    )
    wrong = sum(len(found.wrong) for _, found in results)
    minutes = (time.monotonic() - began) / 60
    print(f"RESULT table-nights nights={asked.nights} {told} wrong={wrong} minutes={minutes:.1f}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
