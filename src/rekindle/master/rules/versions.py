"""What a recomputed result means for those who read the old one (rules 3, 4 and 5).

Rules
- A partition that comes back with an equal digest is the same version: nobody is told.
- Without digests, only a repeatable group on unchanged inputs comes back the same.
- Otherwise every vertex that began with the old version opens a new generation of its step. Its own readers are not
  touched yet: they follow when it, too, comes back different.
- An exchange that was made again and is not proved equal takes everything of its group along that has no proof.
- A published sink does not start over: what would make it stops the run (`published.py`).
"""

from __future__ import annotations

from rekindle.failover.carry import Checksums, carry_over
from rekindle.master.facts.digests import Digests
from rekindle.master.facts.events import ExchangeCarried
from rekindle.master.rules.decision import Decision
from rekindle.master.rules.published import stops_for
from rekindle.master.state.run_state import RunState, Superseded
from rekindle.model.kinds import Proof
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.model.reasons import ExchangeChanged, InputDiffers


def changed_among(state: RunState, name: str, fresh: Partitions, digests: Digests) -> Partitions:
    """Those of `fresh` that somebody may have seen as something else."""
    is_repeatable = state.layout.repeatable[name] is not None
    changed = EMPTY
    for seen in state.steps[name].superseded:
        again = seen.partitions & fresh
        if again and not (_is_unknown(seen, digests) and is_repeatable and seen.are_inputs_equal):
            changed = changed | (again - seen.digests.equal_to(digests, again))
    return changed


def _is_unknown(seen: Superseded, digests: Digests) -> bool:
    return seen.digests.packed is None or digests.packed is None


def spread_change(draft: Decision, name: str, changed: Partitions) -> None:
    """Every vertex that began with the old version of these starts over."""
    layout = draft.state.layout
    for consumer, touched in layout.readers_of(name, changed).items():
        step = draft.step(consumer)
        hit = touched & step.started
        if hit and layout.restarts_whole(consumer):
            hit = step.started
        if hit:
            carried = carry_over(layout.graph, consumer, step.committed, hit, {})
            draft.open_generation(consumer, hit, ((InputDiffers(name), hit),), carried.proof)


def exchange_proof(state: RunState, name: str) -> Proof | None:
    """The proof by which older partitions of the group stand when all its exchanges are made again. An exchange made by
    changed code is another one, also where a user accepted the change: rows may lie in other partitions of it."""
    graph, step = state.layout.graph, state.steps[name]
    again = dict.fromkeys(graph.groups[name].exchanges, Checksums.UNKNOWN)
    if again and not step.accepted_stale.is_disjoint(step.committed | step.superseded_partitions()):
        return None
    return carry_over(graph, name, step.committed, EMPTY, again).proof


def exchange_remade(draft: Decision, name: str, version: int) -> bool:
    """The engine made an exchange again. True if what was written over the old one still counts."""
    proof = exchange_proof(draft.state, name)
    if proof is not None:
        draft.add(ExchangeCarried(name, version, proof))
        return True
    step = draft.step(name)
    if stops_for(draft, name, step.started):
        return False
    exchange = draft.state.layout.graph.groups[name].exchanges[0]
    draft.open_generation(name, step.started, ((ExchangeChanged(exchange), step.started),), None, version)
    return False
