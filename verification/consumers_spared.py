"""`make consumers-spared`: a lost partition of a determinate step, and how many of its finished consumers start over.

A wide pipeline: `left` and `right` are kept, `joined` and `report` read them through exchanges, and so does `late`, in
which one partition fails for good. While the run stands still a file of `left` disappears. A new driver resumes the run
and needs it for `late`, so that partition is computed again. `joined` and `report` have read the lost one; what is
computed again is the same, so they are left alone. The rule of Flink's pipelined regions restarts every consumer of
what was restarted; the same core tells how many that would be.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from local_spark import local_spark
from rekindle.failover.backoff import FixedDelay
from rekindle.failover.restart import restart_set
from rekindle.master.facts.config import BackoffSpec, MasterConfig
from rekindle.master.state.run_state import RunState
from rekindle.model.partitions import Partitions
from rekindle.model.parts import Parts
from rekindle.runtime.opening import peek
from rekindle.storage.stores import open_store

PARTITIONS, ROWS, LOST = 16, 4_000, 5
# What fails for good is given up at once; a lost input is a failure that is tried again.
ONE_TRY = rk.RunOptions(config=MasterConfig(backoff=BackoffSpec.of(FixedDelay(9, 0)), poison_tries_max=1))
CONSUMERS = ("joined", "report", "late")


def pipeline(lake: str, cure: Path) -> rk.Pipeline:
    made = rk.Pipeline("spared")

    @made.source
    def orders(spark: SparkSession) -> DataFrame:
        return spark.read.parquet(f"{lake}/orders")

    @made.step(result="blocking", partition_by="k", partitions=PARTITIONS)
    def left(orders: DataFrame) -> DataFrame:
        return orders.select("id", "k", "v")

    @made.step(result="blocking", partition_by="k", partitions=PARTITIONS)
    def right(orders: DataFrame) -> DataFrame:
        return orders.groupBy("k").agg(F.sum("v").alias("total"))

    @made.step(result="blocking", partition_by="v", partitions=PARTITIONS)
    def joined(left: DataFrame, right: DataFrame) -> DataFrame:
        return left.join(right, "k")

    @made.step(result="blocking", partition_by="w", partitions=PARTITIONS)
    def report(joined: DataFrame) -> DataFrame:
        return joined.groupBy((F.col("id") % 31).alias("w")).agg(F.sum("total").alias("sold"))

    def checked(value: int) -> int:
        if value == 3 and not cure.exists():
            raise ValueError("three is not there yet")
        return value

    @made.step(result="blocking", partition_by="v", partitions=PARTITIONS, deterministic=True)
    def late(left: DataFrame) -> DataFrame:
        counted = left.groupBy("v").agg(F.count("*").alias("n"))
        return counted.withColumn("n", F.udf(checked, "long")("v") * 0 + F.col("n"))

    return made


def lose(state: Path, step: str, number: int) -> None:
    """Remove the file of one partition."""
    [file] = state.glob(f"spared/*/results/{step}/*/*/part-*_{number:05d}.*.parquet")
    file.unlink()


def by_flinks_rule(state: RunState) -> int:
    """Consumers that start over if what is computed again counts as different from what they read."""
    lost = Parts({"left": Partitions([LOST])})
    found = restart_set(state.layout.graph, state.tracker(), {}, lost, changed=lost)
    return sum(len(found.partitions(step)) for step in CONSUMERS)


def measure(folder: Path) -> tuple[int, int, int, int]:
    """What started over: lost partitions, consumers, those by Flink's rule; and partitions that had finished."""
    settings = {"spark.local.dir": str(folder / "spark")}
    spark = local_spark(settings, "OFF")
    spark.range(ROWS).selectExpr("id", "id % 97 k", "id % 13 v").write.parquet(f"{folder}/orders")
    made, place = pipeline(str(folder), folder / "cure"), folder / "state"
    with contextlib.suppress(rk.RunFailed):
        made.run(spark, str(place), options=ONE_TRY)
    (run,) = (path.name for path in (place / "spared").iterdir() if (path / "results").is_dir())
    state = peek(open_store(str(place)), "spared", run)
    assert state is not None
    finished = {step: len(state.steps[step].committed) for step in CONSUMERS}
    flink = by_flinks_rule(state)
    spark.stop()
    lose(place, "left", LOST)
    (folder / "cure").touch()
    spark = local_spark(settings, "OFF")
    steps = made.run(spark, str(place)).steps
    spark.stop()
    again = sum(steps[step].computed - (PARTITIONS - finished[step]) for step in CONSUMERS)
    return steps["left"].computed, again, flink, sum(finished.values())


def main() -> int:
    folder = Path(tempfile.mkdtemp(prefix="consumers-"))
    try:
        lost, again, flink, finished = measure(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(
        f"RESULT lost_partitions_computed={lost} consumers_finished={finished} consumers_restarted={again} "
        f"consumers_restarted_by_flinks_rule={flink}"
    )
    return 0 if (lost, again) == (1, 0) and flink == finished else 1


if __name__ == "__main__":
    sys.exit(main())
