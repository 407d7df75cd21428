"""Which files of a Delta table a publication replaces, and which it adds (log_files.py)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from rekindle.engine.spark.jvm import table_calls
from rekindle.engine.spark.publish import log_files
from rekindle.engine.spark.publish.log_files import of_key as _of_key
from rekindle.engine.spark.publish.publication import Publication
from rekindle.publish.delta import Delta
from rekindle.publish.delta_log import DeltaState, counted_columns, with_names
from rekindle.publish.table_fences import Earlier
from rekindle.publish.table_files import TableFile, read_files
from rekindle.publish.target import APPEND, MERGE, OVERWRITE


def files_of(spark: SparkSession, base: str, state: DeltaState) -> list[TableFile]:
    return [with_names(state, file) for file in read_files(table_calls.delta_files(spark, base, state.version))]


@dataclass(frozen=True, slots=True)
class ReplacedFiles:
    """Files that a publication takes out of a table: those whose rows all go, and those that have rows that stay."""

    whole: Sequence[str] = ()
    mixed: Sequence[str] = ()

    @property
    def all(self) -> Sequence[str]:
        return (*self.whole, *self.mixed)


def replaced(
    spark: SparkSession, target: Delta, base: str, state: DeltaState, earlier: tuple[Earlier, ...]
) -> ReplacedFiles:
    """What a publication replaces, as far as the log tells it: which files a key is in, it does not. Refused where rows
    of others would go."""
    if target.mode == OVERWRITE:
        return ReplacedFiles(log_files.EVERYTHING)
    if target.mode == APPEND:
        return ReplacedFiles(_of_key(target, files_of(spark, base, state), earlier) if earlier else ())
    if target.mode == MERGE:
        return ReplacedFiles()
    there = files_of(spark, base, state)
    return ReplacedFiles(*log_files.by_values(there, log_files.wanted_values(target, state)))


def taken(spark: SparkSession, target: Delta, base: str, state: DeltaState, what: Publication) -> list[str]:
    """The actions that add the committed files, which are in the folder of the table by now."""
    now_ms = log_files.now_in_ms()
    copies = log_files.taken(spark, base, what, now_ms)
    wanted = log_files.wanted_values(target, state)
    names = [copy.name for copy in copies]
    told = table_calls.footers(spark, base, names, counted_columns(state), list(wanted))
    footers = [json.loads(line) for line in told]
    values = {name: str(wanted[name][1]) for name in state.partition_by}
    for name, footer in zip(names, footers, strict=True):
        log_files.check_rows(target, name, footer, wanted)
    return [
        json.dumps(
            {
                "add": {
                    "path": copy.name,
                    "partitionValues": values,
                    "size": copy.bytes,
                    "modificationTime": now_ms,
                    "dataChange": True,
                    "stats": footer["stats"],
                }
            }
        )
        for copy, footer in zip(copies, footers, strict=True)
        if footer["rows"]
    ]
