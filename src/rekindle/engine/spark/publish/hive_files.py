"""Committed rows written again in Hive's directories, as Spark's own `partitionBy` writes them, and staged.

Rules
- One Spark job reads the committed files and writes them below `scratch/`, where no reader looks; its names are used by
  nobody else. From there files get into a version like all others: by link or by copy.
- A master of the same run that published the same committed files before has written them: they are not written again.
- What was named to be replaced must hold every row: rows elsewhere are refused with their directories.
- A committed file that is missing or damaged is told by its path, as by a copy.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, MapType, StringType, StructField, StructType, VariantType

from rekindle.engine.spark.jvm import file_calls, plan_calls, result_calls
from rekindle.engine.spark.publish import copying
from rekindle.engine.spark.publish.copying import SourceFilesLost
from rekindle.engine.spark.publish.publication import Publication, StagedFiles
from rekindle.errors import Refused
from rekindle.publish.files import Files
from rekindle.publish.pointers import SCRATCH, VERSION, Pointer, fence_in, is_below
from rekindle.publish.target import PARTITION

NO_VALUE = (ArrayType, BinaryType, MapType, StructType, VariantType)
STRICT = {"ignoreMissingFiles": "false", "ignoreCorruptFiles": "false"}
NAMED_MAX = 3
STAGED = "-hive"


def check_columns(target: Files, schema: str) -> None:
    """Refuse, before anything runs, what Spark would refuse after hours of work."""
    fields = {field.name: field for field in StructType.fromJson(json.loads(schema))}
    named = {name for name, _ in target.partition}
    for name in target.hive_partition_by:
        if name not in fields and name not in named:
            raise Refused(
                f"{target.shown}: hive_partition_by names {name}, and the result has the columns {', '.join(fields)}",
                f'add the column, or say its value: partition={{"{name}": "…"}}',
            )
        if name in fields and isinstance(fields[name].dataType, NO_VALUE):
            kind = fields[name].dataType.simpleString()
            raise Refused(f"{target.shown}: {name} is {kind}, which cannot be a directory", "name another column")
    if not set(fields) - set(target.hive_partition_by):
        raise Refused(
            f"{target.shown}: hive_partition_by names every column, so that no column is left for the files",
            "leave one column out",
        )
    for name in target.sort_by:
        if name not in fields:
            raise Refused(f"{target.shown}: sort_by names {name}, which the result does not have", "name a column")


def directories_of(spark: SparkSession, target: Files) -> tuple[str, ...]:
    """The directory that the target names to be replaced; none if it names none."""
    names = [plan_calls.hive_directory(spark, name, value) for name, value in target.partition]
    return ("/".join(names),) if names else ()


def schema_of(target: Files, schema: str) -> str:
    """As Spark reads it back: the columns of directories are the last ones."""
    fields = {field.name: field for field in StructType.fromJson(json.loads(schema))}
    last = [fields.get(name, StructField(name, StringType())) for name in target.hive_partition_by]
    first = [field for name, field in fields.items() if name not in target.hive_partition_by]
    return str(StructType([*first, *last]).json())


@contextlib.contextmanager
def staged(
    spark: SparkSession, what: Publication, target: Files, base: str, top: Pointer | None
) -> Iterator[Publication]:
    """The publication with its files in Hive's directories, which go when it is published."""
    shown = replace(what, schema=schema_of(target, what.schema))
    mine = what.part()
    earlier = next((one for one in top.parts if one.is_same(mine)), None) if top is not None else None
    if earlier is not None and earlier.is_listed:
        yield replace(shown, staged=StagedFiles("", earlier.listed, earlier.directories))
        return
    folder = f"{base}/{SCRATCH}/{what.version}{STAGED}"
    try:
        _remove_earlier(spark, what, base)
        if what.files:
            _write(spark, what, target, folder)
        listed = tuple(sorted(copying.visible(spark, folder).items()))
        yield replace(shown, staged=StagedFiles(folder, listed, _replaced(spark, target, listed)))
    finally:
        file_calls.delete_directory(spark, folder, 1)


def _remove_earlier(spark: SparkSession, what: Publication, base: str) -> None:
    """What earlier masters of this run staged before they were killed: nobody can publish it any more."""
    listed = file_calls.list_files(spark, f"{base}/{SCRATCH}").splitlines()
    for name in {line.partition("/")[0] for line in listed}:
        found = VERSION.fullmatch(name.removesuffix(STAGED)) if name.endswith(STAGED) else None
        place, fence = fence_in(found) if found is not None else ("", None)
        if fence is not None and (place, fence.order) == (what.place, what.fence.order) and fence <= what.fence:
            file_calls.delete_directory(spark, f"{base}/{SCRATCH}/{name}", 0)


def _replaced(spark: SparkSession, target: Files, listed: tuple[tuple[str, int], ...]) -> tuple[str, ...]:
    """The directories that are replaced. Refuses rows outside of those that were named."""
    if target.mode != PARTITION:
        return ()
    found = sorted({name.rsplit("/", 1)[0] for name, _ in listed})
    named = directories_of(spark, target)
    if not named:
        return tuple(found)
    outside = [one for one in found if not is_below(one, named)]
    if outside:
        more = f" and {len(outside) - NAMED_MAX} more" if len(outside) > NAMED_MAX else ""
        raise Refused(
            f"{target.shown}: the result has rows for {', '.join(outside[:NAMED_MAX])}{more}, which this run does not "
            "replace",
            "correct the rows, or leave out partition= to replace what there are rows for",
        )
    return named


def _write(spark: SparkSession, what: Publication, target: Files, folder: str) -> None:
    rows = _rows(spark, what, target)
    options = {
        "compression": target.compression,
        "maxRecordsPerFile": str(target.max_records_per_file) if target.max_records_per_file else "",
    }
    if target.sort_by:
        rows = rows.sortWithinPartitions(*target.hive_partition_by, *target.sort_by)
    writer = rows.write.partitionBy(*target.hive_partition_by).options(**{k: v for k, v in options.items() if v})
    try:
        writer.parquet(folder)
    except Exception as error:
        lost = {
            path: "is missing or cut" for path, length in what.files if file_calls.file_length(spark, path) != length
        }
        if lost:
            raise SourceFilesLost(lost) from error
        raise


def _rows(spark: SparkSession, what: Publication, target: Files) -> DataFrame:
    """What is committed, with the columns that only the target names."""
    rows = result_calls.scan(
        spark,
        what.files[0][0].rsplit("/", 1)[0],
        "\n".join(f"{path}\t{length}" for path, length in what.files),
        its_schema=plan_calls.schema_of(spark, what.schema),
        keys=(),
        partitions=len(what.files),
        options=STRICT,
        cut_by=spark,
        is_blocks=False,
        is_source=False,
    )
    added = {name: F.lit(value) for name, value in target.partition if name not in rows.columns}
    return rows.withColumns(added) if added else rows
