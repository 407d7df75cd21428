"""The parts that tests on real processes stand on: cluster, store, signals, drivers, event logs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest

from rekindle.local_cluster.cluster import LocalCluster
from support.drivers import Driver, cont_driver, kill_driver, start_driver, stop_driver
from support.eventlog import EventLog, Kind, Status, read_all
from support.signals import after_files, cont, kill, stop, when

pytestmark = pytest.mark.cluster

Start = Callable[..., Driver]

# One application for each job that is named: the start of one costs more than all that is looked at in it.
SLOW = """
    import sys, time
    from pathlib import Path
    from pyspark.sql import SparkSession
    from support.drivers import flush_events_often
    spark = SparkSession.builder.getOrCreate()
    flush_events_often(spark, 0.1)
    for job in sys.argv[2:]:
        marks = Path(sys.argv[1]) / job
        def slow(item):
            time.sleep(600 if job == "hangs" and item >= 6 else 0.25)
            (marks / f"part-{item}").touch()
            return item, 1
        rdd = spark.sparkContext.parallelize(range(24), 24).map(slow)
        if job != "hangs":
            rdd = rdd.reduceByKey(lambda a, b: a + b, 6)
        print("COUNT", job, rdd.count(), flush=True)
    spark.stop()
"""
JOBS = ("plain", "killed", "stopped", "hangs")


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
    for job in JOBS:
        (tmp_path / "marks" / job).mkdir(parents=True)
    return tmp_path / "marks"


def _of_job(folder: Path, number: int) -> EventLog:
    """What the only application did for one of its jobs."""
    [log] = read_all(folder / "events")
    stages = log.stage_ids(log.jobs[number : number + 1])
    return replace(log, tasks=tuple(log.launched(stages=stages)))


def test_jobs_run_on_both_workers_and_survive_what_happens_to_executors_and_to_their_driver(
    cluster: LocalCluster, start: Start, marks: Path, tmp_path: Path
) -> None:
    """A worker that was killed is there again; an executor is killed, another is stopped and goes on where it was; the
    driver is stopped and killed, and its event log can be read."""
    cluster.restart_worker(1)
    driver = start(SLOW, str(marks), *JOBS)
    after_files(marks / "killed", 6)
    [victim] = cluster.executors(0)
    kill(victim)
    after_files(marks / "stopped", 4)
    [sleeper] = cluster.executors(1)
    stop(sleeper)
    assert sleeper.is_stopped()
    cont(sleeper)
    # Six tasks finish and the others hang: no later event pushes the six out of Spark's buffer.
    after_files(marks / "hangs", 6)
    for job in JOBS[:3]:
        assert f"COUNT {job} 24" in driver.text()
    stop_driver(driver)
    assert all(process.is_stopped() for process in driver.processes)
    cont_driver(driver)
    when(lambda: len(_of_job(tmp_path, 3).succeeded(Kind.RESULT)) == 6 and len(_of_job(tmp_path, 3).unfinished()) == 4)
    java = driver.java
    moment_ms = kill_driver(driver)
    assert java is not None
    assert not java.is_alive()
    [log] = read_all(tmp_path / "events")
    plain, killed, hangs = (_of_job(tmp_path, number) for number in (0, 1, 3))
    assert {task.host for task in plain.tasks} == {"127.0.0.11", "127.0.0.12"}
    assert (len(plain.succeeded(Kind.MAP)), len(plain.succeeded(Kind.RESULT))) == (24, 6)
    assert any("ExecutorLostFailure" in task.reason for task in killed.tasks)
    assert len(killed.launched(Kind.MAP)) > 24
    done = hangs.succeeded(Kind.RESULT, before_ms=moment_ms)
    assert {task.partition for task in done} == set(range(6))
    assert {task.partition for task in hangs.unfinished()} == set(range(6, 10))
    assert {task.status for task in hangs.tasks} <= {Status.SUCCESS, Status.RUNNING}
    assert [job.has_succeeded for job in log.jobs] == [True, True, True, False]
    assert log.jobs[-1].result is None
    when(lambda: not cluster.executors())


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    begun = {"Event": "SparkListenerApplicationStart", "App ID": "app-1", "Timestamp": 5}
    log = tmp_path / "app-1.inprogress"
    log.write_text(json.dumps(begun) + '\n{"Event":"SparkListenerTas')
    assert [read.application for read in read_all(tmp_path)] == ["app-1"]
    log.write_text('{"Event":\n' + json.dumps(begun) + "\n")
    with pytest.raises(ValueError, match="is not an event"):
        read_all(tmp_path)
