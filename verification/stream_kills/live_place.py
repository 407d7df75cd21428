"""The streams of `make stream-kills`: what is fed, where it lies, and what each region must have in the end."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

ROWS, AGAIN, KEYS = 20, 5, 3
STEP, WINDOW, GAP = timedelta(seconds=10), timedelta(seconds=30), timedelta(seconds=4)
DELAY = "2 minutes"
BASE = datetime(2026, 11, 1, tzinfo=UTC)
# After it every window and session of what was fed before is over.
LAST = BASE + timedelta(days=30)
PLAIN, PYTHON, ONCE, WINDOWS, SESSIONS, JOINED = "plain", "python", "once", "windows", "sessions", "joined"
NUMBERED, CALLED, SENT, RECEIVED = "numbered", "called", "sent", "received"
# Those that read one file with each batch, and all that are waited for.
OF_FILES = (PLAIN, PYTHON, ONCE, WINDOWS, SESSIONS, JOINED, CALLED, SENT)
WAITED_FOR = (*OF_FILES, RECEIVED)
# Spark gives the Python process that starts `transformWithState` on the driver ten seconds to connect. On a busy
# machine that is too short, and the region tries again: nothing waits for it before the end.
REGIONS = (*WAITED_FOR, NUMBERED)
TOPIC, PARTITIONS = "orders", 2
Rows = Counter[tuple[Any, ...]]


class LivePlace:
    """One folder: two sources, a target for each region, the location of the runs."""

    regions: tuple[str, ...] = REGIONS
    waited_for: tuple[str, ...] = WAITED_FOR

    def __init__(self, folder: Path) -> None:
        self.folder, self.location = folder, folder / "state"
        self.orders, self.payments, self.called = folder / "orders", folder / "payments", folder / CALLED
        # What a function of the user's waits for, and where it says that it waits.
        self.hang, self.hung = folder / "hang", folder / "hung"

    def prepare(self) -> None:
        for one in (self.orders, self.payments, self.called):
            one.mkdir(parents=True)

    def feed(self, number: int, *, is_last: bool = False) -> None:
        """One more file in each source: new rows, and some of the file before it again."""
        last: dict[str, Any] = {"id": -number, "at": _text(LAST + number * STEP)}
        rows = [last] if is_last else list(_orders(number))
        self._put(self.orders, number, rows)
        self._put(self.payments, number, [{"order": row["id"], "paid": row["id"] * 2} for row in rows[:ROWS]])

    def _put(self, folder: Path, number: int, rows: list[dict[str, Any]]) -> None:
        made = self.folder / f".{folder.name}-{number}"
        made.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        made.rename(folder / f"{number:06d}.json")

    def commits(self, region: str) -> int:
        """The last batch that the checkpoint of a region has committed, -1 before the first."""
        names = (one.name for one in self.location.glob(f"live/_streams/*/checkpoints/{region}/commits/*"))
        return max((int(name) for name in names if name.isdigit()), default=-1)

    def told(self, what: str) -> Path:
        """What the last driver wrote of the topic: without what was sent twice, or all of it."""
        return self.folder / f"told-{what}.json"

    def found(self, region: str) -> Rows:
        """As any reader finds them; of a topic, without what was sent twice."""
        rows: Rows = Counter()
        match region:
            case "called":
                for path in self.called.glob("*.json"):
                    rows.update(map(tuple, json.loads(path.read_text())))
                return rows
            case "sent":
                return Counter(map(tuple, json.loads(self.told(SENT).read_text())))
        for path in (self.folder / region / "current").glob("*.parquet"):
            table = pq.read_table(path)
            rows.update(zip(*(table.column(name).to_pylist() for name in sorted(table.column_names)), strict=True))
        return rows

    def expected(self, region: str, files: int) -> Rows:
        """What a batch over the same files gives; of windows and sessions, those that are over."""
        orders = [(row["id"], row["at"]) for number in range(files) for row in _orders(number)]
        match region:
            case "received":  # Each record that the topic has, with those that were sent twice.
                return Counter(map(tuple, json.loads(self.told(TOPIC).read_text())))
            case "numbered":
                counted = Counter(one % KEYS for one, _ in orders)
                return Counter((key, number + 1) for key, count in counted.items() for number in range(count))
            case "plain" | "python" | "called" | "sent":
                return Counter((at, one) for one, at in orders)
            case "once":
                return Counter(dict.fromkeys(((at, one) for one, at in orders), 1))
            case "windows":
                counted = Counter((one % KEYS, _floor(at)) for one, at in orders)
                return Counter((begins, count, key) for (key, begins), count in counted.items())
            case "sessions":
                return Counter(_sessions(orders))
            case "joined":
                return Counter((one, one * 2) for one, _ in orders)
        raise AssertionError(region)


def _orders(number: int) -> Iterator[dict[str, Any]]:
    again = range(max(0, number - 1) * ROWS, max(0, number - 1) * ROWS + AGAIN) if number else range(0)
    for one in (*range(number * ROWS, (number + 1) * ROWS), *again):
        yield {"id": one, "at": _text(_time_of(one))}


def _time_of(one: int) -> datetime:
    """Rows of a file lie within its ten seconds."""
    return BASE + (one // ROWS) * STEP + (one % ROWS) * STEP / (ROWS * 2)


def _text(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _parsed(at: str) -> datetime:
    return datetime.strptime(at, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)


def _floor(at: str) -> str:
    since = _parsed(at) - datetime(1970, 1, 1, tzinfo=UTC)
    return _text(_parsed(at) - since % WINDOW)


def _sessions(orders: list[tuple[int, str]]) -> Iterator[tuple[str, int, int]]:
    """(begin, count, key) of each session: a gap of so long ends one."""
    for key in range(KEYS):
        begins, ends, count = None, BASE, 0
        for at in sorted(_parsed(text) for one, text in orders if one % KEYS == key):
            if begins is not None and at > ends:
                yield _text(begins), count, key
                begins, count = None, 0
            begins, ends, count = begins or at, at + GAP, count + 1
        if begins is not None:
            yield _text(begins), count, key
