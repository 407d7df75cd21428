"""Where shards go on when there are more of them. Values in, values out.

Rules
- Shards become more only by a whole factor: then each new one reads a part of what one old one read, its parent.
- A new shard has a new checkpoint. It begins where its parent stood after its last batch, and reads its own part from
  there. What the parent read before is in the target, by the entries of the parent.
- A region that reads results of others only begins with the first batch of the new results: its parent must have read
  all batches of the old ones.
- Nothing of a parent may be on its way: its fence is raised first, and then each batch that it planned must be
  committed. A batch that is planned could count later, beside the same rows in the new shards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from rekindle.streams.stream_spec import RegionSpec


class ShardSplit(msgspec.Struct, frozen=True, kw_only=True):
    """Where a shard began: after this `batch` of the checkpoint of its `parent` that had this `generation`. Where it
    reads results only, `batch` is -1: it copies nothing."""

    parent: str
    generation: int
    batch: int


class ShardName(NamedTuple):
    """A region of a shard: its name, the name of its sink or step in the code, its number, and of how many it is
    one."""

    region: str
    declared: str
    number: int
    of: int


class FrozenRegion(NamedTuple):
    """The checkpoint of a region whose fence was raised: the last batches that it planned and committed, and by result
    that it reads the last batch of it that a committed one read."""

    planned: int
    committed: int
    read: Mapping[str, int]


def parents_of(names: Iterable[ShardName], known: Iterable[RegionSpec]) -> dict[str, RegionSpec]:
    """By new shard, the region that it goes on from. `known` are the regions that have the rows now: those that were
    split before are not among them."""
    found: dict[str, RegionSpec] = {}
    by_name: dict[str, list[RegionSpec]] = {}
    for one in known:
        by_name.setdefault(one.declared_name, []).append(one)
    for name in names:
        for one in by_name.get(name.declared, []):
            were = max(1, one.shards)
            is_factor = name.of > were and name.of % were == 0
            if is_factor and shard_number(one) == name.number % were and not _is_odd(one):
                found[name.region] = one
    return found


def shard_number(region: RegionSpec) -> int:
    """0 for a region that is in no shards."""
    return int(region.name.removeprefix(f"{region.shard_of}.")) if region.shard_of else 0


def _is_odd(region: RegionSpec) -> bool:
    """It reads results beside streams of its own, or its checkpoint has positions by names."""
    return bool(region.names) or (bool(region.reads) and set(region.reads) != set(region.sources))


def as_parent(was: RegionSpec, now: RegionSpec) -> RegionSpec:
    """The parent with the names that its steps have in a shard, so that the code of both can be compared."""
    mine = f".{shard_number(now)}"
    its = f".{shard_number(was)}" if was.shard_of else ""
    names = {f"{base}{its}": one for one in (*now.steps, *now.sources) if (base := one.removesuffix(mine)) != one}

    def renamed(steps: Iterable[str]) -> tuple[str, ...]:
        return tuple(names.get(one, one) for one in steps)

    return msgspec.structs.replace(
        was,
        name=now.name,
        steps=renamed(was.steps),
        sources=renamed(was.sources),
        stateful=renamed(was.stateful),
        reads=renamed(was.reads),
        # Another log, which it reads from its first batch on.
        leaves=now.leaves if was.reads else was.leaves,
        fingerprints={names.get(one, one): value for one, value in was.fingerprints.items()},
    )


def refused_split(parents: Iterable[RegionSpec], frozen: Mapping[str, FrozenRegion]) -> str:
    """Why the shards of these regions cannot begin where these stand; empty if they can."""
    for one in parents:
        its = frozen[one.name]
        if its.planned > its.committed:
            return f"batch {its.planned} of {one.name} is planned, and not committed"
        if its.committed < 0 and not one.reads:
            return f"{one.name} has no batch yet, so that nothing says where its parts begin"
        for result in one.reads:
            has, read = frozen[result].committed, its.read.get(result, -1)
            if read < has:
                return f"{one.name} has read the result of {result} up to batch {read}, and it has batch {has}"
    return ""


def begins_after(parent: RegionSpec, generation: int, committed: int) -> ShardSplit:
    """Where the shards of a region begin."""
    return ShardSplit(parent=parent.name, generation=generation, batch=-1 if parent.reads else committed)
