"""What the journal says that counted, partition by partition: files, lengths and digests, also of what was released.

The state of a run forgets the files of what it released, because nobody may read them again; what was published is a
copy of them, and is compared with what they were.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from rekindle.master.facts.digests import Digests
from rekindle.master.facts.events import Event, GenerationOpened, HoleAccepted, PartitionsCommitted, PartitionsLost
from rekindle.master.state.run_state import Segment
from rekindle.model.partitions import Partitions
from rekindle.results import manifest


def last_counted(events: Iterable[Event]) -> dict[str, tuple[Segment, ...]]:
    """What counted last of every step, also where it was released since."""
    found: dict[str, tuple[Segment, ...]] = {}
    for event in events:
        match event:
            case PartitionsCommitted():
                step = event.attempt.step
                made = Segment(event.attempt, event.partitions, event.manifest, Digests(event.of, event.digests))
                found[step] = (*_without(found.get(step, ()), event.partitions), made)
            case GenerationOpened():
                found[event.step] = _without(found.get(event.step, ()), event.dropped)
            case PartitionsLost() | HoleAccepted():
                found[event.step] = _without(found.get(event.step, ()), event.partitions)
            case _:
                pass
    return found


def _without(segments: tuple[Segment, ...], gone: Partitions) -> tuple[Segment, ...]:
    left = (replace(one, partitions=one.partitions - gone) for one in segments)
    return tuple(one for one in left if one.partitions)


def commits_of(segments: Iterable[Segment]) -> Iterator[tuple[Segment, manifest.Commit]]:
    """Every partition that these make count, with its file."""
    for segment in segments:
        for commit in manifest.counted(segment.manifest, segment.partitions):
            yield segment, commit
