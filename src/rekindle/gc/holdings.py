"""What results are there, how large, and why they are kept: told by the journals alone, without a look at a file. What
lay on executors is not there any more if its driver is not."""

from __future__ import annotations

from dataclasses import dataclass

from rekindle.gc.inspect_run import RunInspection
from rekindle.gc.policy import Retention, RunCondition, judge_run
from rekindle.master.state.run_state import RunState, Segment, StepState
from rekindle.model.kinds import FailureDomain, KeepUntil
from rekindle.results import manifest
from rekindle.runtime.pins import RunPin


@dataclass(frozen=True, slots=True, kw_only=True)
class StepHolding:
    """The result of one step that counts. `bytes` is None where a manifest does not tell; `left_ms` is how long it is
    still kept, where that ends by itself."""

    step: str
    partitions: int
    of: int
    bytes: int | None
    why: str
    left_ms: int | None = None


def holdings(look: RunInspection, terms: Retention, pin: RunPin | None) -> list[StepHolding]:
    """Every step of a run that has results, with the reason."""
    if look.state is None:
        return []
    verdict = judge_run(look.facts, terms)
    found = []
    for name, step in look.state.steps.items():
        is_gone = look.facts.found is not RunCondition.LIVING and not _outlives_its_driver(look.state, name)
        if not step.committed or is_gone:
            continue
        of = look.state.layout.graph.steps[name].partitions
        why, left_ms = (str(pin), None) if pin is not None else (verdict.because, verdict.left_ms)
        if pin is None and look.facts.found is RunCondition.SUCCEEDED:
            why = _kept_at_the_end(look.state, name)
        found.append(
            StepHolding(step=name, partitions=len(step.committed), of=of, bytes=_bytes(step), why=why, left_ms=left_ms)
        )
    return found


def _outlives_its_driver(state: RunState, name: str) -> bool:
    return state.layout.graph.steps[name].kind.survives(FailureDomain.APPLICATION)


def _kept_at_the_end(state: RunState, name: str) -> str:
    if state.layout.graph.steps[name].keep is KeepUntil.FOREVER:
        return 'keep_until="forever"'
    return "kept for later runs (results.keep_hours)" if state.config.keep_ms else "its driver died before deleting it"


def _bytes(step: StepState) -> int | None:
    sizes = [_size(segment) for segment in step.segments]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


def _size(segment: Segment) -> int | None:
    return manifest.bytes_of(segment.manifest, segment.partitions)
