"""The rules of the design as one function over a state. Tests and replay call it between records.

It lists every sentence that is not true. Numbers are those of the design's correctness rules; what only the history or
the world can show (one decider, acts after facts, contents of files) is watched by the simulated world instead.
"""

from __future__ import annotations

from collections.abc import Iterator

from rekindle.master.state.run_state import AttemptStatus, Phase, RunState, StepState
from rekindle.model.partitions import EMPTY, Partitions


def check_invariants(state: RunState) -> None:
    """Raise AssertionError with every violated rule."""
    broken = list(violations(state))
    assert not broken, "; ".join(broken)


def violations(state: RunState) -> Iterator[str]:
    """Each violated rule as a sentence that begins with its number."""
    for name, step in state.steps.items():
        yield from (f"{broken} ({name})" for broken in _step(state, name, step))
    yield from _attempts(state)
    yield from _publication(state)
    yield from _deletion(state)


def _step(state: RunState, name: str, step: StepState) -> Iterator[str]:
    whole = state.layout.graph.whole[name]
    covered, count = EMPTY, 0
    for segment in step.segments:
        covered, count = covered | segment.partitions, count + len(segment.partitions)
    if count != len(covered) or covered != step.committed:
        yield "rule 3: a partition is committed by two attempts, or by none"
    if not step.committed <= whole:
        yield "rule 3: a partition that the step does not have is committed"
    if not step.committed <= step.started:
        yield "rule 3: a partition is committed that never began"
    if not step.committed.is_disjoint(step.released):
        yield "rule 8: a released partition counts again"
    if not step.committed.is_disjoint(step.superseded_partitions()):
        yield "rule 5: a partition counts and is remembered as gone"
    if not step.must_recompare <= step.superseded_partitions():
        yield "rule 5: something is to be compared with what nobody saw"
    if not step.holes <= step.started - step.committed - step.released - step.superseded_partitions():
        yield "rule 3: a partition is left out that counts, did, or never began"
    if any(segment.attempt.generation > step.generation for segment in step.segments):
        yield "rule 4: a partition of a later generation counts"
    if any(state.attempts.get(s.attempt) is None and s.attempt not in state.undeleted for s in step.segments):
        yield "rule 8: files that count were deleted"


def _attempts(state: RunState) -> Iterator[str]:
    flying: dict[str, Partitions] = {}
    for one in state.attempts.values():
        name, step = one.attempt.step, state.steps[one.attempt.step]
        before = flying.get(name, EMPTY)
        if not one.partitions.is_disjoint(before):
            yield f"rule 3: two open attempts may commit the same partition ({name})"
        flying[name] = before | one.partitions
        if not one.partitions.is_disjoint(step.committed):
            yield f"rule 3: an open attempt may commit what counts already ({name})"
        if not one.partitions.is_disjoint(step.holes):
            yield f"rule 3: an open attempt may commit what was left out ({name})"
        if not one.partitions <= step.started:
            yield f"rule 4: an open attempt may commit what a new generation dropped ({name})"
        if one.attempt.epoch < state.epoch and one.status is not AttemptStatus.SEALING:
            yield f"rule 1: an attempt of an older epoch is not being closed ({name})"
        if one.attempt.epoch > state.epoch:
            yield f"rule 1: an attempt of a later epoch is open ({name})"
        if one.status is AttemptStatus.RUNNING and state.phase is not Phase.RUNNING:
            yield f"rule 9: an attempt runs in a run that does not ({name})"
        if step.attempts > state.config.attempts_per_step_max:
            yield f"rule 9: more attempts than allowed ({name})"


def _publication(state: RunState) -> Iterator[str]:
    if state.publication is None:
        return
    if state.publication.epoch != state.epoch or state.publication.order != state.order:
        yield "rule 7: the publication carries another master's fence"
    for sink in state.sinks:
        if sink not in state.published and not state.is_complete(sink):
            yield f"rule 7: {sink} is being published and not complete"
    if state.must_recompare():
        yield "rule 5: published while a changed result is still to be compared"


def _deletion(state: RunState) -> Iterator[str]:
    """Files that an open attempt of this epoch was given to read are still there."""
    there = state.undeleted | state.attempts.keys()
    for one in state.attempts.values():
        if one.status is AttemptStatus.RUNNING and not there.issuperset(one.reads):
            yield f"rule 8: files were deleted that {one.attempt} reads"
