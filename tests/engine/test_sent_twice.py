"""Which records of a topic were sent twice: by their headers and what is in them. No broker is needed for that."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import pytest
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


def read(spark: SparkSession, sent: list[Sent | str]) -> Counter[str]:
    """A text is a record of somebody else."""
    rows: list[tuple[object, ...]] = []
    for offset, one in enumerate(sent):
        if isinstance(one, str):
            rows.append((None, one.encode(), None, 0, offset))
            continue
        found = {"region": "sent", "generation": "g", "batch": one.batch, "query": one.query}
        found |= {"partition": one.partition, "row": one.row}
        headers = [(f"rekindle.{name}", str(value).encode()) for name, value in found.items()]
        mine = [("user", one.user.encode())] if one.user else []
        rows.append((b"k", one.value.encode(), [*mine, *headers], 0, offset))
    found_rows = without_doubles(spark.createDataFrame(rows, SCHEMA)).collect()
    return Counter(bytes(row.value).decode() for row in found_rows)


@pytest.mark.parametrize(
    ("sent", "counts"),
    [
        pytest.param([Sent("a"), Sent("a", query=2)], "a", id="a batch that was sent again"),
        pytest.param([Sent("a"), Sent("a")], "a", id="a task that was tried again"),
        pytest.param([Sent("a"), Sent("a", row=1)], "aa", id="a batch that has two equal rows"),
        pytest.param(
            [Sent("a"), Sent("a", query=2), Sent("a", query=2, partition=1)], "aa", id="two equal rows, one sent before"
        ),
        pytest.param(
            [Sent("a"), Sent("b", row=1), Sent("b", query=2), Sent("a", query=2, partition=1)],
            "ab",
            id="cut and ordered otherwise the second time",
        ),
        pytest.param([Sent("a"), Sent("b", query=2)], "ab", id="other rows the second time: none is dropped"),
        pytest.param([Sent("a"), Sent("a", query=2, batch=1)], "aa", id="another batch"),
        pytest.param([Sent("a", user="x"), Sent("a", query=2, user="y")], "aa", id="other headers of the user's"),
        pytest.param(["a", "a", Sent("a"), Sent("a", query=2)], "aaa", id="records of somebody else are all there"),
    ],
)
def test_what_was_sent_twice_counts_once(spark: SparkSession, sent: list[Sent | str], counts: str) -> None:
    assert read(spark, sent) == Counter(counts)
