"""What Spark knows about the tasks of one tag: which failed, and is everything quiet yet?

Its listener queue can drop events and a lost executor's task can stay RUNNING, so every wait is bounded and nothing
here makes a partition count.
"""

from __future__ import annotations

import base64
import contextlib
import time
from dataclasses import dataclass

from pyspark import SparkContext
from pyspark.sql import SparkSession

from rekindle.engine.spark.jvm import driver_calls
from rekindle.engine.spark.jvm.access import JavaException

EVENTS_MS_MAX = 5_000
FINAL = "ResultTask"


@dataclass(frozen=True, slots=True)
class FailedTask:
    """A Spark task attempt that failed: where it stood in its stage, of how many, and what it said. Subqueries and
    samples have final tasks, too: those of the write are as many as it asks for."""

    index: int
    is_final: bool
    of: int
    error: str


def wait_until_quiet(context: SparkContext, tag: str, seconds_max: float) -> bool:
    """Give killed tasks the time to end or to commit. False: still running when time was up."""
    deadline = time.monotonic() + seconds_max
    while driver_calls.active_tasks(context, tag):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def failed_tasks(spark: SparkSession, tag: str) -> list[FailedTask]:
    """Those that failed of themselves; tasks that Spark killed are not among them. They are told once."""
    with contextlib.suppress(JavaException):  # Not all events have arrived in time: what has is enough.
        driver_calls.wait_for_events(spark.sparkContext, EVENTS_MS_MAX)
    rows = [line.split("\t") for line in driver_calls.take_failed_tasks(spark, tag)]
    return [FailedTask(int(at), kind == FINAL, int(of), base64.b64decode(text).decode()) for at, kind, of, text in rows]
