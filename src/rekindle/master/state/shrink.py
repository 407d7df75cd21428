"""Taking partitions out of a step's state, and remembering what their readers may have seen."""

from __future__ import annotations

from msgspec.structs import replace

from rekindle.master.facts.digests import Digests
from rekindle.master.facts.events import GenerationOpened
from rekindle.master.state.run_state import Segment, StepState, Superseded
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.model.reasons import CodeChanged, EverythingRestarts, InputDiffers

_OTHER_INPUTS = (CodeChanged, EverythingRestarts, InputDiffers)


def remove(step: StepState, gone: Partitions, *, are_inputs_equal: bool) -> StepState:
    """`gone` counts no more. `are_inputs_equal` says whether it would be made again from what it was made from."""
    kept: list[Segment] = []
    seen = list(step.superseded)
    for segment in step.segments:
        if segment.partitions.is_disjoint(gone):
            kept.append(segment)
            continue
        hit = segment.partitions & gone
        if same := hit - step.accepted_stale:
            seen.append(Superseded(same, segment.digests, are_inputs_equal))
        if other := hit & step.accepted_stale:
            seen.append(Superseded(other, segment.digests, are_inputs_equal=False))
        if left := segment.partitions - gone:
            kept.append(replace(segment, partitions=left))
    return replace(step, committed=step.committed - gone, segments=tuple(kept), superseded=tuple(seen))


def fill(step: StepState, gone: Partitions) -> StepState:
    """These are left out no more: whoever read them saw no rows, and what is made now is something else."""
    holes = step.holes & gone
    if not holes:
        return step
    seen = Superseded(holes, Digests(holes, None), are_inputs_equal=False, is_hole=True)
    return replace(step, holes=step.holes - holes, superseded=(*step.superseded, seen))


def without(seen: tuple[Superseded, ...], again: Partitions) -> tuple[Superseded, ...]:
    """What is remembered, when these count again."""
    cut = (replace(one, partitions=one.partitions - again) for one in seen)
    return tuple(one for one in cut if one.partitions)


def drop(step: StepState, event: GenerationOpened) -> StepState:
    """The step in its new generation. What had counted, or was seen before it was lost, must be made again."""
    are_inputs_equal = not any(isinstance(why, _OTHER_INPUTS) for why, _ in event.because)
    filled = fill(step, event.dropped)
    removed = remove(filled, filled.committed & event.dropped, are_inputs_equal=are_inputs_equal)
    seen = removed.superseded if are_inputs_equal else outdated(removed.superseded, event.dropped)
    version = max(event.exchange_version, step.exchange_version)
    dropped = replace(
        removed,
        generation=event.generation,
        superseded=seen,
        started=removed.started - event.dropped,
        must_recompare=removed.must_recompare | (removed.superseded_partitions() & event.dropped),
        released=EMPTY,
        why=event.because,
        held={},
        exchange_version=version,
    )
    return dropped if dropped.has_witnesses() else replace(dropped, exchange_checksum=None)


def outdated(seen: tuple[Superseded, ...], touched: Partitions) -> tuple[Superseded, ...]:
    """What was seen of `touched` was made from inputs that are others now."""
    cut: list[Superseded] = []
    for one in seen:
        if hit := one.partitions & touched:
            cut.append(replace(one, partitions=hit, are_inputs_equal=False))
        if rest := one.partitions - touched:
            cut.append(replace(one, partitions=rest))
    return tuple(cut)
