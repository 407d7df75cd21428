"""The list of planted bugs: each is one sentence and one change to the master, its policies or the world's ports.

A bug is planted by putting another function in the place of one of ours, for as long as a `with` lasts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace as changed

from rekindle.failover import backoff, poison
from rekindle.master import decide, dispatch
from rekindle.master.facts.digests import Digests
from rekindle.master.facts.events import ExchangesReleased, Fence, GenerationOpened, RunStopped, TombstoneWritten
from rekindle.master.rules import advance, handle_failure, opening, publishing, releasing, reports, versions
from rekindle.master.rules import poison_beside as beside_poison
from rekindle.master.rules import published as settled
from rekindle.master.rules.decision import Decision
from rekindle.master.state import apply, shrink
from rekindle.master.state import run_state as state_module
from rekindle.master.state.graph_index import GraphIndex, Sets
from rekindle.master.state.run_state import AttemptStatus, Phase, RunState, StepState
from rekindle.model import graph
from rekindle.model.failures import Failure
from rekindle.model.kinds import Proof
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.model.parts import Parts
from world import engine, process, storage, watch

Plant = Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True)
class Bug:
    """What is wrong, and how it is made so."""

    name: str
    plant: Plant


BUGS: list[Bug] = []


def bug(name: str) -> Callable[[Plant], Plant]:
    """Put it on the list."""

    def listed(plant: Plant) -> Plant:
        BUGS.append(Bug(name, plant))
        return plant

    return listed


def instead(where: Any, name: str, other: Any) -> AbstractContextManager[Any]:
    return patch.object(where, name, other)


@contextmanager
def both(*plants: AbstractContextManager[Any]) -> Iterator[None]:
    with ExitStack() as stack:
        for plant in plants:
            stack.enter_context(plant)
        yield


# ---------------------------------------------------------------------- the loop and the journal


@bug("act before journaling")
def _() -> AbstractContextManager[Any]:
    ours = process.Process._append

    def dispatch_first(self: process.Process, events: Any, state: RunState) -> None:
        for command in dispatch.commands(state, self.sent):
            self.sent.add(command.key)
            assert self.application is not None
            self.application.send(command)
        ours(self, events, state)

    return instead(process.Process, "_append", dispatch_first)


@bug("retry other bytes after an unknown append")
def _() -> AbstractContextManager[Any]:
    def forget(self: process.Process) -> None:
        if self.is_alive and self.pending is not None:
            _, _, state = self.pending
            self.pending = None
            self.state = state
            self.next_number += 1
            self._drain()

    return instead(process.Process, "_try_again", forget)


@bug("take an existing record for one's own")
def _() -> AbstractContextManager[Any]:
    return instead(storage.Ledger, "holds", lambda self, number, record: number < len(self.records))


@bug("go on after being fenced")
def _() -> AbstractContextManager[Any]:
    ours = process.Process.die

    def stay(self: process.Process, why: str) -> None:
        if why != "fenced":
            ours(self, why)
        elif self.state is not None:
            self.next_number = len(self.world.ledger.records)

    return instead(process.Process, "die", stay)


@bug("reuse a freed sequence number after gc")
def _() -> AbstractContextManager[Any]:
    ours = storage.Ledger.put

    def free_again(self: storage.Ledger, number: int, record: storage.Record) -> storage.Put:
        if self.is_closed:
            self.records[number:] = []
            self.is_closed = False
        return ours(self, number, record)

    return instead(storage.Ledger, "put", free_again)


@bug("dispatch an attempt twice after a takeover")
def _() -> AbstractContextManager[Any]:
    ours = apply._epoch_opened

    def reopened(state: RunState, event: Any) -> RunState:
        after = ours(state, event)
        running = {key: changed(one, status=AttemptStatus.RUNNING) for key, one in after.attempts.items()}
        return changed(after, attempts=running)

    return both(instead(apply, "_epoch_opened", reopened), instead(watch, "violations", lambda state: ()))


# ---------------------------------------------------------------------- attempts and commits


@bug("accept a ghost attempt: what was dropped from it, too")
def _() -> AbstractContextManager[Any]:
    ours = apply._shrunk
    return instead(apply, "_shrunk", lambda one, dropped: changed(ours(one, dropped), partitions=one.partitions))


@bug("commit what counts already")
def _() -> AbstractContextManager[Any]:
    ours = reports._commit

    def everything(draft: Decision, report: Any, checksum: Any, *, is_adopted: bool) -> None:
        attempt = draft.state.attempts[report.attempt]
        wide = changed(attempt, partitions=attempt.partitions | report.partitions)
        draft.state = changed(draft.state, attempts=draft.state.attempts | {report.attempt: wide})
        ours(draft, report, checksum, is_adopted=is_adopted)

    return instead(reports, "_commit", everything)


@bug("overwrite a committed file")
def _() -> AbstractContextManager[Any]:
    ours = engine.Application.put

    def same_name(self: Any, job: Any, partition: int, number: int, label: int, executor: int) -> None:
        ours(self, job, partition, 0, label, executor)

    return instead(engine.Application, "put", same_name)


@bug("adopt whatever a dead driver left")
def _() -> AbstractContextManager[Any]:
    return instead(reports, "_may_adopt", lambda draft, report: True)


@bug("never adopt: open the attempt again without closing it")
def _() -> AbstractContextManager[Any]:
    return instead(reports, "attempt_sealed", lambda draft, report: None)


@bug("start a consumer before its inputs are committed")
def _() -> AbstractContextManager[Any]:
    return instead(advance, "_is_settled", lambda state, plan, name, wanted: True)


@bug("compute again what is in flight")
def _() -> AbstractContextManager[Any]:
    return instead(RunState, "running", lambda self, step: EMPTY)


@bug("start a barrier step in part")
def _() -> AbstractContextManager[Any]:
    return instead(GraphIndex, "restarts_whole", lambda self, root: False)


@bug("forget to delete what failed attempts left")
def _() -> AbstractContextManager[Any]:
    return instead(dispatch, "_deletions", lambda state: iter(()))


@bug("fail the run while attempts are still running")
def _() -> AbstractContextManager[Any]:
    ours = advance.advance

    def at_once(draft: Decision) -> None:
        if draft.state.phase is Phase.FAILING:
            draft.add(RunStopped(draft.now_ms))
        else:
            ours(draft)

    return instead(decide, "advance", at_once)


# ---------------------------------------------------------------------- versions and generations


@bug("mix generations: every plan counts as determinate")
def _() -> AbstractContextManager[Any]:
    return both(
        instead(versions, "exchange_proof", lambda state, name: Proof.DETERMINATE),
        instead(advance, "exchange_proof", lambda state, name: Proof.DETERMINATE),
        instead(reports, "exchange_proof", lambda state, name: Proof.DETERMINATE),
        instead(advance, "_is_outdated", lambda state, plan, name: False),
    )


@bug("commit after an unseen exchange recompute")
def _() -> AbstractContextManager[Any]:
    ours = engine.Application._exchange

    def unseen(self: Any, job: Any, exchange: Any, executor: int) -> Any:
        version = job.plan.version
        found = ours(self, job, exchange, executor)
        job.plan.version = version
        return found

    return instead(engine.Application, "_exchange", unseen)


@bug("ignore a raised exchange version")
def _() -> AbstractContextManager[Any]:
    return instead(reports, "exchange_remade", lambda draft, name, version: True)


@bug("drop only what is committed when an exchange was made again")
def _() -> AbstractContextManager[Any]:
    def shy(draft: Decision, name: str, version: int) -> bool:
        step = draft.step(name)
        if versions.exchange_proof(draft.state, name) is None:
            draft.open_generation(name, step.committed, (), None, version)
        return False

    return instead(reports, "exchange_remade", shy)


@bug("silent recompute of a cached block")
def _() -> AbstractContextManager[Any]:
    ours = dispatch._start
    return instead(dispatch, "_start", lambda state, one: changed(ours(state, one), is_repeatable=True))


@bug("two versions of a pipelined fan-out")
def _() -> AbstractContextManager[Any]:
    return both(
        instead(graph, "_is_torn", lambda drawn, name: False),
        instead(graph, "_is_doubtful", lambda name, steps, inputs: False),
    )


@bug("forget a consumer")
def _() -> AbstractContextManager[Any]:
    ours = GraphIndex.readers_of

    def all_but_one(self: GraphIndex, step: str, partitions: Partitions) -> Sets:
        found = ours(self, step, partitions)
        return dict(list(found.items())[:-1])

    return instead(GraphIndex, "readers_of", all_but_one)


@bug("forget consumers behind a fused step")
def _() -> AbstractContextManager[Any]:
    ours = GraphIndex.readers_of

    def direct(self: GraphIndex, step: str, partitions: Partitions) -> Sets:
        near = {edge.consumer for edge in self.graph.outputs[step]}
        return {name: at for name, at in ours(self, step, partitions).items() if name in near}

    return instead(GraphIndex, "readers_of", direct)


@bug("drop only committed readers, not running ones")
def _() -> AbstractContextManager[Any]:
    ours = Decision.open_generation

    def committed_only(
        self: Decision, name: str, dropped: Partitions, why: Any, proof: Any, exchange_version: int = 0
    ) -> None:
        ours(self, name, dropped & self.step(name).committed, why, proof, exchange_version)

    return instead(Decision, "open_generation", committed_only)


@bug("a recomputed partition is always the same")
def _() -> AbstractContextManager[Any]:
    return instead(reports, "changed_among", lambda state, name, fresh, digests: EMPTY)


@bug("an unknown digest is a match")
def _() -> AbstractContextManager[Any]:
    ours = versions.changed_among

    def trusting(state: RunState, name: str, fresh: Partitions, digests: Digests) -> Partitions:
        return EMPTY if digests.packed is None else ours(state, name, fresh, digests)

    return instead(reports, "changed_among", trusting)


@bug("a repeatable step is equal even if its inputs changed")
def _() -> AbstractContextManager[Any]:
    return instead(shrink, "_OTHER_INPUTS", ())


@bug("equal digests are not looked at")
def _() -> AbstractContextManager[Any]:
    return instead(Digests, "equal_to", lambda self, other, among: EMPTY)


@bug("digests are read one place off")
def _() -> AbstractContextManager[Any]:
    def shifted(self: Digests, partition: int) -> bytes | None:
        if self.packed is None or not self.of:
            return None
        width = len(self.packed) // len(self.of)
        at = (self.of.rank(partition) + 1) % len(self.of) * width
        return self.packed[at : at + width]

    return instead(Digests, "digest", shifted)


@bug("what was lost is forgotten")
def _() -> AbstractContextManager[Any]:
    ours = shrink.remove

    def forgetful(step: StepState, gone: Partitions, *, are_inputs_equal: bool) -> StepState:
        return changed(ours(step, gone, are_inputs_equal=are_inputs_equal), superseded=step.superseded)

    return both(instead(apply, "remove", forgetful), instead(shrink, "remove", forgetful))


@bug("what was dropped need not be made again")
def _() -> AbstractContextManager[Any]:
    ours = shrink.drop
    return instead(apply, "drop", lambda step, event: changed(ours(step, event), must_recompare=EMPTY))


@bug("exchanges survive their application")
def _() -> AbstractContextManager[Any]:
    ours = apply._epoch_opened

    def held_on(state: RunState, event: Any) -> RunState:
        after = ours(state, event)
        steps = {name: changed(step, held=state.steps[name].held) for name, step in after.steps.items()}
        return changed(after, steps=steps)

    ours_start = dispatch._start
    return both(
        instead(apply, "_epoch_opened", held_on),
        instead(dispatch, "_start", lambda state, one: changed(ours_start(state, one), is_first=True)),
    )


@bug("a new application does not compare its exchanges")
def _() -> AbstractContextManager[Any]:
    return instead(StepState, "has_witnesses", lambda self: False)


@bug("cached results survive their application")
def _() -> AbstractContextManager[Any]:
    return both(
        instead(opening, "_lose_application", lambda draft: None),
        instead(reports, "_lose", lambda draft, lost, domain: None),
    )


@bug("losses are not written down")
def _() -> AbstractContextManager[Any]:
    return instead(reports, "_lose", lambda draft, lost, domain: None)


@bug("a generation number is used twice")
def _() -> AbstractContextManager[Any]:
    ours = shrink.drop

    def same_number(step: StepState, event: GenerationOpened) -> StepState:
        return changed(ours(step, event), generation=step.generation)

    return instead(apply, "drop", same_number)


# ---------------------------------------------------------------------- code changes


@bug("changed code is not noticed")
def _() -> AbstractContextManager[Any]:
    return instead(opening, "changed_parts", lambda old, new: ())


@bug("changed code of a fused step restarts nothing")
def _() -> AbstractContextManager[Any]:
    return instead(GraphIndex, "members", lambda self, root: frozenset({root}))


@bug("a change is accepted without the user's word")
def _() -> AbstractContextManager[Any]:
    return instead(opening, "_restart_changed", lambda draft, step: None)


@bug("an exchange made by changed code stands on the user's word")
def _() -> AbstractContextManager[Any]:
    def at_its_word(state: RunState, name: str) -> Proof | None:
        steps = state.steps | {name: changed(state.steps[name], accepted_stale=EMPTY)}
        return proof_of(changed(state, steps=steps), name)

    proof_of = versions.exchange_proof
    return both(*(instead(where, "exchange_proof", at_its_word) for where in (versions, advance, reports)))


@bug("what is made again after an accepted change is taken for the same")
def _() -> AbstractContextManager[Any]:
    return instead(apply, "_vouched", lambda state, changed: state)


# ---------------------------------------------------------------------- release and publication


@bug("release too early")
def _() -> AbstractContextManager[Any]:
    def everything(drawn: Any, tracker: Any, holds: Any, phase: Any) -> Parts:
        return Parts({name: at for name, at in tracker.results.items() if at and drawn.outputs[name]})

    return instead(releasing, "releasable", everything)


@bug("exchanges are let go while the step still runs")
def _() -> AbstractContextManager[Any]:
    def hasty(draft: Decision) -> None:
        for name, step in draft.state.steps.items():
            if step.held and step.exchanges_released_at == 0 and len(step.available) > 0:
                left = changed(step, held={}, exchanges_released_at=draft.state.attempt_number)
                draft.state = changed(draft.state, steps=draft.state.steps | {name: left})
                draft.events.append(ExchangesReleased(name))

    return both(instead(advance, "let_go_exchanges", hasty), instead(apply, "_exchanges_released", _unasserted))


def _unasserted(state: RunState, event: ExchangesReleased) -> RunState:
    step = changed(state.steps[event.step], held={}, exchanges_released_at=state.attempt_number)
    return changed(state, steps=state.steps | {event.step: step})


@bug("the budget takes what a reader still needs")
def _() -> AbstractContextManager[Any]:
    def everything(drawn: Any, tracker: Any, holds: Any) -> Sets:
        return {name: at for name, at in tracker.results.items() if at and drawn.outputs[name]}

    return instead(releasing, "spare", everything)


@bug("the budget is not looked at")
def _() -> AbstractContextManager[Any]:
    return instead(advance, "keep_to_budget", lambda draft: None)


@bug("a result that is read is not made again before it is published")
def _() -> AbstractContextManager[Any]:
    ours = RunState.tracker
    return instead(RunState, "tracker", lambda state: replace(ours(state), wanted=frozenset()))


@bug("release while something is made again to be compared")
def _() -> AbstractContextManager[Any]:
    ours = advance._run

    def careless(draft: Decision) -> None:
        with instead(RunState, "must_recompare", _forced_only_for_the_plan()):
            ours(draft)

    return instead(advance, "_run", careless)


def _forced_only_for_the_plan() -> Callable[[RunState], Sets]:
    ours, calls = RunState.must_recompare, [0]

    def once(self: RunState) -> Sets:
        calls[0] += 1
        return ours(self) if calls[0] == 1 else {}

    return once


@bug("delete files that still count")
def _() -> AbstractContextManager[Any]:
    return instead(dispatch, "deletable", lambda state: set(state.undeleted))


@bug("delete files that an attempt still reads")
def _() -> AbstractContextManager[Any]:
    def unread(state: RunState) -> set[Any]:
        counted = {one.attempt for step in state.steps.values() for one in step.segments}
        return set(state.undeleted - counted)

    return instead(dispatch, "deletable", unread)


@bug("use a released generation again")
def _() -> AbstractContextManager[Any]:
    ours = apply._released

    def not_final(state: RunState, event: Any) -> RunState:
        after = ours(state, event)
        step = changed(after.steps[event.step], committed=after.steps[event.step].committed | event.partitions)
        return changed(after, steps=after.steps | {event.step: step})

    return instead(apply, "_released", not_final)


@bug("publish after waking up: the target does not look at the fence")
def _() -> AbstractContextManager[Any]:
    def unfenced(self: storage.Storage, sink: str, fence: Fence, labels: Any) -> None:
        self.targets[sink] = (fence, labels)

    return instead(storage.Storage, "publish", unfenced)


@bug("every master publishes with the first one's fence")
def _() -> AbstractContextManager[Any]:
    return instead(publishing, "Fence", lambda order, epoch, number: Fence(order, 1, number))


@bug("publish before every sink is there")
def _() -> AbstractContextManager[Any]:
    ours = advance._run

    def early(draft: Decision) -> None:
        if any(draft.state.is_complete(sink) for sink in draft.state.sinks):
            publishing.publish(draft)
        if draft.state.phase is Phase.RUNNING:
            ours(draft)

    return instead(advance, "_run", early)


@bug("what a published sink was made from changes behind it")
def _() -> AbstractContextManager[Any]:
    return instead(reports, "changed_under_published", lambda state, name, changed, digests: None)


@bug("what may be published counts as not published")
def _() -> AbstractContextManager[Any]:
    return instead(RunState, "possibly_published", property(lambda state: frozenset(state.published)))


@bug("what differs from what is published counts before the run stops")
def _() -> AbstractContextManager[Any]:
    ours = settled.changed_under_published

    def counted(state: RunState, name: str, among: Partitions, digests: Digests) -> Any:
        found = ours(state, name, among, digests)
        return found and changed(found, partitions=EMPTY)

    return instead(reports, "changed_under_published", counted)


@bug("a sink that is to be published again still counts as published")
def _() -> AbstractContextManager[Any]:
    return instead(apply, "_republish_accepted", lambda state, event: state)


@bug("a publication goes on although its sink lost a partition")
def _() -> AbstractContextManager[Any]:
    ours = apply._lost
    return instead(apply, "_lost", lambda state, event: changed(ours(state, event), publication=state.publication))


@bug("close a run with files left")
def _() -> AbstractContextManager[Any]:
    ours = releasing.close

    def hasty(draft: Decision) -> None:
        ours(draft)
        if draft.state.phase is Phase.CLOSING:
            draft.state = changed(draft.state, undeleted=frozenset(), attempts={})
            draft.add(TombstoneWritten(draft.now_ms))

    return instead(advance, "close", hasty)


# ---------------------------------------------------------------------- failures


@bug("off-by-one in backoff reset")
def _() -> AbstractContextManager[Any]:
    ours = backoff._count

    def late(policy: Any, state: Any, now_ms: int) -> Any:
        is_edge = state.restart_at_ms is not None and now_ms - state.restart_at_ms == policy.reset_after_ms
        return ours(policy, state, now_ms - 1 if is_edge else now_ms)

    return instead(backoff, "_count", late)


@bug("a quiet time does not reset the backoff")
def _() -> AbstractContextManager[Any]:
    ours = backoff._count
    return instead(backoff, "_count", lambda policy, state, now: ours(policy, replace(state, restart_at_ms=None), now))


@bug("the backoff does not grow")
def _() -> AbstractContextManager[Any]:
    return instead(backoff, "_power", lambda factor, exponent, enough: 1.0)


@bug("each failure of one moment counts")
def _() -> AbstractContextManager[Any]:
    return instead(backoff, "_joined_ms", lambda state, now_ms: None)


@bug("restart at once, whatever the backoff says")
def _() -> AbstractContextManager[Any]:
    ours = backoff.on_failure

    def at_once(policy: Any, state: Any, cause: Any, now_ms: int, jitter: float) -> Any:
        after, verdict = ours(policy, state, cause, now_ms, jitter)
        return after, replace(verdict, at_ms=now_ms) if isinstance(verdict, backoff.Restart) else verdict

    return instead(handle_failure, "on_failure", at_once)


@bug("poison is tried once too often")
def _() -> AbstractContextManager[Any]:
    ours = poison.poison
    return instead(
        beside_poison,
        "poison",
        lambda limits, suspects: ours(replace(limits, tries_max=limits.tries_max + 1), suspects),
    )


@bug("poison ends the run while others could finish")
def _() -> AbstractContextManager[Any]:
    ours = handle_failure.handle

    def hasty(draft: Decision, name: str, seen: tuple[Failure, ...]) -> None:
        ours(draft, name, seen)
        if draft.state.phase is Phase.RUNNING and beside_poison.poisoned(draft.state, name):
            handle_failure.give_up(draft, beside_poison.sentence(draft.state), seen)

    return instead(reports, "handle", hasty)


@bug("poison is never seen")
def _() -> AbstractContextManager[Any]:
    def unseen(self: poison.FailureCounts, failure: Failure) -> poison.FailureCounts:
        return self

    return instead(poison.FailureCounts, "after", unseen)


@bug("a run that was given up cannot be resumed")
def _() -> AbstractContextManager[Any]:
    ours = handle_failure.give_up

    def for_good(draft: Decision, sentence: str, seen: Any = (), **rest: Any) -> None:
        ours(draft, sentence, seen, **(rest | {"is_resumable": False}))

    return instead(handle_failure, "give_up", for_good)


@bug("a hole that is filled leaves its readers as they are")
def _() -> AbstractContextManager[Any]:
    def unseen(step: StepState, gone: Partitions) -> StepState:
        return changed(step, holes=step.holes - gone)

    return instead(shrink, "fill", unseen)


@bug("a target is not told what was left out")
def _() -> AbstractContextManager[Any]:
    def silent(state: RunState, sink: str) -> tuple[tuple[str, Partitions], ...]:
        own = state.steps[sink].holes
        return ((sink, own),) if own else ()

    return instead(dispatch, "_holes", silent)


@bug("a partition that was left out is started again in the same generation")
def _() -> AbstractContextManager[Any]:
    return instead(state_module.StepState, "available", property(lambda self: self.committed))
