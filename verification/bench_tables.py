"""`make bench-tables`: what publication into a Delta or Iceberg table writes and costs, against writing the rows again.

One result of committed Parquet files is published by the publisher of production, which adds its files to the table,
and written by bare Spark into another table of the same format (`overwrite`, both), by turns in one application. The
control is bare Spark a second time. CPU is that of Python and of the JVM, which is driver and executor. Bytes written
are those of all new files of the table that are not a second name of a kept file. Exit 0 only if these are at most a
hundredth of the bytes of the result.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from pyspark.sql import SparkSession

from local_spark import local_spark
from rekindle.engine.spark.publish.publication import Publication
from rekindle.engine.spark.publish.sinks import publish
from rekindle.engine.spark.session import attach
from rekindle.master.facts.events import Fence
from rekindle.master.facts.stimuli import SinkDone
from rekindle.publish import targets
from rekindle.publish.targets import Target
from rekindle.storage.stores import open_store
from support.cpu import cpu_s
from support.delta import delta_settings
from support.iceberg import CATALOG, iceberg_jars_here, iceberg_settings

FILES, BYTES_PER_ROW = 16, 20
BYTES_RATIO_MAX = 0.01
WARM_ROUNDS = 2
DATABASE = f"{CATALOG}.bench"


@dataclass(slots=True)
class Way:
    """One way to get a result into a table: which table, how, and what was measured."""

    folder: Path
    act: Callable[[int], None]
    cpu: list[float] = field(default_factory=list)
    bytes: list[int] = field(default_factory=list)

    def measure(self, number: int) -> None:
        with measured(self.cpu, self.bytes, self.folder):
            self.act(number)


@contextmanager
def measured(cpu: list[float], written: list[int], folder: Path) -> Iterator[None]:
    here = psutil.Process()
    processes = [here, *(one for one in here.children() if "java" in one.name())]
    before, there = cpu_s(processes), set(_files(folder))
    yield
    cpu.append(cpu_s(processes) - before)
    new = (path.stat() for path in set(_files(folder)) - there)
    written.append(sum(one.st_size for one in new if one.st_nlink == 1))


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def made(spark: SparkSession, folder: Path, megabytes: int) -> tuple[tuple[tuple[str, int], ...], str]:
    """The committed files of a result, and its schema."""
    rows = megabytes * 1_000_000 // BYTES_PER_ROW
    frame = spark.range(rows).selectExpr("id", "rand(1) price", "rand(2) weight", "id % 1000 shop")
    frame.repartition(FILES).write.parquet(str(folder))
    found = tuple((f"file:{path}", path.stat().st_size) for path in sorted(folder.glob("part-*")))
    return found, frame.schema.json()


def publication(files: tuple[tuple[str, int], ...], schema: str, target: Target, number: int) -> Publication:
    fence = Fence(number, 1, 1)
    return Publication(
        sink="out", owner="daily", target=target, fence=fence, files=files, schema=schema, place="abc", key="all"
    )


def ways(spark: SparkSession, folder: Path, form: str, megabytes: int) -> tuple[dict[str, Way], int]:
    """Three ways, and the bytes of the result."""
    files, schema = made(spark, folder / f"{form}-result", megabytes)
    paths = [path for path, _ in files]

    def name(table: str) -> str:
        return f"delta.`{folder}/{form}/{table}`" if form == "delta" else f"{DATABASE}.{table}"

    def place(table: str) -> Path:
        return folder / form / table if form == "delta" else folder / "lake" / "bench" / table

    target = targets.delta(f"{folder}/{form}/kept") if form == "delta" else targets.iceberg(name("kept"))

    def kept(number: int) -> None:
        answer = publish(spark, publication(files, schema, target, number), open_store)
        assert isinstance(answer, SinkDone), answer

    def rewritten(table: str) -> Callable[[int], None]:
        def write(number: int) -> None:
            spark.read.schema(spark.read.parquet(*paths).schema).parquet(*paths).createOrReplaceTempView("result")
            spark.sql(f"INSERT OVERWRITE {name(table)} SELECT * FROM result")

        return write

    for table in ("rewritten", "again"):
        spark.sql(f"CREATE TABLE {name(table)} (id BIGINT, price DOUBLE, weight DOUBLE, shop BIGINT) USING {form}")
    found = {"kept": Way(place("kept"), kept)}
    found |= {table: Way(place(table), rewritten(table)) for table in ("rewritten", "again")}
    return found, sum(length for _, length in files)


def measure(found: Mapping[str, Way], rounds: int) -> None:
    """In another order each round; the first rounds are forgotten."""
    names = list(found)
    for number in range(1, rounds + WARM_ROUNDS + 1):
        for at in range(len(names)):
            found[names[(at + number) % len(names)]].measure(number)
    for way in found.values():
        del way.cpu[:WARM_ROUNDS], way.bytes[:WARM_ROUNDS]


def ratio(one: Way, other: Way) -> float:
    return statistics.median(a / b for a, b in zip(one.cpu, other.cpu, strict=True))


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench-tables")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--megabytes", type=int, default=78)
    parser.add_argument("--only", choices=["delta", "iceberg"], action="append")
    asked = parser.parse_args()
    began, told, missed = time.monotonic(), [], []
    with tempfile.TemporaryDirectory(prefix="bench-tables-") as name:
        folder = Path(name)
        settings = delta_settings(*iceberg_jars_here()) | iceberg_settings(folder / "lake")
        spark = local_spark({**settings, "spark.sql.warehouse.dir": f"{folder}/warehouse"})
        attach(spark)
        spark.sql(f"CREATE DATABASE {DATABASE}")
        for form in asked.only or ("delta", "iceberg"):
            found, size = ways(spark, folder, form, asked.megabytes)
            measure(found, asked.rounds)
            share = max(found["kept"].bytes) / size
            missed += [form] if share > BYTES_RATIO_MAX else []
            told.append(
                f"{form}_bytes={share:.5f} {form}_kept_bytes={max(found['kept'].bytes)} "
                f"{form}_cpu={ratio(found['kept'], found['rewritten']):.3f} "
                f"{form}_cpu_s={statistics.median(found['kept'].cpu):.2f} "
                f"{form}_control={ratio(found['again'], found['rewritten']):.3f}"
            )
            print(told[-1], flush=True)
        spark.stop()
    print(
        f"RESULT bench-tables rounds={asked.rounds} result_mb={asked.megabytes} {' '.join(told)} "
        f"bytes_max={BYTES_RATIO_MAX} missed={','.join(missed) or 'none'} "
        f"minutes={(time.monotonic() - began) / 60:.1f}"
    )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
