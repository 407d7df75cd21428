"""A Spark session for the `rekindle` command: the one there is, else one that is started.

- Under spark-submit the session is the submitted application's.
- A pipeline that was loaded from a file cannot be imported by Python workers: its functions travel by value.
- Python workers on this machine are those of this Python, unless somebody said otherwise.
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
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from rekindle.engine.spark_log import TO_FILE
from rekindle.errors import Refused

QUIET = {"spark.ui.showConsoleProgress": "false"}
LOCAL = "local"
REMOTE = "sc://"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"


def start(name: str, master: str, conf: Mapping[str, str], is_submitted: bool) -> tuple[SparkSession, bool]:
    """A session, and whether it was started here."""
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
    builder = SparkSession.builder.appName(name)
    if master:
        builder = builder.master(master)
    for key, value in {**({} if is_submitted else QUIET), **conf}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate(), True


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
