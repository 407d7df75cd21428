"""What follows from the state, whatever led to it: start, publish, release, end.

Rules
- A vertex starts when it is in the work left, everything it reads is committed and not itself in the work left, and
  no open attempt has it. First run, retry, loss and takeover are this one line.
- A step whose older partitions could not stand beside new ones opens a new generation first; a published sink does
  not: the run stops.
- Suspects run alone and last. Poison does not run again, and ends the run when nothing else can run.
- A step that waits for its backoff or for a seal does not start.
- Results are released when nobody can need them, and never while something is made again to be compared. After success
  they stay for as long as the run was told to keep them: gc takes the run over when that time ends.
"""

from __future__ import annotations

from rekindle.failover.carry import carry_over
from rekindle.failover.poison import tried_last
from rekindle.failover.release import RunPhase
from rekindle.failover.restart import FailureFacts, Strategy, remaining_set
from rekindle.failover.restart_set import RestartSet
from rekindle.master.facts.events import AttemptOpened, Reasons, RunStopped
from rekindle.master.rules.decision import Decision
from rekindle.master.rules.handle_failure import give_up
from rekindle.master.rules.poison_beside import blocked, failures, poisoned, sentence
from rekindle.master.rules.published import stops_for
from rekindle.master.rules.publishing import publish
from rekindle.master.rules.releasing import close, keep_to_budget, let_go_exchanges, release
from rekindle.master.rules.versions import exchange_proof
from rekindle.master.state.graph_index import Sets
from rekindle.master.state.run_state import AttemptStatus, Phase, RunState
from rekindle.model.ids import AttemptId, Epoch, Generation
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.model.reasons import AnyReason, ExchangeChanged, WholeStep


def advance(draft: Decision) -> None:
    """Decide everything that is due now."""
    if draft.state.phase is Phase.RUNNING:
        _run(draft)
    elif draft.state.phase is Phase.SUCCEEDED:
        _release(draft)
    elif draft.state.phase is Phase.CLOSING:
        close(draft)
    if draft.state.phase is Phase.FAILING and not draft.state.attempts:
        draft.add(RunStopped(draft.now_ms))


def work_left(state: RunState) -> RestartSet:
    """The same value that `plan` prints and `_run` executes."""
    strategy = Strategy.REGION if state.config.strategy is Strategy.FULL else state.config.strategy
    happened = FailureFacts(failed=state.failed(), outdated=state.must_recompare())
    return remaining_set(state.layout.graph, state.tracker(), happened, strategy)


def _run(draft: Decision) -> None:
    plan = work_left(draft.state)
    while _renew(draft, plan):
        plan = work_left(draft.state)
    if draft.state.phase is Phase.RUNNING:
        _start(draft, plan)
    if not draft.state.attempts and draft.state.phase is Phase.RUNNING:
        if plan.steps:
            _finish_beside_poison(draft, plan)
        else:
            publish(draft)
    _release(draft)


def _release(draft: Decision) -> None:
    if draft.state.phase is Phase.SUCCEEDED:
        if draft.now_ms >= draft.state.ended_ms + draft.state.config.keep_ms:
            release(draft, RunPhase.SUCCEEDED)
    elif draft.state.phase is Phase.RUNNING and not draft.state.must_recompare():
        if draft.state.config.is_released_early and draft.has_completed():
            release(draft, RunPhase.ACTIVE)
        keep_to_budget(draft)
    if draft.state.phase in (Phase.RUNNING, Phase.SUCCEEDED) and draft.state.config.is_released_early:
        let_go_exchanges(draft)


def _renew(draft: Decision, plan: RestartSet) -> bool:
    """Open a new generation wherever what is to be started could not stand beside what is there. Each step is renewed
    at most once: after that nothing of it is there."""
    count = len(draft.events)
    for name in plan.steps:
        if name not in draft.state.steps or not _is_due(draft, plan, name):
            continue
        step, wanted = draft.step(name), _wanted(draft.state, plan, name)
        is_outdated, gone = _is_outdated(draft.state, plan, name), wanted & step.released
        if (is_outdated or gone) and stops_for(draft, name, wanted):
            return False
        if is_outdated:
            _open_generation(draft, plan, name, wanted | step.started)
        elif gone:
            _open_generation(draft, plan, name, gone)
    return len(draft.events) > count


def _wanted(state: RunState, plan: RestartSet, name: str) -> Partitions:
    is_whole = state.layout.restarts_whole(name)
    return state.layout.graph.whole[name] if is_whole else plan.partitions(name)


def _is_due(draft: Decision, plan: RestartSet, name: str) -> bool:
    """Something of the step can be started now; a step that renews itself, or is a whole, first ends what runs."""
    state, step, running = draft.state, draft.step(name), draft.state.running(name)
    wanted = _wanted(state, plan, name)
    if wanted <= step.available | running | poisoned(state, name) or draft.now_ms < step.due_ms:
        return False
    if any(one.status is AttemptStatus.SEALING for one in state.attempts_of(name)):
        return False
    if running and (state.layout.restarts_whole(name) or _is_outdated(state, plan, name)):
        return False
    return _is_settled(state, plan, name, wanted)


