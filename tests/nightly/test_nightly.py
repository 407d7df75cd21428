"""What the nightly campaign is made of. Its nights are in `make nightly`, two of them with `ARGS="--days 2"`:
real drivers take minutes, and `tests/engine/test_nights.py` and `test_hive_targets.py` have the readers."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from nightly.lake import BAD_AMOUNT, BAD_DAYS, DAYS, Lake
from nightly.shop import CODE, SCHEMA, SCRIPTS, Shop

SEED = 19


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    made = Shop(tmp_path, Lake(tmp_path / "lake", SEED))
    made.begin()
    return made


def test_the_lake_follows_from_its_seed(tmp_path: Path) -> None:
    lakes = [Lake(tmp_path / name, seed) for name, seed in (("a", 1), ("b", 1), ("c", 2))]
    for lake in lakes:
        lake.begin()
        for day in DAYS:
            lake.add_day(day, new_column=day == DAYS[-1])
    files = [{path.relative_to(lake.folder): path for path in lake.folder.rglob("*.*")} for lake in lakes]
    texts = [{name: path.read_bytes() for name, path in found.items()} for found in files]
    assert texts[0] == texts[1] != texts[2]
    orders = {name: text for name, text in texts[0].items() if name.suffix == ".csv"}
    bad = [name.parts[1] for name, text in orders.items() if f'"{BAD_AMOUNT}"'.encode() in text]
    assert sorted(bad) == [f"day={day}" for day in BAD_DAYS] and len(orders) == 10 * len(bad)
    assert sum(map(len, texts[0].values())) > 2_000_000
    customers = [pq.read_table(f"{tmp_path}/a/customers/day={day}").to_pylist() for day in DAYS]
    changed = [sum(one != other for one, other in zip(*pair, strict=False)) for pair in pairwise(customers)]
    assert all(0 < count < 20 for count in changed), "customers change slowly"


def test_a_change_of_code_is_the_same_in_every_script(shop: Shop) -> None:
    shop.change(CODE)
    shop.change(SCHEMA)
    assert all("channel" in (shop.project / name).read_text() for name in SCRIPTS)
