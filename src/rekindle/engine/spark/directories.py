"""Bare directories: written once (`directory`), or replaced file by file (`replace`).

Written once
- The label `_rekindle` says who claimed the directory, for which run and which committed files. It is never replaced.
- On disk the files and the label are staged beside it under a hidden name; the act is one rename, which fails where
  something is.
- On object stores the act is a put-if-absent of the label, before the first file. Masters of one run that publish the
  same files share the claim: they write the same names and bytes. `_SUCCESS` is written last.

Replaced
- A chain of pointers in `_rekindle` decides before the first file is touched. Names carry the fence.
- A publisher removes only what is older than itself or not ours, and looks at the chain again at its end, also if it
  failed: if something newer came it takes its own files away.
- A publisher that dies in between leaves a mixture until the next publication: that is what `atomic=False` says.
"""

from __future__ import annotations

import re
from pathlib import Path

from pyspark.sql import SparkSession

from rekindle.engine.pointers import (
    POINTERS,
    Pointer,
    Top,
    advance,
    compose,
    decode,
    encode,
    newest,
    put_certainly,
    version_of,
)
from rekindle.engine.spark import copying
from rekindle.engine.spark.publication import Publication, check_owner, write
from rekindle.engine.targets import Directory, PointerStore, is_local, url
from rekindle.errors import Refused
from rekindle.master.events import Fence

LABEL = "_rekindle"
HIDDEN_POINTERS = f"{LABEL}/{POINTERS}"
OURS = re.compile(r"-v(\d+)-(\d+)-(\d+)\.parquet$")


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
    if label is None:
        place = Path(url(target.path).removeprefix("file:"))
        staged = place.with_name(f"{LABEL}-{place.name}-{version_of(what.fence)}")
        write(spark, what, f"file:{staged}", f"file:{staged}/_scratch", what.copies(what.part()))
        copying.put(spark, f"file:{staged}/{LABEL}", encode(_claim(what)))
        try:
            staged.rename(place)
        except OSError:
            label = label_of(spark, target, store)
            if label is None:
                raise
    return None if label is None else _judge(what, target, label)


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
    return Pointer(what.fence, what.owner, version_of(what.fence), what.schema, (what.part(),))


def _judge(what: Publication, target: Directory, label: Pointer) -> Fence | None:
    """None if the claim is ours, or another master's of this run for the same files."""
    if label.owner == what.owner and label.holds(what.part()):
        return None
    if label.owner == what.owner and label.fence > what.fence:
        return label.fence
    raise written_once(target, label)


def replace(spark: SparkSession, what: Publication, path: str, store: PointerStore) -> Fence | None:
    """Publish into a directory that is replaced. None if it holds the result now, else the later fence it holds."""
    base = url(path)

    def prepare(top: Top) -> Pointer:
        check_owner(what.owner, base, top.pointer)
        return compose(Top(top.number, None), what.part(), what.owner, what.schema, adds=False)

    top = advance(store, what.fence, prepare, HIDDEN_POINTERS)
    check_owner(what.owner, base, top)
    if top.fence == what.fence:
        try:
            _exchange(spark, what, base)
        except Exception:
            if _fence(store) == what.fence:
                raise
    newer = _fence(store)
    if newer == what.fence:
        return None
    own = f"-{version_of(what.fence)}.parquet"
    copying.remove(spark, base, [name for name in copying.visible(spark, base) if name.endswith(own)])
    return newer


def _exchange(spark: SparkSession, what: Publication, base: str) -> None:
    others = write(spark, what, base, f"{base}/{LABEL}/scratch", what.copies(what.part()))
    copying.remove(spark, base, [name for name in others if _is_older(name, what.fence)])


def _is_older(name: str, fence: Fence) -> bool:
    """Also what is not ours at all: the directory is to be replaced."""
    found = OURS.search(name)
    return found is None or Fence(*map(int, found.groups())) < fence


def _fence(store: PointerStore) -> Fence:
    pointer = newest(store, HIDDEN_POINTERS).pointer
    assert pointer is not None, "we published, and the top is never removed"
    return pointer.fence
