"""What a kept step is, in named parts that are equal in every driver as long as nothing changed.

| part | what it tells |
| --- | --- |
| `plan` | the analysed plan: operators, expressions, columns, rows that stand in it; no ids, seeds or files |
| `seeds` | those in it that somebody wrote; of a frame that was made elsewhere also those that may have been drawn |
| `names` | names in it that look as if Spark had made them up, and that somebody chose |
| `attribute:metadata` | what is said about columns: models read the meaning of a column from it |
| `layout` | keys and number of partitions; `splits` where the cut of a scan numbers them |
| `input` | what is read from outside, pinned (see sources.py) |
| `spark.…` | each setting that changes values and is not at its default; the session's time zone always |
| `python`, `pyspark`, `java` | versions, and Java's language |
| `STEP.code`, `STEP.helper:…`, `STEP.constant:…`, `STEP.package:…` | the code of each member (`fingerprint.py`) |
| `STEP.parameter:NAME` | the parameters of the run that the member asks for |
| `STEP.udf:NAME` | Python functions as the plan of the kept step has them, with all that they hold |
| `STEP.jvm:NAME` | functions of Java and Scala in that plan, by the bytes of their classes |
| `identity` | which of these parts there can be: see `ADDED` in master/rules/opening.py |

Code is judged twice: by the functions that the user's names lead to, and by what Spark is given. If either says that it
changed, it changed.

A value is plain text where that is short and tells no secret and no path of this machine, else a hash: hashes begin
with `#`. Settings that only change how fast, or in which order, something is computed are not listed: where order
matters, the table of determinism knows the operator.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark import __version__ as pyspark_version
from pyspark.sql import DataFrame, SparkSession

from rekindle.engine.spark.jvm import driver_calls
from rekindle.engine.spark.plan.given import FrameCode
from rekindle.engine.spark.plan.packed import PlanCode, compiled_told, functions_told, told
from rekindle.engine.spark.plan.sources import pin, settings
from rekindle.master.rules.opening import IDENTITY
from rekindle.pipeline.identity.fingerprint import hashed, parts
from rekindle.pipeline.identity.values import IncomparableValue, Text

INPUT = "input"
IDENTITY_PARTS = "2"
TIME_ZONE = "spark.sql.session.timeZone"
# A host's own name for it is no difference: the default is the zone of whatever host the driver runs on.
UTC = frozenset("UTC Etc/UTC UCT Etc/UCT Z Zulu Etc/Zulu Universal Etc/Universal GMT Etc/GMT".split())
# Settings that decide what a value is, which rows there are, or what a name means.
VALUE_SETTINGS = """
    spark.sql.session.timeZone
    spark.sql.ansi.enabled
    spark.sql.caseSensitive
    spark.sql.timestampType
    spark.sql.session.collation.default
    spark.sql.storeAssignmentPolicy
    spark.sql.decimalOperations.allowPrecisionLoss
    spark.sql.mapKeyDedupPolicy
    spark.sql.groupByOrdinal
    spark.sql.orderByOrdinal
    spark.sql.groupByAliases
    spark.sql.parser.quotedRegexColumnNames
    spark.sql.parser.escapedStringLiterals
    spark.sql.readSideCharPadding
    spark.sql.files.ignoreCorruptFiles
    spark.sql.files.ignoreMissingFiles
    spark.sql.sources.partitionColumnTypeInference.enabled
    spark.sql.columnNameOfCorruptRecord
    spark.sql.csv.parser.columnPruning.enabled
    spark.sql.json.enablePartialResults
    spark.sql.jsonGenerator.ignoreNullFields
    spark.sql.icu.caseMappings.enabled
    spark.sql.parquet.binaryAsString
    spark.sql.parquet.int96AsTimestamp
    spark.sql.parquet.int96TimestampConversion
    spark.sql.parquet.inferTimestampNTZ.enabled
    spark.sql.parquet.mergeSchema
    spark.sql.parquet.datetimeRebaseModeInRead
    spark.sql.parquet.int96RebaseModeInRead
    spark.sql.parquet.fieldId.read.enabled
    spark.sql.avro.datetimeRebaseModeInRead
    spark.sql.orc.mergeSchema
    spark.sql.execution.pythonUDF.arrow.enabled
    spark.sql.execution.pythonUDF.arrow.concurrency.level
    spark.sql.execution.arrow.maxRecordsPerBatch
    spark.sql.execution.arrow.maxBytesPerBatch
    spark.sql.execution.pandas.convertToArrowArraySafely
    spark.sql.execution.pandas.structHandlingMode
    spark.sql.pyspark.inferNestedDictAsStruct.enabled
    spark.sql.experimental.optimizer.transpilePyUDFs
