"""Taking partitions out of a step's state, and remembering what their readers may have seen."""

from __future__ import annotations

from msgspec.structs import replace

from rekindle.master.facts.digests import Digests
from rekindle.master.facts.events import GenerationOpened
from rekindle.master.state.run_state import Seen, Segment, StepState
from rekindle.model.because import CodeChanged, EverythingRestarts, InputChanged
from rekindle.model.partitions import EMPTY, Partitions

_OTHER_INPUTS = (CodeChanged, EverythingRestarts, InputChanged)


def remove(step: StepState, gone: Partitions, *, are_inputs_equal: bool) -> StepState:
    """`gone` counts no more. `are_inputs_equal` says whether it would be made again from what it was made from."""
    kept: list[Segment] = []
    seen = list(step.seen)
    for segment in step.segments:
        if segment.partitions.is_disjoint(gone):
            kept.append(segment)
            continue
        hit = segment.partitions & gone
        if same := hit - step.vouched:
            seen.append(Seen(same, segment.digests, are_inputs_equal))
        if other := hit & step.vouched:
            seen.append(Seen(other, segment.digests, are_inputs_equal=False))
        if left := segment.partitions - gone:
            kept.append(replace(segment, partitions=left))
    return replace(step, committed=step.committed - gone, segments=tuple(kept), seen=tuple(seen))


def fill(step: StepState, gone: Partitions) -> StepState:
    """These are left out no more: whoever read them saw no rows, and what is made now is something else."""
    holes = step.holes & gone
    if not holes:
        return step
    seen = Seen(holes, Digests(holes, None), are_inputs_equal=False, is_hole=True)
    return replace(step, holes=step.holes - holes, seen=(*step.seen, seen))


def without(seen: tuple[Seen, ...], again: Partitions) -> tuple[Seen, ...]:
    """What is remembered, when these count again."""
    cut = (replace(one, partitions=one.partitions - again) for one in seen)
    return tuple(one for one in cut if one.partitions)


def drop(step: StepState, event: GenerationOpened) -> StepState:
    """The step in its new generation. What had counted, or was seen before it was lost, must be made again."""
    are_inputs_equal = not any(isinstance(why, _OTHER_INPUTS) for why, _ in event.because)
    filled = fill(step, event.dropped)
    removed = remove(filled, filled.committed & event.dropped, are_inputs_equal=are_inputs_equal)
    seen = removed.seen if are_inputs_equal else outdated(removed.seen, event.dropped)
    version = max(event.exchange_version, step.exchange_version)
    dropped = replace(
        removed,
        generation=event.generation,
        seen=seen,
        started=removed.started - event.dropped,
        forced=removed.forced | (removed.seen_partitions() & event.dropped),
        released=EMPTY,
        why=event.because,
        held={},
        exchange_version=version,
    )
    return dropped if dropped.has_witnesses() else replace(dropped, exchange_checksum=None)


def outdated(seen: tuple[Seen, ...], touched: Partitions) -> tuple[Seen, ...]:
    """What was seen of `touched` was made from inputs that are others now."""
    cut: list[Seen] = []
    for one in seen:
        if hit := one.partitions & touched:
            cut.append(replace(one, partitions=hit, are_inputs_equal=False))
        if rest := one.partitions - touched:
            cut.append(replace(one, partitions=rest))
    return tuple(cut)
