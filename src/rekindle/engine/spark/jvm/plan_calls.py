"""Frames, their plans and their sources, and the settings that they are planned with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, cast

from pyspark.sql import DataFrame, SparkSession

from rekindle.engine.spark.jvm.access import JavaObject, frame_of, ours, session_of


def is_classic(frame: object) -> bool:
    """Whether a frame is one of a classic session: it has a plan that can be looked at."""
    return hasattr(frame, "_jdf") and isinstance(cast(Any, frame).sparkSession, SparkSession)


def execution(frame: DataFrame) -> JavaObject:
    """A frame's query execution: the same object each time, with the plan that Spark made when it was first asked."""
    return frame._jdf.queryExecution()


def executed_plan(frame: DataFrame) -> JavaObject:
    return execution(frame).executedPlan()


def schema(frame: DataFrame) -> JavaObject:
    return frame._jdf.schema()


def schema_of(spark: SparkSession, text: str) -> JavaObject:
    """A schema that was written as JSON."""
    return ours(spark).SparkObjects.schema(text)


def quoted(name: str) -> str:
    """A column by its whole name: Spark reads a dot as a field of a struct."""
    return f"`{name.replace('`', '``')}`"


def hive_directory(spark: SparkSession, column: str, value: str) -> str:
    """The name of the directory for one value, with letters escaped as Spark escapes them."""
    return str(ours(spark).SparkObjects.hiveDirectory(column, value))


def holds_type(spark: SparkSession, files_format: str, its_type: str) -> bool:
    """Whether files of a format can have a column of this type, which is written as JSON."""
    return bool(ours(spark).VersionFiles.Reading.holds(files_format, its_type))


def ddl(spark: SparkSession, text: str) -> str:
    """A schema that was written as JSON, as the columns of a CREATE TABLE."""
    return str(schema_of(spark, text).toDDL())


def in_session(frame: DataFrame, session: SparkSession) -> DataFrame:
    """The same logical plan, to be planned with the settings of another session."""
    return frame_of(session, ours(session).SparkObjects.frame(session_of(session), frame._jdf.logicalPlan()))


def with_exchange(frame: DataFrame, where: str, keys: Iterable[str], partitions: int) -> DataFrame | None:
    """The frame with an exchange by its keys: `repartitioned` below its Python, `required` as low as may be. None where
    there is no such place."""
    session = frame.sparkSession
    made = getattr(ours(session).BelowPython, where)(frame._jdf.logicalPlan(), list(keys), partitions)
    return None if made is None else frame_of(session, ours(session).SparkObjects.frame(session_of(session), made))


def frame_of_rdd(session: SparkSession, rdd: JavaObject, its_schema: JavaObject) -> DataFrame:
    return frame_of(session, ours(session).SparkObjects.frame(session_of(session), rdd, its_schema))


def asks_for_exchange(frame: DataFrame) -> bool:
    """Whether the frame is repartitioned somewhere, also where its rows lie that way already."""
    return bool(ours(frame.sparkSession).Observed.asksForExchange(execution(frame)))


def broadcasts_either(frame: DataFrame) -> bool:
    """Whether a join was asked to broadcast both of its sides: Spark takes the smaller one."""
    return bool(ours(frame.sparkSession).Observed.broadcastsEither(execution(frame)))


def shown(frame: DataFrame, rows_max: int, characters_max: int) -> str:
    """The first rows as a table of text."""
    return str(frame._jdf.showString(rows_max, characters_max, False)).rstrip()


def class_name(node: JavaObject) -> str:
    return str(node.getClass().getSimpleName())


def items(seq: JavaObject) -> Iterator[JavaObject]:
    iterator = seq.iterator()
    while iterator.hasNext():
        yield iterator.next()


def plan_nodes(spark: SparkSession, plan: JavaObject) -> str:
    """The nodes of a physical plan as JSON."""
    return str(ours(spark).PlanNodes.of(plan))


def node_at(spark: SparkSession, plan: JavaObject, number: int) -> JavaObject:
    return ours(spark).PlanNodes.at(plan, number)


def plan_code(frame: DataFrame) -> bytes:
    """What the analysed plan holds of code, packed."""
    return bytes(ours(frame.sparkSession).PlanTold.of(execution(frame).analyzed()))


class DeterminismFacts(NamedTuple):
    """A plan as JSON and as text, what it does not tell, whether it reads a kept result, and whether the tables of
    catalogs that it reads are all read at one version."""

    told: str
    text: str
    untold: str
    reads_kept: bool
    reads_pinned: bool


def determinism_facts(frame: DataFrame) -> DeterminismFacts:
    """Of the analysed plan."""
    return _facts(frame.sparkSession, execution(frame).analyzed())


def facts_below_exchanges(frame: DataFrame) -> list[DeterminismFacts] | None:
    """Of the optimized plans whose rows the last exchanges of a frame move (java/BelowExchanges). None where one of
    them is not known."""
    spark = frame.sparkSession
    found = ours(spark).BelowExchanges.of(executed_plan(frame))
    return None if found is None else [_facts(spark, plan) for plan in found]


def _facts(spark: SparkSession, plan: JavaObject) -> DeterminismFacts:
    sources = ours(spark).Sources
    told, text, untold = str(plan.toJSON()), str(plan.toString()), str(sources.untold(plan))
    return DeterminismFacts(told, text, untold, bool(sources.readsKept(plan)), bool(sources.readsPinned(plan)))


def reads_paths(spark: SparkSession, query: str) -> bool:
    """Whether a text of SQL reads files by their path. No, if it cannot be told: text with `{frames}` is no SQL before
    PySpark has filled it in."""
    try:
        plan = session_of(spark).sessionState().sqlParser().parsePlan(query)
    except Exception:
        return False
    return bool(ours(spark).Sources.readsPaths(plan))


def source_files(frame: DataFrame) -> JavaObject | None:
    """The files from outside that a plan reads, to be asked by `changed_files`; None if there is none."""
    return ours(frame.sparkSession).SourceFiles.of(execution(frame))


def changed_files(files: JavaObject) -> list[str]:
    return str(files.changed()).splitlines()


def source_places(frame: DataFrame) -> list[str]:
    return str(ours(frame.sparkSession).Sources.places(execution(frame))).splitlines()


def source_pins(frame: DataFrame) -> str:
    return str(ours(frame.sparkSession).Sources.pins(execution(frame)))


def views_read(frame: DataFrame) -> set[str]:
    return set(str(ours(frame.sparkSession).Sources.views(execution(frame).analyzed())).splitlines())


def temporaries(spark: SparkSession) -> frozenset[str]:
    """The temporary views and functions of a session: kind, name and which one it is; tabs between."""
    return frozenset(str(ours(spark).Sources.temporaries(session_of(spark))).splitlines())


def forget_sizes(frame: DataFrame) -> None:
    """Spark remembers the size of a node: what was asked before is asked again."""
    frame._jdf.logicalPlan().invalidateStatsCache()


def settings(spark: SparkSession, names: Iterable[str], prefixes: Iterable[str]) -> list[str]:
    """Name, value and default of these settings, and of all below the prefixes that somebody set; tabs between."""
    told = ours(spark).Sources.settings(session_of(spark), "\n".join(names), "\n".join(prefixes))
    return str(told).splitlines()


def all_settings(spark: SparkSession) -> set[str]:
    return set(str(ours(spark).Sources.allSettings(session_of(spark))).splitlines())
