"""`make dev-loop`: ten kept steps, step 7 changed after success: exactly steps 7 to 10 run; then a failure at step 9.

The same change that `docs/reports/dev-loop.md` compares with other tools: each step adds its number to a column, step 7
adds 70 in place of 7, and the same command is given again. Then step 7 changes once more and step 9 fails at first: it
is corrected, and the run goes on with what is missing. Rows are compared with what bare arithmetic gives.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from local_spark import local_spark
from rekindle.failover.backoff import NoRestart
from rekindle.master.facts.config import BackoffSpec, MasterConfig

STEPS, CHANGED, BROKEN, ROWS = 10, 7, 9, 1000
KEPT = MasterConfig(keep_ms=3_600_000, backoff=BackoffSpec.of(NoRestart()))


def added(total: Any, more: int, is_broken: bool) -> Any:
    return F.raise_error(F.lit("broken")) if is_broken else total + more


@dataclass
class Loop:
    """A project under development: what each step adds, and whether one is broken."""

    spark: SparkSession
    folder: Path
    adds: dict[int, int] = field(default_factory=lambda: {number: number for number in range(1, STEPS + 1)})
    broken: int = 0

    def pipeline(self) -> rk.Pipeline:
        pipeline, source = rk.Pipeline("loop"), f"file:{self.folder}/in"

        def numbers(spark: SparkSession) -> DataFrame:
            return spark.read.parquet(source).withColumn("total", F.lit(0))

        pipeline.add_source(numbers, name="step0")
        for number in range(1, STEPS + 1):
            self._step(pipeline, number)
        pipeline.add_sink(lambda rows: rows, rk.files(f"{self.folder}/out"), [f"step{STEPS}"], name="out")
        return pipeline

    def _step(self, pipeline: rk.Pipeline, number: int) -> None:
        more, is_broken = self.adds[number], number == self.broken

        def step(rows: DataFrame) -> DataFrame:
            return rows.withColumn("total", added(rows["total"], more, is_broken))

        pipeline.add_step(
            step, [f"step{number - 1}"], name=f"step{number}", partition_by="id", partitions=2, result="blocking"
        )

    def run(self, *, new: bool) -> tuple[list[int], float]:
        """The numbers of the steps that were computed, and the seconds."""
        began, options = time.monotonic(), rk.RunOptions(new=new, quiet=True, config=KEPT)
        summary = self.pipeline().run(self.spark, f"{self.folder}/runs", options=options)
        kept = {int(name.removeprefix("step")): one for name, one in summary.steps.items() if name.startswith("step")}
        return sorted(number for number, one in kept.items() if one.computed), time.monotonic() - began

    def is_right(self) -> bool:
        rows = rk.read_newest(self.spark, f"{self.folder}/out").groupBy("total").count().collect()
        return [(row["total"], row["count"]) for row in rows] == [(sum(self.adds.values()), ROWS)]


def main() -> int:
    folder = Path(tempfile.mkdtemp(prefix="rekindle-dev-loop-"))
    spark = local_spark({})
    spark.range(ROWS).write.parquet(f"file:{folder}/in")
    loop, right = Loop(spark, folder), []
    first, first_s = loop.run(new=True)
    right.append(loop.is_right())
    loop.adds[CHANGED] = 70
    changed, changed_s = loop.run(new=True)
    right.append(loop.is_right())
    loop.adds[CHANGED], loop.broken = 700, BROKEN
    try:
        loop.run(new=True)
        failed = False
    except rk.RunFailed:
        failed = True
    right.append(not loop.is_right())
    loop.broken = 0
    fixed, _ = loop.run(new=False)
    right.append(loop.is_right())
    unchanged, unchanged_s = loop.run(new=True)
    right.append(loop.is_right())
    spark.stop()
    shutil.rmtree(folder)
    wanted = (
        first == list(range(1, STEPS + 1))
        and changed == list(range(CHANGED, STEPS + 1))
        and failed
        and fixed == list(range(BROKEN, STEPS + 1))
        and not unchanged
    )
    holds = wanted and all(right)
    print(
        f"RESULT dev-loop steps={STEPS} first={_text(first)} changed={_text(changed)} after_failure={_text(fixed)} "
        f"unchanged={_text(unchanged)} right={all(right)} first_s={first_s:.1f} changed_s={changed_s:.1f} "
        f"unchanged_s={unchanged_s:.1f} holds={holds}"
    )
    return 0 if holds else 1


def _text(numbers: list[int]) -> str:
    return f"{numbers[0]}-{numbers[-1]}" if numbers else "none"


if __name__ == "__main__":
    sys.exit(main())
