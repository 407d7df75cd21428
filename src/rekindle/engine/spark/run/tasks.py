"""What Spark knows about the tasks of one tag: which failed, and is everything quiet yet?

Its listener queue can drop events and a lost executor's task can stay RUNNING, so every wait is bounded and nothing
here makes a partition count.
"""

from __future__ import annotations

import base64
import contextlib
import time
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from rekindle.engine.spark.session import jvm

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


def listen(spark: SparkSession) -> Any:
    """Begin to note failed tasks. What it returns is given to `unlisten`."""
    listener = jvm(spark).rekindle.spark.FailedTasks()
    spark.sparkContext._jsc.sc().addSparkListener(listener)
    return listener


def unlisten(spark: SparkSession, listener: Any) -> None:
    spark.sparkContext._jsc.sc().removeSparkListener(listener)


def active_tasks(context: SparkContext, tag: str) -> int:
    tracker: Any = context._jsc.sc().statusTracker()
    found = 0
    for job in tracker.getJobIdsForTag(tag):
        info = tracker.getJobInfo(job)
        stages = [tracker.getStageInfo(stage) for stage in info.get().stageIds()] if info.isDefined() else []
        found += sum(int(stage.get().numActiveTasks()) for stage in stages if stage.isDefined())
    return found


def wait_until_quiet(context: SparkContext, tag: str, seconds_max: float) -> bool:
    """Give killed tasks the time to end or to commit. False: still running when time was up."""
    deadline = time.monotonic() + seconds_max
    while active_tasks(context, tag):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def failed_tasks(spark: SparkSession, tag: str) -> list[FailedTask]:
    """Those that failed of themselves; tasks that Spark killed are not among them. They are told once."""
    with contextlib.suppress(Py4JJavaError):  # Not all events have arrived in time: what has is enough.
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(EVENTS_MS_MAX)
    rows = [line.split("\t") for line in forget(spark, tag).splitlines()]
    return [FailedTask(int(at), kind == FINAL, int(of), base64.b64decode(text).decode()) for at, kind, of, text in rows]


def forget(spark: SparkSession, tag: str) -> str:
    """Nothing more is noted of a tag; what was."""
    return str(jvm(spark).rekindle.spark.FailedTasks.take(tag))
