"""How a run begins, and how a new master takes it over.

Rules
- A run whose graph is not the recorded one is refused, with the difference named. Nothing is touched.
- A changed step is not an error: it opens a new generation, or keeps what is committed on the user's word. A changed
  input is refused unless the user names the step.
- What does not survive the old application is lost, as a fact of its own.
- A sink that is published, or may be, stays where it is: another target is refused, as are other sinks.
- With the strategy `full` whatever started in an earlier epoch starts over.
- A published sink whose own code changed is refused, unless the user allows it to be published again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from rekindle.errors import Refused
from rekindle.errors import RunClosed as RunIsClosed
from rekindle.master.facts.events import (
    AttemptClosed,
    AttemptOpened,
    ChangeAccepted,
    CodeReplaced,
    EpochOpened,
    Event,
    Outcome,
    PartitionsCommitted,
    PartitionsLost,
    RepublishAccepted,
    RunClosing,
    RunStarted,
    started_fields,
)
from rekindle.master.facts.run_spec import Fingerprint, RunSpec, UserDecisions
from rekindle.master.facts.stimuli import CloseRun, ReusedResult, StartRun, TakeOver
from rekindle.master.rules.decision import Decision
from rekindle.master.rules.handle_failure import restart_everything
from rekindle.master.rules.holes import leave_out, refuse_holes
from rekindle.master.rules.published import affected, refuse_moved, refuse_once, refuse_published
from rekindle.master.state.run_state import Phase, RunState
from rekindle.model.ids import AttemptId, Epoch, Generation
from rekindle.model.kinds import FailureDomain
from rekindle.model.reasons import CodeChanged, KeptByRun
from rekindle.remedies import StartRemedy, TextRemedy, new_run

INPUT_PART = "input"
IDENTITY = "identity"
# Kinds of parts that fingerprints did not have before they had the part IDENTITY.
ADDED = frozenset({"attribute", "compiled", "environment", "jvm", "names", "seeds", "udf"})


def start_run(stimulus: StartRun, now_ms: int) -> tuple[Event, Event]:
    """The first two facts of a run."""
    spec = stimulus.spec
    graph = spec.graph.graph()
    stimulus.config.strategy.check(graph)
    for sink in spec.sinks:
        if sink not in graph.groups:
            raise Refused(f"{sink} is to be published, but it is not a kept step of the graph")
    return (
        RunStarted(
            run=stimulus.run,
            pipeline=stimulus.pipeline,
            order=stimulus.order,
            config=stimulus.config,
            run_time_ms=stimulus.run_time_ms,
            seed=stimulus.seed,
            at_ms=now_ms,
            settings=stimulus.settings,
            **started_fields(spec),
        ),
        EpochOpened(epoch=1, application=stimulus.application, owner=stimulus.owner, at_ms=now_ms, once=spec.once),
    )


def attempts_of(reused: Iterable[ReusedResult]) -> dict[AttemptId, ReusedResult]:
    """The attempts that stand for results of an earlier run: the first ones of the run, in this order."""
    return {AttemptId(one.step, Generation(0), Epoch(1), number): one for number, one in enumerate(reused, start=1)}


def reuse(draft: Decision, stimulus: StartRun) -> None:
    """What an earlier run kept counts as if it had been computed now. Its files are there."""
    for attempt, one in attempts_of(stimulus.reused).items():
        draft.add(AttemptOpened(attempt, one.partitions, ((KeptByRun(one.number), one.partitions),), draft.now_ms))
        draft.add(
            PartitionsCommitted(
                attempt=attempt,
                partitions=one.partitions,
                of=one.partitions,
                manifest=one.manifest,
                at_ms=draft.now_ms,
                digests=one.digests,
                is_adopted=True,
                size_bytes=one.size_bytes,
                rows=one.rows,
            )
        )
        draft.add(AttemptClosed(attempt, Outcome.SUCCEEDED, draft.now_ms))


def take_over(draft: Decision, stimulus: TakeOver) -> None:
    """A new epoch, what died with the old application, and what the new code means for old results."""
    state, spec, decisions = draft.state, stimulus.spec, stimulus.decisions
    changes = _check(state, spec, decisions)
    graph = None if spec.graph == state.spec.graph else spec.graph
    targets = None if spec.targets == state.spec.targets else spec.targets
    strategy = decisions.strategy or state.config.strategy
    strategy.check(spec.graph.graph())
    epoch = EpochOpened(
        epoch=state.epoch + 1,
        application=stimulus.application,
        owner=stimulus.owner,
        at_ms=draft.now_ms,
        graph=graph,
        may_republish=decisions.republish,
        targets=targets,
        once=spec.once,
        strategy=None if strategy is state.config.strategy else strategy,
        declared=None if spec.declared == state.spec.declared else spec.declared,
        regions=None if spec.regions == state.spec.regions else spec.regions,
        settings=stimulus.settings,
    )
    draft.add(epoch)
    if stimulus.application != state.application:
        _lose_application(draft)
    if decisions.republish and (sinks := _again(state, decisions, changes)):
        draft.add(RepublishAccepted(sinks, stimulus.owner, draft.now_ms))
    for step, parts in changes.items():
        fingerprint = spec.fingerprints[step]
        if step in decisions.accepted:
            draft.add(ChangeAccepted(step, parts, fingerprint))
        else:
            draft.add(CodeReplaced(step, parts, fingerprint))
            _restart_changed(draft, step)
    if draft.state.phase is Phase.RUNNING:
        restart_everything(draft)
    leave_out(draft, decisions.without, stimulus.owner)


def close_run(draft: Decision, stimulus: CloseRun) -> None:
    """gc is a master too: it takes the run over, and only then may anything go."""
    _refuse_closed(draft.state)
    draft.add(
        EpochOpened(
            epoch=draft.state.epoch + 1, application=stimulus.application, owner=stimulus.owner, at_ms=draft.now_ms
        )
    )
    if draft.state.phase is not Phase.CLOSING:
        draft.add(RunClosing(draft.now_ms))


def changed_columns(old: dict[str, dict[str, str]], new: dict[str, dict[str, str]]) -> list[str]:
    """Of sources and kept steps that both know, a sentence for each column that is another one: "events.customer_id:
    bigint, was string"."""
    found = []
    for step in old.keys() & new.keys():
        before, now = old[step], new[step]
        both = [name for name in before if name in now and before[name] != now[name]]
        found += [f"{step}.{name}: {now[name]}, was {before[name]}" for name in both]
        found += [f"{step}.{name} is gone" for name in before if name not in now]
        found += [f"{step}.{name}: {now[name]} is new" for name in now if name not in before]
    return sorted(found)


