"""The shop's lake, small: made day by day from a seed, and changed as upstream systems change it.

orders/day=D/part-N.csv       versions of orders; one file of ten has an amount with a comma
events/day=D/part-0.parquet   what customers looked at
customers/day=D/…parquet      all customers as they were that day: some move or are new each day
products/…parquet             small, and never changes
"""

from __future__ import annotations

import csv
import datetime
import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

DAYS = tuple(str(datetime.date(2026, 11, 1) + datetime.timedelta(days=number)) for number in range(10))
COUNTRIES = ("AT", "CH", "DE", "FR", "IT")
CUSTOMERS, PRODUCTS, FILES = 400, 40, 2
ORDERS, EVENTS = 2_600, 18_000
# The days in whose second file one amount is written with a comma: one file of ten.
BAD_DAYS = (DAYS[1], DAYS[6])
BAD_AMOUNT = "12,50"
COLUMNS = ("order_id", "version", "customer_id", "product_id", "amount")
# What the shop adds to its orders one day.
NEW_COLUMN = "channel"


@dataclass(frozen=True, slots=True)
class Lake:
    """The lake in a folder. Equal seeds give equal files. `scale` times as many orders, events and customers."""

    folder: Path
    seed: int
    scale: int = 1

    @property
    def customers(self) -> int:
        """Of the first day; later ones have a few more."""
        return CUSTOMERS * self.scale

    def begin(self) -> None:
        """What does not go by day."""
        chance = self._chance("products")
        table = {
            "product_id": range(PRODUCTS),
            "product": [f"product-{number}" for number in range(PRODUCTS)],
            "category": [f"category-{chance.randrange(6)}" for _ in range(PRODUCTS)],
        }
        self._parquet("products", table)

    def add_day(self, day: str, *, new_column: bool = False) -> None:
        """Everything of one day, as it arrives at first."""
        for number in range(FILES):
            is_bad = day in BAD_DAYS and number == FILES - 1
            self.write_orders(day, number, is_bad=is_bad, new_column=new_column)
        self.write_events(day, 0)
        self._customers(day)

    def correct(self, day: str) -> None:
        """One file of a day's orders is delivered again, with other amounts."""
        self.write_orders(day, 0, salt="corrected")

    def deliver_late(self, day: str) -> None:
        """More orders and events of a day that was thought to be complete."""
        self.write_orders(day, FILES, salt="late", rows=ORDERS // 10)
        self.write_events(day, 1, rows=EVENTS // 10)

    def write_orders(
        self,
        day: str,
        number: int,
        *,
        salt: str = "",
        rows: int = 0,
        is_bad: bool = False,
        new_column: bool = False,
    ) -> None:
        chance = self._chance("orders", day, number, salt)
        path = self.folder / "orders" / f"day={day}" / f"part-{number}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = rows or ORDERS * self.scale // FILES
        first = (DAYS.index(day) * 10 + number) * ORDERS * self.scale
        with path.open("w", newline="") as file:
            lines = csv.writer(file)
            lines.writerow((*COLUMNS, NEW_COLUMN) if new_column else COLUMNS)
            for row in range(rows):
                # One order of ten is there in more versions than one, and the newest counts.
                order, version = (first + row - 1, 2) if row % 10 == 9 else (first + row, 1)
                amount = f"{chance.randrange(100, 90_000) / 100:.2f}"
                line = [order, version, chance.randrange(self.customers), chance.randrange(PRODUCTS), amount]
                if is_bad and row == rows // 2:
                    line[-1] = BAD_AMOUNT
                lines.writerow([*line, chance.choice(("web", "app"))] if new_column else line)

    def write_events(self, day: str, number: int, *, rows: int = 0) -> None:
        chance = self._chance("events", day, number)
        rows = rows or EVENTS * self.scale
        table = {
            "customer_id": [chance.randrange(self.customers) for _ in range(rows)],
            "page": [f"/product/{chance.randrange(PRODUCTS)}" for _ in range(rows)],
            "at": [chance.randrange(86_400) for _ in range(rows)],
        }
        self._parquet(f"events/day={day}", table, number)

    def _customers(self, day: str) -> None:
        """All of the days before are made again, so that a day depends on the seed alone."""
        countries = [COUNTRIES[number % len(COUNTRIES)] for number in range(self.customers)]
        for one in DAYS[: DAYS.index(day) + 1]:
            chance = self._chance("customers", one)
            for _ in range(self.customers // 50):
                countries[chance.randrange(len(countries))] = chance.choice(COUNTRIES)
            countries += [chance.choice(COUNTRIES) for _ in range(3)]
        ids = range(len(countries))
        table = {"customer_id": ids, "name": [f"customer {number}" for number in ids], "country": countries}
        self._parquet(f"customers/day={day}", table)

    def _parquet(self, folder: str, table: Mapping[str, object], number: int = 0) -> None:
        path = self.folder / folder / f"part-{number}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(dict(table)), path)

    def _chance(self, *of: object) -> random.Random:
        return random.Random(f"{self.seed} {of}")
