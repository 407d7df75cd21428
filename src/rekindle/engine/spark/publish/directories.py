"""Bare directories: written once (`directory`), or replaced file by file (`replace`).

Written once
- The label `_rekindle` says who claimed the directory, for which run and which committed files. It is never replaced.
- On disk the files and the label are staged beside it under a hidden name; the act is one rename, which fails where
  something is. The name begins with a dot: Spark shows `_rekindle-day=7` to readers of the directory above. What
  earlier masters of the run staged goes when the directory is there.
- On object stores the act is a put-if-absent of the label, before the first file. Masters of one run that publish the
  same files share the claim: they write the same names and bytes. `_SUCCESS` is written last.

Replaced
- A chain of pointers in `_rekindle` decides before the first file is touched. Names carry the fence.
- A publisher removes files that are older than itself and ours, and looks at the chain again at its end, also if it
  failed: if something newer came it takes its own files away.
- Files that lie directly in the directory before its first publication are handed over with it: their names are noted
  in the chain before the first of them goes. Nothing else that is not ours is removed: a directory below it, or a file
  that somebody put there later, is named and the publication refused, before anything runs and before it begins.
- A publisher that dies in between leaves a mixture until the next publication: that is what `atomic=False` says.
"""

from __future__ import annotations

import glob
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import structs
from pyspark.sql import SparkSession

from rekindle.engine.spark.publish import copying
from rekindle.engine.spark.publish.publication import Claimant, Publication, write
from rekindle.errors import Refused
from rekindle.master.facts.events import Fence
from rekindle.publish.pointers import POINTERS, Pointer, Top, advance, compose, decode, encode, newest, put_certainly
from rekindle.publish.targets import Directory, PointerStore, url
from rekindle.storage.schemes import is_local

LABEL = "_rekindle"
HIDDEN_POINTERS = f"{LABEL}/{POINTERS}"
STAGED = ".rekindle"
NAMED_MAX = 5
VERSION = re.compile(r"v(\d+)-(\d+)-(\d+)(?:-([0-9a-f]+))?")
OURS = re.compile(rf"-{VERSION.pattern}\.parquet$")


def claim(spark: SparkSession, what: Publication, target: Directory, store: PointerStore) -> Fence | None:
    """Publish into a new directory. None if it holds the result now, else the later fence that it holds."""
    act = _on_disk if is_local(target.path) else _on_objects
    return act(spark, what, target, store)


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
        write(spark, what, f"file:{staged}", f"file:{staged}/_scratch", what.copies(what.part()))
        copying.put(spark, f"file:{staged}/{LABEL}", encode(_claim(what)))
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
        counted_in, fence = _fence(found) if found is not None else ("", None)
        if fence is not None and (counted_in, fence.order) == (what.place, what.fence.order) and fence <= what.fence:
            shutil.rmtree(staged, ignore_errors=True)


def _fence(version: re.Match[str]) -> tuple[str, Fence]:
    """The place and the fence in a name."""
    *numbers, counted_in = version.groups(default="")
    return counted_in, Fence(*map(int, numbers))


def _on_objects(spark: SparkSession, what: Publication, target: Directory, store: PointerStore) -> Fence | None:
    label = label_of(spark, target, store)
    if label is None:
        label = _claim(what)
        if not put_certainly(store, LABEL, encode(label)):
            label = decode(store.get(LABEL) or b"")
    newer = _judge(what, target, label)
    if newer is None:
        base = url(target.path)
        write(spark, what, base, f"{base}/_scratch", what.copies(label.parts[0]))
        copying.put(spark, f"{base}/_SUCCESS", b"")
    return newer


def _claim(what: Publication) -> Pointer:
    """Nothing of an older publication stays."""
    return compose(Top(0, None), what.part(), what.owner, what.schema, adds=False)


