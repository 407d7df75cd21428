"""A vertex as a user names it: `enriched[173]`, or `enriched` for the whole step."""

from __future__ import annotations

from collections.abc import Callable

from rekindle.errors import NotFound
from rekindle.master.state.run_state import RunState
from rekindle.model.ids import parse_vertex
from rekindle.pipeline.did_you_mean import did_you_mean
from rekindle.remedies import Remedy


def vertex_of(state: RunState, given: str, run: str, again: Callable[[str], Remedy]) -> tuple[str, int | None]:
    """The kept step and the partition that were named. `run` is how the user knows the run; `again` makes of
    another vertex what they asked for."""
    name, partition = parse_vertex(given) or (given, None)
    if name not in state.steps:
        raise NotFound(
            f"run {run} has no kept step {name}",
            did_you_mean(name, state.steps) or f"its kept steps are {', '.join(state.steps)}",
        )
    count = state.layout.graph.steps[name].partitions
    if partition is not None and partition >= count:
        raise NotFound(f"{name} has partitions 0 to {count - 1}", again(f"{name}[{count - 1}]"))
    return name, partition
