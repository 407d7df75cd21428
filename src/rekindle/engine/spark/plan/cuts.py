"""A cut changes nothing: what a reader can observe of a kept step beside the rows, and how the step keeps it.

| a reader can observe | what becomes of it |
| --- | --- |
| names and qualifiers of columns, two columns of one name | kept: stored under names that differ, restored when read |
| order of a sort, partitions of a repartition or coalesce | kept: the operator stands above the stored rows again |
| the same over columns that the step does not return | kept by fusing the step into a reader that observes it |
| names of files (`input_file_name()`, `_metadata`) | kept by fusing |
| columns that no file can hold (calendar intervals, empty structs) | kept by fusing |
| settings that a step sets, views and variables of another step | refused when the run is planned, with the line |

A step that the user asked to keep is kept, and computed once more in a reader that would see something else; if it
could give other rows then, it is fused into its only reader, or the run is refused with the line. The operators are
read from Spark's analysed plan (java/KeptFrame), what a plan observes too (java/Observed): an operator that is not
known observes all.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from rekindle.engine.spark.jvm import result_calls
from rekindle.engine.spark.jvm.pyspark_line import CALENDAR_INTERVALS, is_collated

# Where a stand-in says that its files are: the step's name follows.
NOWHERE = "file:/nowhere/"


@dataclass(frozen=True, slots=True)
class Observation:
    """What one plan observes of one kept step that it reads."""

    step: str
    has_order: bool
    has_partitions: bool
    has_file_names: bool


def observations(frame: DataFrame, *, is_published: bool) -> list[Observation]:
    """What a step's plan over stand-ins observes of the kept steps that it reads, through whatever way it got them."""
    return [
        Observation(place.removeprefix(NOWHERE), *(word == "true" for word in words))
        for place, *words in result_calls.observed(frame, is_published=is_published)
        if place.startswith(NOWHERE)
    ]


def names_files_of_kept(frame: DataFrame) -> bool:
    """Whether a frame of a script reads the names of files that Rekindle wrote."""
    return any(words[-1] == "true" for words in result_calls.observed(frame, is_published=False))


def is_case_sensitive(session: SparkSession) -> bool:
    return str(session.conf.get("spark.sql.caseSensitive")).lower() == "true"


def unstorable(schema: StructType) -> str:
    """Which columns no file can hold; empty if there is none."""
    found = {field.name: what for field in schema.fields if (what := _unstorable(field.dataType))}
    return "; ".join(f"no file can hold {what}: column {name}" for name, what in found.items())


def _unstorable(kind: DataType) -> str:
    match kind:
        case _ if isinstance(kind, CALENDAR_INTERVALS):
            return "a calendar interval"
        case ArrayType():
            return _unstorable(kind.elementType)
        case MapType():
            is_by_collation = is_collated(kind.keyType)
            return "a map whose keys have a collation" if is_by_collation else _first(kind.keyType, kind.valueType)
        case StructType():
            return _first(*(field.dataType for field in kind.fields)) if kind.fields else "a struct without fields"
        case _:
            return ""


def _first(*kinds: DataType) -> str:
    return next(filter(None, map(_unstorable, kinds)), "")
