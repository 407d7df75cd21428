"""The input: Parquet files of orders, with a small table of products and a larger one of customers.

Made once per size and kept in the cache. Orders carry text that does not compress, so that a gigabyte is a gigabyte in
files, in exchanges and in memory.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FILES_PER_GB = 8
CUSTOMERS, PRODUCTS, DAYS = 400_000, 1_000, 365
TEXT, NAME = 200, 60
BYTES_PER_ROW = 218
ROWS_PER_GROUP = 100_000
WARM = "warm"


def make(folder: Path, gigabytes: float) -> Path:
    """The folder with the tables; they are made if they are not there yet."""
    place = folder / f"orders-{gigabytes:g}gb"
    if place.exists():
        return place
    draw = np.random.default_rng(7)
    staged = place.with_name(f"{place.name}.part")
    shutil.rmtree(staged, ignore_errors=True)
    files = max(2, round(FILES_PER_GB * gigabytes))
    rows = round(gigabytes * 1e9 / BYTES_PER_ROW / files)
    customers = max(1_000, round(CUSTOMERS * gigabytes))
    for number in range(files):
        _write(staged / "orders" / f"part-{number:03d}.parquet", _orders(draw, number * rows, rows, customers))
    _write(staged / "products" / "part-0.parquet", _products(draw))
    _write(staged / "customers" / "part-0.parquet", _customers(draw, customers))
    _make_warm(staged)
    staged.rename(place)
    return place


def _make_warm(place: Path) -> None:
    """The same with one file of orders: enough to warm up on."""
    for name in ("products", "customers"):
        shutil.copytree(place / name, place / WARM / name)
    (place / WARM / "orders").mkdir()
    shutil.copy(place / "orders" / "part-000.parquet", place / WARM / "orders")


def size(place: Path) -> int:
    """Bytes of the orders."""
    return sum(file.stat().st_size for file in (place / "orders").iterdir())


def _orders(draw: np.random.Generator, first: int, rows: int, customers: int) -> pa.Table:
    return pa.table(
        {
            "id": np.arange(first, first + rows, dtype=np.int64),
            "customer": draw.integers(0, customers, rows),
            "product": draw.integers(0, PRODUCTS, rows),
            "day": draw.integers(0, DAYS, rows),
            "amount": draw.integers(-5, 10_000, rows),
            "text": _letters(draw, rows, TEXT),
        }
    )


def _products(draw: np.random.Generator) -> pa.Table:
    names = _letters(draw, PRODUCTS, 20)
    return pa.table({"product": np.arange(PRODUCTS), "label": names, "price": draw.integers(1, 500, PRODUCTS)})


def _customers(draw: np.random.Generator, rows: int) -> pa.Table:
    return pa.table({"customer": np.arange(rows), "name": _letters(draw, rows, NAME)})


def _letters(draw: np.random.Generator, rows: int, length: int) -> pa.Array:
    text = draw.integers(ord("a"), ord("z") + 1, rows * length, dtype=np.uint8)
    offsets = np.arange(0, (rows + 1) * length, length, dtype=np.int32)
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(text))


def _write(path: Path, table: pa.Table) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, compression="snappy", row_group_size=ROWS_PER_GROUP)
