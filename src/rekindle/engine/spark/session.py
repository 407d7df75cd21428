"""Sessions: the jar attached, one cloned session per group, and the settings a group is planned with.

Settings count when a plan is made, so each group is built and planned in a session of its own; what one
group needs never reaches another group or the user's session.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from importlib.resources import files

from pyspark.sql import SparkSession

from rekindle.engine.spark.jvm import driver_calls
from rekindle.engine.spark.user_session import UserSession
from rekindle.engine.spark_lines import SparkFeature, SparkLine, line_of
from rekindle.errors import Refused
from rekindle.remedies import StartRemedy, TextRemedy

CONNECT = "pyspark.sql.connect"
PROTOCOL = "rekindle.spark.AttemptCommitProtocol"
# The group of Spark jobs that are refused, in a thread that may only describe (see plan/describe.py).
NO_JOBS = "rekindle-only-describes"
JAVA_LEAST = 17

# What every kept group is planned with. The checksum is Spark's own proof that a map output came back equal.
GROUP_SETTINGS: dict[str, str] = {
    "spark.sql.sources.commitProtocolClass": PROTOCOL,
    "spark.sql.sources.bucketing.autoBucketedScan.enabled": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "true",
    "spark.sql.files.maxRecordsPerFile": "0",
    # Round robin deals out rows in an order of their own: the table calls it determinate for that.
    "spark.sql.execution.sortBeforeRepartition": "true",
    # A variant that is taken apart for a file comes back in other bytes than were written.
    "spark.sql.variant.inferShreddingSchema": "false",
    "spark.sql.variant.writeShredding.enabled": "false",
    # An exchange that turns out empty must keep its partitions: they are ours by number.
    "spark.sql.adaptive.optimizer.excludedRules": "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation",
}


# What a value is written with that was read from a file.
AS_READ: dict[str, str] = {
    "spark.sql.files.maxRecordsPerFile": "0",
    "spark.sql.variant.inferShreddingSchema": "false",
    "spark.sql.variant.writeShredding.enabled": "false",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
}

CUT_FILES = ("spark.sql.files.maxPartitionBytes", "spark.sql.files.openCostInBytes")
JOIN_BY_SIZE = ("spark.sql.autoBroadcastJoinThreshold",)
# How many tasks the lower stages of a plan have: an exchange that another driver makes again is compared task by task.
ADAPTIVE = (
    "spark.sql.adaptive.enabled",
    "spark.sql.adaptive.coalescePartitions.enabled",
    "spark.sql.adaptive.coalescePartitions.parallelismFirst",
    "spark.sql.adaptive.coalescePartitions.minPartitionSize",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes",
    "spark.sql.adaptive.localShuffleReader.enabled",
    "spark.sql.adaptive.skewJoin.enabled",
)
TIMESTAMPS = "spark.sql.parquet.outputTimestampType"
FOLLOW_CORES = ("spark.sql.files.minPartitionNum", "spark.sql.leafNodeDefaultParallelism")


def jar_path(line: SparkLine) -> str:
    """The jar inside the installed package, for `spark.jars` where the user starts the session."""
    return str(files("rekindle.engine.spark") / "jars" / line.jar)


def spark_line(spark: SparkSession) -> SparkLine:
    """Of the Spark that the session runs on. Raises `Refused` if there is no jar for it."""
    return line_of(spark.version, driver_calls.scala_version(spark))


def without_checksums(spark: SparkSession) -> str:
    """Why no exchange of this application can be proved by checksums of its map outputs; empty where they can. A
    shuffle manager other than Spark's own may report what it likes of them: what it reports is not compared."""
    if SparkFeature.CHECKSUMS in spark_line(spark).lacks:
        return f"this Spark has no {SparkFeature.CHECKSUMS.value}"
    other = driver_calls.other_shuffle_manager(spark)
    return (
        f"the shuffle manager {other} is not Spark's own: its {SparkFeature.CHECKSUMS.value} are unknown"
        if other
        else ""
    )


def is_connect(found: object) -> bool:
    """Whether a session or a DataFrame is one of Spark Connect. Told by its class: there need not be a server."""
    return any(one.__module__.startswith(CONNECT) for one in type(found).__mro__)


