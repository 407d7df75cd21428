"""What the results of a run took at the most, and the least that the same schedule could have taken.

Both are folded from the journal. What must be there at some moment is what a vertex that has yet to run reads, what
goes to a target and is not there yet, and whatever has just been committed: its inputs were read until then.
"""

from __future__ import annotations

from collections.abc import Iterable

from rekindle.failover.release import RetainedResults, RunPhase, releasable
from rekindle.master.facts.events import Event, PartitionsCommitted
from rekindle.master.state.apply import apply
from rekindle.master.state.run_state import Phase, RunState
from rekindle.model.partitions import EMPTY
from rekindle.results import manifest


def peaks(events: Iterable[Event]) -> tuple[int, int]:
    """Bytes at the most, and the least possible."""
    state: RunState | None = None
    most = least = 0
    for event in events:
        made = event.size_bytes if isinstance(event, PartitionsCommitted) else 0
        if state is not None and made and not (isinstance(event, PartitionsCommitted) and event.is_adopted):
            least = max(least, needed_bytes(state) + made)
        state = apply(state, event)
        most = max(most, state.stored_bytes)
        least = max(least, needed_bytes(state))
    return most, least


def needed_bytes(state: RunState) -> int:
    if state.phase in (Phase.SUCCEEDED, Phase.CLOSING, Phase.CLOSED):
        return 0
    free = releasable(state.layout.graph, state.tracker(), RetainedResults(), RunPhase.ACTIVE).results
    found = 0
    for name, step in state.steps.items():
        for segment in step.segments:
            kept = segment.partitions - free.get(name, EMPTY)
            found += (manifest.bytes_of(segment.manifest, kept) or 0) if kept else 0
    return found
