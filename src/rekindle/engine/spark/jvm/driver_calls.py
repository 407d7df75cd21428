"""The application of the driver: its sessions and threads, its Spark jobs and tasks."""

from __future__ import annotations

import contextlib
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from rekindle.engine.spark.jvm.access import CallFailed, JavaObject, Package, context_of, is_class, ours, session_of


def has_our_classes(spark: SparkSession) -> bool:
    return is_class(spark, "rekindle.spark.Bridge")


def add_jar(spark: SparkSession, path: str) -> None:
    """What ADD JAR does, without the first SQL text of a driver: its parser alone takes a second to load."""
    session_of(spark).sessionState().resourceLoader().addJar(path)


def load_extensions(spark: SparkSession) -> None:
    """Let the extensions of a session, such as that of Delta, do what they do when the first plan is analysed."""
    session_of(spark).sessionState().analyzer()


def line_of_jar(spark: SparkSession) -> str:
    """The name of the Spark line that the jar of ours was built for which the session has."""
    return str(ours(spark).Bridge.line())


def other_shuffle_manager(spark: SparkSession) -> str:
    """The class that shuffles in this application, if it is not Spark's own; else empty."""
    return str(ours(spark).Bridge.otherShuffleManager())


def scala_version(spark: SparkSession) -> str:
    return str(Package(spark, "scala.util").Properties.versionNumberString())


def mark_local_folders(spark: SparkSession) -> None:
    ours(spark).LocalFolders.mark()


def class_loader(spark: SparkSession) -> JavaObject:
    """What this thread finds classes with; a jar attached while the session runs is known to this one only."""
    return Package(spark, "java.lang").Thread.currentThread().getContextClassLoader()


def enter_thread(spark: SparkSession, loader: JavaObject) -> None:
    """Make our classes known to the JVM thread that serves this Python thread."""
    Package(spark, "java.lang").Thread.currentThread().setContextClassLoader(loader)


def cloned_session(spark: SparkSession) -> JavaObject:
    return session_of(spark).cloneSession()


def active_session(spark: SparkSession) -> JavaObject | None:
    """The session that is active in the JVM thread that serves this Python thread."""
    return ours(spark).SparkObjects.activeSession()


def set_active_session(spark: SparkSession, session: JavaObject | None) -> None:
    ours(spark).SparkObjects.setActiveSession(session)


def system_property(spark: SparkSession, name: str) -> str:
    return str(Package(spark, "java.lang").System.getProperty(name))


def is_stopped(spark: SparkSession) -> bool:
    return bool(context_of(spark.sparkContext).isStopped())


def answers(spark: SparkSession) -> bool:
    """Whether there is a JVM at all, be its application stopped or not. It is asked twice: a connection that broke is
    not used again."""
    for _ in range(2):
        with contextlib.suppress(CallFailed, ConnectionError):
            system_property(spark, "java.version")
            return True
    return False


def has_gateway() -> bool:
    """Whether this process has a JVM already."""
    return SparkContext._gateway is not None


def listen_to_blocks(spark: SparkSession) -> JavaObject:
    """Begin to note executors that go. What it returns is given to `unlisten`."""
    return _listening(spark, ours(spark).KeptBlocks())


def listen_to_tasks(spark: SparkSession) -> JavaObject:
    """Begin to note failed tasks. What it returns is given to `unlisten`."""
    return _listening(spark, ours(spark).FailedTasks())


def unlisten(spark: SparkSession, listener: JavaObject) -> None:
    context_of(spark.sparkContext).removeSparkListener(listener)


def take_failed_tasks(spark: SparkSession, tag: str) -> list[str]:
    return str(ours(spark).FailedTasks.take(tag)).splitlines()


def wait_for_events(context: SparkContext, ms_max: int) -> None:
    """Raises `JavaException` if Spark's listeners have not been told everything in time."""
    context_of(context).listenerBus().waitUntilEmpty(ms_max)


def refuse_jobs(spark: SparkSession, group: str) -> None:
    """From now on Spark jobs of this group are refused; before Spark 4.0 they are cancelled when they have begun."""
    ours(spark).JobGuard.refuseJobs(context_of(spark.sparkContext), group)


def guard_stages(spark: SparkSession, group: str) -> None:
    """From now on adaptive execution starts no stage in threads whose Spark jobs belong to this group (java/JobGuard),
    in sessions that are cloned from this one."""
    ours(spark).JobGuard.install(session_of(spark), group)


def has_stopped_stages(spark: SparkSession, tag: str) -> bool:
    """Whether that happened in a thread with this job tag."""
    return bool(ours(spark).JobGuard.hasStopped(tag))


def jobs_so_far(context: SparkContext) -> int:
    return int(context_of(context).dagScheduler().numTotalJobs())


def has_jobs_of(context: SparkContext, tag: str) -> bool:
    return len(context_of(context).statusTracker().getJobIdsForTag(tag)) > 0


def is_known_job(context: SparkContext, job: int) -> bool:
    return bool(context_of(context).statusTracker().getJobInfo(job).isDefined())


def active_tasks(context: SparkContext, tag: str) -> int:
    tracker: Any = context_of(context).statusTracker()
    found = 0
    for job in tracker.getJobIdsForTag(tag):
        info = tracker.getJobInfo(job)
        stages = [tracker.getStageInfo(stage) for stage in info.get().stageIds()] if info.isDefined() else []
        found += sum(int(stage.get().numActiveTasks()) for stage in stages if stage.isDefined())
    return found


def _listening(spark: SparkSession, listener: JavaObject) -> JavaObject:
    context_of(spark.sparkContext).addSparkListener(listener)
    return listener
