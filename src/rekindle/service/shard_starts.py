"""Where shards go on when the code of a stream has more of them: looked at for a plan, and settled by its new owner.

What a plan says is a look. Whoever owns the stream raises the fences of the old regions first and looks again: nothing
that an older driver does counts after that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from rekindle.errors import Refused
from rekindle.pipeline.declared import Declared
from rekindle.remedies import TextRemedy
from rekindle.results.checkpoint_log import LogStore, checkpoint_folder, last_commit
from rekindle.streams.shard_splits import (
    FrozenRegion,
    ShardName,
    ShardSplit,
    begins_after,
    parents_of,
    refused_split,
)
from rekindle.streams.stream_spec import RegionSpec
from rekindle.streams.stream_state import StreamState

NO_SPLITS: Mapping[str, ShardSplit] = MappingProxyType({})
# Raises the fence of a region to a number and reads where its checkpoint of a generation stands.
Freeze = Callable[[str, int, int], FrozenRegion]


def parents_in(known: StreamState, steps: Sequence[Declared]) -> dict[str, RegionSpec]:
    """By new shard, the region that it goes on from."""
    copies = ((one, one.shard) for one in steps)
    names = [ShardName(one.name, one.shard_of, shard.number, shard.of) for one, shard in copies if shard is not None]
    return parents_of(names, known.unsplit.values())


def splits_ahead(
    store: LogStore, root: str, known: StreamState, parents: Mapping[str, RegionSpec]
) -> dict[str, ShardSplit]:
    """Where these shards would begin now; `root` is the directory of the stream in its store."""
    found = {}
    for name, parent in parents.items():
        generation = known.regions[parent.name].generation
        checkpoint = f"{root}/{checkpoint_folder(parent.name, generation)}"
        found[name] = begins_after(parent, generation, last_commit(store, checkpoint))
    return found


def settled(known: StreamState, parents: Mapping[str, RegionSpec], freeze: Freeze) -> dict[str, ShardSplit]:
    """Where these shards begin, whatever an older driver does from now on. Raises `Refused`."""
    held = {one.name: known.regions[one.name] for one in parents.values()}
    frozen = {name: freeze(name, one.number + 1, one.generation) for name, one in held.items()}
    if why := refused_split({one.name: one for one in parents.values()}.values(), frozen):
        were = max(1, *(one.shards for one in parents.values()))
        shards = f"with shards={were}" if were > 1 else "without shards"
        raise Refused(
            f"there cannot be more shards yet: {why}",
            TextRemedy(f"run it {shards} and --available-now until it has finished, and then with more"),
        )
    return {
        name: begins_after(one, held[one.name].generation, frozen[one.name].committed) for name, one in parents.items()
    }