def changed_parts(old: Fingerprint, new: Fingerprint) -> tuple[str, ...]:
    """The names of the parts that differ, or stand in only one of the two.

    A run that an earlier release started has no parts of the kinds in `ADDED`: whether these changed since is unknown,
    and they do not count for it. All its own parts are compared as ever, so that nothing it could notice is hidden; and
    what it could not notice, it notices no more than before. A run that was started since tells so in `IDENTITY`."""
    differing = {part for part in old.keys() | new.keys() if old.get(part) != new.get(part)} - {IDENTITY}
    if IDENTITY not in old and IDENTITY in new:
        differing = {part for part in differing if part in old or part_kind(part) not in ADDED}
    return tuple(sorted(differing))


def part_kind(part: str) -> str:
    """`udf` for `step.udf:name`, `seeds` for `seeds`; empty for a setting."""
    if part.startswith("spark."):
        return ""
    return (part.partition(".")[2] or part).partition(":")[0]


def _refuse_closed(state: RunState) -> None:
    if state.phase is Phase.CLOSED:
        raise RunIsClosed(f"run {state.run} is closed", hint=new_run())


def _check(state: RunState, spec: RunSpec, decisions: UserDecisions) -> dict[str, tuple[str, ...]]:
    """Refuse what could be wrong; the changed parts of each step otherwise."""
    _refuse_closed(state)
    if state.phase is Phase.CLOSING:
        raise RunIsClosed(f"run {state.run} is being closed", hint=new_run())
    refuse_moved(state, spec.targets)
    if state.phase is Phase.SUCCEEDED:
        refuse_holes(state, decisions.without, frozenset())
        return {}
    if state.gave_up_for_good is not None:
        raise Refused(f"run {state.run} cannot be resumed: {state.gave_up_for_good}", hint=new_run())
    difference = state.spec.graph.difference(spec.graph)
    if difference:
        if columns := changed_columns(state.spec.columns, spec.columns):
            raise Refused(
                f"columns changed since run {state.run} started: {'; '.join(columns)}. With them the graph changed: "
                f"{difference}",
                hint=(TextRemedy("restore the columns"), new_run("or start a new run")),
            )
        raise Refused(
            f"run {state.run} was started with another graph: {difference}",
            hint=(TextRemedy("restore the graph"), new_run("or start a new run")),
        )
    changes = {
        step: parts
        for step, old in state.spec.fingerprints.items()
        if (parts := changed_parts(old, spec.fingerprints.get(step, old)))
    }
    for step, parts in changes.items():
        if INPUT_PART in parts and step not in decisions.accepted | decisions.replaced:
            told = "; ".join(changed_columns(state.spec.columns, spec.columns))
            raise Refused(
                f"the input of {step} changed since run {state.run} started{f': {told}' if told else ''}",
                hint=(
                    StartRemedy(to="keep what was read", accept_change=(step,)),
                    StartRemedy(to="or read it again", replace=(step,)),
                ),
            )
    started_over = changes.keys() - decisions.accepted
    refuse_holes(state, decisions.without, started_over, _again(state, decisions, changes))
    if decisions.republish:
        refuse_once(_again(state, decisions, changes), spec.once)
    else:
        refuse_published(state, started_over)
    return changes


def _again(state: RunState, decisions: UserDecisions, changes: Collection[str]) -> tuple[str, ...]:
    """The sinks that are published again for what changed, or is left out, if the user allows it."""
    if not decisions.republish:
        return ()
    return affected(state, {*changes, *decisions.without} - decisions.accepted)


def _lose_application(draft: Decision) -> None:
    graph = draft.state.layout.graph
    for name, step in draft.state.steps.items():
        if step.committed and not graph.steps[name].kind.survives(FailureDomain.APPLICATION):
            draft.add(PartitionsLost(name, step.committed, FailureDomain.APPLICATION))


def _restart_changed(draft: Decision, changed: str) -> None:
    """Each group that the changed step is part of starts over: also what an older generation made, and others saw."""
    for root in draft.state.layout.kept:
        step = draft.step(root)
        hit = step.started | step.superseded_partitions()
        if hit and changed in draft.state.layout.members(root):
            draft.open_generation(root, hit, ((CodeChanged(), hit),), None)
