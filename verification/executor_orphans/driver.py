"""A driver that lives on, as a notebook does: it makes the runs that it is ordered to make, one file for each order.

`hold N` makes run N up to the point where its result lies in blocks and its reader waits; `take N` takes run N over and
ends it; `count N` tells how many blocks Spark lists in this application, `executors N` how many executors it has; `end`
ends it. Answers are files, too.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from pyspark.sql import DataFrame, SparkSession

import rekindle as rk
from rekindle.engine.spark.jvm.access import Package
from rekindle.engine.spark.session import attach

BLOCKS = 8


def pipeline(folder: Path) -> rk.Pipeline:
    """The reader waits until there is a file `go`, told on the driver: its first task then runs."""
    made = rk.Pipeline("orphans")

    @made.source
    def numbers(spark: SparkSession) -> DataFrame:
        return spark.read.parquet(f"{folder}/numbers")

    @made.step(result="caching", partition_by="k", partitions=BLOCKS, keep_until="run end")
    def held(numbers: DataFrame, number: int) -> DataFrame:
        return numbers.selectExpr("id % 97 k", f"id + {number} v")

    @made.sink(rk.files(f"{folder}/out/{{number}}"))
    def gold(held: DataFrame, number: int) -> DataFrame:
        go = f"{folder}/go-{number}"

        def waiting(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
            while not Path(go).exists():
                time.sleep(0.1)
            yield from batches

        return held.mapInPandas(waiting, "k long, v long")

    return made


def listed(spark: SparkSession) -> int:
    """The blocks of RDDs on all executors, as Spark lists them."""
    return int(Package(spark, "rekindle.test").StoredBlocks.listed())


def executors(spark: SparkSession) -> int:
    known = str(Package(spark, "rekindle.test").StoredBlocks.executors()).split(",")
    return len(set(known) - {"driver"})


def hold(spark: SparkSession, folder: Path, number: int, is_taken: bool) -> str:
    options = rk.RunOptions(force=is_taken, sweep=None, quiet=True)
    try:
        pipeline(folder).run(spark, f"{folder}/runs", options=options, number=number)
    except rk.RekindleError as error:
        return f"{type(error).__name__}: {error}"
    return "done"


def main() -> None:
    name, folder = sys.argv[1], Path(sys.argv[2])
    spark = SparkSession.builder.getOrCreate()
    attach(spark)
    spark.sql(f"ADD JAR '{sys.argv[3]}'")
    orders = folder / name
    orders.mkdir(exist_ok=True)

    def answer(order: str, text: str) -> None:
        (orders / f"{order}.tmp").write_text(text)
        (orders / f"{order}.tmp").rename(orders / f"{order}.answer")

    def make(order: str, number: int, is_taken: bool) -> None:
        answer(order, hold(spark, folder, number, is_taken))

    answer("started", "")
    seen: set[Path] = set()
    while True:
        for file in sorted(set(orders.glob("*.order")) - seen):
            seen.add(file)
            word, _, number = file.stem.partition("-")
            if word == "end":
                spark.stop()
                return
            if word == "count":
                answer(file.stem, str(listed(spark)))
            elif word == "executors":
                answer(file.stem, str(executors(spark)))
            else:
                threading.Thread(target=make, args=(file.stem, int(number), word == "take"), daemon=True).start()
        time.sleep(0.1)


if __name__ == "__main__":
    main()
