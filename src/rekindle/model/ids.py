"""Names of things that outlive a process: attempts, generations, exchanges."""

from __future__ import annotations

import re
from typing import NewType

import msgspec

Generation = NewType("Generation", int)
Epoch = NewType("Epoch", int)

_NAMED = re.compile(r"(?P<step>[^\[\]]+)(\[(?P<partition>\d+)\])?")


class AttemptId(msgspec.Struct, frozen=True, order=True):
    """One try at partitions of one step. It belongs to an epoch and is dispatched at most once."""

    step: str
    generation: Generation
    epoch: Epoch
    number: int

    def __str__(self) -> str:
        return f"{self.step}/g{self.generation}/e{self.epoch}-a{self.number}"


class ExchangeId(msgspec.Struct, frozen=True, order=True):
    """What the engine keeps between two steps of one plan: shuffle files, a broadcast, or (no producer) the
    constants of the query itself."""

    consumer: str
    producer: str | None = None

    def __str__(self) -> str:
        return f"{self.producer or 'query'}=>{self.consumer}"


class Vertex(msgspec.Struct, frozen=True, order=True):
    """(step, partition), for messages and single failures. Never held for every vertex of a run."""

    step: str
    partition: int

    def __str__(self) -> str:
        return f"{self.step}[{self.partition}]"


def parse_vertex(text: str) -> tuple[str, int | None] | None:
    """Step and partition of `enriched[173]`; `enriched`, the whole step, has no partition. None if it is neither."""
    found = _NAMED.fullmatch(text)
    if found is None:
        return None
    return found["step"], None if found["partition"] is None else int(found["partition"])
