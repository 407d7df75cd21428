"""What the two kinds of bare directories share: a label, and names that carry the fence."""

from __future__ import annotations

from rekindle.engine.spark.publish.publication import Publication
from rekindle.publish.pointers import NewestPointer, Pointer, compose

LABEL = "_rekindle"


def claim_of(what: Publication) -> Pointer:
    """Nothing of an older publication stays."""
    return what.written(compose(NewestPointer(0, None), what.part(), what.owner, what.schema, adds=False))
