"""Committed rows written again by Spark's own writer, and staged: in Hive's directories as `partitionBy` makes them,
or in another format.

Rules
- One Spark job reads the committed files and writes them where no reader looks, by names that nobody else uses. From
  there files get into a version like all others: by link or by copy.
- A master of the same run that published the same committed files before has written them: they are not written again.
- What was named to be replaced must hold every row: rows elsewhere are refused with their directories.
- A committed file that is missing or damaged is told by its path, as by a copy.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, MapType, StringType, StructField, StructType

from rekindle.engine.spark.failures import cause_of, text_of
from rekindle.engine.spark.jvm import file_calls, plan_calls, result_calls
from rekindle.engine.spark.jvm.pyspark_line import VARIANTS
from rekindle.engine.spark.publish import copying
from rekindle.engine.spark.publish.copying import SourceFilesLost
from rekindle.engine.spark.publish.publication import Publication, StagedFiles
from rekindle.engine.spark.session import clone
from rekindle.errors import Refused
from rekindle.model.failures import FailureKind
from rekindle.publish.files import PARQUET, Files
from rekindle.publish.pointers import SCRATCH, VERSION, Pointer, fence_in, is_below
from rekindle.publish.target import PARTITION
from rekindle.results import manifest

NO_VALUE = (ArrayType, BinaryType, MapType, StructType, *VARIANTS)
NAMED_MAX = 3
STAGED = "-written"
IN_ORDER = {
    "spark.sql.sources.bucketing.enabled": "true",
    "spark.sql.sources.bucketing.autoBucketedScan.enabled": "false",
}


def check_columns(spark: SparkSession, target: Files, schema: str) -> None:
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
    _check_format(spark, target, [fields[name] for name in fields if name not in target.hive_partition_by])
    for option, names in (("sort_by", target.sort_by), ("bucket_by", target.bucket_by)):
        for name in names:
            if name not in fields:
                raise Refused(f"{target.shown}: {option} names {name}, which the result does not have", "name a column")
    for name in target.bucket_by:
        kind = fields[name].dataType
        if isinstance(kind, NO_VALUE) or " collate " in kind.simpleString():
            raise Refused(
                f"{target.shown}: {name} is {kind.simpleString()}, which has no bucket", "name another column"
            )


def _check_format(spark: SparkSession, target: Files, fields: Iterable[StructField]) -> None:
    """Not every format holds every type."""
    for field in fields:
        if not plan_calls.holds_type(spark, target.format, field.dataType.json()):
            raise Refused(
                f"{target.shown}: {field.name} is {field.dataType.simpleString()}, which {target.format} cannot hold",
                f"turn it into text in the step: F.to_json({field.name!r}); or use another format",
            )


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
    """The publication with files that are written for it; where they are staged they go when it is published."""
    shown = replace(what, schema=schema_of(target, what.schema))
    mine = what.part()
    parts = top.parts if top is not None and (top.files_format, top.options) == target.read_with else ()
    earlier = next((one for one in parts if one.is_same(mine)), None)
    if earlier is not None and earlier.is_listed:
        yield _with(shown, target, StagedFiles(folder="", listed=earlier.listed, directories=earlier.directories))
        return
    folder = f"{base}/{SCRATCH}/{what.version}{STAGED}"
    try:
        _remove_earlier(spark, what, base)
        listed = stage(spark, what, target, folder)
        yield _with(
            shown, target, StagedFiles(folder=folder, listed=listed, directories=_replaced(spark, target, listed))
        )
    finally:
        file_calls.delete_directory(spark, folder, 1)


def _with(what: Publication, target: Files, staged: StagedFiles) -> Publication:
    files_format, options = target.read_with
    by_directory = target.mode == PARTITION
    return replace(what, staged=replace(staged, by_directory=by_directory, format=files_format, options=options))


def stage(spark: SparkSession, what: Publication, target: Files, folder: str) -> tuple[tuple[str, int], ...]:
    """Write the rows below a folder; (path below it, bytes) of each file. Without rows Parquet needs none here."""
    if what.files or target.format != PARQUET:
        _write(spark, what, target, folder)
    return tuple(sorted(copying.visible(spark, folder).items()))


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
    rows = _rows(spark, what, target) if what.files else _no_rows(spark, what, target)
    options = {
        **dict(target.options),
        "compression": target.compression,
        "maxRecordsPerFile": str(target.max_records_per_file) if target.max_records_per_file else "",
    }
    told = {name: value for name, value in options.items() if value} | {"path": folder}
    with telling_lost(spark, what):
        if target.buckets:
            _write_buckets(target, rows, told)
        else:
            _write_files(target, rows, told)


def _write_files(target: Files, rows: DataFrame, options: dict[str, str]) -> None:
    if target.sort_by:
        rows = rows.sortWithinPartitions(*target.hive_partition_by, *target.sort_by)
    writer = rows.write.format(target.format).options(**options)
    if target.hive_partition_by:
        writer = writer.partitionBy(*target.hive_partition_by)
    writer.save()


def _write_buckets(target: Files, rows: DataFrame, options: dict[str, str]) -> None:
    """One task writes one bucket, and Spark's writer sorts it."""
    by_bucket = rows.repartition(target.buckets, *map(plan_calls.quoted, target.bucket_by))
    layout = (target.hive_partition_by, target.bucket_by, target.sort_by)
    file_calls.write_buckets(by_bucket, target.buckets, layout, options)


