"""The two tables, written again for each round: the same rows in another order, in another number of files."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

ROWS, KEYS = 600, 9
WORDS = ["alpha", "beta", "gamma", "delta", "epsilon"]
FILES = (3, 1, 5, 2, 7, 4)
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("k", pa.int64()),
        ("s", pa.string()),
        ("c", pa.string()),
        ("d", pa.float64()),
        ("f", pa.float32()),
        ("m", pa.decimal128(12, 2)),
        ("wide", pa.decimal128(38, 2)),
        ("n", pa.int64()),
        ("day", pa.date32()),
        ("ts", pa.timestamp("us", "UTC")),
        ("a", pa.list_(pa.int64())),
        ("p", pa.map_(pa.string(), pa.int64())),
        ("st", pa.struct([("x", pa.int64()), ("y", pa.string())])),
        ("b", pa.binary()),
    ]
)


def rows() -> list[dict[str, Any]]:
    draw = random.Random(11)
    return [_row(draw, number) for number in range(ROWS)]


def _row(draw: random.Random, number: int) -> dict[str, Any]:
    word = draw.choice(WORDS)
    size = draw.choice([1e-9, 1.0, 1e7, 1e15])
    return {
        "id": number,
        "k": draw.randrange(KEYS),
        "s": word,
        "c": word.upper() if draw.random() < 0.5 else word,
        "d": draw.uniform(-1, 1) * size,
        "f": draw.uniform(-1, 1) * size,
        "m": Decimal(draw.randrange(10**8)) / 100,
        "wide": Decimal(draw.randrange(10**20)) / 100,
        "n": None if draw.random() < 0.2 else draw.randrange(12),
        "day": dt.date(2026, 1, 1) + dt.timedelta(days=draw.randrange(4)),
        "ts": dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=draw.randrange(10**6)),
        "a": [draw.randrange(6) for _ in range(draw.randrange(1, 5))],
        "p": {name: draw.randrange(4) for name in ("one", "two", "three")},
        "st": {"x": draw.randrange(100), "y": word},
        "b": word.encode(),
    }


def write(folder: Path, known: list[dict[str, Any]], round_number: int) -> Path:
    """One round's input. The first round has the rows in their own order."""
    place = folder / f"round-{round_number}"
    ordered = list(known)
    if round_number:
        random.Random(round_number).shuffle(ordered)
    files = FILES[round_number % len(FILES)]
    size = -(-len(ordered) // files)
    (place / "t").mkdir(parents=True)
    for number in range(files):
        table = pa.Table.from_pylist(ordered[number * size : (number + 1) * size], SCHEMA)
        pq.write_table(table, place / "t" / f"part-{number}.parquet")
    people = [{"k": key, "label": f"key {key}", "factor": key % 5} for key in range(KEYS)]
    random.Random(round_number).shuffle(people)
    (place / "u").mkdir()
    pq.write_table(pa.Table.from_pylist(people), place / "u" / "part-0.parquet")
    return place
