"""The one warm session of a campaign: two cores, on loopback, with everything it writes in one folder."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from local_spark import local_spark

MODULES = "modules"
ROOT = Path(__file__).parent.parent.parent


def start_session(folder: Path) -> SparkSession:
    """A session whose Python workers can import the cases."""
    os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    (folder / MODULES).mkdir()
    paths = os.pathsep.join(map(str, (folder / MODULES, ROOT / "src", ROOT / "tests", ROOT / "verification")))
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        logging.getLogger(name).disabled = True  # They print every exception that Spark raises.
    settings = {
        "spark.driver.memory": "2g",
        "spark.local.dir": str(folder / "spark"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "4",
        "spark.executorEnv.PYTHONPATH": paths,
    }
    return local_spark(settings, level="OFF")
