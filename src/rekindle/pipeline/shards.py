"""A stream that is read in parts: `shards=4` at a source makes four regions of each sink that reads it.

- The source and all that reads it, down to the sinks, is copied for each shard. A copy has the name of what it is a
  copy of, a dot, and the number of the shard. Copies read each other shard by shard, and what is not in shards is read
  by all of them.
- Nothing is known here of how a source is cut in parts: the engine does that, or the function of the user's, which
  has a parameter `shard`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rekindle.errors import GraphRefused
from rekindle.pipeline.declared import Argument, Binding, Declared, Shard


def with_shards(steps: Sequence[Declared]) -> tuple[Declared, ...]:
    """The steps, producers first, with those that are in shards once for each. Raises `GraphRefused` where sources are
    joined that have other numbers of them."""
    counts: dict[str, int] = {}
    made: list[Declared] = []
    for one in steps:
        found = {name: counts[name] for name in one.inputs if name in counts}
        if len(set(found.values())) > 1:
            told = ", ".join(f"{name} ({count})" for name, count in found.items())
            raise GraphRefused(
                f"{one.place}: {one.name} reads {told}, which are in other numbers of shards",
                "give their sources the same number of shards",
            )
        count = next(iter(found.values()), one.shards)
        if count < 2:
            made.append(one)
            continue
        counts[one.name] = count
        made += [_copy(one, Shard(number, count), counts) for number in range(count)]
    return tuple(made)


def _copy(one: Declared, shard: Shard, counts: Mapping[str, int]) -> Declared:
    def read(argument: Argument) -> Argument:
        is_sharded = argument.binding is Binding.INPUT and argument.step in counts
        return replace(argument, step=_name(argument.step, shard)) if is_sharded else argument

    arguments = tuple(map(read, one.arguments))
    return replace(one, name=_name(one.name, shard), arguments=arguments, shard=shard, shard_of=one.name)


def _name(name: str, shard: Shard) -> str:
    """No declared name has the character between them."""
    return f"{name}.{shard.number}"
