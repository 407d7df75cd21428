"""A Spark session for the `rekindle` command: the one there is, else one that is started.

- Under spark-submit the session is the submitted application's.
- A pipeline that was loaded from a file cannot be imported by Python workers: its functions travel by value.
- Python workers on this machine are those of this Python, unless somebody said otherwise.
- What the JVM and its Python workers write to stderr goes where its log goes, if that is a file of ours: a worker's
  traceback must not come between the lines of a terminal that are drawn again and again.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext, cloudpickle
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from rekindle.engine.spark_log import TO_FILE
from rekindle.errors import Refused

QUIET = {"spark.ui.showConsoleProgress": "false"}
LOCAL = "local"
REMOTE = "sc://"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"


def start(
    name: str, master: str, conf: Mapping[str, str], is_submitted: bool, log: str = ""
) -> tuple[SparkSession, bool]:
    """A session, and whether it was started here. `log` is the file for what a JVM says that is started for it."""
    if master.startswith(REMOTE):
        raise Refused(
            f"{master} is the address of a Spark Connect server, which has no driver here for Rekindle to work in",
            hint="--master local[4] or --master spark://host:7077, or spark-submit",
        )
    active = SparkSession.getActiveSession()
    if active is not None:
        return active, False
    if not is_submitted and (master or LOCAL).startswith(LOCAL):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    named = {"spark.app.name": name} | ({"spark.master": master} if master else {})
    settings = {**named, **({} if is_submitted else QUIET), **conf}
    if log:
        _launch(settings, log)
    return SparkSession.builder.config(map=dict(settings)).getOrCreate(), True


def _launch(settings: Mapping[str, str], log: str) -> None:
    """The JVM that `getOrCreate` would start, unless there is one. Why it did not come up, it tells on stderr alone."""
    if SparkContext._gateway is not None:
        return
    with Path(log).open("ab") as file:
        try:
            gateway = launch_gateway(SparkConf().setAll(list(settings.items())), {"stderr": file})
        except PySparkRuntimeError:
            sys.stderr.write(Path(log).read_text(errors="replace"))
            raise
    SparkContext._ensure_initialized(gateway=gateway)


def logged_to(conf: Mapping[str, str], log: str) -> dict[str, str]:
    """The same properties for a driver whose log goes to a file. One with Java options of its own stays as it is."""
    if JAVA_OPTIONS in conf:
        return dict(conf)
    settings = Path(log).with_suffix(".properties")
    settings.write_text(TO_FILE.format(log=log))
    atexit.register(settings.unlink, missing_ok=True)
    return {**conf, JAVA_OPTIONS: f"-Dlog4j2.configurationFile={settings.as_uri()}"}


def is_alive(spark: SparkSession) -> bool:
    """Whether the application still answers."""
    try:
        return not bool(spark.sparkContext._jsc.sc().isStopped())
    except (Py4JError, ConnectionError, AttributeError):
        return False


def stop(spark: SparkSession) -> None:
    """End the application. One whose driver process died is ended already."""
    with contextlib.suppress(Py4JError, ConnectionError):
        spark.stop()


def properties(spark: SparkSession) -> dict[str, str]:
    """What Spark was told, by whatever way."""
    return dict(spark.sparkContext.getConf().getAll())


def send_by_value(module: ModuleType) -> None:
    cloudpickle.register_pickle_by_value(module)
