"""Which records of a topic were sent twice: by their headers and what is in them. No broker is needed for that."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from pyspark.sql import SparkSession

from rekindle.engine.spark.publish.stream_kafka import without_doubles

SCHEMA = "key binary, value binary, headers array<struct<key:string,value:binary>>, partition int, offset long"


class Sent(NamedTuple):
    """A record as a query sent it."""

    value: str
    query: int = 1
    partition: int = 0
    row: int = 0
    batch: int = 0
    user: str = ""


# What was sent, and what of it counts. A text is a record of somebody else.
CASES: dict[str, tuple[list[Sent | str], str]] = {
    "a batch that was sent again": ([Sent("a"), Sent("a", query=2)], "a"),
    "a task that was tried again": ([Sent("a"), Sent("a")], "a"),
    "a batch that has two equal rows": ([Sent("a"), Sent("a", row=1)], "aa"),
    "two equal rows, one sent before": ([Sent("a"), Sent("a", query=2), Sent("a", query=2, partition=1)], "aa"),
    "cut and ordered otherwise the second time": (
        [Sent("a"), Sent("b", row=1), Sent("b", query=2), Sent("a", query=2, partition=1)],
        "ab",
    ),
    "other rows the second time, of which none is dropped": ([Sent("a"), Sent("b", query=2)], "ab"),
    "another batch": ([Sent("a"), Sent("a", query=2, batch=1)], "aa"),
    "other headers of the user's": ([Sent("a", user="x"), Sent("a", query=2, user="y")], "aa"),
    "records of somebody else, all there": (["a", "a", Sent("a"), Sent("a", query=2)], "aaa"),
}


def records() -> Iterator[tuple[object, ...]]:
    """Those of all cases, each a region of its own."""
    places = itertools.count()
    for case, (sent, _) in CASES.items():
        for one in sent:
            if isinstance(one, str):
                yield case.encode(), one.encode(), None, 0, next(places)
                continue
            found = {"region": case, "generation": "g", "batch": one.batch, "query": one.query}
            found |= {"partition": one.partition, "row": one.row}
            headers = [(f"rekindle.{name}", str(value).encode()) for name, value in found.items()]
            users = [("user", one.user.encode())] if one.user else []
            yield case.encode(), one.value.encode(), [*users, *headers], 0, next(places)


def test_what_was_sent_twice_counts_once(spark: SparkSession) -> None:
    kept = without_doubles(spark.createDataFrame(list(records()), SCHEMA)).collect()
    found: dict[str, Counter[str]] = {case: Counter() for case in CASES}
    for row in kept:
        found[bytes(row.key).decode()][bytes(row.value).decode()] += 1
    assert found == {case: Counter(counts) for case, (_, counts) in CASES.items()}
