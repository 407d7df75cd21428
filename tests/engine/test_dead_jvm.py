"""The JVM of a driver dies, as by the kernel when memory is short, and its Python lives on for a moment: what that JVM
committed last, which nobody has journaled yet, is not lost."""

from __future__ import annotations

import signal
from pathlib import Path
from textwrap import dedent

import pytest

from support.drivers import start_driver
from support.signals import cont, stop, when

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]
PARTITIONS, SEEN, UNSEEN = 8, 2, 5
SETTINGS = {
    "spark.master": "local[1]",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
# A partition is computed when fewer are committed than `allowed` says.
SCRIPT = f"""
    import contextlib, os, sys, time
    from pathlib import Path
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F
    import rekindle as rk
    from rekindle.engine.spark.run.engine import SparkEngine

    folder = Path(sys.argv[1])
    if sys.argv[2] == "unprotected":
        look = SparkEngine._look_at_attempts

        def look_away(engine):
            with contextlib.suppress(Exception):
                look(engine)

        SparkEngine._is_dead = lambda engine: False
        SparkEngine._look_at_attempts = look_away

    def looked_at(one):
        while len(list(folder.rglob("_committed/[!.]*"))) >= int((folder / "allowed").read_text() or 0):
            time.sleep(0.05)
        return one

    spark = SparkSession.builder.getOrCreate()
    pipeline = rk.Pipeline("daily")

    @pipeline.source
    def orders(spark):
        return spark.range(100)

    @pipeline.step(partition_by="id", partitions={PARTITIONS})
    def slow(orders):
        return orders.groupBy("id").count().withColumn("looked_at", F.udf(looked_at, "long")("id"))

    @pipeline.sink(rk.files(str(folder / "out")))
    def out(slow): ...

    options = rk.RunOptions(stale_seconds=3)
    while True:
        try:
            summary = pipeline.run(spark, str(folder / "runs"), options=options)
            print("reused", summary.steps["slow"].reused, flush=True)
            break
        except rk.StillOwned:
            time.sleep(0.5)
"""
STREAM = """
    import sys
    from pyspark.sql import SparkSession
    import rekindle as rk

    folder = sys.argv[1]
    spark = SparkSession.builder.getOrCreate()
    pipeline = rk.Pipeline("live")

    @pipeline.source
    def orders(spark):
        return spark.readStream.schema("id long").json(f"{folder}/in")

    @pipeline.sink(rk.files(f"{folder}/out"))
    def out(orders): ...

    pipeline.run(spark, f"{folder}/runs")
"""


def reused(folder: Path, how: str) -> tuple[int, str]:
    """How many partitions the second driver takes from the first, whose JVM had committed five and was seen to commit
    two; and what the first said."""
    script, allowed = folder / "daily.py", folder / "allowed"
    script.write_text(dedent(SCRIPT))
    allowed.write_text(str(SEEN))
    first = start_driver(script, str(folder), how, folder=folder, settings=SETTINGS)
    try:
        when(lambda: committed(folder) == SEEN, sign=first.printed)
        when(lambda: "PartitionsCommitted" in journal(folder))
        stop(first.process)
        allowed.write_text(str(UNSEEN))
        when(lambda: committed(folder) == UNSEEN)
        java = first.java
        assert java is not None
        java.send(signal.SIGKILL)
        when(lambda: not java.is_alive())
        cont(first.process)
        when(lambda: not first.is_alive() or "AttemptClosed" in journal(folder))
    finally:
        first.end()
    allowed.write_text(str(2 * PARTITIONS))
    second = start_driver(script, str(folder), how, folder=folder, settings=SETTINGS)
    try:
        assert second.wait() == 0, second.text()[-3000:]
    finally:
        second.end()
    (told,) = (line for line in second.text().splitlines() if line.startswith("reused "))
    return int(told.split()[1]), first.text()


def journal(folder: Path) -> str:
    return "".join(one.read_text(errors="replace") for one in folder.rglob("journal/[0-9]*"))


def committed(folder: Path) -> int:
    return len(list(folder.rglob("_committed/[!.]*")))


def test_what_a_jvm_committed_before_it_died_is_used(tmp_path: Path) -> None:
    found, said = reused(tmp_path, "as it is")
    assert found == UNSEEN
    assert "SparkDied: the driver JVM of Spark died; committed results are kept" in said, said[-3000:]


def test_control_a_failure_that_is_journaled_by_a_driver_without_a_jvm_loses_commits(tmp_path: Path) -> None:
    assert reused(tmp_path, "unprotected")[0] < UNSEEN


def test_a_stream_whose_jvm_died_says_so_and_ends(tmp_path: Path) -> None:
    script, source = tmp_path / "live.py", tmp_path / "in"
    script.write_text(dedent(STREAM))
    source.mkdir()
    (source / "1.json").write_text('{"id":1}')
    driver = start_driver(script, str(tmp_path), folder=tmp_path, settings=SETTINGS)
    try:
        when(lambda: list(tmp_path.glob("out/current/*.parquet")), sign=driver.printed)
        java = driver.java
        assert java is not None
        java.send(signal.SIGKILL)
        assert driver.wait() != 0
    finally:
        driver.end()
    assert "SparkDied: the driver JVM of Spark died" in driver.text(), driver.text()[-3000:]
    assert '"end":"failed"' not in journal(tmp_path), "no region failed"
