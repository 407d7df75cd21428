"""A bare directory whose files are replaced one by one.

- A chain of pointers in `_rekindle` decides before the first file is touched. Names carry the fence.
- A publisher removes files that are older than itself and ours, and looks at the chain again at its end, also if it
  failed: if something newer came it takes its own files away.
- Files that lie directly in the directory before its first publication are handed over with it: their names are noted
  in the chain before the first of them goes. Nothing else that is not ours is removed: a directory below it, or a file
  that somebody put there later, is named and the publication refused, before anything runs and before it begins.
- A publisher that dies in between leaves a mixture until the next publication: that is what `atomic=False` says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from msgspec import structs
from pyspark.sql import SparkSession

from rekindle.engine.adapter import Stores
from rekindle.engine.spark.publish import copying
from rekindle.engine.spark.publish.bare_directories import LABEL, claim_of
from rekindle.engine.spark.publish.publication import Publication, TargetOwner, write
from rekindle.engine.spark.publish.publisher import PublicationRequest, TargetState, check_later
from rekindle.errors import Refused
from rekindle.master.facts.events import Fence
from rekindle.publish.pointers import POINTERS, VERSION, NewestPointer, Pointer, advance, fence_in, newest, top_of
from rekindle.publish.replace import Replace
from rekindle.publish.target import PointerStore, url

HIDDEN_POINTERS = f"{LABEL}/{POINTERS}"
NAMED_MAX = 5
OURS = re.compile(rf"-{VERSION.pattern}\.parquet$")


@dataclass(frozen=True, slots=True)
class ReplacePublisher:
    """Publishes into `rk.replace`."""

    target: Replace

    def base(self, spark: SparkSession) -> str:
        return url(self.target.path)

    def check(self, spark: SparkSession, request: PublicationRequest, base: str, stores: Stores) -> None:
        top = newest(stores(base), HIDDEN_POINTERS).pointer
        check_replaced(request.by, base, top)
        if not request.by.has_published:
            handed_over(spark, base, top, request.by.place)
        check_later(request, self.target, top, adds=False)

    def place(self, spark: SparkSession, base: str, stores: Stores) -> str | None:
        return None

    def publish(self, spark: SparkSession, what: Publication, stores: Stores) -> Fence | None:
        return _replace(spark, what, self.base(spark), stores(self.base(spark)))

    def contents(self, spark: SparkSession, stores: Stores) -> TargetState:
        folder = self.base(spark)
        return TargetState(folder, newest(stores(folder), HIDDEN_POINTERS).pointer)


def _replace(spark: SparkSession, what: Publication, base: str, store: PointerStore) -> Fence | None:
    """Publish into a directory that is replaced. None if it holds the result now, else the later fence it holds."""

    def prepare(top: NewestPointer) -> Pointer:
        check_replaced(what.claimant, base, top.pointer)
        return structs.replace(claim_of(what), handed=handed_over(spark, base, top.pointer, what.place))

    top = advance(store, what.part(), prepare, HIDDEN_POINTERS)
    check_replaced(what.claimant, base, top)
    if _is_of(top, what):
        try:
            _exchange(spark, what, base, dict(top.handed))
        except Exception:
            if _is_of(top_of(store, HIDDEN_POINTERS), what):
                raise
    top = top_of(store, HIDDEN_POINTERS)
    if _is_of(top, what):
        return None
    if top.fence != what.fence:
        own = f"-{what.version}.parquet"
        copying.remove(spark, base, [name for name in copying.visible(spark, base) if name.endswith(own)])
    return top.fence


def check_replaced(by: TargetOwner, base: str, top: Pointer | None) -> None:
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
    return found is not None and "/" not in name and fence_in(found)[0] == place


def _is_older(name: str, what: Publication) -> bool:
    found = OURS.search(name)
    return found is not None and _is_ours(name, what.place) and fence_in(found)[1] < what.fence


def _is_of(top: Pointer, what: Publication) -> bool:
    return top.fence == what.fence and top.holds(what.part())
