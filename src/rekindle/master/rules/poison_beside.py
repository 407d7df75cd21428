"""What still runs beside poison, and the end when nothing does.

Rules
- A poisoned partition is not tried again. Everything that does not need it goes on: other partitions of its step, other
  steps, and in the end also single partitions of steps that read others of it.
- The run is given up when nothing is left that can finish, and then names each poisoned partition with its failure.
"""

from __future__ import annotations

from rekindle.failover.poison import Poison, poison
from rekindle.master.state.graph_index import Sets
from rekindle.master.state.run_state import RunState
from rekindle.model.failures import Failure
from rekindle.model.partitions import EMPTY, Partitions


def poisoned(state: RunState, name: str) -> Partitions:
    """The partitions of a step that must not be tried again."""
    whole = state.layout.graph.whole[name]
    found = Partitions.union(
        whole if one.is_step else one.partitions for one in poison(state.config.poison, state.steps[name].suspects)
    )
    is_whole = bool(found) and state.layout.restarts_whole(name)
    return (whole if is_whole else found) - state.steps[name].available


def blocked(state: RunState) -> Sets:
    """What cannot finish: poisoned partitions and everything that reads them, directly or not."""
    found: Sets = {}
    for name in state.layout.kept:
        mine = found.get(name, EMPTY) | poisoned(state, name)
        if mine and state.layout.restarts_whole(name):
            mine = state.layout.graph.whole[name]  # What is there of it would be made again with the rest.
        if not mine:
            continue
        found[name] = mine
        for reader, partitions in state.layout.readers_of(name, mine).items():
            found[reader] = found.get(reader, EMPTY) | (partitions - state.steps[reader].available)
    return {name: partitions for name, partitions in found.items() if partitions}


def sentence(state: RunState) -> str:
    """Each poisoned partition, how often it failed and how."""
    return "poison: " + "; ".join(
        f"{name}{f'[{one.partitions}]' if one.partitions else ''} failed {_often(one.times)}: {_text(state, name, one)}"
        for name in state.layout.kept
        for one in poison(state.config.poison, state.steps[name].suspects)
    )


def _often(times: int) -> str:
    return "once" if times == 1 else f"{times} times in the same way"


def failures(state: RunState) -> tuple[Failure, ...]:
    """The last failure behind each poison."""
    return tuple(
        step.last_failure_by_signature[one.signature]
        for step in state.steps.values()
        for one in poison(state.config.poison, step.suspects)
        if one.signature in step.last_failure_by_signature
    )


def _text(state: RunState, name: str, one: Poison) -> str:
    failure = state.steps[name].last_failure_by_signature.get(one.signature)
    return failure.cause.root.text or failure.cause.root.kind.value if failure is not None else one.signature
