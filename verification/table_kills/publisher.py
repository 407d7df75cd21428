"""A driver that publishes: it reads an assignment from each new file of a folder, and writes what came of it beside."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import SparkSession

from rekindle.engine.spark.jvm import table_calls
from rekindle.engine.spark.publish.publication import Publication
from rekindle.engine.spark.publish.sinks import publish
from rekindle.master.facts.events import Fence
from rekindle.publish.targets import delta
from rekindle.storage.stores import open_store

READY, BEGUN, ANSWER = "ready", "begun", "answer"
SCHEMA = (
    '{"type":"struct","fields":['
    '{"name":"id","type":"long","nullable":true,"metadata":{}},'
    '{"name":"run","type":"long","nullable":true,"metadata":{}},'
    '{"name":"day","type":"string","nullable":true,"metadata":{}}]}'
)


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """One publication."""

    table: str
    mode: str
    key: str
    order: int
    epoch: int
    files: tuple[tuple[str, int], ...]

    @property
    def publication(self) -> Publication:
        partition = {"day": self.key} if self.mode == "partition" else None
        return Publication(
            sink="out",
            owner="daily",
            target=delta(self.table, self.mode, partition=partition),
            fence=Fence(self.order, self.epoch, 1),
            files=self.files,
            schema=SCHEMA,
            place="abc",
            key=self.key,
        )


def without_fence() -> None:
    """A protection switched off: the commit is made whatever came since the look, and depends on nothing."""
    commit = table_calls.delta_commit

    def blind(spark: SparkSession, path: str, version: int, **named: Any) -> bool:
        time.sleep(0.5)  # A publisher that is slow here meets the other one.
        newest = int(table_calls.delta_state(spark, path, "rekindle/")[0])
        return commit(spark, path, newest, **named | {"watched": []})

    setattr(table_calls, "delta_commit", blind)  # noqa: B010


def put(path: Path, text: str) -> None:
    """Whole, or not there."""
    path.with_suffix(".new").write_text(text)
    path.with_suffix(".new").replace(path)


def main(folder: Path, planted: str) -> None:
    spark = SparkSession.builder.master("local[2]").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    if planted:
        without_fence()
    put(folder / READY, str(os.getpid()))
    done = 0
    while True:
        given = folder / f"assignment-{done}"
        if not given.exists():
            time.sleep(0.01)
            continue
        what = msgspec.json.decode(given.read_bytes(), type=Assignment)
        put(folder / f"{BEGUN}-{done}", str(time.time()))
        put(folder / f"{ANSWER}-{done}", repr(publish(spark, what.publication, open_store)))
        done += 1


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "")
