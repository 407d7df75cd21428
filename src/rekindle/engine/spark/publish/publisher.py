"""What an engine must be able to do with a target: one class for each kind, listed in `sinks.py`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import SparkSession

from rekindle.engine.adapter import Stores
from rekindle.engine.spark.publish.publication import Publication, TargetOwner
from rekindle.errors import Refused
from rekindle.master.facts.events import Fence
from rekindle.pipeline.table_versions import TableVersion
from rekindle.publish.pointers import Part, Pointer
from rekindle.publish.target import PublishTarget
from rekindle.remedies import OVERTAKEN


@dataclass(frozen=True, slots=True, kw_only=True)
class TablesRead:
    """The tables with a log that a run reads: at one version for all of its drivers, and `loose` ones, which it reads
    as they are when they are read."""

    fixed: tuple[TableVersion, ...] = ()
    loose: tuple[TableVersion, ...] = ()


NO_TABLES = TablesRead()


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationRequest:
    """What is known of a publication before anything runs: who wants it, the order of the run, the schema of the result
    as Spark's JSON, and the paths and tables that the run reads."""

    by: TargetOwner
    order: int
    schema: str = ""
    read: Collection[str] = ()
    tables: TablesRead = NO_TABLES


@dataclass(frozen=True, slots=True)
class TargetState:
    """What a target holds: the pointer or label of the last publication, None where there was none, and the folder in
    which its files lie, if it has any."""

    folder: str
    pointer: Pointer | None
    has_files: bool = True

    def folder_of(self, part: Part) -> str:
        """Where the files of a part lie: in a version directory of its own, or with all others."""
        return f"{self.folder.rsplit('/', 1)[0]}/{part.folder}" if part.folder else self.folder


class PublicationFenced(Exception):
    """The publication was made from a version that is not the newest any more: that of `newer` would be undone. Where
    somebody else made it, who has no fence, it is that of the publication itself."""

    def __init__(self, message: str, newer: Fence) -> None:
        super().__init__(message)
        self.newer = newer


class TargetPublisher(Protocol):
    """Publishes into one target."""

    def base(self, spark: SparkSession) -> str:
        """Where the files of the target lie: two targets with one base are one."""
        ...

    def check(self, spark: SparkSession, request: PublicationRequest, base: str, stores: Stores) -> None:
        """Refuse what publishing would refuse after hours of work, and an append that would lose rows."""
        ...

    def place(self, spark: SparkSession, base: str, stores: Stores) -> str | None:
        """Which place published last into it, where it can be handed over; None if nobody did, or it cannot."""
        ...

    def publish(self, spark: SparkSession, what: Publication, stores: Stores) -> Fence | None:
        """Put it into the target. None if the target holds it now, else the later fence that it holds."""
        ...

    def contents(self, spark: SparkSession, stores: Stores) -> TargetState:
        """What it holds now."""
        ...


def check_later(request: PublicationRequest, target: PublishTarget, top: Pointer | None, *, adds: bool) -> None:
    """A later run is never replaced by an earlier one, whatever that computes. One that has published need not."""
    by, order = request.by, request.order
    fence = top.fences(part_of(request), adds=adds) if top is not None and not by.has_published else None
    if fence is not None and fence.order > order:
        raise Refused(
            f"{target.shown} already holds what a later run published (run {fence.order}; this is run {order})",
            OVERTAKEN,
        )


def part_of(request: PublicationRequest) -> Part:
    """As what it would stand in the pointer, before it has files."""
    fence = Fence(request.order, 0, 0)
    return Part(fence=fence, source="", bytes=(), place=request.by.place, key=request.by.key)