def refuse_connect(spark: object) -> None:
    if is_connect(spark):
        raise Refused(
            "this is a Spark Connect session; Rekindle needs a classic session, because it works in the driver JVM",
            hint="start a classic session: `SparkSession.builder.master(…)` without SPARK_REMOTE, or spark-submit",
        )


def attach(spark: SparkSession) -> None:
    """Make our classes known to the driver and, with the next Spark task, to every executor."""
    refuse_connect(spark)
    line = spark_line(spark)
    _refuse_old_java(spark)
    if not driver_calls.has_our_classes(spark):
        driver_calls.add_jar(spark, jar_path(line))
    if not driver_calls.has_our_classes(spark):
        raise Refused(
            "the Spark session could not load Rekindle's jar",
            hint=StartRemedy(to="start the session with it", conf=(("spark.jars", jar_path(line)),)),
        )
    _refuse_other_jar(spark, line)
    # Some set settings then, which would count as those of the step whose plan is the first.
    driver_calls.load_extensions(spark)
    driver_calls.mark_local_folders(spark)
    driver_calls.guard_stages(spark, NO_JOBS)


def _refuse_old_java(spark: SparkSession) -> None:
    version = driver_calls.system_property(spark, "java.specification.version")
    if int(version.partition(".")[0]) < JAVA_LEAST:
        raise Refused(
            f"this Spark runs on Java {version}; Rekindle's jar needs Java {JAVA_LEAST}",
            hint=TextRemedy(f"set JAVA_HOME to Java {JAVA_LEAST} or newer, for the driver and for the executors"),
        )


def _refuse_other_jar(spark: SparkSession, line: SparkLine) -> None:
    """A user may have named the jar of another line in `spark.jars`: its classes would fail in the middle of a run."""
    found = driver_calls.line_of_jar(spark)
    if found != line.name:
        raise Refused(
            f"the session was started with Rekindle's jar for Spark {found}, and this Spark needs that for {line.name}",
            hint=StartRemedy(to="start the session with the other one", conf=(("spark.jars", jar_path(line)),)),
        )


def properties(spark: SparkSession) -> dict[str, str]:
    """What Spark was told, by whatever way."""
    return dict(spark.sparkContext.getConf().getAll())


def clone(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """A session that shares catalog and context with `spark` and nothing that decides a plan."""
    copy = UserSession(spark.sparkContext, driver_calls.cloned_session(spark))
    for key, value in settings.items():
        copy.conf.set(key, value)
    return copy


def group_session(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """The session one group is built and planned in, with the settings that were pinned when the run started. What is
    read back must be what was written: timestamps are not cut to milliseconds."""
    return clone(spark, {**settings, **GROUP_SETTINGS, **_whole_times(spark)})


def compaction_session(spark: SparkSession) -> SparkSession:
    """The session in which files are written again: what is read back must be what was read."""
    return clone(spark, {**AS_READ, **_whole_times(spark)})


def _whole_times(spark: SparkSession) -> dict[str, str]:
    cuts = spark.conf.get(TIMESTAMPS) == "TIMESTAMP_MILLIS"
    return {TIMESTAMPS: "TIMESTAMP_MICROS"} if cuts else {}


def pinned_settings(spark: SparkSession) -> dict[str, str]:
    """What cuts a source or an exchange into partitions, would follow the number of cores, or decides by the size of a
    source whether a join leaves rows in them: fixed when a run starts, so that another cluster cuts it the same way."""
    refuse_connect(spark)
    cores = str(spark.sparkContext.defaultParallelism)
    return {name: spark.conf.get(name, cores) or cores for name in FOLLOW_CORES} | {
        name: str(spark.conf.get(name)) for name in CUT_FILES + JOIN_BY_SIZE + ADAPTIVE
    }


@contextlib.contextmanager
def same_active_session(spark: SparkSession) -> Iterator[None]:
    """Whatever user code makes active meanwhile (`createDataFrame` does that), what was active is active again: a
    session of ours plans and writes in its own way, and is not for the user's other code."""
    in_python, in_thread = SparkSession._activeSession, driver_calls.active_session(spark)
    try:
        yield
    finally:
        SparkSession._activeSession = in_python
        driver_calls.set_active_session(spark, in_thread)
