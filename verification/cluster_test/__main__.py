"""`make cluster-test`: whole pipelines on one real cluster, on disk and on S3. Exit 0 only if all of it held."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from campaign import perform
from cluster_test.cases import CASES
from cluster_test.play import SHOP

MINUTES_MAX = 25
ORDERS, CUSTOMERS, PRODUCTS = 16_000, 1_500, 200


def make_input(folder: Path) -> Path:
    draw = random.Random(5)
    columns = {
        "id": pa.array(range(ORDERS), pa.int64()),
        "customer": pa.array([draw.randrange(CUSTOMERS) for _ in range(ORDERS)], pa.int64()),
        "product": pa.array([draw.randrange(PRODUCTS) for _ in range(ORDERS)], pa.int64()),
        "amount": pa.array([draw.randrange(-5, 100) for _ in range(ORDERS)], pa.int64()),
    }
    _write(folder / "orders", pa.table(columns), 8)
    people = {
        "customer": pa.array(range(CUSTOMERS), pa.int64()),
        "region": pa.array([f"r{draw.randrange(9)}" for _ in range(CUSTOMERS)]),
        "is_active": pa.array([draw.random() < 0.9 for _ in range(CUSTOMERS)]),
    }
    _write(folder / "customers", pa.table(people), 2)
    products = {
        "product": pa.array(range(PRODUCTS), pa.int64()),
        "label": pa.array([f"thing {number}" for number in range(PRODUCTS)]),
    }
    _write(folder / "products", pa.table(products), 1)
    return folder


def _write(folder: Path, table: pa.Table, files: int) -> None:
    folder.mkdir(parents=True)
    size = -(-table.num_rows // files)
    for number in range(files):
        pq.write_table(table.slice(number * size, size), folder / f"part-{number}.parquet")


if __name__ == "__main__":
    sys.exit(perform("cluster-test", SHOP, CASES, make_input, MINUTES_MAX))
