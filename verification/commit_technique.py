"""Which commit technique? Measured side by side, interleaved, on local disk and on S3.

  bare   `df.write`, Spark's defaults: what a user has today; keeps nothing after an abort
  v2     (A) Spark's committer, algorithm 2, one directory per attempt, sealed by one rename
  ours   (B) our commit protocol: names unique per task attempt, written in place, one marker per task

CPU is that of the driver's JVM in local mode, which runs the tasks: the same process for all three. The first round
warms up and is not counted. Prints a table, then RESULT; exit 0 if B costs at most CPU_MAX of the bare write.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from local_spark import local_spark
from rekindle.engine.spark.jvm.access import Package
from rekindle.engine.spark.plan import layout
from rekindle.engine.spark.run import results
from rekindle.engine.spark.session import attach, group_session
from rekindle.model.partitions import Partitions
from support.s3 import S3Server

TICKS = os.sysconf("SC_CLK_TCK")
CPU_MAX = 1.05
PARTITIONS = 32


@dataclass
class Figures:
    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    bytes: int = 0
    requests: Counter[str] = field(default_factory=Counter)


def rows_of(session: SparkSession, rows: int) -> DataFrame:
    frame = session.range(0, rows, 1, 8).withColumn("k", F.col("id") % 1009)
    return frame.withColumn("text", F.sha2(F.col("id").cast("string"), 256)).withColumn("value", F.col("id") * 7)


def bare(spark: SparkSession, rows: int, path: str) -> None:
    rows_of(spark, rows).repartition(PARTITIONS, "k").write.parquet(path)


def version_two(spark: SparkSession, rows: int, path: str) -> None:
    option = "mapreduce.fileoutputcommitter.algorithm.version"
    rows_of(spark, rows).repartition(PARTITIONS, "k").write.option(option, "2").parquet(f"{path}.attempt")
    files = Package(spark, "org.apache.hadoop.fs")
    target = files.Path(path)
    store = target.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    assert store.rename(files.Path(f"{path}.attempt"), target)


def ours(spark: SparkSession, rows: int, path: str) -> None:
    session = group_session(spark, {})
    held = layout.hold(rows_of(session, rows), session, layout.Layout(("k",), PARTITIONS))
    results.write(held, path, Partitions.first(PARTITIONS), "measured", is_first=True)


TECHNIQUES: dict[str, Callable[[SparkSession, int, str], None]] = {"bare": bare, "v2": version_two, "ours": ours}


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def measure(spark: SparkSession, root: str, rounds: int, rows: int, s3: S3Server | None) -> dict[str, Figures]:
    found = {name: Figures() for name in TECHNIQUES}
    pid = int(Package(spark, "java.lang").ProcessHandle.current().pid())
    for number in range(rounds + 1):
        order = list(TECHNIQUES)[number % 3 :] + list(TECHNIQUES)[: number % 3]
        for name in order:
            path = f"{root}/{name}-{number}"
            mark, cpu, wall = s3.mark() if s3 else 0, cpu_seconds(pid), time.monotonic()
            TECHNIQUES[name](spark, rows, path)
            figures = found[name]
            if number:
                figures.cpu.append(cpu_seconds(pid) - cpu)
                figures.wall.append(time.monotonic() - wall)
                figures.requests += s3.requests(mark) if s3 else Counter()
            listing = str(Package(spark, "rekindle.spark").Bridge.list(spark._jsparkSession, path))
            figures.bytes = sum(int(line.rsplit("\t", 1)[1]) for line in listing.splitlines())
    return found


def ratios(figures: Figures, base: Figures) -> tuple[float, float]:
    """Median of the paired CPU ratios, and half of the distance between their quartiles."""
    paired = [mine / other for mine, other in zip(figures.cpu, base.cpu, strict=True)]
    quartiles = statistics.quantiles(paired, n=4)
    return statistics.median(paired), (quartiles[2] - quartiles[0]) / 2


def show(where: str, found: dict[str, Figures], rounds: int) -> None:
    print(f"\n{where}: {PARTITIONS} partitions, {rounds} interleaved rounds")
    print(f"{'technique':10} {'CPU ratio':>16} {'wall s':>8} {'bytes':>12}  requests per file")
    for name, figures in found.items():
        ratio, spread = ratios(figures, found["bare"])
        per_file = {op: round(n / rounds / PARTITIONS, 2) for op, n in sorted(figures.requests.items())}
        total = round(sum(figures.requests.values()) / rounds / PARTITIONS, 2)
        wall = statistics.median(figures.wall)
        print(f"{name:10} {ratio:8.3f} ± {spread:5.3f} {wall:8.2f} {figures.bytes:12,}  {total} {per_file or ''}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--rows", type=int, default=1_500_000)
    arguments = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="rekindle-technique-")
    try:
        with S3Server() as s3:
            spark = local_spark({"spark.local.dir": folder, **s3.spark_settings})
            attach(spark)
            disk = measure(spark, f"file:{folder}", arguments.rounds, arguments.rows, None)
            cloud = measure(spark, s3.url("t"), arguments.rounds, arguments.rows, s3)
            show("local disk", disk, arguments.rounds)
            show("S3", cloud, arguments.rounds)
            spark.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    on_disk, on_cloud = ratios(disk["ours"], disk["bare"])[0], ratios(cloud["ours"], cloud["bare"])[0]
    v2_disk, v2_cloud = ratios(disk["v2"], disk["bare"])[0], ratios(cloud["v2"], cloud["bare"])[0]
    requests = {name: sum(f.requests.values()) / arguments.rounds / PARTITIONS for name, f in cloud.items()}
    print(
        f"RESULT ours_cpu_disk={on_disk:.3f} ours_cpu_s3={on_cloud:.3f} v2_cpu_disk={v2_disk:.3f} "
        f"v2_cpu_s3={v2_cloud:.3f} ours_requests_per_file={requests['ours']:.2f} "
        f"v2_requests_per_file={requests['v2']:.2f} bare_requests_per_file={requests['bare']:.2f} cpu_max={CPU_MAX}"
    )
    return 0 if max(on_disk, on_cloud) <= CPU_MAX else 1


if __name__ == "__main__":
    sys.exit(main())
