"""The parts that tests on real processes stand on: cluster, store, signals, drivers, event logs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from rekindle.local_cluster.cluster import LocalCluster
from support.drivers import Driver, cont_driver, kill_driver, start_driver, stop_driver
from support.eventlog import Kind, Status, read_all
from support.s3 import S3Server
from support.signals import after_files, after_line, cont, kill, stop, when

pytestmark = pytest.mark.cluster

Start = Callable[..., Driver]

SLOW = """
    import sys, time
    from pathlib import Path
    from pyspark.sql import SparkSession
    from support.drivers import flush_events_often
    spark = SparkSession.builder.getOrCreate()
    flush_events_often(spark, 0.1)
    marks, hangs = Path(sys.argv[1]), "hang" in sys.argv
    def slow(item):
        time.sleep(600 if hangs and item >= 6 else 0.25)
        (marks / f"part-{item}").touch()
        return item, 1
    rdd = spark.sparkContext.parallelize(range(24), 24).map(slow)
    if "shuffle" in sys.argv:
        rdd = rdd.reduceByKey(lambda a, b: a + b, 6)
    print("COUNT", rdd.count())
    spark.stop()
"""


@pytest.fixture
def start(cluster: LocalCluster, tmp_path: Path) -> Iterator[Start]:
    """Start the text of a driver on the cluster; what is still alive after the test is ended."""
    started: list[Driver] = []

    def run(text: str, *arguments: str, **settings: str) -> Driver:
        script = tmp_path / f"driver{len(started)}.py"
        script.write_text(dedent(text))
        given = cluster.app_settings(tmp_path / "events") | settings
        driver = start_driver(script, *arguments, folder=tmp_path, settings=given, env=cluster.app_env)
        started.append(driver)
        return driver

    yield run
    for driver in started:
        driver.end()


@pytest.fixture
def marks(tmp_path: Path) -> Path:
    folder = tmp_path / "marks"
    folder.mkdir()
    return folder


def test_a_job_runs_on_both_workers(start: Start, marks: Path, tmp_path: Path) -> None:
    driver = start(SLOW, str(marks), "shuffle")
    assert driver.wait() == 0, driver.text()
    [log] = read_all(tmp_path / "events")
    assert {task.host for task in log.tasks} == {"127.0.0.11", "127.0.0.12"}
    assert len(log.succeeded(Kind.MAP)) == 24
    assert len(log.succeeded(Kind.RESULT)) == 6
    assert [job.has_succeeded for job in log.jobs] == [True]
    assert not log.unfinished()


def test_a_job_survives_the_kill_of_one_executor(
    cluster: LocalCluster, start: Start, marks: Path, tmp_path: Path
) -> None:
    driver = start(SLOW, str(marks), "shuffle")
    after_files(marks, 6)
    [victim] = cluster.executors(0)
    kill(victim)
    assert driver.wait() == 0, driver.text()
    assert "COUNT 24" in driver.text()
    [log] = read_all(tmp_path / "events")
    assert any("ExecutorLostFailure" in task.reason for task in log.tasks)
    assert len(log.launched(Kind.MAP)) > 24


def test_a_stopped_executor_goes_on_where_it_was(cluster: LocalCluster, start: Start, marks: Path) -> None:
    driver = start(SLOW, str(marks))
    after_files(marks, 4)
    [sleeper] = cluster.executors(1)
    stop(sleeper)
    assert sleeper.is_stopped()
    cont(sleeper)
    assert driver.wait() == 0, driver.text()
    assert "COUNT 24" in driver.text()


def test_the_event_log_of_a_killed_driver_is_readable(
    cluster: LocalCluster, start: Start, marks: Path, tmp_path: Path
) -> None:
    driver = start(SLOW, str(marks), "hang")
    # Six tasks finish and the others hang: no later event pushes the six out of Spark's buffer.
    after_files(marks, 6)
    stop_driver(driver)
    assert all(process.is_stopped() for process in driver.processes)
    cont_driver(driver)
    time.sleep(3)
    java = driver.java
    moment_ms = kill_driver(driver)
    assert java is not None
    assert not java.is_alive()
    [log] = read_all(tmp_path / "events")
    done = log.succeeded(Kind.RESULT, before_ms=moment_ms)
    assert {task.partition for task in done} == set(range(6))
    assert {task.partition for task in log.unfinished()} == set(range(6, 10))
    assert {task.status for task in log.tasks} <= {Status.SUCCESS, Status.RUNNING}
    assert [job.result for job in log.jobs] == [None]
    when(lambda: not cluster.executors())


@pytest.mark.s3
def test_spark_writes_and_reads_parquet_on_s3(start: Start, s3: S3Server) -> None:
    before = s3.mark()
    text = """
        import sys
        from pyspark.sql import SparkSession
        spark = SparkSession.builder.getOrCreate()
        spark.range(0, 1000, 1, 4).write.parquet(sys.argv[1])
        print("SUM", spark.read.parquet(sys.argv[1]).selectExpr("sum(id) s").first().s)
    """
    driver = start(text, s3.url("round-trip"), **s3.spark_settings)
    assert driver.wait() == 0, driver.text()
    assert "SUM 499500" in driver.text()
    assert s3.requests(before, prefix="round-trip/")["PutObject"] > 0
    assert s3.requests(before)["GetObject"] >= 4


def test_a_killed_worker_comes_back(cluster: LocalCluster, start: Start, marks: Path) -> None:
    cluster.restart_worker(1)
    driver = start(SLOW, str(marks))
    when(lambda: cluster.executor_pids(1))
    after_line(driver.output, "COUNT 24")
    assert driver.wait() == 0, driver.text()


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    begun = {"Event": "SparkListenerApplicationStart", "App ID": "app-1", "Timestamp": 5}
    log = tmp_path / "app-1.inprogress"
    log.write_text(json.dumps(begun) + '\n{"Event":"SparkListenerTas')
    assert [read.application for read in read_all(tmp_path)] == ["app-1"]
    log.write_text('{"Event":\n' + json.dumps(begun) + "\n")
    with pytest.raises(ValueError, match="is not an event"):
        read_all(tmp_path)
