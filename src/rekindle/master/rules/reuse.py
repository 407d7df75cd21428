"""Which results of an earlier run are those that a new run would compute.

Rules
- A result is the same if everything that made it is: code, parameters and inputs of its group (its fingerprint), how it
  lies (kind, partitions, edges), and every kept result that it was made from, which must be reused from the same run.
- A run of the same parameters takes what it would have gone on with if it had been resumed. A run of others takes only
  what would come out equal again, by our table or on the user's word.
- Nobody takes rows that belong to one run: those that depend on the time, or on inputs that are not pinned.
- Only what is whole, in files, and was not kept on the user's word after a change.
- A run that was not told to keep its results for others gives none.
"""

from __future__ import annotations

from rekindle.master.facts.run_spec import RunSpec
from rekindle.master.rules.opening import IDENTITY, INPUT_PART, changed_parts
from rekindle.master.state.graph_index import GraphIndex
from rekindle.master.state.run_state import Phase, RunState
from rekindle.model.kinds import FailureDomain

UNPINNED = "unpinned"


def reusable(spec: RunSpec, earlier: RunState, *, has_same_key: bool) -> dict[str, str]:
    """For each kept step, producers first, why its result cannot be taken from the earlier run; empty if it can."""
    layout = GraphIndex(spec.graph)
    if earlier.config.keep_ms == 0 or earlier.phase not in (Phase.SUCCEEDED, Phase.FAILED):
        return dict.fromkeys(layout.kept, "the run kept nothing for others")
    found: dict[str, str] = {}
    for name in layout.graph.steps:
        if name in layout.producers:
            below = [one for one in layout.producers[name] if found[one]]
            why = f"{below[0]} is not reused" if below else _difference(spec, layout, earlier, name)
            found[name] = why or _not_repeated(spec, layout, earlier, name, has_same_key)
    return found


def _difference(spec: RunSpec, layout: GraphIndex, earlier: RunState, name: str) -> str:
    old, new = earlier.spec.fingerprints.get(name), spec.fingerprints.get(name)
    if old is None or new is None or name not in earlier.steps:
        return "the run has no such step"
    if IDENTITY not in old or (parts := changed_parts(old, new)):
        return f"it differs: {', '.join(parts)}" if IDENTITY in old else "the run is of an older release"
    if _shape(layout, name) != _shape(earlier.layout, name):
        return "it lies in other partitions"
    step = earlier.steps[name]
    if step.committed != layout.graph.whole[name] or step.accepted_stale:
        return "the run has not all of it"
    if not layout.graph.steps[name].kind.survives(FailureDomain.APPLICATION):
        return "it is kept in memory"
    return ""


def _not_repeated(spec: RunSpec, layout: GraphIndex, earlier: RunState, name: str, has_same_key: bool) -> str:
    """Why a run cannot take rows of another one although they were made in the same way."""
    if spec.fingerprints[name].get(INPUT_PART, "").startswith(UNPINNED):
        return "its input is not pinned"
    if why := spec.of_its_run.get(name):
        return why
    is_repeatable = layout.repeatable[name] is not None and earlier.layout.repeatable[name] is not None
    return "" if is_repeatable or has_same_key or name in spec.reusable else "it is not determinate"


def _shape(layout: GraphIndex, name: str) -> object:
    """How the result of a group lies, and how the steps of the group are joined."""
    graph, members = layout.graph, layout.members(name)
    steps = {one: (graph.steps[one].partitions, graph.steps[one].kind) for one in members}
    edges = {edge for one in members for edge in graph.inputs[one]}
    return steps, {(edge.producer, edge.consumer, str(edge.mapping)) for edge in edges}
