"""Which stored results nobody can need any more.

Rules
- A result partition is needed if a vertex that still has to run reads it: in this application, and, while the run can
  be resumed, also in the one after it, where everything that dies with an application is gone.
- A vertex in flight still reads. A vertex that lost its result reads again.
- An output is needed until it is published. Where the stored files are what was published they are never released.
- A pin holds for ever. So does `keep_until` forever; `run end` holds until the run succeeded or was given up, or until
  the run needs the space (`spare`).
- Nothing is deleted here. Asking twice gives the same answer until the journal says `Released`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from rekindle.failover.restart import FailureFacts, remaining_set
from rekindle.failover.restart_set import RestartSet
from rekindle.model.availability import Availability
from rekindle.model.graph import Graph
from rekindle.model.ids import ExchangeId
from rekindle.model.kinds import FailureDomain, KeepUntil
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.model.parts import Parts, joined
from rekindle.model.regions import reads


class RunPhase(Enum):
    """Where the run stands, as far as its results are concerned."""

    ACTIVE = "active"
    RESUMABLE = "resumable"
    SUCCEEDED = "succeeded"
    GIVEN_UP = "given up"

    @property
    def is_over(self) -> bool:
        """Nobody will run a vertex of it again."""
        return self in (RunPhase.SUCCEEDED, RunPhase.GIVEN_UP)


@dataclass(frozen=True, slots=True)
class RetainedResults:
    """What keeps results besides their readers."""

    pins: Mapping[str, Partitions] = field(default_factory=dict)
    published: frozenset[str] = frozenset()
    promoted: frozenset[str] = frozenset()


def phase_of(has_succeeded: bool, is_stopped: bool, silent_ms: int, grace_ms: int, retention_ms: int) -> RunPhase:
    """`silent_ms` is the time since the owner was last heard, by the store's clock. A stopped run and one whose owner
    disappeared can be resumed until the retention ends; a new master that comes first makes it active again."""
    if has_succeeded:
        return RunPhase.SUCCEEDED
    if silent_ms >= grace_ms + retention_ms:
        return RunPhase.GIVEN_UP
    return RunPhase.RESUMABLE if is_stopped or silent_ms >= grace_ms else RunPhase.ACTIVE


def releasable(graph: Graph, tracker: Availability, holds: RetainedResults, phase: RunPhase) -> Parts:
    """The available results, and exchanges, that may go."""
    needed = Parts() if phase.is_over else _needed(graph, tracker)
    results = _free(tracker, needed, holds)
    results = {step: free for step, free in results.items() if not _is_kept(graph, tracker, step, holds, phase)}
    exchanges = {x: at - needed.exchanges.get(x, EMPTY) for x, at in tracker.exchanges.items()}
    return Parts(results, {x: at for x, at in exchanges.items() if at})


def spare(graph: Graph, tracker: Availability, holds: RetainedResults) -> dict[str, Partitions]:
    """The available results of an active run that nobody can need, although they are kept until its end."""
    free = _free(tracker, _needed(graph, tracker), holds)
    return {step: at for step, at in free.items() if not _is_wanted(graph, tracker, step, holds, RunPhase.ACTIVE)}


def _free(tracker: Availability, needed: Parts, holds: RetainedResults) -> dict[str, Partitions]:
    free = {
        step: stored - needed.results.get(step, EMPTY) - holds.pins.get(step, EMPTY)
        for step, stored in tracker.results.items()
    }
    return {step: at for step, at in free.items() if at}


def _is_kept(graph: Graph, tracker: Availability, step: str, holds: RetainedResults, phase: RunPhase) -> bool:
    if _is_wanted(graph, tracker, step, holds, phase):
        return True
    return graph.steps[step].keep is KeepUntil.RUN_END and not phase.is_over


def _is_wanted(graph: Graph, tracker: Availability, step: str, holds: RetainedResults, phase: RunPhase) -> bool:
    """Somebody outside the graph wants it."""
    if step in holds.promoted or graph.steps[step].keep is KeepUntil.FOREVER:
        return True
    is_output = not graph.outputs[step] and step not in holds.published
    return (is_output or step in tracker.wanted) and phase is not RunPhase.GIVEN_UP


def _needed(graph: Graph, tracker: Availability) -> Parts:
    """In flight counts as still to run: it reads its inputs now."""
    idle = replace(tracker, running={})
    here = remaining_set(graph, idle, FailureFacts())
    later = remaining_set(graph, idle.after(graph, FailureDomain.APPLICATION), FailureFacts())
    exchanges = {x: Partitions.first(e.partitions) for x, e in graph.exchanges.items() if x.consumer in here.steps}
    return Parts(joined(_read_by(graph, here), _read_by(graph, later)), exchanges)


def _read_by(graph: Graph, running: RestartSet) -> dict[str, Partitions]:
    read: dict[str, Partitions] = {}
    for step in running.steps:
        for edge in graph.inputs[step]:
            if edge.has_exchange:
                wanted = running.exchanges.get(ExchangeId(step, edge.producer), EMPTY)
            else:
                wanted = reads(graph, edge, running.partitions(step))
            read[edge.producer] = read.get(edge.producer, EMPTY) | wanted
    return read
