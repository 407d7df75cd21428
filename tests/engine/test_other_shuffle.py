"""A shuffle manager that is not Spark's own: what it says of map outputs proves nothing, and the plan says so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from build_jar import TEST_JAR
from support.spark_line import needs

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]
KEYS, PARTITIONS = 16, 4
# `last` has opaque Python below its exchange, which gives other rows in each driver; `summed` has none.
DRIVER = """
    import sys
    from pathlib import Path
    from pyspark.sql import functions as F
    import rekindle as rk
    from local_spark import local_spark
    from rekindle.engine.spark.jvm import driver_calls
    from rekindle.failover.backoff import FixedDelay
    from rekindle.master.facts.config import BackoffSpec, MasterConfig

    folder, number, believes = sys.argv[1], sys.argv[2], sys.argv[3] == "believes"
    if believes:
        driver_calls.other_shuffle_manager = lambda spark: ""
    settings = {"spark.shuffle.manager": "rekindle.test.SameChecksums", "spark.driver.extraClassPath": sys.argv[4]}
    spark = local_spark(settings | {"spark.sql.shuffle.partitions": "4"}, "OFF")
    Path(folder, "driver").write_text(number)
    if not Path(folder, "orders").exists():
        spark.range(160).selectExpr("id", "id % 16 as k").repartition(2).write.parquet(f"{folder}/orders")
    pipeline = rk.Pipeline("shop")

    @pipeline.source
    def orders(spark):
        return spark.read.parquet(f"{folder}/orders")

    def judged(k):
        if k == 3 and Path(folder, "poison").exists():
            raise ValueError("cannot judge 3")
        return k * 2

    def marked(k):
        return Path(folder, "driver").read_text()

    @pipeline.step(partition_by="k", partitions=4)
    def last(orders):
        made = orders.select("k", F.udf(marked, "string")("k").alias("mark"))
        once = made.groupBy("k").agg(F.max("mark").alias("mark"))
        return once.withColumn("judged", F.udf(judged, "long")("k"))

    @pipeline.step(partition_by="k", partitions=4)
    def summed(orders):
        return orders.groupBy("k").agg(F.count("*").alias("n")).withColumn("judged", F.udf(judged, "long")("k"))

    @pipeline.sink(rk.files(f"{folder}/marks"))
    def marks(last): ...

    @pipeline.sink(rk.files(f"{folder}/sums"))
    def sums(summed): ...

    backoff = BackoffSpec.of(FixedDelay(10, 2))
    config = MasterConfig(backoff=backoff)
    options = rk.RunOptions(quiet=True, config=config, on_plan=lambda plan: print(plan.to_json()))
    try:
        done = pipeline.run(spark, f"{folder}/runs", options=options)
        print("REUSED", done.steps["last"].reused, done.steps["summed"].reused)
        rows = rk.read_newest(spark, f"{folder}/marks").collect()
        print("MARKS", len(rows), *sorted({row.mark for row in rows}))
    except rk.RunFailed as failed:
        print("FAILED", failed)
    spark.stop()
"""


def drive(folder: Path, number: int, believes: str) -> str:
    given = [str(folder), str(number), believes, str(TEST_JAR)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", dedent(DRIVER), *given], env=environment, capture_output=True, text=True, cwd=folder
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@needs("checksums of map outputs")
@pytest.mark.parametrize("believes", ["", "believes"])
def test_its_checksums_keep_nothing_and_a_proof_by_the_plan_does(tmp_path: Path, believes: str) -> None:
    """The control believes them: rows of two drivers are mixed."""
    (tmp_path / "poison").touch()
    first = drive(tmp_path, 1, believes)
    assert "FAILED" in first and "cannot judge 3" in first, first
    said = (
        "the shuffle manager rekindle.test.SameChecksums is not Spark's own: its checksums of map outputs are unknown"
    )
    assert (said in first) is not bool(believes)
    (tmp_path / "poison").unlink()
    second = drive(tmp_path, 2, believes)
    if believes:
        assert f"REUSED {PARTITIONS - 1} {PARTITIONS - 1}" in second and f"MARKS {KEYS} 1 2" in second, second
    else:
        assert f"REUSED 0 {PARTITIONS - 1}" in second and f"MARKS {KEYS} 2" in second, second
