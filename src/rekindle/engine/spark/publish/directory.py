"""A bare directory that is written once.

- The label `_rekindle` says who claimed the directory, for which run and which committed files. It is never replaced.
- On disk the files and the label are staged beside it under a hidden name; the act is one rename, which fails where
  something is. The name begins with a dot: Spark shows `_rekindle-day=7` to readers of the directory above. What
  earlier masters of the run staged goes when the directory is there.
- On object stores the act is a put-if-absent of the label, before the first file. Masters of one run that publish the
  same files share the claim: they write the same names and bytes. `_SUCCESS` is written last.
- Files of another format are staged first, by names that nobody else uses. The label that is put names them and where
  they are staged: a later master of the run goes on to copy those, and they stay until `_SUCCESS` is there.
"""

from __future__ import annotations

import glob
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import SparkSession

from rekindle.engine.adapter import FileCopy, Stores
from rekindle.engine.spark.jvm import file_calls
from rekindle.engine.spark.publish import copying, rewriting
from rekindle.engine.spark.publish.bare_directories import LABEL, claim_of
from rekindle.engine.spark.publish.publication import Publication, StagedFiles, write
from rekindle.engine.spark.publish.publisher import PublicationRequest, TargetState
from rekindle.errors import Refused
from rekindle.master.facts.events import Fence
from rekindle.publish.directory import Directory
from rekindle.publish.pointers import VERSION, Pointer, decode, encode, fence_in, put_certainly
from rekindle.publish.target import PointerStore, url
from rekindle.storage.schemes import is_local

STAGED, STAGED_INSIDE, SUCCESS = ".rekindle", "_staged", "_SUCCESS"


@dataclass(frozen=True, slots=True)
class DirectoryPublisher:
    """Publishes into `rk.directory`."""

    target: Directory

    def base(self, spark: SparkSession) -> str:
        return url(self.target.path)

    def check(self, spark: SparkSession, request: PublicationRequest, base: str, stores: Stores) -> None:
        if self.target.as_files.is_rewritten and request.schema:
            rewriting.check_columns(spark, self.target.as_files, request.schema)
        label = label_of(spark, self.target, stores(base))
        if label is not None and not (request.by.owns(label) and label.fence.order == request.order):
            raise written_once(self.target, label)

    def place(self, spark: SparkSession, base: str, stores: Stores) -> str | None:
        return None

    def publish(self, spark: SparkSession, what: Publication, stores: Stores) -> Fence | None:
        act = _on_disk if is_local(self.target.path) else _on_objects
        return act(spark, what, self.target, stores(self.base(spark)))

    def contents(self, spark: SparkSession, stores: Stores) -> TargetState:
        folder = self.base(spark)
        label = stores(folder).get(LABEL)
        return TargetState(folder, None if label is None else decode(label))


def label_of(spark: SparkSession, target: Directory, store: PointerStore) -> Pointer | None:
    """Who claimed the directory. Refuses one with files that nobody claimed."""
    body = store.get(LABEL)
    if body is not None:
        return decode(body)
    if copying.visible(spark, url(target.path)):
        raise Refused(f"{target.path} exists and was not published by Rekindle", "use a directory that does not exist")
    return None


def written_once(target: Directory, label: Pointer) -> Refused:
    return Refused(
        f"{target.path} already holds another publication ({label.owner}, run {label.fence.order})",
        "a directory is written once: use another path, or files(path)",
    )


def _on_disk(spark: SparkSession, what: Publication, target: Directory, store: PointerStore) -> Fence | None:
    label = label_of(spark, target, store)
    place = Path(url(target.path).removeprefix("file:"))
    if label is None:
        staged = place.with_name(f"{_staged(place)}{what.version}")
        if target.as_files.is_rewritten:
            what = _written(spark, what, target, f"file:{staged}/_scratch/written")
        write(spark, what, f"file:{staged}", f"file:{staged}/_scratch", what.copies(what.part()))
        copying.put(spark, f"file:{staged}/{LABEL}", encode(claim_of(what)))
        try:
            staged.rename(place)
        except OSError:
            label = label_of(spark, target, store)
            if label is None:
                raise
    _remove_staged(place, what)
    return None if label is None else _judge(what, target, label)


def _staged(place: Path) -> str:
    """How the names begin under which a directory is staged."""
    return f"{STAGED}-{place.name}-"


def _remove_staged(place: Path, what: Publication) -> None:
    """What masters of this run staged and never can be seen any more, now that the directory is there."""
    for staged in place.parent.glob(f"{glob.escape(_staged(place))}v*"):
        found = VERSION.fullmatch(staged.name.removeprefix(_staged(place)))
        counted_in, fence = fence_in(found) if found is not None else ("", None)
        if fence is not None and (counted_in, fence.order) == (what.place, what.fence.order) and fence <= what.fence:
            shutil.rmtree(staged, ignore_errors=True)


def _on_objects(spark: SparkSession, what: Publication, target: Directory, store: PointerStore) -> Fence | None:
    label, base = label_of(spark, target, store), url(target.path)
    if label is None:
        if target.as_files.is_rewritten:
            what = _written(spark, what, target, f"{base}/{STAGED_INSIDE}/{what.version}")
        label = claim_of(what)
        if not put_certainly(store, LABEL, encode(label)):
            label = decode(store.get(LABEL) or b"")
            if what.staged is not None:
                file_calls.delete_directory(spark, what.staged.folder, 1)
    newer = _judge(what, target, label)
    if newer is None:
        write(spark, what, base, f"{base}/_scratch", _copies(what, base, label))
        copying.put(spark, f"{base}/{SUCCESS}", b"")
        file_calls.delete_directory(spark, f"{base}/{STAGED_INSIDE}", 1)
    return newer


def _written(spark: SparkSession, what: Publication, target: Directory, folder: str) -> Publication:
    """The publication with files in the format of the target. What a master left there that died is written anew."""
    file_calls.delete_directory(spark, folder, 1)
    listed = rewriting.stage(spark, what, target.as_files, folder)
    files_format, options = target.as_files.read_with
    return replace(what, staged=StagedFiles(folder=folder, listed=listed, format=files_format, options=options))


def _copies(what: Publication, base: str, label: Pointer) -> list[FileCopy]:
    """Under the names of the label; what was written again is staged by whoever put it."""
    part = label.parts[0]
    if not part.is_listed:
        return what.copies(part)
    folder = f"{base}/{STAGED_INSIDE}/{part.version}"
    return [FileCopy(f"{folder}/{name}", length, name) for name, length in part.files()]


def _judge(what: Publication, target: Directory, label: Pointer) -> Fence | None:
    """None if the claim is ours, or another master's of this run for the same files."""
    is_ours = what.claimant.owns(label)
    if is_ours and label.holds(what.part()):
        return None
    if is_ours and label.fence > what.fence:
        return label.fence
    raise written_once(target, label)