""".split()
# Below these every setting that somebody set counts: the policy of time parsing and many other old ways.
VALUE_PREFIXES = ("spark.sql.legacy.", "spark.sql.ansi.")
SECRET = re.compile(r"pass|secret|token|credential|auth|key", re.IGNORECASE)
PLAIN_CHARACTERS_MAX = 60
MACHINE_PATH = re.compile(r"(^|[\s:=,'\"])(/|[A-Za-z]:\\|~/)")


@dataclass(frozen=True, slots=True)
class Member:
    """A step of the user's that is computed in a group: its function and the parameters of the run that it is given."""

    name: str
    function: Callable[..., Any]
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KeptStep:
    """A kept step: its frame as built over stand-ins of what it reads, how it lies, and what is fused into it."""

    frame: DataFrame
    keys: tuple[str, ...]
    partitions: int
    members: tuple[Member, ...]
    splits: str = ""


def fingerprints(kept: Mapping[str, KeptStep]) -> dict[str, dict[str, str]]:
    """Kept step to its parts."""
    return {name: fingerprint(group, name) for name, group in kept.items()}


def fingerprint(group: KeptStep, name: str) -> dict[str, str]:
    """The parts of one kept step."""
    spark = group.frame.sparkSession
    plan = told(group.frame)
    found = {"plan": f"#{plan.shape}", "layout": _layout(group), **value_settings(spark), **versions(spark)}
    found |= _beside_the_shape(plan, group, name)
    read = str(pin(group.frame))
    if read:
        found[INPUT] = read
    if group.splits:
        found["splits"] = group.splits
    for member in group.members:
        for part, value in parts(member.function).items():
            found[f"{member.name}.{part}"] = value
        for parameter, given in member.parameters.items():
            found[f"{member.name}.parameter:{parameter}"] = parameter_text(parameter, given)
    return found


def _beside_the_shape(plan: PlanCode, group: KeptStep, name: str) -> dict[str, str]:
    """What the shape leaves out. A frame that was made elsewhere is told by its functions already; that a seed in it
    was drawn cannot be seen by its code, because there is none: what nobody can tell is a change."""
    is_given = any(isinstance(member.function, FrameCode) for member in group.members)
    found = {IDENTITY: IDENTITY_PARTS}
    seeds = ", ".join(plan.seeds + plan.unsure if is_given else plan.seeds)
    if seeds:
        found["seeds"] = seeds if len(seeds) <= PLAIN_CHARACTERS_MAX else hashed(seeds)
    if plan.names:
        found["names"] = hashed("\0".join(plan.names))
    if plan.metadata:
        found["attribute:metadata"] = hashed("\0".join(plan.metadata))
    found |= {f"{name}.{part}": value for part, value in compiled_told(plan).items()}
    if not is_given:
        found |= {f"{name}.{part}": value for part, value in functions_told(plan.commands).items()}
    return found


def value_settings(spark: SparkSession) -> dict[str, str]:
    """The settings of a session that change values, without those at their default."""
    rows = settings(spark, VALUE_SETTINGS, VALUE_PREFIXES)
    found = {name: value for name, value, usual in rows if name == TIME_ZONE or value != usual}
    return {name: "UTC" if name == TIME_ZONE and value in UTC else value for name, value in found.items()}


def versions(spark: SparkSession) -> dict[str, str]:
    """Of Python and PySpark, Spark's own where a session talks to another one than its PySpark; and Java's with its
    language: how a double is written, and what an upper case letter is, belongs to these."""
    there = str(spark.version)
    both = pyspark_version if there == pyspark_version else f"{pyspark_version} on Spark {there}"
    told = (driver_calls.system_property(spark, name) for name in ("java.specification.version", "user.language"))
    return {"python": platform.python_version(), "pyspark": both, "java": " ".join(told)}


def _layout(group: KeptStep) -> str:
    keys = ", ".join(group.keys) or "no keys"
    text = f"{group.partitions} partitions by {keys}"
    return text if len(text) <= PLAIN_CHARACTERS_MAX else f"{group.partitions} partitions by {hashed(keys)}"


def parameter_text(name: str, value: Any) -> str:
    """As the user wrote it, unless it is long or may be a secret or a path of this machine."""
    try:
        text = value if isinstance(value, str) else Text(lambda code: getattr(code, "__qualname__", "")).of(value)
    except IncomparableValue as what:
        return f"a {what}"
    is_plain = len(text) <= PLAIN_CHARACTERS_MAX and not SECRET.search(name) and not MACHINE_PATH.search(text)
    return text if is_plain and "\n" not in text else hashed(text)