def _judge(what: Publication, target: Directory, label: Pointer) -> Fence | None:
    """None if the claim is ours, or another master's of this run for the same files."""
    is_ours = what.claimant.owns(label)
    if is_ours and label.holds(what.part()):
        return None
    if is_ours and label.fence > what.fence:
        return label.fence
    raise written_once(target, label)


def replace(spark: SparkSession, what: Publication, path: str, store: PointerStore) -> Fence | None:
    """Publish into a directory that is replaced. None if it holds the result now, else the later fence it holds."""
    base = url(path)

    def prepare(top: Top) -> Pointer:
        check_replaced(what.claimant, base, top.pointer)
        return structs.replace(_claim(what), handed=handed_over(spark, base, top.pointer, what.place))

    top = advance(store, what.part(), prepare, HIDDEN_POINTERS)
    check_replaced(what.claimant, base, top)
    if _is_of(top, what):
        try:
            _exchange(spark, what, base, dict(top.handed))
        except Exception:
            if _is_of(_top(store), what):
                raise
    top = _top(store)
    if _is_of(top, what):
        return None
    if top.fence != what.fence:
        own = f"-{what.version}.parquet"
        copying.remove(spark, base, [name for name in copying.visible(spark, base) if name.endswith(own)])
    return top.fence


def check_replaced(by: Claimant, base: str, top: Pointer | None) -> None:
    """Files that are seen one by one cannot be handed from place to place while somebody else may still write some."""
    if top is not None and not by.owns(top):
        raise Refused(
            f"{base} is replaced by runs of {top.owner}{' in another location' if top.owner == by.owner else ''}",
            f"use another target, or remove {base}/{LABEL} if those will never publish again",
        )


def handed_over(spark: SparkSession, base: str, top: Pointer | None, place: str) -> tuple[tuple[str, int], ...]:
    """The files that are there and go with the next publication although they are not ours. Refuses a directory with
    others."""
    there = copying.visible(spark, base)
    known = {name: length for name, length in there.items() if "/" not in name} if top is None else dict(top.handed)
    handed = {name: length for name, length in there.items() if known.get(name) == length}
    strange = [name for name in there if name not in handed and not _is_ours(name, place)]
    if strange:
        raise _not_ours(base, strange)
    return tuple(sorted(handed.items()))


def _not_ours(base: str, names: Iterable[str]) -> Refused:
    shown = sorted({f"{name.partition('/')[0]}/" if "/" in name else name for name in names})
    more = f" and {len(shown) - NAMED_MAX} more" if len(shown) > NAMED_MAX else ""
    return Refused(
        f"{base} cannot be replaced: it has files that Rekindle did not publish: {', '.join(shown[:NAMED_MAX])}{more}",
        "move that away, or publish to a directory of its own: only published files are removed",
    )


def _exchange(spark: SparkSession, what: Publication, base: str, handed: Mapping[str, int]) -> None:
    others = write(spark, what, base, f"{base}/{LABEL}/scratch", what.copies(what.part()))
    there = copying.visible(spark, base)
    gone = {name for name in others if _is_older(name, what) or handed.get(name) == there.get(name, -1)}
    copying.remove(spark, base, gone)
    strange = [name for name in others - gone if not _is_ours(name, what.place)]
    if strange:
        raise _not_ours(base, strange)


def _is_ours(name: str, place: str) -> bool:
    """Published by a run that this place counts."""
    found = OURS.search(name)
    return found is not None and "/" not in name and _fence(found)[0] == place


def _is_older(name: str, what: Publication) -> bool:
    found = OURS.search(name)
    return found is not None and _is_ours(name, what.place) and _fence(found)[1] < what.fence


def _is_of(top: Pointer, what: Publication) -> bool:
    return top.fence == what.fence and top.holds(what.part())


def _top(store: PointerStore) -> Pointer:
    pointer = newest(store, HIDDEN_POINTERS).pointer
    assert pointer is not None, "we published, and the top is never removed"
    return pointer
