"""A Spark session for the `rekindle` command: the one there is, else one that is started.

- Under spark-submit the session is the submitted application's.
- A pipeline that was loaded from a file cannot be imported by Python workers: its functions travel by value.
- Python workers on this machine are those of this Python, unless somebody said otherwise.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from types import ModuleType

from pyspark import cloudpickle
from pyspark.sql import SparkSession

QUIET = {"spark.ui.showConsoleProgress": "false"}
LOCAL = "local"


def start(name: str, master: str, conf: Mapping[str, str], is_submitted: bool) -> tuple[SparkSession, bool]:
    """A session, and whether it was started here."""
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


def properties(spark: SparkSession) -> dict[str, str]:
    """What Spark was told, by whatever way."""
    return dict(spark.sparkContext.getConf().getAll())


def send_by_value(module: ModuleType) -> None:
    cloudpickle.register_pickle_by_value(module)
