"""What the engine reported, turned into facts.

Rules
- Only an open attempt can commit, only partitions it still may, and only once. The rest is late and ignored.
- Of an attempt of an older epoch only the seal counts: no report of a sleeper does.
- What a dead driver finished unseen is adopted only where no unseen recompute could have mixed it.
- An attempt that failed because its input was gone knows what it read: losses of other files are no news. The plan
  that was held for it is of no use any more, also where the loss itself was known.
- With the strategy `full`, a lost result that somebody still needs is a failure: everything starts over.
- What differs from what a published sink was made from does not count: the run stops.
"""

from __future__ import annotations

from rekindle.failover.restart import Strategy
from rekindle.master.facts.digests import Digests
from rekindle.master.facts.events import AttemptClosed, ExchangesLost, Outcome, PartitionsCommitted, PartitionsLost
from rekindle.master.facts.stimuli import AttemptEnded, AttemptSealed, CommitsSeen, PartsLost
from rekindle.master.rules.advance import work_left
from rekindle.master.rules.decision import Decision
from rekindle.master.rules.handle_failure import handle, restart_everything
from rekindle.master.rules.published import changed_under_published, may_republish, stop
from rekindle.master.rules.versions import changed_among, exchange_proof, exchange_remade, spread_change
from rekindle.master.state.run_state import AttemptState, AttemptStatus, Phase
from rekindle.model.ids import AttemptId
from rekindle.model.kinds import FailureDomain
from rekindle.model.partitions import Partitions
from rekindle.model.parts import Parts


def commits_seen(draft: Decision, report: CommitsSeen) -> None:
    attempt = _current(draft, report.attempt)
    if attempt is None or report.partitions.is_disjoint(attempt.partitions):
        return
    name = report.attempt.step
    if report.exchange_version > draft.step(name).exchange_version and not exchange_remade(
        draft, name, report.exchange_version
    ):
        return
    _commit(draft, report, report.exchange_checksum, is_adopted=False)


def attempt_ended(draft: Decision, report: AttemptEnded) -> None:
    attempt = _current(draft, report.attempt)
    if attempt is None:
        return
    if attempt.status is AttemptStatus.CANCELLING or report.was_cancelled:
        outcome = Outcome.CANCELLED
    else:
        outcome = Outcome.FAILED if report.failures else Outcome.SUCCEEDED
    draft.add(AttemptClosed(report.attempt, outcome, draft.now_ms))
    _lose(draft, _read(draft, report.lost, attempt.reads), FailureDomain.STORAGE)
    step = draft.step(report.attempt.step)
    if report.attempt.generation == step.generation:
        _lose(draft, Parts({report.attempt.step: report.disproved}, {}), FailureDomain.STORAGE)
    if report.has_lost_plan and report.attempt.generation == step.generation:
        _lose(draft, Parts({}, step.held), FailureDomain.APPLICATION)
    if outcome is Outcome.FAILED:
        handle(draft, report.attempt.step, report.failures)


def attempt_sealed(draft: Decision, report: AttemptSealed) -> None:
    attempt = draft.state.attempts.get(report.attempt)
    if attempt is None or attempt.status is not AttemptStatus.SEALING:
        return
    if draft.state.phase is not Phase.CLOSING and _may_adopt(draft, report):
        _commit(draft, report, None, is_adopted=True)
    draft.add(AttemptClosed(report.attempt, Outcome.SEALED, draft.now_ms))


def parts_lost(draft: Decision, report: PartsLost) -> None:
    _lose(draft, report.lost, report.domain)


def _current(draft: Decision, attempt: AttemptId) -> AttemptState | None:
    found = draft.state.attempts.get(attempt)
    return None if found is None or found.status is AttemptStatus.SEALING else found


def _may_adopt(draft: Decision, report: AttemptSealed) -> bool:
    name = report.attempt.step
    if not draft.state.layout.graph.steps[name].kind.survives(FailureDomain.APPLICATION):
        return False
    if report.exchange_version == draft.step(name).exchange_version:
        return True
    return exchange_proof(draft.state, name) is not None


def _commit(draft: Decision, report: CommitsSeen | AttemptSealed, checksum: str | None, *, is_adopted: bool) -> None:
    name = report.attempt.step
    fresh = report.partitions & draft.state.attempts[report.attempt].partitions
    if not fresh:
        return
    digests = Digests(report.partitions, report.digests)
    changed = changed_among(draft.state, name, fresh, digests)
    differs = changed_under_published(draft.state, name, changed, digests)
    if differs is not None and may_republish(draft, differs):
        differs = None
    if differs is not None:
        fresh, changed = fresh - differs.partitions, changed - differs.partitions
    if fresh:
        _add_commit(draft, report, fresh, changed, checksum, is_adopted=is_adopted)
    if differs is not None:
        stop(draft, differs)


def _add_commit(
    draft: Decision,
    report: CommitsSeen | AttemptSealed,
    fresh: Partitions,
    changed: Partitions,
    checksum: str | None,
    *,
    is_adopted: bool,
) -> None:
    name = report.attempt.step
    draft.add(
        PartitionsCommitted(
            attempt=report.attempt,
            partitions=fresh,
            of=report.partitions,
            manifest=report.manifest,
            at_ms=draft.now_ms,
            digests=report.digests,
            changed=changed,
            exchange_version=draft.step(name).exchange_version,
            exchange_checksum=checksum,
            is_adopted=is_adopted,
            size_bytes=report.size_bytes,
            rows=report.rows,
        )
    )
    if changed:
        spread_change(draft, name, changed)


def _read(draft: Decision, lost: Parts, reads: tuple[AttemptId, ...]) -> Parts:
    """Of the losses an attempt found, those among the files it was given that still count."""
    results = {name: at & draft.step(name).written_by(reads) for name, at in lost.results.items()}
    return Parts(results, lost.exchanges)


def _lose(draft: Decision, lost: Parts, domain: FailureDomain) -> None:
    hits = {name: partitions & draft.step(name).committed for name, partitions in lost.results.items()}
    for name, hit in hits.items():
        if hit:
            draft.add(PartitionsLost(name, hit, domain))
    gone = tuple((exchange, parts) for exchange, parts in lost.exchanges.items() if parts)
    if gone:
        draft.add(ExchangesLost(gone))
    if draft.state.phase is Phase.RUNNING and draft.state.config.strategy is Strategy.FULL and any(hits.values()):
        again = work_left(draft.state)
        if any(not hit.is_disjoint(again.partitions(name)) for name, hit in hits.items()):
            restart_everything(draft)
