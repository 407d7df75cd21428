"""A Spark session for the `rekindle` command: the one there is, else one that is started.

- Under spark-submit the session is the submitted application's.
- A pipeline that was loaded from a file cannot be imported by Python workers: its functions travel by value.
- Python workers on this machine are those of this Python, unless somebody said otherwise.
- What the JVM and its Python workers write to stderr goes where its log goes, if that is a file of ours: a worker's
  traceback must not come between the lines of a terminal that are drawn again and again.
- That log, and the file that configures it, lie in a folder that is made for this process alone (0700, a name that
  nobody can guess): whoever can write that file configures the JVM, and the log holds values of rows.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from pyspark import SparkConf, SparkContext, cloudpickle
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from rekindle.engine.spark.jvm import driver_calls
from rekindle.engine.spark.jvm.access import CallFailed
from rekindle.engine.spark_log import TO_FILE
from rekindle.errors import Refused, visible
from rekindle.remedies import StartRemedy, TextRemedy

QUIET = {"spark.ui.showConsoleProgress": "false"}
LOCAL = "local"
REMOTE = "sc://"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
LOG_FOLDER = "rekindle-spark-"


def start(
    name: str, master: str, conf: Mapping[str, str], is_submitted: bool, log: str = ""
) -> tuple[SparkSession, bool]:
    """A session, and whether it was started here. `log` is the file for what a JVM says that is started for it."""
    if master.startswith(REMOTE):
        raise Refused(
            f"{master} is a Spark Connect server; Rekindle needs a driver in this process",
            hint=(
                StartRemedy(to="use a Spark of this machine", master="local[4]"),
                TextRemedy("or name a cluster as spark://host:7077, or use spark-submit"),
            ),
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
    if driver_calls.has_gateway():
        return
    with Path(log).open("ab") as file:
        try:
            gateway = launch_gateway(SparkConf().setAll(list(settings.items())), {"stderr": file})
        except PySparkRuntimeError:
            sys.stderr.write(visible(Path(log).read_text(errors="replace")))
            raise
    SparkContext._ensure_initialized(gateway=gateway)


def logged_to_file(conf: Mapping[str, str]) -> tuple[dict[str, str], str]:
    """The same properties for a driver whose log goes to a file in a new private folder, and that file. Properties with
    Java options of their own stay as they are: the file is then empty."""
    if JAVA_OPTIONS in conf:
        return dict(conf), ""
    folder = Path(tempfile.mkdtemp(prefix=LOG_FOLDER))
    log, settings = folder / "spark.log", folder / "log4j2.properties"
    _create(log, "")
    _create(settings, TO_FILE.format(log=log))
    return {**conf, JAVA_OPTIONS: f"-Dlog4j2.configurationFile={settings.as_uri()}"}, str(log)


def _create(path: Path, text: str) -> None:
    """A new file that only this user can read. One that is there already, or a link, is an error."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


def is_alive(spark: SparkSession) -> bool:
    """Whether the application still answers."""
    try:
        return not driver_calls.is_stopped(spark)
    except (CallFailed, ConnectionError, AttributeError):
        return False


def stop(spark: SparkSession) -> None:
    """End the application. One whose driver process died is ended already."""
    with contextlib.suppress(CallFailed, ConnectionError):
        spark.stop()


def send_by_value(module: ModuleType) -> None:
    cloudpickle.register_pickle_by_value(module)