def _start(draft: Decision, plan: RestartSet) -> None:
    """Whatever can be started. A step that may not be attempted any more ends the run before anything is opened: what
    is never dispatched would never end."""
    ready = {name: _ready(draft, plan, name) for name in plan.steps if name in draft.state.steps}
    for name, partitions in ready.items():
        attempts = draft.step(name).attempts
        if partitions and attempts >= draft.state.config.attempts_per_step_max:
            give_up(draft, f"{name} reached the limit of attempts ({attempts})")
            return
    for name, partitions in ready.items():
        if partitions:
            _open_attempt(draft, plan, name, partitions)


def _ready(draft: Decision, plan: RestartSet, name: str) -> Partitions:
    if not _is_due(draft, plan, name):
        return EMPTY
    state, step, running = draft.state, draft.step(name), draft.state.running(name)
    ready = _wanted(state, plan, name) - step.available - running - poisoned(state, name)
    if state.layout.restarts_whole(name):
        return ready
    ready, _ = tried_last(step.suspects, ready)
    return EMPTY if running and not ready.is_disjoint(step.suspects.partitions) else ready


def _finish_beside_poison(draft: Decision, plan: RestartSet) -> None:
    """Nothing can start as it should. If poison is why, what does not need it still runs; then it is the end."""
    stuck = blocked(draft.state)
    steps = [name for name in plan.steps if name in draft.state.steps]
    is_waited_for = any(
        plan.partitions(name) - stuck.get(name, EMPTY) and draft.step(name).due_ms > draft.now_ms for name in steps
    )
    if not stuck or is_waited_for:
        return
    free = {name: _free(draft.state, plan, name, stuck) for name in steps}
    for name, partitions in free.items():
        if partitions and draft.step(name).attempts < draft.state.config.attempts_per_step_max:
            _open_attempt(draft, plan, name, tried_last(draft.step(name).suspects, partitions)[0])
    if not draft.state.attempts:
        give_up(draft, sentence(draft.state), failures(draft.state))


def _free(state: RunState, plan: RestartSet, name: str, stuck: Sets) -> Partitions:
    """What of a step can be made although others of it cannot."""
    wanted = plan.partitions(name) - state.steps[name].available - stuck.get(name, EMPTY)
    if not wanted or _is_outdated(state, plan, name):
        return EMPTY
    is_gone = not wanted.is_disjoint(state.steps[name].released)
    return EMPTY if is_gone or not _is_settled(state, plan, name, wanted) else wanted


def _is_settled(state: RunState, plan: RestartSet, name: str, wanted: Partitions) -> bool:
    """Nothing that these vertices read is still to be made, or in doubt."""
    reads = state.layout.read_by(name, wanted)
    return all(
        read.is_disjoint(plan.partitions(producer)) and read.is_disjoint(state.running(producer))
        for producer, read in reads.items()
    )


def _is_outdated(state: RunState, plan: RestartSet, name: str) -> bool:
    """Something that counts, or was seen before it was lost, cannot stand beside what would be made now."""
    if _has_checksums(state, name):
        return False
    step = state.steps[name]
    is_remade = any(plan.exchanges.get(exchange) for exchange in state.layout.exchanges(name))
    if is_remade and step.has_witnesses() and exchange_proof(state, name) is None:
        return True
    return state.layout.restarts_whole(name) and bool(step.committed)


def _has_checksums(state: RunState, name: str) -> bool:
    """The engine can tell by checksums whether a remade exchange is the one that was read (proof c)."""
    layout = state.layout
    is_unordered = not any(layout.graph.steps[one].is_order_sensitive for one in layout.members(name))
    return state.steps[name].exchange_checksum is not None and is_unordered and not layout.restarts_whole(name)


def _open_generation(draft: Decision, plan: RestartSet, name: str, dropped: Partitions) -> None:
    committed = draft.step(name).committed
    carried = carry_over(draft.state.layout.graph, name, committed, dropped & committed, {})
    draft.open_generation(name, dropped, _why(draft.state, plan, name, dropped), carried.proof)


def _open_attempt(draft: Decision, plan: RestartSet, name: str, partitions: Partitions) -> None:
    state, step = draft.state, draft.step(name)
    forced = partitions & step.must_recompare
    why = _cut(step.why, forced) + _why(state, plan, name, partitions - forced)
    draft.add(
        AttemptOpened(
            attempt=AttemptId(name, Generation(step.generation), Epoch(state.epoch), state.attempt_number + 1),
            partitions=partitions,
            because=why,
            at_ms=draft.now_ms,
            reads=_files_read(state, name, partitions),
        )
    )


def _why(state: RunState, plan: RestartSet, name: str, partitions: Partitions) -> Reasons:
    """The reasons of the plan; what is not in the plan runs because all of its step does."""
    rest = partitions - plan.partitions(name)
    exchanges = state.layout.graph.groups[name].exchanges
    is_whole = state.layout.restarts_whole(name) or not exchanges
    all_of: AnyReason = WholeStep() if is_whole else ExchangeChanged(exchanges[0])
    return _cut(plan.steps[name].because, partitions) + (((all_of, rest),) if rest else ())


def _cut(why: Reasons, partitions: Partitions) -> Reasons:
    return tuple((reason, at & partitions) for reason, at in why if not at.is_disjoint(partitions))


def _files_read(state: RunState, name: str, partitions: Partitions) -> tuple[AttemptId, ...]:
    found = {
        segment.attempt
        for producer, read in state.layout.read_by(name, partitions).items()
        for segment in state.steps[producer].segments
        if not segment.partitions.is_disjoint(read)
    }
    return tuple(sorted(found))
