"""Publish a committed result into its target: idempotent and fenced, atomic where the target can be.

Why "compare, then act" cannot put yesterday back (fences are ordered by run, epoch and number)
- `files`: the act is a put-if-absent of the next number in the chain (pointers.py): the comparison is in the act.
- `table`: the same chain decides, and the table follows it (tables.py says what a shared metastore leaves open).
- `directory`, `replace`: see directories.py. The first is claimed once for ever; the second is decided by a chain
  too, but its files are seen one by one.

What readers may rely on
- Files of a version are complete before anything names them, never change, and are not removed by publishing. A reader
  that resolved a version before a newer one came reads on in the old one. Removing versions is gc's, later.
- A reader of a version directory sees data files only; a result without rows is one file without rows.
- Between a crash and the next publication the old version is the published one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import assert_never

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from rekindle.engine.spark.failures import cause_of, signature, text_of
from rekindle.engine.spark.publish import directories, tables
from rekindle.engine.spark.publish.copying import Copy, Lost
from rekindle.engine.spark.publish.publication import Claimant, Publication, write
from rekindle.errors import Refused, StoreFailed
from rekindle.master.facts.events import Fence
from rekindle.master.facts.stimuli import SinkDone, SinkFailed, SinkFenced
from rekindle.model.failures import Cause, Failure, FailureKind
from rekindle.model.partitions import EMPTY
from rekindle.publish.overlap import reads_versions
from rekindle.publish.pointers import Part, Pointer, Top, advance, compose, newest
from rekindle.publish.targets import Directory, Files, PointerStore, Replace, Table, Target, url
from rekindle.remedies import TextRemedy, new_run

__all__ = ["Claimant", "FilesLost", "Publication", "Published", "Stores", "check", "publish", "read_newest"]

Stores = Callable[[str], PointerStore]


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
        newer = _publish(spark, what, stores)
    except Lost as lost:
        paths = {path for path, _ in what.files}
        own = {path: why for path, why in lost.found.items() if path in paths}
        if own:
            return FilesLost(what.sink, what.fence, own)
        return _failed(what, Cause(FailureKind.RESULT_MISSING, f"the previous publication is damaged: {lost}"))
    except Exception as error:
        return _failed(what, _cause(error))
    return SinkDone(what.sink, what.fence) if newer is None else SinkFenced(what.sink, what.fence, newer)


def check(
    spark: SparkSession,
    by: Claimant,
    target: Target,
    order: int,
    stores: Stores,
    *,
    schema: str = "",
    read: Collection[str] = (),
) -> None:
    """Before anything runs: refuse what publishing would refuse after hours of work, and an append that would lose
    rows. `read` are the paths that the run reads."""
    base = base_of(spark, target)
    match target:
        case Table() | Files():
            if schema and isinstance(target, Table):
                tables.check_schema(spark, target, schema)
            top = newest(stores(base)).pointer
            by.check(base, top)
            _check_later(by, target, order, top, adds=target.adds)
            if target.adds and top is not None and reads_versions(base, read):
                _check_own_rows(by, target, order, top)
        case Replace():
            top = newest(stores(base), directories.HIDDEN_POINTERS).pointer
            directories.check_replaced(by, base, top)
            if not by.has_published:
                directories.handed_over(spark, base, top, by.place)
            _check_later(by, target, order, top, adds=False)
        case Directory():
            label = directories.label_of(spark, target, stores(base))
            if label is not None and not (by.owns(label) and label.fence.order == order):
                raise directories.written_once(target, label)
        case _:  # pragma: no cover
            assert_never(target)


def _check_later(by: Claimant, target: Target, order: int, top: Pointer | None, *, adds: bool) -> None:
    """A later run is never replaced by an earlier one, whatever that computes. One that has published need not."""
    this = Part(fence=Fence(order, 0, 0), source="", bytes=(), place=by.place, key=by.key)
    fence = top.fences(this, adds=adds) if top is not None and not by.has_published else None
    if fence is not None and fence.order > order:
        raise Refused(
            f"{target.shown} already holds what a later run published (run {fence.order}; this is run {order})",
            (TextRemedy("leave it if the later run is right"), new_run("or compute this one anew, over it")),
        )


def _check_own_rows(by: Claimant, target: Target, order: int, top: Pointer) -> None:
    """What was made by looking at the rows of a key cannot take the place of those rows: whatever it left out because
    it was there already would be gone. A run that goes on has seen the target as it was before."""
    this = Part(fence=Fence(order, 0, 0), source="", bytes=(), place=by.place, key=by.key)
    earlier = [one for one in top.parts if this.replaces(one) and one.run != this.run]
    if earlier and not by.has_published:
        raise Refused(
            f"{target.shown} is read by this run, and holds the rows that run {earlier[-1].fence.order} appended with "
            "the same parameters: this run would read those rows and then replace them, so that rows are lost",
            "run with other parameters, or read another target: Rekindle cannot read it as it was before that run",
        )


def base_of(spark: SparkSession, target: Target) -> str:
    """Where the files of a target lie: two targets with one base are one."""
    return tables.base_of(spark, target) if isinstance(target, Table) else url(target.path)


def place_of(target: Target, base: str, stores: Stores) -> str | None:
    """Which place published last into a target that can be handed over; None if nobody did, or it cannot."""
    top = newest(stores(base)).pointer if isinstance(target, Table | Files) else None
    return None if top is None else top.place


def read_newest(spark: SparkSession, path: str, stores: Stores) -> DataFrame:
    """The newest version of `files(path)`. The DataFrame stays on its version, whatever is published later."""
    base = url(path)
    pointer = newest(stores(base)).pointer
    if pointer is None:
        raise Refused(f"nothing is published in {path}")
    schema = StructType.fromJson(json.loads(pointer.schema))
    return spark.read.schema(schema).parquet(tables.place(base, pointer))


def _publish(spark: SparkSession, what: Publication, stores: Stores) -> Fence | None:
    """None if the target holds it now, else the later fence that it holds."""
    target = what.target
    match target:
        case Table():
            base = base_of(spark, target)
            top = _put_version(spark, what, base, stores(base), adds=target.adds)
            tables.follow(spark, target, base, lambda: _top(stores(base)))
            return _newer(what, top, adds=target.adds)
        case Files():
            base = url(target.path)
            top = _put_version(spark, what, base, stores(base), adds=target.adds)
            return _newer(what, top, adds=target.adds)
        case Directory():
            return directories.claim(spark, what, target, stores(url(target.path)))
        case Replace():
            return directories.replace(spark, what, target.path, stores(url(target.path)))
        case _:  # pragma: no cover
            assert_never(target)


def _put_version(spark: SparkSession, what: Publication, base: str, store: PointerStore, *, adds: bool) -> Pointer:
    """A version directory, complete, and then the pointer to it. Returns what is on top of the chain in the end."""

    def prepare(top: Top) -> Pointer:
        what.claimant.check(base, top.pointer)
        if isinstance(what.target, Table):
            tables.check_schema(spark, what.target, what.schema)
        elif adds:
            _check_same_columns(what, top.pointer)
        pointer = compose(top, what.part(), what.owner, what.schema, adds=adds)
        if top.pointer is None or pointer.version != top.pointer.version:
            _fill(spark, what, base, top.pointer, pointer)
        return pointer

    top = advance(store, what.part(), prepare, adds=adds)
    what.claimant.check(base, top)
    return top


def _fill(spark: SparkSession, what: Publication, base: str, old: Pointer | None, new: Pointer) -> None:
    """Our files come from the committed result, those of other keys from the version before."""
    ours = what.part()
    copies: list[Copy] = []
    for part in new.parts:
        if part.is_same(ours):
            copies += what.copies(part)
        else:
            assert old is not None, "parts of other keys come from an older version"
            before = tables.place(base, old)
            copies += [Copy(f"{before}/{name}", length, name) for name, length in part.files()]
    strange = write(spark, what, tables.place(base, new), f"{base}/scratch/{new.version}", copies)
    if strange:
        raise OSError(f"{tables.place(base, new)} holds files that are not of this version: {sorted(strange)[:3]}")


def _top(store: PointerStore) -> Pointer:
    pointer = newest(store).pointer
    assert pointer is not None, "somebody published, and the top is never removed"
    return pointer


def _newer(what: Publication, top: Pointer, *, adds: bool) -> Fence | None:
    """Not by the fence alone: that of a copy of the location may be the same."""
    return None if top.holds(what.part()) else top.fences(what.part(), adds=adds) or top.fence


def _check_same_columns(what: Publication, top: Pointer | None) -> None:
    if top is not None and tables.columns(top.schema) != tables.columns(what.schema):
        raise Refused(
            f"{what.target.shown} has columns {tables.columns(top.schema)}, the result {tables.columns(what.schema)}",
            "append the same columns, or publish with mode='overwrite'",
        )


def _failed(what: Publication, cause: Cause) -> SinkFailed:
    return SinkFailed(Failure(what.sink, EMPTY, cause, signature(cause)), what.fence)


def _cause(error: Exception) -> Cause:
    match error:
        case Refused():
            return Cause(FailureKind.USER_ERROR, str(error))
        case StoreFailed():
            return Cause(FailureKind.READ_ERROR, str(error))
        case TimeoutError():
            return Cause(FailureKind.TIMED_OUT, str(error))
        case _:
            return cause_of(text_of(error))
