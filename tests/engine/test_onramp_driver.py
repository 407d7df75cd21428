"""A script whose driver is killed in the middle of a result, and which is started again in a new one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rekindle

SCRIPT = '''
import json, os, signal, sys, time
from pathlib import Path

import rekindle as rk
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

FOLDER = Path(sys.argv[1])
settings = {
    "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
    "spark.local.dir": str(FOLDER / "spark"), "spark.sql.warehouse.dir": str(FOLDER / "warehouse"),
}
builder = SparkSession.builder.master("local[1]")
for key, value in settings.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("OFF")


def score(k):
    """Kills the driver, if its number is written down, and never comes back."""
    victim = FOLDER / "victim"
    if k == 3 and victim.exists():
        os.kill(int(victim.read_text()), signal.SIGKILL)
        time.sleep(600)
    return k * 2


numbers = spark.range(80).selectExpr("id", "id % 8 as k")
with rk.run("daily", spark, str(FOLDER / "runs"), tell=lambda line: None) as run:
    clean = run.keep(numbers, "clean", partition_by="k", partitions=4)
    if not (FOLDER / "victim").exists() and not (FOLDER / "died").exists():
        (FOLDER / "victim").write_text(str(os.getpid()))
    scored = run.keep(clean.withColumn("score", F.udf(score, "long")("k")), "scored")
    at = clean.where("k = 3").select(F.expr("pmod(hash(k), 4)")).first()[0]
    counts = {one.name: [one.computed, one.reused] for one in run.summary.results}
    total = scored.agg(F.sum("score")).first()[0]
    print(json.dumps({"counts": counts, "at": at, "total": total}))
'''


def start(folder: Path) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join([str(Path(rekindle.__file__).parent.parent), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, str(folder / "daily.py"), str(folder)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": paths, "PYSPARK_PYTHON": sys.executable},
    )


@pytest.mark.spark
def test_what_a_dead_driver_finished_is_not_computed_again(tmp_path: Path) -> None:
    (tmp_path / "daily.py").write_text(SCRIPT)
    assert start(tmp_path).returncode == -signal.SIGKILL
    (tmp_path / "victim").rename(tmp_path / "died")
    done = start(tmp_path)
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert said["at"] == 3, "it died in the last partition, and those before it were finished one after the other"
    assert said["counts"] == {"clean": [0, 4], "scored": [1, 3]}
    assert said["total"] == sum(id % 8 * 2 for id in range(80))
