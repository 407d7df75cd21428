"""The streams of `make stream-results`: what is fed, where it lies, and what Spark's event logs tell of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

ROWS = 20
SENT, DRAWN, PLAIN, ONCE = "sent", "drawn", "plain", "once"
REGIONS = (SENT, DRAWN, PLAIN, ONCE)
READERS = (PLAIN, ONCE)
TOPIC, PARTITIONS = "orders", 2
STARTED, PROGRESS = "QueryStartedEvent", "QueryProgressEvent"
Rows = Counter[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Told:
    """What the event logs of all drivers say: when queries of a region started, in milliseconds, and from where to
    where each of its batches read, as often as one ended."""

    starts: dict[str, list[int]]
    batches: dict[str, dict[int, list[tuple[int, int]]]]

    def restarts(self, region: str, between: tuple[int, int]) -> int:
        low, high = between
        return sum(low <= at <= high for at in self.starts[region])

    def again(self, region: str) -> int:
        """Batches that ended twice: they were read again although they were committed."""
        return sum(len(one) - 1 for one in self.batches[region].values())

    def gaps(self, region: str) -> int:
        """Batches that do not begin where the one before them ended."""
        seen = self.batches[region]
        return sum(
            later == number + 1 and seen[later][0][0] != seen[number][-1][1] for number, later in pairwise(sorted(seen))
        )


class ResultsPlace:
    """One folder: a source, two targets, the location of the runs."""

    regions: tuple[str, ...] = REGIONS
    waited_for: tuple[str, ...] = REGIONS

    def __init__(self, folder: Path) -> None:
        self.folder, self.location, self.orders = folder, folder / "state", folder / "orders"
        # The next batch of the first reader fails while it is there, and takes it away.
        self.fail, self.events, self.topic = folder / "fail", folder / "events", folder / "topic.json"

    def prepare(self) -> None:
        self.orders.mkdir(parents=True)
        self.events.mkdir()

    def feed(self, number: int) -> None:
        made = self.folder / f".{number}"
        made.write_text("".join(f'{{"id":{one}}}\n' for one in range(number * ROWS, (number + 1) * ROWS)))
        made.rename(self.orders / f"{number:06d}.json")

    def commits(self, region: str) -> int:
        names = (one.name for one in self.location.glob(f"live/_streams/*/checkpoints/{region}/commits/*"))
        return max((int(name) for name in names if name.isdigit()), default=-1)

    def found(self, region: str) -> Rows:
        """Partition, offset, and what was drawn for that record."""
        rows: Rows = Counter()
        for path in (self.folder / region / "current").glob("*.parquet"):
            table = pq.read_table(path, columns=["partition", "offset", "drawn"])
            rows.update(zip(*(table.column(name).to_pylist() for name in table.column_names), strict=True))
        return rows

    def wrong(self, files: int) -> Iterator[str]:
        """Each record of the topic stands once in both targets, with one number that was drawn for it."""
        topic = [tuple(one) for one in json.loads(self.topic.read_text())]
        if {one for _, _, one in topic} != set(range(files * ROWS)):
            yield "the topic lacks rows, or has others"
        expected = Counter((partition, offset) for partition, offset, _ in topic)
        plain, once = map(self.found, READERS)
        for name, rows in zip(READERS, (plain, once), strict=True):
            keys = Counter((partition, offset) for partition, offset, _ in rows.elements())
            if keys != expected:
                missing, more = list((expected - keys).items())[:3], list((keys - expected).items())[:3]
                yield f"{name}: missing {missing}, too many {more}"
        if plain != once:
            yield f"the readers have other rows: {list((plain - once).items())[:3]}, {list((once - plain).items())[:3]}"

    def segments(self) -> tuple[int, int]:
        """How many batches of the result have files, and how many of them are before the last one."""
        found = [
            int(one.name.split("-")[0]) for one in self.location.glob(f"live/_streams/*/results/{DRAWN}/data/*/*/*")
        ]
        return len(found), sum(one < max(found) for one in found)

    def told(self) -> Told:
        told = Told({name: [] for name in REGIONS}, {name: {} for name in REGIONS})
        for event in self._events():
            if str(event["Event"]).endswith(STARTED) and event["name"] in told.starts:
                told.starts[event["name"]].append(_ms(event["timestamp"]))
            elif str(event["Event"]).endswith(PROGRESS):
                progress = event["progress"]
                (source,) = progress["sources"] if progress["name"] in READERS else (None,)
                if source is not None and source["endOffset"] != source["startOffset"]:
                    read = _entry(source["startOffset"]), _entry(source["endOffset"])
                    told.batches[progress["name"]].setdefault(progress["batchId"], []).append(read)
        return told

    def _events(self) -> Iterator[dict[str, Any]]:
        for file in self.events.iterdir():
            for line in file.read_text().splitlines():
                if "StreamingQueryListener" in line and line.endswith("}"):
                    yield json.loads(line)


def _entry(position: Any) -> int:
    """The position in a result; before the first batch there is none."""
    told = json.loads(position) if isinstance(position, str) else position
    return -1 if told is None else int(told["entry"])


def _ms(text: str) -> int:
    return round(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000)
