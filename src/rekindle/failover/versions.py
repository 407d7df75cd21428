"""Is a second commit the same version? (Rules 3 and 5.)

Equal digests are the same version. A different digest is a new one, and so is an unknown one on either side: unknown
is never a match. The readers of a new version restart, those of the same version do not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rekindle.model.ids import Digest
from rekindle.model.partitions import EMPTY, Partitions

Digests = Mapping[int, Digest | None]


@dataclass(frozen=True, slots=True)
class Versions:
    """The partitions of one report, cut three ways."""

    first: Partitions = EMPTY
    same: Partitions = EMPTY
    new: Partitions = EMPTY


def is_same_version(old: Digest | None, new: Digest | None) -> bool:
    return old is not None and old == new


def compare(seen: Digests, reported: Digests) -> Versions:
    """`seen` holds what readers may have seen of these partitions; a partition without a key was never seen."""
    first = [at for at in reported if at not in seen]
    same = [at for at in reported if at in seen and is_same_version(seen[at], reported[at])]
    both = Partitions(first) | Partitions(same)
    return Versions(Partitions(first), Partitions(same), Partitions(reported) - both)
