"""One publisher as a process: it publishes as a driver does, and its life ends, or stands still, at one step.

Its JVM is one that others share (a forked publisher is there within a tenth of a second), or its own: then it is a
script, `python publisher.py ASSIGNMENT`, and whoever started it kills both.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec
from pyspark import SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from killed_publications.modes import Assignment
from killed_publications.planted import PLANTED
from killed_publications.steps import SteppedStore, Steps, install
from local_spark import local_spark
from rekindle.engine.spark.publish.sinks import publish
from rekindle.publish.target import PointerStore
from rekindle.storage.stores import open_target

READY = "ready"


def live(body: bytes) -> None:
    """Publish what the assignment says. The last note is the answer."""
    told = msgspec.json.decode(body, type=Assignment)
    notes = os.open(told.notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    spark = local_spark(told.spark) if told.gateway is None else _connect(*told.gateway)
    PLANTED[told.planted]()
    step = Steps(told.at, told.number, told.then, notes)
    install(step)

    def stores(base: str) -> PointerStore:
        return SteppedStore(open_target(base, told.storage), step)

    os.write(notes, f"{READY}\n".encode())
    step.is_on = True
    answer = publish(spark, told.publication, stores)
    step.is_on = False
    os.write(notes, f"answer {answer}\n".replace("\n", " ").encode() + b"\n")
    os._exit(0)  # What the JVM of others has is not to be ended.


def _connect(port: int, secret: str) -> SparkSession:
    """A session of a Spark application whose JVM another process has started. PySpark's own way to it reads every
    setting one by one, and is half a second of each publisher."""
    os.environ |= {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    gateway = launch_gateway()
    SparkContext._gateway, SparkContext._jvm = gateway, gateway.jvm
    packages = gateway.jvm.org.apache.spark
    context = SparkContext.__new__(SparkContext)
    context._jsc = packages.api.java.JavaSparkContext.fromSparkContext(packages.SparkContext.getOrCreate())
    SparkContext._active_spark_context = context
    return SparkSession(context, packages.sql.classic.SparkSession.getDefaultSession().get())


if __name__ == "__main__":
    live(Path(sys.argv[1]).read_bytes())
