"""`make stream-poison`: one record in 100,000 fails every time. It must be named and kept; all others arrive once.

Two streams, one of Parquet (the record is told by file and row) and one of JSON (by file and content). Each runs to its
end in this process; then rows are counted by identity, and the record in quarantine is compared with the planted one.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from local_spark import local_spark
from rekindle.api import StreamSummary
from rekindle.failover.backoff import FixedDelay
from rekindle.master.facts.config import BackoffSpec, MasterConfig

FILES, BATCHES = 4, 2
FAST = MasterConfig(backoff=BackoffSpec.of(FixedDelay(attempts_max=9, delay_ms=10)))


def fed(place: Path, kind: str, records: int) -> None:
    """The records in files of equal size, one after the other."""
    (place / "in").mkdir(parents=True)
    each = records // FILES
    for number in range(FILES):
        ids = range(number * each, (number + 1) * each if number < FILES - 1 else records)
        path = place / "in" / f"{number}.{kind}"
        if kind == "parquet":
            pq.write_table(pa.table({"id": list(ids)}), path)
        else:
            path.write_text("".join(f'{{"id":{one}}}\n' for one in ids))


def pipeline_of(place: Path, kind: str, poison: int) -> rk.Pipeline:
    pipeline = rk.Pipeline(f"poison_{kind}")

    def cents(one: int) -> int:
        if one == poison:
            raise ValueError(f"{one} cannot be priced")
        return one

    def orders(spark: SparkSession) -> DataFrame:
        reader = spark.readStream.schema("id long").option("maxFilesPerTrigger", FILES // BATCHES)
        return reader.format(kind).load(str(place / "in"))

    def priced(orders: DataFrame) -> DataFrame:
        return orders.select(F.udf(cents, "long")("id").alias("id"))

    pipeline.add_source(orders)
    pipeline.add_sink(priced, rk.files(str(place / "out")), quarantine=3)
    return pipeline


def arrived(place: Path) -> Counter[int]:
    found = Counter[int]()
    for path in (place / "out" / "current").glob("*.parquet"):
        found.update(pq.read_table(path).column("id").to_pylist())
    return found


def jobs_max(records: int, units: int) -> int:
    """Partitions or files of the batch, log2 of its records, and two."""
    return units + (max(1, records - 1)).bit_length() + 2


def trial(spark: SparkSession, place: Path, kind: str, records: int) -> bool:
    """Whether all is as it must be."""
    poison = records // FILES * (FILES - 1) + records // 13
    fed(place, kind, records)
    lines: list[str] = []
    options = rk.RunOptions(available_now=True, quiet=True, say=lines.append, config=FAST)
    summary = pipeline_of(place, kind, poison).run(spark, str(place / "state"), options=options)
    assert isinstance(summary, StreamSummary)
    (left,) = summary.regions["priced"].quarantined
    (kept,) = (place / "state").glob("*/_streams/*/quarantine/priced/*.jsonl")
    told = json.loads(kept.read_text())
    jobs = next(int(line.partition("found with ")[2].split()[0]) for line in lines if "found with " in line)
    expected = Counter(one for one in range(records) if one != poison)
    found = arrived(place)
    lost, doubled = sum((expected - found).values()), sum((found - expected).values())
    is_named = json.loads(told["record"]) == {"id": poison} and "cannot be priced" in told["error"]
    most = jobs_max(records // BATCHES, FILES // BATCHES)
    print(
        f"RESULT stream-poison source={kind} records={records} through={sum(found.values())} lost={lost} "
        f"doubled={doubled} named={is_named} jobs={jobs} jobs_until_named={jobs - 2} jobs_max={most} "
        f"coordinates='{left.record}'",
        flush=True,
    )
    return is_named and not lost and not doubled and jobs - 2 <= most


def main() -> int:
    parser = argparse.ArgumentParser(prog="stream-poison")
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--kinds", default="parquet,json")
    asked = parser.parse_args()
    began, folder = time.monotonic(), Path(tempfile.mkdtemp(prefix="stream-poison-"))
    with local_spark({"spark.sql.shuffle.partitions": "2"}) as spark:
        good = [trial(spark, folder / kind, kind, asked.records) for kind in asked.kinds.split(",")]
    shutil.rmtree(folder, ignore_errors=True)
    print(f"stream-poison: {sum(good)} of {len(good)} sources, {(time.monotonic() - began) / 60:.1f} minutes")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
