"""One driver of `make reuse`, `driver.py NAME… FOLDER`: it starts or resumes pipelines, and prints what they do."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import msgspec
from pyspark.sql import functions as F

import rekindle as rk
from local_spark import local_spark
from rekindle.errors import Notice
from rekindle.failover.backoff import FixedDelay
from rekindle.master.facts.config import BackoffSpec, MasterConfig
from reuse.pipelines import pipeline_of, prepare

OPTIONS = rk.RunOptions(config=MasterConfig(backoff=BackoffSpec.of(FixedDelay(10, 2))))


class Told(msgspec.Struct):
    """What came of one pipeline. `steps` are what this driver computed and reused of each, and its generation."""

    name: str
    failed: str = ""
    steps: dict[str, tuple[int, int, int]] = {}
    rows: int = 0
    sum: int = 0


def main() -> None:
    *names, root = sys.argv[1:]
    spark = local_spark({"spark.sql.shuffle.partitions": "8", "spark.sql.session.timeZone": "UTC"}, "OFF")
    warnings.simplefilter("ignore", Notice)
    for name in names:
        folder = Path(root) / name
        if not (folder / "orders").exists():
            prepare(spark, folder)
            (folder / "poison").touch()
        told = Told(name)
        try:
            done = pipeline_of(name, folder).run(spark, f"{folder}/runs", options=OPTIONS)
            told.steps = {step: (one.computed, one.reused, one.generation) for step, one in done.steps.items()}
            rows = rk.read_newest(spark, f"{folder}/out")
            told.rows, told.sum = rows.agg(F.count("*"), F.sum("judged")).first() or (0, 0)
        except rk.RunFailed as failed:
            told.failed = next(line.strip() for line in str(failed).splitlines() if "partitions kept" in line)
            (folder / "poison").unlink()
        print(msgspec.json.encode(told).decode(), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
