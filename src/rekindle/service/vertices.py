"""A vertex as a user names it: `enriched[173]`, or `enriched` for the whole step."""

from __future__ import annotations

import re
from collections.abc import Callable

from rekindle.errors import NotFound
from rekindle.master.state.run_state import RunState
from rekindle.pipeline.did_you_mean import did_you_mean
from rekindle.remedies import Remedy

VERTEX = re.compile(r"(?P<step>[^\[\]]+)(\[(?P<partition>\d+)\])?")


def vertex_of(state: RunState, given: str, run: str, again: Callable[[str], Remedy]) -> tuple[str, int | None]:
    """The kept step and the partition that were named. `run` is how the user knows the run; `again` makes of
    another vertex what they asked for."""
    found = VERTEX.fullmatch(given)
    name = found["step"] if found else given
    if found is None or name not in state.steps:
        raise NotFound(
            f"run {run} has no kept step {name}",
            did_you_mean(name, state.steps) or f"its kept steps are {', '.join(state.steps)}",
        )
    if found["partition"] is None:
        return name, None
    partition, count = int(found["partition"]), state.layout.graph.steps[name].partitions
    if partition >= count:
        raise NotFound(f"{name} has partitions 0 to {count - 1}", again(f"{name}[{count - 1}]"))
    return name, partition
