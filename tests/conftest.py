"""Fixtures on real processes, and what follows from them: a test is marked by the fixtures that it asks for.

Each process starts when the first test asks for it, and is ended by process. With several pytest workers each has its
own processes; the files of `tests/cluster` stay together on one worker, and begin first, since they take longest.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession
from xdist.scheduler import LoadScopeScheduling

from build_jar import TEST_JAR
from parts import hadoop_folder
from rekindle.engine.spark.session import attach
from rekindle.local_cluster.cluster import LocalCluster
from stage import SHORT_LIVED
from support import class_archive
from support.azurite import Azurite
from support.hadoop import HadoopCluster
from support.s3 import S3Server
from support.spark_line import LACKING, lacking_in

TESTS = Path(__file__).parent
# Whatever a test starts as a user would, its driver listens here and nowhere else.
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
# Its JVM ends before a better compiler pays off, and so does the one that starts it.
os.environ.setdefault("SPARK_SUBMIT_OPTS", f"{SHORT_LIVED} {class_archive.options()}")
os.environ.setdefault("SPARK_LAUNCHER_OPTS", SHORT_LIVED)
# No test waits for a restart as long as users do.
os.environ.setdefault("REKINDLE_BACKOFF_INITIAL_MS", "20")
# What a fixture starts. A test that starts a driver by itself is marked where it stands.
MARKS = {
    "spark": "spark",
    "tables": "spark",
    "warm": "spark",
    "crew": "spark",
    "cluster": "cluster",
    "s3": "s3",
    "hdfs": "hdfs",
    "azure": "s3",
}
APPLICATION = "tests"
# Files that add Spark's Kafka connector to the application. It can be used by one application of a JVM only, so that no
# file with an application of its own may come between them.
WITH_KAFKA = {"test_kafka_streams.py", "test_topic_results.py"}


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    """A standalone cluster of one master and two workers, shared by the session."""
    with LocalCluster() as running:
        yield running


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """An S3 server with an empty bucket, shared by the session: tests use prefixes of their own."""
    with S3Server() as running:
        yield running


@pytest.fixture(scope="session")
def azure() -> Iterator[Azurite]:
    """An emulator of Azure's blobs with an empty container, shared by the session."""
    if shutil.which("npm") is None and not os.environ.get("CI"):
        pytest.skip("Node is not here: apt-get install nodejs npm")
    with Azurite() as running:
        yield running


@pytest.fixture(scope="session")
def hdfs() -> Iterator[HadoopCluster]:
    """A namenode and a datanode, shared by the session: tests use folders of their own."""
    if not hadoop_folder().exists() and not os.environ.get("CI"):
        pytest.skip("Hadoop is not here: make parts")
    with HadoopCluster() as running:
        yield running


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's terminal decides how wide a page is: pytest's workers hand on that of who started them."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture(scope="module")
def no_spark() -> None:
    """No Spark application runs in this process when the module begins."""
    if SparkContext._active_spark_context is not None:
        SparkContext._active_spark_context.stop()


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    """One local Spark application for all modules, with the jar attached while it runs. It ends with the process, or
    when a module wants another one."""
    running = SparkContext._active_spark_context
    if running is not None and running.appName == APPLICATION:
        return SparkSession.builder.getOrCreate()
    if running is not None:
        running.stop()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    folder = tmp_path_factory.mktemp("spark")
    builder = SparkSession.builder.master("local[2,1]").appName(APPLICATION).config("spark.ui.enabled", "false")
    for key, value in {
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "3",
    }.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    attach(session)
    session.sql(f"ADD JAR '{TEST_JAR}'")
    return session


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Mark before tests are chosen by their marks; sort when others have shuffled."""
    for item in items:
        names = getattr(item, "fixturenames", ())
        if lacking := lacking_in(_texts(item)):
            item.add_marker(pytest.mark.skip(reason=f"{LACKING}{lacking}"))
        for mark in {MARKS[name] for name in names if name in MARKS}:
            item.add_marker(mark)
        if item.path.is_relative_to(TESTS / "cluster"):
            item.add_marker("cluster")
    yield
    items.sort(key=lambda item: (item.get_closest_marker("cluster") is None, item.path.name not in WITH_KAFKA))


def _texts(item: pytest.Item) -> list[str]:
    """What a test is given as parameters, and how its row is called."""
    given = getattr(item, "callspec", None)
    return [item.name, *map(str, given.params.values())] if given is not None else []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config) -> None:
    """With -q nobody else tells in which order a test failed."""
    seed = getattr(config.option, "randomly_seed", None)
    if exitstatus and seed is not None:
        terminalreporter.write_line(f"the same order again: pytest -p no:xdist --randomly-seed={seed}")


class ByFile(LoadScopeScheduling):  # type: ignore[misc]
    """A worker takes whole files: what a module sets up is set up once. One worker has all that need a cluster, and one
    has all that need Kafka."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        if "/cluster/" in file:
            return "cluster"
        return "kafka" if Path(file).name in WITH_KAFKA else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> ByFile:
    config.option.loadscopereorder = False  # The order is that of the collection: cluster first, else random.
    return ByFile(config, log)
