"""What goes: results and exchanges that nobody can need any more, and results that a budget has no room for.

Rules
- The policies decide, from the state alone. Nothing is deleted here: files go when nothing in them counts.
- A pinned run keeps everything. What goes to a target stays until it is published, whoever else reads it.
- The exchanges under a step go when it is complete, in files, and nothing of it runs any more. Under a result that lies
  on executors they stay until it was released: what is lost there is made again from them.
- The budget is compared with what stays once everything is deleted that may be.
"""

from __future__ import annotations

from collections.abc import Iterator

from rekindle.failover.budget import BudgetChoice, RemovableAttempt, choose, remake_ms
from rekindle.failover.release import RetainedResults, RunPhase, releasable, spare
from rekindle.master.dispatch import deletable
from rekindle.master.facts.events import ExchangesReleased, PartitionsReleased, TombstoneWritten
from rekindle.master.rules.decision import Decision
from rekindle.master.state.graph_index import Sets
from rekindle.master.state.run_state import RunState
from rekindle.model.kinds import FailureDomain
from rekindle.model.partitions import EMPTY


def release(draft: Decision, phase: RunPhase) -> None:
    """What may go in this phase of the run."""
    state = draft.state
    free = releasable(state.layout.graph, state.tracker(), _holds(state, phase), phase)
    for name, partitions in free.results.items():
        if stored := partitions & draft.step(name).committed:
            draft.add(PartitionsReleased(name, stored))


def keep_to_budget(draft: Decision) -> None:
    """Of what is only kept until the run ends, what there is no room for."""
    for name, partitions in _chosen(draft.state, over_budget(draft.state)).items():
        draft.add(PartitionsReleased(name, partitions, is_for_budget=True))


def let_go_exchanges(draft: Decision) -> None:
    """What the engine holds for steps that are done."""
    steps = draft.state.layout.graph.steps
    for name, step in draft.state.steps.items():
        is_safe = steps[name].kind.survives(FailureDomain.APPLICATION) and draft.state.is_complete(name)
        if step.held and (is_safe or draft.state.is_released(name)) and not any(draft.state.attempts_of(name)):
            draft.add(ExchangesReleased(name))


def over_budget(state: RunState) -> BudgetChoice:
    """What goes for the budget now, and by how much it is exceeded all the same."""
    budget = state.config.budget_bytes
    kept = kept_bytes(state) if budget else 0
    return choose(kept, budget, list(_spares(state))) if kept > budget else BudgetChoice()


def kept_bytes(state: RunState) -> int:
    """What is left when everything is deleted that may be."""
    going = deletable(state)
    return sum(size for attempt, size in state.sizes.items() if attempt not in going)


def close(draft: Decision) -> None:
    """Everything, whoever might have wanted it."""
    for name, step in draft.state.steps.items():
        if step.committed:
            draft.add(PartitionsReleased(name, step.committed))
    if not draft.state.attempts and not draft.state.undeleted:
        draft.add(TombstoneWritten(draft.now_ms))


def _holds(state: RunState, phase: RunPhase) -> RetainedResults:
    return RetainedResults(
        pins=state.layout.graph.whole if state.is_pinned else {},
        published=frozenset(state.published) if phase.is_over else frozenset(),
    )


def _spares(state: RunState) -> Iterator[RemovableAttempt]:
    """Closed attempts of which all that counts may go, and whose files nobody reads now."""
    graph, tracker = state.layout.graph, state.tracker()
    free = spare(graph, tracker, _holds(state, RunPhase.ACTIVE))
    read = {one for open_one in state.attempts.values() for one in open_one.reads}
    pace_ms = {name: step.spent_ms / step.made for name, step in state.steps.items() if step.made}
    for attempt in sorted(state.undeleted - read):
        counted = state.steps[attempt.step].written_by((attempt,))
        if counted and counted <= free.get(attempt.step, EMPTY):
            try:
                cost_ms: int | None = remake_ms(graph, tracker, pace_ms, {attempt.step: counted})
            except KeyError:
                cost_ms = None
            yield RemovableAttempt(attempt, state.sizes.get(attempt, 0), cost_ms)


def _chosen(state: RunState, choice: BudgetChoice) -> Sets:
    found: Sets = {}
    for attempt in choice.attempts:
        found[attempt.step] = found.get(attempt.step, EMPTY) | state.steps[attempt.step].written_by((attempt,))
    return found