@contextlib.contextmanager
def telling_lost(spark: SparkSession, what: Publication) -> Iterator[None]:
    """A job that reads what is committed: if it fails because of a file, that is told by its path."""
    try:
        yield
    except Exception as error:
        if lost := _lost(spark, what, text_of(error)):
            raise SourceFilesLost(lost) from error
        raise


def _lost(spark: SparkSession, what: Publication, error: str) -> dict[str, str]:
    """The committed files that an error proves to be lost. Only an error about a file is looked into, and only at the
    files that it names, if it names any: what fails in the user's own code may fail in every task."""
    kind = cause_of(error).root.kind
    if kind not in (FailureKind.RESULT_MISSING, FailureKind.RESULT_CORRUPT):
        return {}
    named = [(path, length) for path, length in what.files if path.rpartition("/results/")[2] in error]
    if named and kind is FailureKind.RESULT_CORRUPT:
        return {path: "is damaged" for path, _ in named}
    looked_at = named or what.files
    return {path: "is missing or cut" for path, length in looked_at if file_calls.file_length(spark, path) != length}


def _no_rows(spark: SparkSession, what: Publication, target: Files) -> DataFrame:
    """A file of its own tells the columns, where the format has a place for them."""
    schema = StructType.fromJson(json.loads(schema_of(target, what.schema)))
    return spark.createDataFrame([], schema).coalesce(1)


def _rows(spark: SparkSession, what: Publication, target: Files) -> DataFrame:
    """What is committed, with the columns that only the target names."""
    rows = committed(spark, what) if not target.hive_partition_by else packed(spark, what)
    added = {name: F.lit(value) for name, value in target.partition if name not in rows.columns}
    return rows.withColumns(added) if added else rows


def committed(spark: SparkSession, what: Publication) -> DataFrame:
    """One task reads the rows of one partition, in their order and in the order of partitions, as Spark would have
    written the result itself: only buckets are read in that way, by whatever column."""
    column = StructType.fromJson(json.loads(what.schema)).names[:1]
    buckets = max(manifest.number_of(path) for path, _ in what.files) + 1
    return _scan(clone(spark, IN_ORDER), what, column, buckets)


def packed(spark: SparkSession, what: Publication) -> DataFrame:
    """Small files are read by one task: rows go into Hive's directories by their values."""
    return _scan(spark, what, (), 1)


def _scan(session: SparkSession, what: Publication, by: Sequence[str], buckets: int) -> DataFrame:
    return result_calls.scan(
        session,
        what.files[0][0].rsplit("/", 1)[0],
        "\n".join(f"{path}\t{length}" for path, length in what.files),
        its_schema=plan_calls.schema_of(session, what.schema),
        keys=by,
        partitions=buckets,
        cut_by=session,
    )
