"""`make nightly`: ten nights of a shop's ETL with kills of the driver, a corrected day, late data and changes.

A day is a real driver process (`rekindle run pipeline.py -p day=…`). The plain PySpark script runs on the same input
after it and is the truth. After each night the files of all other days must be the same, by name, inode and time; at
the end every reader must see exactly the rows of the plain script: `spark.read`, pyarrow, pandas, DuckDB and
`rk.read_newest`. With `--storage s3` targets and runs are in the bucket of a real S3 server, and files are compared by
name, ETag and time.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from nightly.gold import Mark
from nightly.lake import DAYS, Lake
from nightly.lake_tables import FORMATS
from nightly.readers import Readers
from nightly.shop import CODE, DIFFERENT, DONE, NIGHT_S_MAX, SCHEMA, Shop
from support.s3 import S3Server

CORRECTED, LATE, BESIDE = DAYS[1], DAYS[2], DAYS[6]
CODE_FROM, SCHEMA_FROM = DAYS[7], DAYS[8]
KILLS = 3


@dataclass(slots=True)
class Campaign:
    """The nights so far, and what was wrong."""

    shop: Shop
    chance: random.Random
    wrong: list[str] = field(default_factory=list)
    nights: int = 0
    kills: int = 0
    refused: int = 0
    records: int = 0

    def told(self, line: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)

    def night(self, day: str, *options: str, is_killed: bool = False) -> None:
        """One day, and bare Spark's word on it."""
        before = self.shop.by_day()
        if is_killed:
            after = self.chance.randrange(1, self.records)
            was = self.shop.run_killed(day, after, self.chance)
            self.kills += was
            self.told(f"{day}: {'killed after' if was else 'done before'} {after} records, and resumed")
        else:
            self.shop.run(day, *options)
            self.told(f"{day}: done {' '.join(options)}")
        self.shop.run_plain(day)
        self.nights += 1
        self._others_are_the_same(before, day)

    def corrected(self, day: str) -> None:
        """A file of a day is delivered again: the same command says so, and `--new` publishes it."""
        self.shop.lake.correct(day)
        self.differs(day, "parsed: the input changed")
        self.night(day, "--new")

    def differs(self, day: str, word: str) -> None:
        """A day that is done, asked for again after a change, ends with a code of its own and names the change."""
        text = self.shop.run(day, ends_with=DIFFERENT)
        if word not in text:
            self.wrong.append(f"{day} is done with other {word}, and its message does not name it: {text[-600:]}")

    def at_once(self, day: str, late: str) -> None:
        """Late data of one day while another day runs: two drivers. One that was overtaken is run anew, as it says."""
        before = self.shop.by_day()
        self.shop.lake.deliver_late(late)
        drivers = {day: self.shop.start(day), late: self.shop.start(late, "--new")}
        codes = {}
        for one, driver in drivers.items():
            try:
                codes[one] = driver.wait(NIGHT_S_MAX)
            finally:
                driver.end()
        for one, code in codes.items():
            self.told(f"{one}: ended with {code} beside the other")
            if code != DONE:
                self.refused += 1
                self.told(drivers[one].text()[-1500:])
                self.shop.run(one, "--new")
        for one in (day, late):
            self.shop.run_plain(one)
        self.nights += 2
        self._others_are_the_same(before, day, late)

    def _others_are_the_same(self, before: dict[str, dict[str, Mark]], *days: str) -> None:
        after = self.shop.by_day()
        changed = [day for day in {*before, *after} - set(days) if before.get(day) != after.get(day)]
        if changed:
            self.wrong.append(f"the night of {' and '.join(days)} touched files of {', '.join(sorted(changed))}")


def play(campaign: Campaign, spark: SparkSession, days: tuple[str, ...]) -> None:
    """The nights in order; the first one also with the on-ramp."""
    shop = campaign.shop
    killed = set(campaign.chance.sample([day for day in days[1:] if day != BESIDE], min(KILLS, len(days) - 1)))
    for day in days:
        shop.lake.add_day(day, new_column=day >= SCHEMA_FROM)
        if day == CODE_FROM:
            shop.change(CODE)
            campaign.differs(days[0], "BONUS")
        if day == SCHEMA_FROM:
            shop.change(SCHEMA)
            if shop.tables is not None:
                shop.tables.add_column(spark)
        if day == BESIDE:
            campaign.at_once(day, LATE)
        else:
            campaign.night(day, is_killed=day in killed)
        campaign.records = campaign.records or shop.newest_records()
        if day == DAYS[0] and shop.tables is None:
            shop.run_onramp(day)
            wrong = Readers(spark, shop.bare, shop.onramp).differing()
            campaign.wrong += [f"with the on-ramp: {line}" for line in wrong]
        if day == DAYS[4]:
            campaign.corrected(CORRECTED)


def main() -> int:
    parser = argparse.ArgumentParser(prog="nightly")
    parser.add_argument("--days", type=int, default=len(DAYS))
    parser.add_argument("--seed", type=int, default=19)
    parser.add_argument("--storage", choices=["disk", "s3"], default="disk", help="where targets and runs lie")
    parser.add_argument(
        "--tables", choices=sorted(FORMATS), help="targets are tables of this format: make tables-nightly"
    )
    parser.add_argument("--keep", action="store_true", help="leave the folder there")
    asked = parser.parse_args()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    folder = Path(tempfile.mkdtemp(prefix="nightly-"))
    print(f"in {folder}")
    began = time.monotonic()
    with S3Server() if asked.storage == "s3" else nullcontext() as server:
        tables = FORMATS[asked.tables](folder / "gold") if asked.tables else None
        campaign = Campaign(Shop(folder, Lake(folder / "lake", asked.seed), server, tables), random.Random(asked.seed))
        try:
            held(campaign, DAYS[: asked.days])
        finally:
            if not asked.keep:
                shutil.rmtree(folder, ignore_errors=True)
    for line in campaign.wrong:
        print(f"WRONG {line}")
    minutes = (time.monotonic() - began) / 60
    print(
        f"RESULT nightly storage={asked.storage} targets={asked.tables or 'files'} days={asked.days} "
        f"nights={campaign.nights} kills={campaign.kills} run_again={campaign.refused} "
        f"wrong={len(campaign.wrong)} minutes={minutes:.1f}"
    )
    return 0 if not campaign.wrong and campaign.kills > 0 else 1


def held(campaign: Campaign, days: tuple[str, ...]) -> None:
    """The nights, and what every reader sees at their end."""
    shop = campaign.shop
    builder = SparkSession.builder.appName("nightly-truth")
    for key, value in {**shop.settings, "spark.sql.warehouse.dir": f"{shop.folder}/warehouse"}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        shop.begin()
        if shop.tables is not None:
            shop.tables.begin(spark)
        play(campaign, spark, days)
        campaign.wrong += Readers(spark, shop.bare, shop.gold, shop.tables).differing()
    finally:
        spark.stop()


if __name__ == "__main__":
    sys.exit(main())
