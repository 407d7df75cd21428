"""Programs that are run to the end: one partition fails, the code changes, a new driver resumes. Whose rows are they?

One driver runs all of them before the change, and a second one after it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from local_spark import local_spark

ROWS = 200
HEAD = """
import functools, os
import rekindle as rk
from pyspark.sql import SparkSession, functions as F
from pyspark.sql.functions import udf
from pyspark.sql.types import IntegerType
from rekindle.errors import RunFailed
from rekindle.failover.backoff import NoRestart
from rekindle.master.facts.config import BackoffSpec, MasterConfig
spark = SparkSession.getActiveSession()
ROOT = os.path.dirname(__file__)
def ready(x):
    if x == 77 and not os.path.exists(ROOT + "/ready"): raise ValueError("not yet")
    return 0
"""
TAIL = """
pipeline = rk.Pipeline("priced")
@pipeline.source
def orders(spark): return spark.read.parquet(ROOT + "/in")
@pipeline.step(partition_by="k", partitions=4)
def priced(orders): return {returns}
@pipeline.sink(rk.files(ROOT + "/out"))
def out(priced): ...
ONE = rk.RunOptions(config=MasterConfig(backoff=BackoffSpec.of(NoRestart())), sweep=None)
try:
    pipeline.run(spark, ROOT + "/state", options=ONE)
except RunFailed:
    said = "failed"
else:
    got = rk.read_newest(spark, ROOT + "/out")
    said = f"{got.where('x > 0 and y = x * 1').count()} old, {got.where('x > 0 and y = x * 2').count()} new"
"""
BY_F = "orders.withColumn('y', f('x'))"
ENDS = {
    "method of an object": (
        "class P:\n    def __init__(self, r): self.r = r\n    def go(self, x): return x * self.r + ready(x)\n"
        "f = udf(P(§).go, IntegerType())\n",
        BY_F,
    ),
    "registered by name": (
        "spark.udf.register('rate', lambda x: x * § + ready(x), IntegerType())\n",
        "orders.selectExpr('*', 'rate(x) as y')",
    ),
    "column of the module": (
        "Y = udf(lambda x: x * § + ready(x), IntegerType())('x')\n",
        "orders.withColumn('y', Y)",
    ),
    "partial": (
        "def g(r, x): return x * r + ready(x)\nf = udf(functools.partial(g, §), IntegerType())\n",
        BY_F,
    ),
    "attribute of a function": (
        "def g(x): return x * g.rate + ready(x)\ng.rate = §\nf = udf(g, IntegerType())\n",
        BY_F,
    ),
}


def run(root: Path) -> dict[str, str]:
    """What is wrong with each; empty if all rows are by the new code."""
    folders = [root / f"end{number}" for number in range(len(ENDS))]
    for folder in folders:
        folder.mkdir()
    before = _driver(root, "1")
    for folder in folders:
        (folder / "ready").touch()
    after = _driver(root, "2")
    wanted = f"0 old, {ROWS - 1} new"
    return {
        name: "" if (before[name], after[name]) == ("failed", wanted) else f"{before[name]}, then {after[name]}"
        for name in ENDS
    }


def _driver(root: Path, value: str) -> dict[str, str]:
    for number, (head, returns) in enumerate(ENDS.values()):
        program = HEAD + head.replace("§", value) + TAIL.replace("{returns}", returns)
        (root / f"end{number}" / "program.py").write_text(program)
    paths = [str(Path(__file__).parents[2] / one) for one in ("src", "tests", "verification")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-m", "identity_corpus.ends", str(root)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if not said:
        raise SystemExit(f"a driver of the corpus failed:\n{done.stderr[-4000:]}")
    found: dict[str, str] = said[-1]
    return found


def main(root: Path) -> None:
    spark: SparkSession = local_spark({"spark.sql.shuffle.partitions": "4"}, "OFF")
    found = {}
    for number, name in enumerate(ENDS):
        program = root / f"end{number}" / "program.py"
        if not (program.parent / "in").exists():
            given = spark.range(ROWS).selectExpr("id", "cast(id as int) x", "id % 40 k")
            given.repartition(4).write.parquet(str(program.parent / "in"))
        names = {"__name__": "__main__", "__file__": str(program)}
        exec(compile(program.read_text(), str(program), "exec", dont_inherit=True), names)
        found[name] = names["said"]
    print(json.dumps(found), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
