"""What the two kinds of bare directories share: a label, and names that carry the fence."""

from __future__ import annotations

import re

from rekindle.engine.spark.publish.publication import Publication
from rekindle.master.facts.events import Fence
from rekindle.publish.pointers import NewestPointer, Pointer, compose

LABEL = "_rekindle"
VERSION = re.compile(r"v(\d+)-(\d+)-(\d+)(?:-([0-9a-f]+))?")


def fence_in(version: re.Match[str]) -> tuple[str, Fence]:
    """The place and the fence in a name."""
    *numbers, counted_in = version.groups(default="")
    return counted_in, Fence(*map(int, numbers))


def claim_of(what: Publication) -> Pointer:
    """Nothing of an older publication stays."""
    return compose(NewestPointer(0, None), what.part(), what.owner, what.schema, adds=False)
