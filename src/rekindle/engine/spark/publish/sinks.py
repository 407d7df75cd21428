"""Publish a committed result into its target: idempotent and fenced, atomic where the target can be.

Why "compare, then act" cannot put yesterday back (fences are ordered by run, epoch and number)
- `files`: the act is a put-if-absent of the next number in the chain (pointers.py): the comparison is in the act.
- `table`: the same chain decides, and the table follows it (tables.py says what a shared metastore leaves open).
- `directory`, `replace`: see directory.py and replaced.py. The first is claimed once for ever; the second is
  decided by a chain too, but its files are seen one by one.
- `kafka`, `each_batch`: they take streams only (stream_targets.py), and are refused here.
- `each_partition`: the chain decides who may begin; what the function writes is its own (each_partition.py).
- `delta`, `iceberg`: the log of the table decides; one commit has the files and the fence (table_log.py).

What readers may rely on
- Files of a version are complete before anything names them, never change, and are not removed by publishing. A reader
  that resolved a version before a newer one came reads on in the old one. Removing versions is gc's, later.
- A reader of a version directory sees data files only; a result without rows is one file without rows.
- Between a crash and the next publication the old version is the published one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from rekindle.engine.adapter import Stores
from rekindle.engine.spark.failures import cause_of, signature, text_of
from rekindle.engine.spark.publish.copying import SourceFilesLost
from rekindle.engine.spark.publish.delta import DeltaPublisher
from rekindle.engine.spark.publish.directory import DirectoryPublisher
from rekindle.engine.spark.publish.each_partition import EachPartitionPublisher
from rekindle.engine.spark.publish.files import FilesPublisher
from rekindle.engine.spark.publish.iceberg import IcebergPublisher
from rekindle.engine.spark.publish.publication import Publication, TargetOwner
from rekindle.engine.spark.publish.publisher import (
    NO_TABLES,
    PublicationFenced,
    PublicationRequest,
    TablesRead,
    TargetPublisher,
)
from rekindle.engine.spark.publish.replaced import ReplacePublisher
from rekindle.engine.spark.publish.table_log import TableLogPublisher
from rekindle.engine.spark.publish.tables import TablePublisher
from rekindle.errors import GraphRefused, Refused, StoreDenied, StoreFailed
from rekindle.master.facts.events import Fence
from rekindle.master.facts.stimuli import SinkDone, SinkFailed, SinkFenced
from rekindle.model.failures import Cause, Failure, FailureKind
from rekindle.model.partitions import EMPTY
from rekindle.publish.targets import Delta, Directory, EachPartition, Files, Iceberg, Replace, Table, Target

# Each kind of target with who publishes into it.
PUBLISHERS: Mapping[type, Callable[[Any], TargetPublisher]] = {
    Table: TablePublisher,
    Directory: DirectoryPublisher,
    Files: FilesPublisher,
    Replace: ReplacePublisher,
    EachPartition: EachPartitionPublisher,
    Delta: DeltaPublisher,
    Iceberg: IcebergPublisher,
}


@dataclass(frozen=True, slots=True)
class FilesLost:
    """Nothing was published: committed files (by path) are missing, short or damaged, and must be made again."""

    sink: str
    fence: Fence
    found: dict[str, str]


Published = SinkDone | SinkFenced | SinkFailed | FilesLost


def publish(spark: SparkSession, what: Publication, stores: Stores) -> Published:
    """Put it into its target, unless that holds a later fence. Never raises: what went wrong is the answer."""
    try:
        newer = publisher_of(what.target).publish(spark, what, stores)
    except SourceFilesLost as lost:
        paths = {path for path, _ in what.files}
        own = {path: why for path, why in lost.found.items() if path in paths}
        if own:
            return FilesLost(what.sink, what.fence, own)
        return _failed(what, Cause(FailureKind.RESULT_MISSING, f"the previous publication is damaged: {lost}"))
    except PublicationFenced as error:
        return SinkFenced(what.sink, what.fence, error.newer, str(error))
    except Exception as error:
        return _failed(what, _cause(error))
    return SinkDone(what.sink, what.fence) if newer is None else SinkFenced(what.sink, what.fence, newer)


def publisher_of(target: Target) -> TargetPublisher:
    """Who publishes into a target. Refuses one that takes streams only."""
    kind = next((kind for kind in type(target).__mro__ if kind in PUBLISHERS), None)
    if kind is None:
        raise GraphRefused(
            f"{target.shown} takes streams only, and this pipeline reads none",
            "read a stream in a source (spark.readStream), or publish to rk.files, rk.table or rk.each_partition",
        )
    return PUBLISHERS[kind](target)


def how(spark: SparkSession, target: Target, base: str) -> str:
    """How the log of a table takes what is published there; empty for other targets."""
    publisher = publisher_of(target)
    return publisher.how(spark, base) if isinstance(publisher, TableLogPublisher) else ""


def check(
    spark: SparkSession,
    by: TargetOwner,
    target: Target,
    order: int,
    stores: Stores,
    *,
    schema: str = "",
    read: Collection[str] = (),
    tables: TablesRead = NO_TABLES,
) -> None:
    """Before anything runs: refuse what publishing would refuse after hours of work, and an append that would lose
    rows. `read` and `tables` are the paths and tables that the run reads."""
    publisher = publisher_of(target)
    request = PublicationRequest(by=by, order=order, schema=schema, read=read, tables=tables)
    publisher.check(spark, request, publisher.base(spark), stores)


def _failed(what: Publication, cause: Cause) -> SinkFailed:
    return SinkFailed(Failure(what.sink, EMPTY, cause, signature(cause)), what.fence)


def _cause(error: Exception) -> Cause:
    match error:
        case Refused():
            return Cause(FailureKind.USER_ERROR, str(error))
        case StoreDenied():
            return Cause(FailureKind.DENIED, str(error))
        case StoreFailed():
            return Cause(FailureKind.READ_ERROR, str(error))
        case TimeoutError():
            return Cause(FailureKind.TIMED_OUT, str(error))
        case _:
            return cause_of(text_of(error))
