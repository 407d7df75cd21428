"""What a published sink was made from is settled: it does not change behind those who read the target (rules 5 and 7).

Rules
- A partition that a published sink read, or is, and that comes back different, or not known to be equal, does not
  count: the run stops, with both digests. A resume makes it again and goes on only if it comes back equal.
- A published sink that could only start over stops the run as well: what would come is not known.
- On the user's word every published sink that was made from what differs counts as not published. Then all that
  changed is made again, and they are published together.
"""

from __future__ import annotations

from collections.abc import Collection

from rekindle.errors import Refused
from rekindle.master.digests import Digests
from rekindle.master.draft import Draft
from rekindle.master.events import Differs
from rekindle.master.failures import give_up
from rekindle.master.state import Phase, RunState
from rekindle.model.partitions import EMPTY, Partitions

UNKNOWN = "unknown"


def settled_among(state: RunState, name: str, changed: Partitions, digests: Digests) -> Differs | None:
    """Those of `changed` that a published sink read, or is; None if there are none. `digests` are the new ones."""
    hit: dict[str, Partitions] = {}
    for sink in state.published if changed else ():
        if sink == name:
            hit[sink] = changed
        else:
            hit[sink] = state.layout.read_by(sink, state.steps[sink].started).get(name, EMPTY) & changed
    found = EMPTY
    for partitions in hit.values():
        found = found | partitions
    if not found:
        return None
    sinks = tuple(sink for sink, partitions in hit.items() if partitions)
    return Differs(name, found, sinks, _was(state, name, found.lowest), digests.digest(found.lowest))


def _was(state: RunState, name: str, partition: int) -> bytes | None:
    for seen in state.steps[name].seen:
        if partition in seen.partitions:
            return seen.digests.digest(partition)
    return None


def stop(draft: Draft, differs: Differs) -> None:
    """Nothing more is started. A run that is stopping already only leaves it out."""
    if draft.state.phase is Phase.RUNNING:
        give_up(draft, sentence(differs), differs=differs)


def sentence(differs: Differs) -> str:
    """What happened, with both digests."""
    at = f"{differs.step}[{differs.partitions}]"
    sinks = " and ".join(differs.sinks)
    if differs.sinks == (differs.step,):
        return f"{at} is published, and would be made again as something else: {_digests(differs)}"
    return f"{at}, which {sinks} was published from, came back as something else: {_digests(differs)}"


def _digests(differs: Differs) -> str:
    return f"digest {_text(differs.now)}, published {_text(differs.was)}"


def _text(digest: bytes | None) -> str:
    return UNKNOWN if digest is None else digest.hex()


def affected(state: RunState, changed: Collection[str]) -> tuple[str, ...]:
    """The published sinks that were made from what differed when the run stopped, or from steps that changed."""
    roots = {root for root in state.layout.kept if not state.layout.members(root).isdisjoint(changed)}
    if state.failing is not None and state.failing.differs is not None:
        roots.add(state.failing.differs.step)
    return tuple(sink for sink in state.published if not state.layout.upstream[sink].isdisjoint(roots))


def refuse_published(state: RunState, changed: Collection[str]) -> None:
    """A sink that is published starts over only on the user's word."""
    for sink in state.published:
        if found := sorted(state.layout.members(sink) & set(changed)):
            raise Refused(
                f"{sink} is published, and {' and '.join(found)} changed since",
                hint="--republish publishes it again with all that changed, --accept-change keeps it as it is",
            )
