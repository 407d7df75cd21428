"""Whether and when the run goes on after failures, and when the master gives up.

Rules
- A partition that is committed did not fail, whatever a second try of it says.
- Failures of one report count once. The restart backoff and the bound on attempts each may end the run; the first that
  does is named. Poison ends it only when nothing else can run any more (`beside_poison`).
- A run that was given up keeps all that is committed and can be resumed.
"""

from __future__ import annotations

from msgspec.structs import replace

from rekindle.failover.backoff import GiveUp, on_failure
from rekindle.failover.poison import FailureCounts, poison
from rekindle.failover.restart import Strategy
from rekindle.master.facts.events import Differs, FailureHandled, RunFailing
from rekindle.master.rules.decision import Decision
from rekindle.model.failures import Failure
from rekindle.model.reasons import EverythingRestarts


def handle(draft: Decision, name: str, failures: tuple[Failure, ...]) -> None:
    """Failures of one attempt at the group that ends in `name`, or of one try to publish it."""
    committed = draft.step(name).committed
    own = tuple(replace(one, step=name, partitions=one.partitions - committed) for one in failures)
    config = draft.state.config
    worst = next((one for one in own if not one.cause.is_recoverable), own[0])
    memory, verdict = on_failure(config.backoff.policy(), draft.state.memory, worst.cause, draft.now_ms, draft.jitter)
    suspects = _suspects(draft, name, failures)
    due_ms = draft.now_ms if isinstance(verdict, GiveUp) else verdict.at_ms
    draft.add(FailureHandled(own, due_ms, memory, draft.now_ms, {name: suspects}))
    if isinstance(verdict, GiveUp):
        give_up(draft, f"{verdict.who}: {verdict.why}", own)
    elif not poison(config.poison, suspects):
        restart_everything(draft)


def give_up(
    draft: Decision,
    sentence: str,
    failures: tuple[Failure, ...] = (),
    *,
    is_resumable: bool = True,
    differs: Differs | None = None,
) -> None:
    draft.add(RunFailing(sentence, failures, is_resumable, draft.now_ms, differs))


def _suspects(draft: Decision, name: str, failures: tuple[Failure, ...]) -> FailureCounts:
    """A failure whose partitions are all committed blames nobody; one that named none blames the step."""
    step = draft.step(name)
    suspects = step.suspects.without(step.committed)
    for failure in failures:
        left = failure.partitions - step.committed
        if left or not failure.partitions:
            suspects = suspects.after(replace(failure, partitions=left))
    return suspects


def restart_everything(draft: Decision) -> None:
    """If that is the strategy. Not once something may be published: what it was made from is settled, and only
    publishing is tried again."""
    if draft.state.config.strategy is not Strategy.FULL or draft.state.possibly_published:
        return
    for name, step in draft.state.steps.items():
        if step.started:
            draft.open_generation(name, step.started, ((EverythingRestarts(), step.started),), None)
