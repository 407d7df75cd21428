"""What a publication does to the files of a Delta table, and the rows that are written again for it.

Rules
- A table that must make or check something with each row gets the rows of the result from Delta's own writer: it checks
  constraints and NOT NULL, makes generated columns, gives columns their physical names, and cuts by partitions. A row
  that the table refuses is told in Delta's words, and nothing is committed. The files get a tag, by which `append`
  knows them again.
- Of a file that has rows to be replaced and others (`partition`, `merge`) the others are written again. Delta reads
  them, since a deletion vector of the file may have deleted some. They get no tag: they are nobody's key.
- The rows that stay are those of one version. The commit is on top of that version or fails, and then they are read
  again. The result is written again only if the metadata of the table changed.
- Files that were written for a commit that came too late, or whose driver died, are in no version of the table: VACUUM
  removes them.
- `merge` is refused if a key of the result is null or there twice: which row counts would be chance. Delta keeps an
  empty text as null where the table is partitioned by it, so such a key is refused, too.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from rekindle.engine.spark.failures import text_of
from rekindle.engine.spark.jvm import table_calls
from rekindle.engine.spark.jvm.plan_calls import quoted
from rekindle.engine.spark.publish import delta_files, log_files, rewriting
from rekindle.engine.spark.publish.delta_files import ReplacedFiles
from rekindle.engine.spark.publish.publication import Publication
from rekindle.engine.spark.publish.table_log import NAMED_MAX, TableChange
from rekindle.errors import Refused
from rekindle.publish import delta_log
from rekindle.publish.delta import Delta
from rekindle.publish.delta_log import DeltaState
from rekindle.publish.log_table import AS_THEY_ARE
from rekindle.publish.target import MERGE, PARTITION

TAG = "REKINDLE_PUBLICATION"
# What Delta says of a row that a table does not take.
VIOLATION = re.compile(r"^\S*InvariantViolationException: (?P<said>.+)", re.MULTILINE)


def told(spark: SparkSession, target: Delta, base: str, state: DeltaState) -> str:
    """What a plan says of the way in which a result is published."""
    reasons = list(delta_log.needs_rows(state, dict(target.partition)))
    way = f"its rows are written again by Spark, because {'; '.join(reasons[:NAMED_MAX])}" if reasons else AS_THEY_ARE
    if target.mode == MERGE:
        return f"{way}; in files that have a key of the result, rows with other keys are written again by Spark"
    mixed = delta_files.replaced(spark, target, base, state, ()).mixed if target.mode == PARTITION else ()
    if mixed:
        return f"{way}; in {len(mixed)} files of the table, rows with other values are written again by Spark"
    return way if reasons else target.how


def check_columns(target: Delta, state: DeltaState, given: Collection[str]) -> None:
    """Refuse what would be refused after hours of work: columns by which rows are told must be in the result, and have
    values that can be compared."""
    for name, value in target.partition:
        if name not in given:
            raise Refused(
                f"{target.shown}: the result lacks {name}, whose values it replaces", "add the column to the step"
            )
        if name in state.partition_by and not value:
            raise Refused(
                f"{target.shown}: Delta keeps an empty text as null where a table is partitioned by it",
                f"give {name} a value",
            )
    for name in target.keys:
        trouble = "is no column of the result" if name not in given else delta_log.key_trouble(state, name)
        if trouble:
            raise Refused(
                f"{target.shown}: {name} {trouble}, so rows cannot be told by it",
                f"name other keys, of {', '.join(sorted(delta_log.EXACT))} or decimal",
            )


@dataclass(frozen=True, slots=True)
class RowWriting:
    """One publication over one version of a table."""

    spark: SparkSession
    target: Delta
    base: str
    state: DeltaState
    what: Publication

    def change(self, found: ReplacedFiles, before: TableChange | None) -> TableChange | None:
        """What it does to that version; None if that is not the newest any more."""
        made_for = replace(self.state, version=0, numbers={})
        usable = before if before is not None and before.made_for == made_for else None
        with rewriting.telling_lost(self.spark, self.what), self._telling_violations():
            if self.target.mode == MERGE:
                if usable is None:
                    self._check_keys()
                touched = self._touched()
                if touched is None:
                    return None
                found = ReplacedFiles(mixed=touched)
            kept = self._kept(found.mixed) if found.mixed else ()
            added = usable.added if usable is not None else self._added()
        if kept is None or added is None:
            return None
        return TableChange(removed=found.all, added=added, kept=kept, made_for=made_for)

    def _added(self) -> Sequence[str] | None:
        if not any(delta_log.needs_rows(self.state, dict(self.target.partition))):
            return delta_files.taken(self.spark, self.target, self.base, self.state, self.what)
        rows = self._result()
        self._check_values(rows)
        lines = table_calls.delta_write(rows, self.base, self.state.version)
        return None if lines is None else [_tagged(line, self.what.version) for line in lines]

    def _kept(self, mixed: Sequence[str]) -> Sequence[str] | None:
        """The actions that add the rows of files, but those that are replaced."""
        there = table_calls.delta_rows(self.spark, self.base, self.state.version, mixed)
        if there is None:
            return None
        is_merge = self.target.mode == MERGE
        stay = self._with_keys(there, "left_anti") if is_merge else there.where(~self._has_values())
        return table_calls.delta_write(stay, self.base, self.state.version)

    def _result(self) -> DataFrame:
        """The committed rows. Small files are read by one task."""
        if not self.what.files:
            return self.spark.createDataFrame([], StructType.fromJson(json.loads(self.what.schema)))
        return rewriting.packed(self.spark, self.what)

    def _has_values(self) -> Column:
        wanted = log_files.wanted_values(self.target, self.state)
        return reduce(
            Column.__and__,
            (_column(name).eqNullSafe(F.lit(value).cast(kind)) for name, (kind, value) in wanted.items()),
        )

    def _check_values(self, rows: DataFrame) -> None:
        if self.target.partition and rows.where(~self._has_values()).take(1):
            named = ", ".join(f"{name}={value}" for name, value in self.target.partition)
            raise Refused(
                f"{self.target.shown}: the result has rows without {named}",
                "filter them in the step, or publish them to another target",
            )

    def _check_keys(self) -> None:
        """One row of the result for each key."""
        keys = self.target.keys
        rows = _other_name(keys)
        counted = self._result().groupBy(*map(_column, keys)).agg(F.count(F.lit(1)).alias(rows))
        trouble = reduce(Column.__or__, map(self._is_no_value, keys)) | (F.col(rows) > 1)
        for row in counted.where(trouble).select(*map(_column, keys), F.col(rows)).take(1):
            *values, times = row
            key = ", ".join(f"{name}={value}" for name, value in zip(keys, values, strict=True))
            said = f"{times} rows with the key {key}" if times > 1 else f"a row with the key {key}"
            raise Refused(
                f"{self.target.shown}: the result has {said}: the keys of a merge are unique, and none is null",
                "make them so in the step, or name more keys",
            )

    def _is_no_value(self, key: str) -> Column:
        is_text = any(field["name"] == key and field["type"] == "string" for field in self.state.columns)
        is_null = _column(key).isNull()
        return is_null | (_column(key) == "") if is_text and key in self.state.partition_by else is_null

    def _touched(self) -> Sequence[str] | None:
        """The files of the table that have a row with a key of the result."""
        if not self.what.files:
            return ()
        there = table_calls.delta_rows(self.spark, self.base, self.state.version, log_files.EVERYTHING)
        if there is None:
            return None
        place = _other_name(self.target.keys)
        named = there.select(*map(_column, self.target.keys), F.input_file_name().alias(place))
        found = self._with_keys(named, "left_semi").select(place).distinct().collect()
        return table_calls.delta_named(self.spark, self.base, self.state.version, [row[0] for row in found])

    def _with_keys(self, there: DataFrame, how: str) -> DataFrame:
        """The rows that have a key of the result, or those that have none, as a row without a key."""
        return there.join(self._result().select(*map(_column, self.target.keys)), list(self.target.keys), how)

    @contextlib.contextmanager
    def _telling_violations(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if said := VIOLATION.search(text_of(error)):
                raise Refused(
                    f"{self.target.shown} refuses a row that would be written: {said['said'].rstrip('.')}",
                    "correct the rows in the step, or the table with ALTER TABLE",
                ) from error
            raise


def _column(name: str) -> Column:
    return F.col(quoted(name))


def _other_name(names: Sequence[str]) -> str:
    """A name that none of these is."""
    return "_" + "_".join(names)


def _tagged(line: str, version: str) -> str:
    action = json.loads(line)
    action["add"]["tags"] = {**(action["add"].get("tags") or {}), TAG: version}
    return json.dumps(action)
