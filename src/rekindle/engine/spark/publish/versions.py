"""Targets whose publications are versions: a directory that never changes, and a chain of pointers to them.

- Files of a version are complete before anything names them, never change, and are not removed by publishing.
- A reader of a version directory sees data files only; a result without rows is one file without rows.
- A table is one directory, so that each of its versions has all files (by link on a disk). The versions of files need
  none: what stays is named where it is.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from rekindle.engine.adapter import FileCopy, Stores
from rekindle.engine.spark.publish.publication import Publication, write
from rekindle.engine.spark.publish.publisher import (
    PublicationFenced,
    PublicationRequest,
    TargetState,
    check_later,
    part_of,
)
from rekindle.errors import Refused
from rekindle.master.facts.events import Fence
from rekindle.publish.files import Files
from rekindle.publish.history import is_previous, with_past
from rekindle.publish.overlap import reads_versions
from rekindle.publish.pointers import SCRATCH, VERSIONS, NewestPointer, Pointer, advance, compose, hive_columns, newest
from rekindle.publish.target import PointerStore, PublishTarget

# Refuses a result that does not fit to the version on top.
CheckColumns = Callable[[Pointer | None], None]


def place(base: str, pointer: Pointer) -> str:
    """The directory of a version, where it has one."""
    return f"{base}/{VERSIONS}/{pointer.version}"


def columns(schema: str) -> dict[str, str]:
    """Type by name, of Spark's JSON. Whether a column may be null does not count."""
    return {field.name: field.dataType.simpleString() for field in StructType.fromJson(json.loads(schema))}


def check_versions(
    request: PublicationRequest, target: PublishTarget, base: str, stores: Stores, *, adds: bool
) -> None:
    """Refuse what belongs to others, what a later run published, and to replace rows that were read to make these."""
    top = newest(stores(base)).pointer
    request.by.check(base, top)
    check_later(request, target, top, adds=adds)
    if adds and top is not None and reads_versions(base, request.read):
        _check_own_rows(request, target, top)


def _check_own_rows(request: PublicationRequest, target: PublishTarget, top: Pointer) -> None:
    """What was made by looking at the rows of a key cannot take the place of those rows: whatever it left out because
    it was there already would be gone. A run that goes on has seen the target as it was before."""
    this = part_of(request)
    earlier = [one for one in top.parts if this.replaces(one) and one.run != this.run]
    if earlier and not request.by.has_published:
        raise Refused(
            f"{target.shown} is read by this run, and holds the rows that run {earlier[-1].fence.order} appended with "
            "the same parameters: this run would read those rows and then replace them, so that rows are lost",
            "run with other parameters, or read another target: Rekindle cannot read it as it was before that run",
        )


def last_place(base: str, stores: Stores) -> str | None:
    """Which place published last; None if nobody did."""
    top = newest(stores(base)).pointer
    return None if top is None else top.place


def contents_of(base: str, stores: Stores) -> TargetState:
    """The newest version."""
    pointer = newest(stores(base)).pointer
    return TargetState(base if pointer is None else place(base, pointer), pointer)


def put_version(
    spark: SparkSession,
    what: Publication,
    base: str,
    store: PointerStore,
    *,
    adds: bool,
    stays: bool,
    check_columns: CheckColumns,
) -> Pointer:
    """A version directory, complete, and then the pointer to it. Returns what is on top of the chain in the end.
    `stays`: what was published before is named where it is."""

    def prepare(top: NewestPointer) -> Pointer:
        what.claimant.check(base, top.pointer)
        if top.pointer is not None and not adds:
            _check_read(what, top.pointer, store)
        check_columns(top.pointer)
        pointer = compose(top, what.part(), what.owner, what.schema, adds=adds, at=time.time(), stays=stays)
        pointer = what.written(pointer if adds else with_past(pointer, top.pointer, what.read))
        if top.pointer is None or pointer.version != top.pointer.version:
            _fill(spark, what, base, top.pointer, pointer)
        return pointer

    top = advance(store, what.part(), prepare, adds=adds)
    what.claimant.check(base, top)
    return top


def check_layout(target: Files, shown: str, top: Pointer | None) -> None:
    """One version has files of one format, in directories of values of the same columns, or without them: a reader
    could not read both."""
    if top is not None and (top.files_format, top.options) != target.read_with:
        told = "".join(f", {name}={value}" for name, value in top.options)
        raise Refused(
            f"{shown} was published as {top.files_format}{told} before, and a version has one format",
            'publish everything once with mode="overwrite", or to another target',
        )
    columns_before = hive_columns(top) if top is not None and top.has_files else target.hive_partition_by
    if columns_before != target.hive_partition_by:
        had = f"with hive_partition_by={list(columns_before)}" if columns_before else "without hive_partition_by"
        raise Refused(
            f"{shown} was published {had} before, and a version cannot have both layouts",
            'publish everything once with mode="overwrite", or to another target',
        )


def _check_read(what: Publication, top: Pointer, store: PointerStore) -> None:
    """What was made from one version must not replace another one: what that one added would be undone. But a key that
    was published before is published anew over the version before it: later keys are told to be stale."""
    is_own = (top.place, top.fence.order) == (what.place, what.fence.order)
    if not what.read or what.read.issuperset(top.folders or (top.version,)) or is_own:
        return
    if is_previous(store, what.key, what.read):
        return
    raise PublicationFenced(
        f"{what.target.shown} is read by this run as it was before run {top.fence.order} published to it: what that "
        "run changed would be undone",
        top.fence,
    )


def _fill(spark: SparkSession, what: Publication, base: str, old: Pointer | None, new: Pointer) -> None:
    """Our files come from the committed result, those of other keys from the version before, unless they stay there."""
    ours = what.part()
    copies: list[FileCopy] = []
    folder = new.version
    for part in new.parts:
        if part.is_same(ours) and (part.listed == ours.listed and not _is_in_old(what)):
            folder = new.folder_of(part)
            copies += what.copies(part)
        elif not part.folder:
            assert old is not None, "parts of other keys come from an older version"
            before = f"{base}/{VERSIONS}/{old.folder_of(part)}"
            copies += [FileCopy(f"{before}/{name}", length, name) for name, length in part.files()]
    if not copies and new.has_files:
        return
    directory = f"{base}/{VERSIONS}/{folder}"
    strange = write(spark, what, directory, f"{base}/{SCRATCH}/{new.version}", copies)
    if strange:
        raise OSError(f"{directory} holds files that are not of this version: {sorted(strange)[:3]}")


def _is_in_old(what: Publication) -> bool:
    """Its files were written for an earlier version, and are nowhere else."""
    return what.staged is not None and not what.staged.folder


def newer(what: Publication, top: Pointer, *, adds: bool) -> Fence | None:
    """The later fence that the target holds, None if it holds ours. That is not told by the fence alone: the one of a
    copy of the location may be the same."""
    return None if top.holds(what.part()) else top.fences(what.part(), adds=adds) or top.fence
