"""A small stream for tests: files of numbers in, files out, and a thread that runs it."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow.parquet as pq
from msgspec.structs import replace as replaced
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.api import StreamSummary
from rekindle.failover.backoff import FixedDelay
from rekindle.master.facts.config import BackoffSpec, MasterConfig

ROWS = 5
WAIT_SECONDS = 240.0
FAST = MasterConfig(backoff=BackoffSpec.of(FixedDelay(attempts_max=3, delay_ms=50)))

# Whoever fails tries again for ever.
PATIENT = replaced(FAST, backoff=BackoffSpec.of(FixedDelay(attempts_max=9_999, delay_ms=500)), poison_tries_max=9_999)


class NumbersFolder:
    """The folder of one stream: its input, its targets, and a file that makes a region fail while it is there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.source, self.bad, self.state = folder / "in", folder / "bad", folder / "state"
        self.source.mkdir()

    def feed(self, number: int, again: int = 0) -> None:
        """One more file; the first `again` of its numbers are those of the file before it."""
        made = self.folder / f".{number}"
        numbers = [*range(number * ROWS, (number + 1) * ROWS), *range((number - 1) * ROWS, (number - 1) * ROWS + again)]
        made.write_text("".join(f'{{"id":{one}}}\n' for one in numbers))
        made.rename(self.source / f"{number:05d}.json")

    def rows(self, sink: str) -> Counter[int]:
        """As a reader finds them that knows nothing of us, and follows the link once."""
        found = Counter[int]()
        for path in Path(os.path.realpath(self.folder / sink / "current")).glob("*.parquet"):
            found.update(pq.read_table(path, columns=["id"]).column("id").to_pylist())
        return found

    def read(self, spark: SparkSession) -> DataFrame:
        return spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).json(str(self.source))


def numbers(*files: int) -> Counter[int]:
    return Counter(one for number in files for one in range(number * ROWS, (number + 1) * ROWS))


def pipeline_of(place: NumbersFolder) -> rk.Pipeline:
    """`plain` passes on, `fragile` fails while the bad file is there, `once` drops what it saw."""
    pipeline, bad = rk.Pipeline("live"), str(place.bad)

    @pipeline.source
    def orders(spark: SparkSession) -> DataFrame:
        return place.read(spark)

    @pipeline.sink(rk.files(f"{place.folder}/plain"))
    def plain(orders: DataFrame) -> None: ...

    @pipeline.sink(rk.files(f"{place.folder}/fragile"))
    def fragile(orders: DataFrame) -> DataFrame:
        def looked_at(one: int) -> int:
            if Path(bad).exists():
                raise ValueError("the bad file is there")
            return one

        return orders.select(F.udf(looked_at, "long")("id").alias("id"))

    @pipeline.sink(rk.files(f"{place.folder}/once"))
    def once(orders: DataFrame) -> DataFrame:
        return orders.dropDuplicates(["id"])

    return pipeline


class RunningStream:
    """`pipeline.run` in a thread, until the test ends it."""

    def __init__(self, spark: SparkSession, pipeline: rk.Pipeline, place: NumbersFolder, **given: Any) -> None:
        self.lines: list[str] = []
        self._stop = ""
        self._failed: BaseException | None = None
        self.summary: StreamSummary | None = None
        options = replace(
            rk.RunOptions(quiet=True, say=self.lines.append, is_asked_to_stop=lambda: self._stop, config=FAST), **given
        )

        def run() -> None:
            try:
                made = pipeline.run(spark, str(place.state), options=options)
                assert isinstance(made, StreamSummary)
                self.summary = made
            except BaseException as error:
                self._failed = error

        self._thread = threading.Thread(target=run, daemon=True)

    def __enter__(self) -> RunningStream:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.ask()
        self._thread.join(WAIT_SECONDS)

    def wait(self, is_so: Callable[[], bool]) -> None:
        """Until it is so: by what happened, not by a clock."""
        until = time.monotonic() + WAIT_SECONDS
        while not is_so():
            assert self._failed is None, self._failed
            assert time.monotonic() < until, self.lines
            time.sleep(0.05)

    def ask(self) -> None:
        """To stop."""
        self._stop = "the test ends"

    def stopped(self) -> StreamSummary:
        self.ask()
        return self.ended()

    def ended(self) -> StreamSummary:
        """Its summary; raises what it raised."""
        self._thread.join(WAIT_SECONDS)
        if self._failed is not None:
            raise self._failed
        assert self.summary is not None, self.lines
        return self.summary


def run_all(spark: SparkSession, pipeline: rk.Pipeline, place: NumbersFolder, **given: Any) -> StreamSummary:
    """All that there is to read."""
    with RunningStream(spark, pipeline, place, available_now=True, **given) as stream:
        return stream.ended()


def uncommit(place: NumbersFolder, region: str) -> None:
    """As if the driver had died after the table had the last batch, and before the checkpoint knew."""
    (folder,) = place.state.glob(f"live/_streams/*/checkpoints/{region}/commits")
    last = max(int(one.name) for one in folder.iterdir() if one.name.isdigit())
    (folder / str(last)).unlink()
    (folder / f".{last}.crc").unlink(missing_ok=True)
