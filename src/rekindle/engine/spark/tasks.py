"""Spark's status store, asked about the jobs of one tag: which tasks failed, and is everything quiet yet?

The store's listener queue can drop events and a lost executor's task can stay RUNNING, so every wait is bounded and
nothing here makes a partition count.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from pyspark import SparkContext

from rekindle.engine.spark.plans import items

FAILED_TASKS_MAX = 64


@dataclass(frozen=True, slots=True)
class FailedTask:
    """A Spark task attempt that failed: where it stood and what it said."""

    index: int
    is_final: bool
    error: str


def _stages(context: SparkContext, tag: str) -> list[tuple[Any, bool]]:
    """(stage, is it the final one of its job) for all jobs with the tag."""
    tracker: Any = context._jsc.sc().statusTracker()
    found = []
    for job in tracker.getJobIdsForTag(tag):
        info = tracker.getJobInfo(job)
        ids = sorted(info.get().stageIds()) if info.isDefined() else []
        stages = [tracker.getStageInfo(stage) for stage in ids]
        found += [(stage.get(), stage is stages[-1]) for stage in stages if stage.isDefined()]
    return found


def active_tasks(context: SparkContext, tag: str) -> int:
    return sum(int(stage.numActiveTasks()) for stage, _ in _stages(context, tag))


def wait_until_quiet(context: SparkContext, tag: str, seconds_max: float) -> bool:
    """Give killed tasks the time to end or to commit. False: still running when time was up."""
    deadline = time.monotonic() + seconds_max
    while active_tasks(context, tag):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def failed_tasks(context: SparkContext, tag: str) -> list[FailedTask]:
    store: Any = context._jsc.sc().statusStore()
    java: Any = context._jvm
    failed = java.java.util.ArrayList()
    failed.add(java.org.apache.spark.status.api.v1.TaskStatus.FAILED)
    nothing = java.scala.Option.apply(None)
    found = []
    for stage, is_final in _stages(context, tag):
        for attempt in range(int(stage.currentAttemptId()) + 1):
            rows = store.taskList(stage.stageId(), attempt, 0, FAILED_TASKS_MAX, nothing, True, failed)
            for task in items(rows):
                message = task.errorMessage()
                found.append(FailedTask(int(task.index()), is_final, message.get() if message.isDefined() else ""))
    return found
